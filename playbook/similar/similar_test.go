package similar_test

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"debrief/playbook/similar"
)

func TestLikeness(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want float64
	}{
		{"Round once, at the end.", "round ONCE at the end", 1},
		{"the end is round", "round is the end", 1}, // the same words
		{"one two three", "one two four", 0.5},
		{"one", "two", 0},
		{"don't", "don’t", 1},
		{"don't", "dont", 1},
		{"Straße", "STRASSE", 0.3}, // no full case folding
		{"ΟΔΟΣ", "οδος", 1},
		{"οδος", "οδοσ", 1},
		{"Ｔａｘ　７％", "tax 7 %", 1},
		{"so\u00adft", "soft", 1},
		{"税率は七です", "税率は七です。", 1},
		{"税率は七である", "税率は七です", 4.0 / 9}, // one word each, and they differ: the characters tell
		{"👍🏽", "👍", 1},
		{"👍", "👎", 0},
		{"a < b", "a<b", 1},
		{"a < b", "a > b", 0.5},
		{"x", "x", 1},
		{"x", "y", 0},
		{"\xff\xfe", "\xff\xfe", 0},
		{"a\xffb", "a b", 1},
		{"", "", 0},
		{"...", "...", 0},
		{"", "x", 0},
	} {
		if got := similar.Similarity(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: got %v, want %v", test.a, test.b, got, test.want)
		}
	}
}

func TestEmptyIndex(t *testing.T) {
	t.Parallel()
	var x similar.Index
	x.Drop("a")
	if m, ok := x.Nearest("a text", 0, nil); ok {
		t.Errorf("got %v, want no match in an empty index", m)
	}
	x.Put("a", "...")
	if m, ok := x.Nearest("...", 0, nil); ok {
		t.Errorf("got %v, want no match of a text without words", m)
	}
	x.Put("a", "a text")
	x.Put("b", "a text!")
	if m, ok := x.Nearest("A text", 1, nil); !ok || m.ID != "a" {
		t.Errorf("got %v, want the lower id", m)
	}
	if m, ok := x.Nearest("A text", 1, func(id string) bool { return id == "a" }); !ok || m.ID != "b" {
		t.Errorf("got %v, want the id that is not skipped", m)
	}
	x.Put("b", "all else")
	x.Drop("a")
	if m, ok := x.Nearest("A text", 0.7, nil); ok {
		t.Errorf("got %v, want no match", m)
	}
}

// TestHostileText uses the longest possible bullets with content that could be read repeatedly. Superlinear time would
// show here.
func TestHostileText(t *testing.T) {
	t.Parallel()
	longest := 64 << 10
	if testing.Short() {
		longest = 16 << 10
	}
	var x similar.Index
	for _, part := range []string{
		"'", "`", "``", "\"", "'a", "{", "<a", "{a ", "-", "--a", "1", "1.", "1,111,", ".1", "$", "% ", "~/", "a/", "a'", "a.",
		"a_", "aB", "A ", "a ", "no ", "DO ", "<=", "*", "\n", "税", "税1", "\u0301", "\xff", "👍", "ab c", "!", "*(", "( ", "n't", "can't ", "e.g. ",
	} {
		text := strings.Repeat(part, longest/len(part))
		other := "x " + text + " y"
		if got := similar.Difference(text, other).Reason; got == "" || len(got) > 200 || !utf8.ValidString(got) {
			t.Errorf("%q and so on: got %q, want a short reason", part, got)
		}
		x.Put(part, text)
		if m, ok := x.Nearest(other, 0.7, nil); math.IsNaN(m.Similarity) || ok && (m.Similarity < 0.7 || m.Similarity > 1) {
			t.Errorf("%q and so on: got %v", part, m)
		}
	}
}

func FuzzLikeness(f *testing.F) {
	f.Add("Round once, at the end.", "round ONCE at the end")
	f.Add("税率は七", "\xff👍 don't")
	f.Add("a", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		l := similar.Similarity(a, b)
		if !(l >= 0 && l <= 1) {
			t.Errorf("got %v, want 0 to 1", l)
		}
		if back := similar.Similarity(b, a); back != l {
			t.Errorf("got %v, in the other order %v", l, back)
		}
		var x similar.Index
		x.Put("b", b)
		if m, ok := x.Nearest(a, 0.7, nil); ok && (l < 0.7 || m.Similarity != l) {
			t.Errorf("Nearest: got %v, want %v", m, l)
		}
		own := similar.Similarity(a, a)
		if has := strings.ContainsFunc(a, isLetter); has && own != 1 {
			t.Errorf("itself: got %v, want 1", own)
		}
	})
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

func FuzzDiffer(f *testing.F) {
	f.Add("The tax is 7 %.", "the tax is 11 percent")
	f.Add("DO NOT call `a.b`, \"c\"", "don't call a.b 'c' {d} <e> ```f``` $1,000.50")
	f.Add("--x ../y 1.2.3 -5", "I A US it's cannot")
	f.Fuzz(func(t *testing.T, a, b string) {
		diff, back := similar.Difference(a, b), similar.Difference(b, a)
		why := diff.Reason
		if (diff.Kind == similar.Same) != (back.Kind == similar.Same) || (diff.Kind == similar.Same) != (why == "") {
			t.Errorf("got %+v one way and %+v the other", diff, back)
		}
		if own := similar.Difference(a, a); own != (similar.Diff{}) {
			t.Errorf("itself: got %+v, want nothing", own)
		}
		if strings.ContainsAny(why, "\n\r\x00") || len(why) > 200 || !utf8.ValidString(why) {
			t.Errorf("got %q, want one short line", why)
		}
	})
}
