package similar_test

import (
	"strings"
	"testing"

	"debrief/playbook/similar"
)

// Pairs of equivalent texts. Each is tried in both orders.
func TestDifferenceAcceptsEquivalentTexts(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		// Case, white space, punctuation, emphasis.
		{"Round once, at the end.", "round once at the end"},
		{"Round   once,\n\tat the end", "Round once, at the end!"},
		{"ALWAYS round once at THE end", "Always round once at the end"},
		{"**Always** round once.", "Always round once."},
		{"* Round once.", "- round once"},
		{"Step-by-step plans win", "Step by step plans win"},
		{"Tax, fee; total", "tax – fee – total"},
		{"It’s the customer’s choice", "It's the customer's choice"},
		{"Check the total (twice)", "Check the total, twice"},
		{"Use C#, F# and `C#`.", "use C#/F# and C#"},
		{"## Check the total ##", "Check the total"},
		{"Close issue #12", "Close issue 12"},
		{"Ｒｏｕｎｄ ｏｎｃｅ", "Round once"},
		{"the e\u00adnd", "the end"},
		{"Ο λόγος", "Ο ΛΌΓΟΣ"},
		{"Done \u2714\ufe0f", "done \u2714"},

		// Stop words.
		{"The tax is 7 % of the amount.", "Tax: 7 % of amount"},
		{"For region North the tax is 7 %", "Region North: tax 7 %"},
		{"Wait for 3 days", "Wait 3 days"},
		{"Always check the total", "Check the total"},
		{"Check the total, then the tax", "Check the total and also the tax"},
		{"You must check your totals", "Check totals"},
		{"If the order is small, add 5", "When an order is small add 5"},
		{"Check that the total is positive", "Check the total is positive"},
		{"Use currency codes, e.g. CHF", "Use currency codes (CHF)"},

		// The plural.
		{"Gold customers get discounts", "A gold customer gets a discount"},
		{"Sort the boxes and the entries", "Sort the box and the entry"},
		{"Check the status of taxes", "Check the status of the tax"},
		{"Call the APIs", "Call the API"},

		// Formats of numbers.
		{"The tax is 7 %", "The tax is 7%"},
		{"The tax is 7 percent", "The tax is 7 per cent"},
		{"The tax is ７％", "The tax is 7 pct"},
		{"It costs 1,000 CHF", "It costs 1000 CHF"},
		{"It costs 1'250'000.50 CHF", "It costs 1,250,000.50 CHF"},
		{"It costs 1\u202f000 CHF", "It costs 1_000 CHF"},
		{"Add 10.0", "Add 10"},
		{"Add 10.00 to it", "Add 10 to it"},
		{"Add .5", "Add 0.5"},
		{"It costs $5", "It costs 5 $"},
		{"Wait 10ms", "Wait 10 ms"},
		{"Try three times", "Try 3 times"},
		{"Go below −5", "Go below -5"},

		// Forms of negation.
		{"Do not round early", "Don't round early"},
		{"DO NOT round early", "do not round early"},
		{"Don’t round early", "Dont round early"},
		{"Never round early", "Do not round early"},
		{"It cannot be paid", "It can't be paid"},
		{"It can not be paid", "It can’t be paid"},
		{"It won't round", "It will not round"},
		{"Round just the total", "Round only the total"},
		{"It shouldn't round", "It should not round"},
		{"Ship without insurance", "Ship with no insurance"},

		// Identifiers with and without quotes.
		{"Call `create_task` first", "Call create_task first"},
		{"Call “create_task” first", "Call 'create_task' first."},
		{"Fees in CHF", "fees in chf"},
		{"North is taxed", "The north is taxed"},
		{"Set {runs} here", "Set `{runs}` here"},

		// Other scripts.
		{"税率是７％。", "税率是7%"},
		{"Не округлять рано.", "не округлять рано"},

		{"", ""},
		{"", " … "},
		{"the", "a"},
	} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			if got := similar.Difference(p[0], p[1]); got != (similar.Diff{}) {
				t.Errorf("%q, %q: got %+v, want nothing", p[0], p[1], got)
			}
		}
	}
}

// Pairs with different meanings, and the expected difference. Most are similar enough to count as duplicates.
// kinds are the kinds of a difference by the first word of the reason.
var kinds = map[string]similar.Kind{
	"numbers": similar.Numbers, "identifiers": similar.Identifiers, "negations": similar.Negations, "words": similar.Words, "order": similar.Order,
}

func TestDifferenceHasKindAndReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ a, b, want string }{
		// Numbers.
		{"The tax is 7 %", "The tax is 11 %", "numbers differ: 7 % and 11 %"},
		{"The tax is 7 %", "The tax is 7", "numbers differ: 7 % and 7"},
		{"The tax is 7 %", "The tax is 7 ‰", "numbers differ: 7 % and 7 ‰"},
		{"Add 10", "Add -10", "numbers differ: 10 and -10"},
		{"Add 1.5", "Add 15", "numbers differ: 1.5 and 15"},
		{"Add 1,5", "Add 15", "numbers differ: 1 and 15"},
		{"Add 1.000", "Add 1000", "numbers differ: 1.000 and 1000"},
		{"Needs Python 3.1", "Needs Python 3.10", "numbers differ: 3.1 and 3.10"},
		{"Needs 1.2.3", "Needs 1.2.4", "identifiers differ: 1.2.3 and 1.2.4"},
		{"Pay $5", "Pay €5", "numbers differ: $5 and €5"},
		{"Invoice 007", "Invoice 7", "numbers differ: 007 and 7"},
		{"Try three times", "Try four times", "numbers differ: three and four"},
		{"Try 3 times", "Try times", "numbers differ: only one has 3"},
		{"Gold gets 7 %, silver 5 %", "Gold gets 5 %, silver 7 %", "order differs: 7 % and 5 %"},
		{"Between 5 and 10", "Between 10 and 5", "order differs: 5 and 10"},
		{"Sum `Net`, then Tax", "Sum Tax, then Net", "order differs: Net and Tax"},
		{"Write services in C#.", "Write services in C.", "identifiers differ: C# and C"},
		{"Sum `Net`, then `net`", "Sum `net`, then `NET`", "identifiers differ: Net and NET"},
		{"Feed the `cat` now", "Feed the cats now", "identifiers differ: only one has cat"},
		{"Pack boxes, then bags", "Pack bags, then a box", "order differs: boxes and bags"},
		{"Wait 10 ms", "Wait 10 s", "words differ: ms and s"},
		{"税率是7%", "税率是11%", "numbers differ: 7% and 11%"},
		{"1,000 or 1,001", "1,000 or 1,002", "numbers differ: 1,001 and 1,002"},

		// Negations.
		{"Always round up", "Never round up", "negations differ: only one has Never"},
		{"Round early", "Do not round early", "negations differ: only one has not"},
		{"It is taxed", "It isn't taxed", "negations differ: only one has isn't"},
		{"You can pay", "You can't pay", "negations differ: only one has can't"},
		{"Ship with insurance", "Ship without insurance", "negations differ: only one has without"},
		{"Round when paid", "Round unless paid", "negations differ: only one has unless"},
		{"Round, except in cash", "Round, only in cash", "negations differ: except and only"},
		{"Gold gets 7 %", "Only gold gets 7 %", "negations differ: only one has Only"},
		{"Avoid rounding", "Rounding", "negations differ: only one has Avoid"},
		{"All but the first", "All and the first", "negations differ: only one has but"},
		{"A fee is not always due", "A fee is never due", "words differ: only one has always"},
		{"Round just the total", "Round the total", "negations differ: only one has just"},
		{"Do not round and log", "Round and do not log", "order differs: not and Round"},
		{"Use A, not B", "Use not A, B", "order differs: A and not"},
		{"税込みです", "税込みではない", "words differ: 税込みです and 税込みではない"},

		// Directions.
		{"Round before tax", "Round after tax", "words differ: before and after"},
		{"Above 100", "Below 100", "words differ: Above and Below"},
		{"Use more retries", "Use less retries", "words differ: more and less"},
		{"The minimum fee", "The maximum fee", "words differ: minimum and maximum"},
		{"The min fee", "The max fee", "words differ: min and max"},
		{"Include tax", "Exclude tax", "words differ: Include and Exclude"},
		{"Enable retries", "Disable retries", "words differ: Enable and Disable"},
		{"Take the first line", "Take the last line", "words differ: first and last"},
		{"Take the oldest", "Take the newest", "words differ: oldest and newest"},
		{"At least 5", "At most 5", "words differ: least and most"},
		{"Sort ascending", "Sort descending", "words differ: ascending and descending"},
		{"Increase by 5", "Decrease by 5", "words differ: Increase and Decrease"},
		{"Increase by 5", "Increase to 5", "words differ: only one has by"},
		{"Turn it on", "Turn it off", "words differ: only one has off"},
		{"Copy to A", "Copy from A", "words differ: only one has from"},
		{"Round up", "Round down", "words differ: up and down"},
		{"Paid in full", "Paid out full", "words differ: only one has out"},
		{"Wait for 3 days", "Wait in 3 days", "words differ: for and in"},
		{"Add 5 % of the tax", "Add 5 % to the tax", "words differ: of and to"},
		{"It was paid", "It is paid", "words differ: only one has was"},
		{"(price + fee) * rate", "price + (fee * rate)", "words differ: ) and ("},
		{"price + fee * rate", "(price + fee) * rate", "words differ: only one has )"},
		{"A and B", "A or B", "words differ: only one has or"},
		{"It must round", "It should round", "words differ: only one has should"},
		{"It must round", "It may round", "words differ: only one has may"},
		{"If x < 5", "If x > 5", "words differ: < and >"},
		{"If x < 5", "If x <= 5", "words differ: < and <="},
		{"If x == y", "If x != y", "words differ: == and !="},
		{"price + fee", "price * fee", "words differ: + and *"},
		{"✅ Round early", "❌ Round early", "words differ: ✅ and ❌"},

		// Identifiers.
		{"Call `create_task`", "Call `delete_task`", "identifiers differ: create_task and delete_task"},
		{"Call userName", "Call userNames", "identifiers differ: userName and userNames"},
		{"Read apis.phone.search", "Read apis.venmo.search", "identifiers differ: apis.phone.search and apis.venmo.search"},
		{"Write to /etc/a", "Write to /etc/b", "identifiers differ: /etc/a and /etc/b"},
		{"Write to /users", "Write to users", "identifiers differ: only one has /users"},
		{"Fees in CHF", "Fees in USD", "identifiers differ: CHF and USD"},
		{"For country AT it is 5", "For country BE it is 5", "identifiers differ: AT and BE"},
		{"For country IT it is 5", "For country it is 5", "identifiers differ: only one has IT"},
		{"In region North it is 5", "In region South it is 5", "identifiers differ: North and South"},
		{"In volume band A it is 5", "In volume band B it is 5", "identifiers differ: A and B"},
		{"In volume band A it is 5", "In volume band it is 5", "identifiers differ: only one has A"},
		{"Answer \"yes\"", "Answer \"no\"", "identifiers differ: yes and no"},
		{"Split on `,`", "Split on `;`", "identifiers differ: , and ;"},
		{"Give `True`", "Give `true`", "identifiers differ: True and true"},
		{"Fill in {name}", "Fill in {date}", "identifiers differ: {name} and {date}"},
		{"Fill in <name>", "Fill in <date>", "identifiers differ: <name> and <date>"},
		{"Pass --force", "Pass --dry-run", "identifiers differ: --force and --dry"},
		{"Format by %s", "Format by %d", "identifiers differ: %s and %d"},
		{"Use v2", "Use v3", "identifiers differ: v2 and v3"},
		{"Write to a@b.ch", "Write to a@c.ch", "identifiers differ: a@b.ch and a@c.ch"},
		{"Before A call B", "Before B call A", "order differs: A and B"},
		{"Run `f(a, b)`", "Run `f(b, a)`", "identifiers differ: f(a, b) and f(b, a)"},
		{"Do:\n```\nx = 1\n```", "Do:\n```\nx = 2\n```", "identifiers differ: x = 1 and x = 2"},

		// Plain words: an update with similar words.
		{"Gold customers get the discount", "Silver customers get the discount", "words differ: Gold and Silver"},
		{"Verify each playlist", "Verify each album", "words differ: playlist and album"},
		{"Take the list price", "Take the price", "words differ: only one has list"},
		{"Round half to even", "Round half to odd", "words differ: even and odd"},
		{"Put the plans in order", "Put the planes in order", "words differ: plans and planes"},
		{"Use fewer", "Use few", "words differ: fewer and few"},
		{"Pay for the goods", "Pay for the good", "words differ: goods and good"},
		{"Take the discount off before the tax", "Take the tax off before the discount", "order differs: discount and tax"},
		{"The buyer pays the seller", "The seller pays the buyer", "order differs: buyer and seller"},
		{"You pay them", "They pay you", "words differ: them and They"},
		{"Round", "", "words differ: only one has Round"},
	} {
		name, _, _ := strings.Cut(test.want, " ")
		want := similar.Diff{Kind: kinds[name], Reason: test.want}
		if got := similar.Difference(test.a, test.b); got != want {
			t.Errorf("%q, %q: got %+v, want %+v", test.a, test.b, got, want)
		}
		if similar.Difference(test.b, test.a).Kind == similar.Same {
			t.Errorf("%q, %q: got no difference", test.b, test.a)
		}
	}
}
