package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"debrief/playbook/text"
)

func TestWithoutLists(t *testing.T) {
	t.Parallel()
	tags := strings.Repeat("LongTermDebt,Operating leases;", 10) // 20 items
	json := `{"id": 1, ` + strings.Repeat(`"country": "Norway", "fish": "salmon", `, 12) + `"currency": "EUR"}`
	table := strings.Repeat("rent,may,open\n", 12)
	clauses := strings.Repeat("我们先检查订单,", 25) // without spaces, a clause is one word
	for _, tt := range []struct{ name, text, want string }{
		{"options", "Choose one of: First," + tags + "Last. The rent is 5 $, paid monthly.", "Choose one of: First, … ;Last. The rent is 5 $, paid monthly."},
		{"two lists", "A," + tags + "B. The second list begins with C," + tags + "D.", "A, … ;B. The second list begins with C, … ;D."},
		{"a question after the options", "A," + tags + "B. Which is odd, largest here?", "A, … ;B. Which is odd, largest here?"},
		{"only a list", tags + tags, "LongTermDebt, … ;"},
		{"a short list", "Is it red, green, blue or black?", "Is it red, green, blue or black?"},
		{"prose", strings.Repeat("This clause has six words here, ", 30), strings.Repeat("This clause has six words here, ", 30)},
		{"numbers", strings.Repeat("17, ", 40), strings.Repeat("17, ", 40)},
		{"JSON", json, json},
		{"rows", table, table},
		{"a script without spaces", clauses, clauses},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := text.WithoutLists(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzWithoutLists(f *testing.F) {
	f.Add("a," + strings.Repeat("b,", 30) + "c")
	f.Fuzz(func(t *testing.T, s string) {
		got := text.WithoutLists(s)
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("got invalid UTF-8 %q for %q", got, s)
		}
		if !strings.Contains(got, text.Ellipsis) && got != s {
			t.Errorf("got %q for %q, want the same text without an ellipsis", got, s)
		}
	})
}
