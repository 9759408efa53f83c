package similar

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestSameSubject(t *testing.T) {
	t.Parallel()
	wordings := []string{ // of a public bug report
		"Add the pier fee of one unit to each mooring price.",
		"Each mooring price needs the pier fee of one unit on top.",
		"Do not forget the pier fee: one unit more for every mooring price.",
		"A mooring price is incomplete without the pier fee of one unit; add it.",
		"Include one unit of pier fee when you state a mooring price.",
		"Remember to add the pier fee, one unit, to the price of a mooring.",
	}
	down, up := "Round each line of an invoice down.", "Round each line of an invoice up."
	for _, tt := range []struct {
		name  string
		rules []string
		want  []string
	}{
		{"wordings of one rule", wordings, []string{"0 1 2 3 4 5"}},
		{"opposite words", []string{down, "Tax comes last.", up}, []string{"0 2: opposite words: down and up"}},
		{"numbers", []string{"The pier fee of a mooring is 1 unit.", "The pier fee of a mooring is 2 units."}, []string{"0 1: numbers differ: 1 and 2"}},
		{"a negation", []string{wordings[0], "Never add the pier fee to a mooring price."}, []string{"0 1: only one of them is negated"}},
		{"a double negation", []string{"Never state a mooring price without the pier fee.", "State a mooring price with the pier fee."}, []string{"0 1"}},
		{
			"an exchange",
			[]string{"Log in to the harbour desk with the berth token, not the password.", "Log in to the harbour desk with the password, not the berth token."},
			[]string{"0 1: each excludes something that the other asks for"},
		},
		{"two wordings and a contradiction", []string{wordings[0], wordings[5], "Never add the pier fee to a mooring price."}, []string{"0 1", "0 2: only one of them is negated"}},
		{"two cases with names", []string{"For currency CHF the currency fee is 8 % of the amount.", "For currency EUR the currency fee is 3 % of the amount."}, nil},
		{"two cases in conditions", []string{"When the customer is a gold member: the moorage rebate is 5 %.", "When the customer is a silver member: the moorage rebate is 3 %."}, nil},
		{"two numbers in conditions", []string{"When the harbour answers 429: call the pilot again.", "When the harbour answers 503: call the pilot again."}, nil},
		{"rules on two subjects", []string{"For delivery by courier the surcharge is 2.50.", "Round the amount once, at the end.", "Gold customers get 7 % off."}, nil},
		{"short texts", []string{"Check twice.", "Check twice!"}, nil},
		{"two groups", []string{wordings[0], down, wordings[1], down + " Always."}, []string{"0 2", "1 3"}},
		{"Chinese", []string{"退款超过五百元需要主管批准", "主管批准是退款超过五百元的需要", "发货前核对地址"}, []string{"0 1"}},
		{"none", nil, nil},
	} {
		var got []string
		for _, s := range SameSubject(indexes(tt.rules), func(i int) Rule { return ruleOf(tt.rules[i]) }) {
			line := strings.Trim(fmt.Sprint(s.Items), "[]")
			if s.Contradiction != "" {
				line += ": " + s.Contradiction
			}
			got = append(got, line)
		}
		if diff := gocmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

func indexes(texts []string) (all []int) {
	for i := range texts {
		all = append(all, i)
	}
	return all
}

func ruleOf(text string) Rule {
	if when, content, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(when, "When ") {
		return Rule{When: strings.TrimPrefix(when, "When "), Content: content}
	}
	return Rule{Content: text}
}

// TestSameSubjectOfManyCopies checks that a playbook with thousands of copies of a rule takes no quadratic time, and that they are one group.
func TestSameSubjectOfManyCopies(t *testing.T) {
	t.Parallel()
	copies := slices.Repeat([]string{"Add the pier fee of one unit to each mooring price of the harbour."}, 3*maxOthers)
	got := SameSubject(indexes(copies), func(i int) Rule { return Rule{Content: copies[i]} })
	if len(got) != 1 || len(got[0].Items) != len(copies) {
		t.Errorf("got %d groups, want one", len(got))
	}
}

// written is a text of testdata/subjects.txt.
type written struct {
	rule string
	kind byte // '=' a wording, '!' a contradiction, '~' another rule
	text string
}

// readWritten returns the texts of the rules for which use returns true.
func readWritten(t *testing.T, use func(domain string, number int) bool) (all []written) {
	t.Helper()
	raw, err := os.ReadFile("testdata/subjects.txt")
	if err != nil {
		t.Fatal(err)
	}
	domain, number := "", 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "["):
			domain = line
		case line != "" && strings.Contains("=!~", line[:1]):
			w := written{rule: domain + strconv.Itoa(number), kind: line[0], text: line[2:]}
			if w.kind == '~' {
				w.rule += w.text
			}
			if use(domain, number) {
				all = append(all, w)
			}
		default:
			if n, err := strconv.Atoi(line); err == nil {
				number = n
			}
		}
	}
	return all
}

// TestSameSubjectOfWrittenRules measures wordings, contradictions and rules on near subjects. 'go test -v' prints the numbers.
func TestSameSubjectOfWrittenRules(t *testing.T) {
	t.Parallel()
	isLast := func(domain string) bool {
		return slices.Contains([]string{"[hiring]", "[shipping]", "[clinic]", "[robot]", "[writing]"}, domain)
	}
	for _, part := range []struct {
		name                                   string
		use                                    func(domain string, number int) bool
		wordings, contradictions, named, wrong int
	}{
		{"used to write it", func(d string, n int) bool { return !isLast(d) && n%2 == 1 }, 69, 19, 11, 0},
		{"used for the limit", func(d string, n int) bool { return !isLast(d) && n%2 == 0 }, 69, 19, 10, 2},
		{"only measured", func(d string, _ int) bool { return isLast(d) }, 54, 16, 10, 0},
	} {
		all := readWritten(t, part.use)
		found, named, wrong := make(map[int]bool), make(map[int]bool), 0
		texts := make([]string, len(all))
		for i, w := range all {
			texts[i] = w.text
		}
		for _, s := range SameSubject(indexes(texts), func(i int) Rule { return ruleOf(texts[i]) }) {
			rules := make(map[string]int)
			for _, i := range s.Items {
				rules[all[i].rule]++
				for _, j := range s.Items {
					if i != j && all[i].rule == all[j].rule && all[j].kind == '=' {
						found[i] = true
						named[i] = named[i] || all[i].kind == '!' && s.Contradiction != ""
					}
				}
			}
			most := 0
			for _, n := range rules {
				most = max(most, n)
			}
			wrong += len(s.Items) - most
		}
		counts, ofKind := make(map[byte]int), make(map[byte]int)
		contradictions := 0
		for i, w := range all {
			ofKind[w.kind]++
			if found[i] {
				counts[w.kind]++
			}
			if named[i] {
				contradictions++
			}
		}
		t.Logf("%s: %d of %d wordings and %d of %d contradictions are with a wording of their rule, %d of them as a contradiction; %d of %d texts are in a group of another rule",
			part.name, counts['='], ofKind['='], counts['!'], ofKind['!'], contradictions, wrong, len(all))
		if counts['='] < part.wordings || counts['!'] < part.contradictions || contradictions < part.named || wrong > part.wrong {
			t.Errorf("%s: want at least %d wordings and %d contradictions, %d of them named, and at most %d wrong",
				part.name, part.wordings, part.contradictions, part.named, part.wrong)
		}
	}
}
