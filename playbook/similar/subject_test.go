package similar

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"debrief/playbook"
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
		want  string
	}{
		{"wordings of one rule", wordings, "[[0 1 2 3 4 5]]"},
		{"opposite words", []string{down, "Tax comes last.", up}, "[[0 2]]"},
		{"numbers", []string{"The pier fee of a mooring is 1 unit.", "The pier fee of a mooring is 2 units."}, "[[0 1]]"},
		{"a negation", []string{"Add the pier fee to each mooring price.", "Never add the pier fee to a mooring price."}, "[[0 1]]"},
		{"two cases with names", []string{"For currency CHF the currency fee is 8 % of the amount.", "For currency EUR the currency fee is 3 % of the amount."}, "[]"},
		{"two numbers in conditions", []string{"When the harbour answers 429: call the pilot again.", "When the harbour answers 503: call the pilot again."}, "[]"},
		{"rules on two subjects", []string{"For delivery by courier the surcharge is 2.50.", "Round the amount once, at the end.", "Gold customers get 7 % off."}, "[]"},
		{"short texts", []string{"Check twice.", "Check twice!"}, "[]"},
		{"a name with and without quotes", []string{"Set `Carrier` before the parcel weight is rounded.", "Set Carrier before the parcel weight is rounded."}, "[[0 1]]"},
		{"two groups", []string{wordings[0], down, wordings[1], up}, "[[0 2] [1 3]]"},
		{"none", nil, "[]"},
	} {
		got := fmt.Sprint(subjectsOf(t, tt.rules))
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// subjectsOf returns the groups of SameSubject, as indexes of texts.
func subjectsOf(t *testing.T, texts []string) (groups [][]int) {
	t.Helper()
	var bullets []*playbook.Bullet
	for i, text := range texts {
		b := &playbook.Bullet{ID: playbook.BulletID(strconv.Itoa(i)), Content: text}
		if when, _, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(when, "When ") {
			b.When = strings.TrimPrefix(when, "When ")
		}
		bullets = append(bullets, b)
	}
	for _, subject := range SameSubject(bullets) {
		var group []int
		for _, b := range subject {
			i, err := strconv.Atoi(string(b.ID))
			if err != nil {
				t.Fatal(err)
			}
			group = append(group, i)
		}
		groups = append(groups, group)
	}
	return groups
}

// written is a text of testdata/subjects.txt.
type written struct {
	rule string
	kind byte // '=' a wording, '!' a contradiction, '~' another rule
	text string
}

func readWritten(t *testing.T) (all []written) {
	t.Helper()
	raw, err := os.ReadFile("testdata/subjects.txt")
	if err != nil {
		t.Fatal(err)
	}
	domain, number := "", ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", line[0] == '#':
		case line[0] == '[':
			domain = line
		case strings.Contains("=!~", line[:1]):
			w := written{rule: domain + number, kind: line[0], text: line[2:]}
			if w.kind == '~' {
				w.rule += w.text
			}
			all = append(all, w)
		default:
			number = line
		}
	}
	return all
}

// TestSameSubjectOfWrittenRules measures wordings, contradictions and rules on near subjects. 'go test -v' prints the numbers.
func TestSameSubjectOfWrittenRules(t *testing.T) {
	t.Parallel()
	all := readWritten(t)
	found, wrong := make(map[int]bool), 0
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = w.text
	}
	for _, group := range subjectsOf(t, texts) {
		rules := make(map[string]int)
		for _, i := range group {
			rules[all[i].rule]++
			for _, j := range group {
				found[i] = found[i] || i != j && all[i].rule == all[j].rule && all[j].kind == '='
			}
		}
		wrong += len(group) - slices.Max(slices.Collect(maps.Values(rules)))
	}
	counts, ofKind := make(map[byte]int), make(map[byte]int)
	for i, w := range all {
		ofKind[w.kind]++
		if found[i] {
			counts[w.kind]++
		}
	}
	t.Logf("%d of %d wordings and %d of %d contradictions are with a wording of their rule; %d of %d texts are in a group of another rule",
		counts['='], ofKind['='], counts['!'], ofKind['!'], wrong, len(all))
	if counts['='] < minWordings || counts['!'] < minContradictions || wrong > maxWrong {
		t.Errorf("want at least %d wordings and %d contradictions, and at most %d wrong", minWordings, minContradictions, maxWrong)
	}
}

// Limits of TestSameSubjectOfWrittenRules, which are its results.
const (
	minWordings       = 188
	minContradictions = 54
	maxWrong          = 2
)
