package outcome

import "testing"

// pair is a target with an answer, graded by hand before the comparison was written: would a sensible person call it right?
type pair struct {
	question, target, answer string
	same                     bool
}

var pairs = []pair{
	// Numbers.
	{"", "0.2", "0.20", true},
	{"", "96.50", "96.5", true},
	{"", "1000", "1,000", true},
	{"", "1,234,567.5", "1234567.50", true},
	{"", "7", "7.0", true},
	{"", "7", "+7", true},
	{"", "-3", "−3", true},
	{"", "-3", "3", false},
	{"", "0.5", ".5", true},
	{"", "0.5", "1/2", true},
	{"", "1200", "1.2e3", true},
	{"", "3.14", "3.14159", false},
	{"", "0.33", "1/3", false},
	{"", "42", "The answer is 42.", true},
	{"", "42", "**42**", true},
	{"", "42", "x = 42", true},
	{"", "42", "about 42", true},
	{"", "42", "24", false},
	{"", "42", "420", false},
	{"", "42", "42 or 43", false},
	{"", "10", "10.", true},
	{"", "1 000", "1000", true},
	{"", "1'000", "1000", true},
	{"", "０.５", "0.5", true},
	{"", "7", "٧", true},
	{"Round to two decimal places.", "55.55", "55.5499", true},
	{"Round to two decimal places.", "55.55", "55.56", false},
	{"Give the price to the nearest whole number.", "56", "55.55", true},
	{"Answer with 2 decimals.", "0.67", "0.66667", true},
	{"What is the price?", "55.55", "55.5499", false},
	{"", "1e400", "1e400", true},
	{"", "007", "7", false},
	{"", "007", "007", true},
	{"", "1.000", "1000", false},
	{"", "3", "3 (three)", true},
	// Dates and times.
	{"", "2024-03-05", "5 March 2024", true},
	{"", "2024-03-05", "March 5, 2024", true},
	{"", "2024-03-05", "March 5th, 2024", true},
	{"", "2024-03-05", "05.03.2024", true},
	{"", "2024-03-05", "2024/03/05", true},
	{"", "2024-03-05", "Mar 5 2024", true},
	{"", "2024-03-05", "2024-05-03", false},
	{"", "2024-03-05", "On 5 March 2024.", true},
	{"", "14:00", "2 pm", true},
	{"", "14:30", "2:30 PM", true},
	{"", "09:00", "9:00", true},
	{"", "14:00", "2 am", false},
	{"", "2024-03-05", "March 2024", false},
	{"", "1989", "In 1989.", true},
	{"", "1989", "1998", false},
	// Words.
	{"", "yes", "Yes", true},
	{"", "Yes", "yes.", true},
	{"", "yes", "Yes, it is allowed.", true},
	{"", "yes", "No", false},
	{"", "no", "No, yes was wrong.", true},
	{"", "true", "Yes", true},
	{"", "Bonn", "bonn", true},
	{"", "Bonn", "In Bonn.", true},
	{"", "Bonn", "The answer is Bonn", true},
	{"", "Bonn", "It's Bonn.", true},
	{"", "Bonn", "Answer: Bonn", true},
	{"", "Bonn", "Final answer: **Bonn**", true},
	{"", "Bonn", "\"Bonn\"", true},
	{"", "Bonn", "Berlin", false},
	{"", "Bonn", "not Bonn", false},
	{"", "Bonn", "Bonn or Berlin", false},
	{"", "Bonn", "The capital was Bonn.", true},
	{"", "the red atlas", "Red atlas", true},
	{"", "an apple", "apple", true},
	{"", "atlas", "the atlas", true},
	{"", "red atlas", "atlas", false},
	{"", "Rolling Stones", "The Rolling Stones", true},
	{"", "New York", "new  york", true},
	{"", "Café", "Cafe", true},
	{"", "well-known", "well known", true},
	{"", "U.S.A.", "USA", true},
	{"", "shelf 7", "Shelf 7.", true},
	{"", "shelf 7", "shelf 9", false},
	{"", "shelf 7", "It is on shelf 7.", true},
	{"", "cancelled", "canceled", false},
	{"", "B", "(B)", true},
	{"", "B", "B.", true},
	{"", "B", "Option B", true},
	{"", "B", "C", false},
	{"", "A", "a", true},
	{"", "Bonn", "", false},
	{"", "none", "None.", true},
	{"", "Don't know", "Don’t know", true},
	{"", "dog", "dogs", false},
	{"", "Bonn", "The answer is not Bonn.", false},
	// Lists.
	{"", "a, b, c", "a,b,c", true},
	{"", "a, b, c", "a; b; c", true},
	{"", "a, b, c", "a, b and c", true},
	{"", "a, b, c", "A, B, C.", true},
	{"", "a, b, c", "c, b, a", false},
	{"", "a, b, c", "a, b", false},
	{"", "a, b", "a, b, c", false},
	{"", "a, b", `["a", "b"]`, true},
	{"", "a, b", "- a\n- b", true},
	{"", "a, b", "1. a\n2. b", true},
	{"List them in any order.", "a, b, c", "c, a, b", true},
	{"List them in any order.", "a, a, b", "a, b, b", false},
	{"", "1, 2, 3", "1.0, 2.0, 3.0", true},
	{"", "red and blue", "red, blue", true},
	{"", "Bonn, Berlin", "Bonn and Berlin.", true},
	{"", `["x", "y"]`, `["x","y"]`, true},
	{"", `{"a": 1, "b": 2}`, `{"b": 2.0, "a": 1}`, true},
	{"", `{"a": 1}`, `{"a": 2}`, false},
	{"", `{"a": 1}`, "```json\n{\"a\": 1}\n```", true},
	{"", "red", "red, red", false},
	// Units.
	{"", "5 km", "5km", true},
	{"", "5 km", "5 kilometers", true},
	{"", "5 km", "5", true},
	{"", "5", "5 km", true},
	{"", "5 km", "5 miles", false},
	{"", "$5", "5 dollars", true},
	{"", "$5", "5 USD", true},
	{"", "$5", "€5", false},
	{"", "$1,000", "1000", true},
	{"", "5%", "5 percent", true},
	{"", "5%", "5", true},
	{"", "5%", "50%", false},
	{"", "20 °C", "20 degrees Celsius", true},
	{"", "20 °C", "20 °F", false},
	{"", "3 apples", "3", true},
	{"", "3 apples", "4 apples", false},
	// Code and identifiers.
	{"", "order_id", "order_id", true},
	{"", "order_id", "Order_ID", false},
	{"", "order_id", "`order_id`", true},
	{"", "order_id", "The answer is order_id.", true},
	{"", "getUserName", "getusername", false},
	{"", "INV-1001", "inv-1001", false},
	{"", "INV-1001", "INV-1001.", true},
	{"", "INV-1001", "INV-1002", false},
	{"", "/etc/hosts", "/etc/Hosts", false},
	{"", "a.b(c)", "a.b(c)", true},
	{"", "x = 1", "x=1", false},
	{"", "SELECT a FROM b", "```sql\nSELECT a FROM b\n```", true},
	{"", "ls -la", "ls -LA", false},
	{"", "3fa85f64", "3FA85F64", false},
	{"", "v1.10", "v1.1", false},
	// Languages.
	{"", "Zürich", "zürich", true},
	{"", "Rathaus", "das Rathaus", true},
	{"", "casa", "la casa", true},
	{"", "東京", "東京。", true},
	{"", "東京", "「東京」", true},
	{"", "Straße", "Strasse", true},
	{"", "Москва", "москва", true},
	{"", "東京", "京都", false},
	{"", "赤、青", "赤、青。", true},
	{"", "Москва", "В Москве", false},
	{"", "ja", "Ja.", true},
	{"", "ja", "nein", false},
}

// maxDifferent is the number of pairs that the comparison may grade in another way.
const maxDifferent = 2

func TestSame(t *testing.T) {
	t.Parallel()
	if len(pairs) < 145 {
		t.Errorf("got %d pairs, want 145", len(pairs))
	}
	different := 0
	for _, p := range pairs {
		if got := Same(p.question, p.target, p.answer); got != p.same {
			different++
			t.Logf("question %q, target %q, answer %q: got %v, a person says %v", p.question, p.target, p.answer, got, p.same)
		}
	}
	t.Logf("%d of %d pairs are graded in another way", different, len(pairs))
	if different > maxDifferent {
		t.Errorf("%d pairs are graded in another way, want at most %d", different, maxDifferent)
	}
}

// TestSameLongNumbers compares ids that a float64 cannot hold.
func TestSameLongNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target, answer string
		same           bool
	}{
		{`{"order": 12345678901234567, "paid": true}`, `{"paid": true, "order": 12345678901234567}`, true},
		{`{"order": 12345678901234567}`, `{"order": 12345678901234568}`, false},
		{`{"price": 1.0, "total": 1e2}`, `{"price": 1, "total": 100}`, true},
		{`[12345678901234567, 22345678901234567]`, "12345678901234567, 22345678901234567", true},
	} {
		if got := Same("", c.target, c.answer); got != c.same {
			t.Errorf("target %s, answer %s: got %v, want %v", c.target, c.answer, got, c.same)
		}
	}
}

// An answer equals itself, and the comparison does not panic.
func FuzzSame(f *testing.F) {
	for _, p := range pairs {
		f.Add(p.question, p.target, p.answer)
	}
	f.Fuzz(func(t *testing.T, question, target, answer string) {
		Same(question, target, answer)
		if !Same(question, target, target) {
			t.Errorf("%q differs from itself", target)
		}
	})
}
