package text_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"debrief/playbook/text"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{" -- ", nil},
		{"one", []string{"one"}},
		{"don't re-run getUser_2", []string{"don", "t", "re", "run", "getUser", "2"}},
		{"naïve Ω² e\u0301t", []string{"naïve", "Ω²", "e\u0301t"}},
		{"run 値段x を", []string{"run", "値", "段", "x", "を"}},
		{"a\xffb", []string{"a", "b"}},
	} {
		if got := slices.Collect(text.Words(tt.in)); !slices.Equal(got, tt.want) {
			t.Errorf("Words(%q): got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"readFile", []string{"read", "File"}},
		{"HTTPServer", []string{"HTTPServer"}},
		{"éÉa", []string{"é", "Éa"}},
		{"a\xffB", []string{"a\xffB"}},
	} {
		if got := slices.Collect(text.Parts(tt.in)); !slices.Equal(got, tt.want) {
			t.Errorf("Parts(%q): got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestInvisible(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]bool{
		'\u00ad': true, '\u200b': true, '\u200d': true, '\u202e': true, '\ufe0f': true, // variation of an emoji
		'a': false, ' ': false, '\n': false, '\u0301': false, '\u3000': false, '日': false, -1: false,
	} {
		if got := text.Invisible(r); got != want {
			t.Errorf("%U: got %t, want %t", r, got, want)
		}
	}
}

func TestHashIgnoresCaseAndWidth(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{{"Price", "pRICE"}, {"ÉTÉ", "été"}, {"Ａ1", "a1"}, {"ΣΑΣ", "σας"}} {
		if a, b := text.Hash(same[0]), text.Hash(same[1]); a != b {
			t.Errorf("got %x for %q and %x for %q, want one hash", a, same[0], b, same[1])
		}
	}
	if text.Hash("ab") == text.Hash("ba") || text.Hash("") == text.Hash("a") {
		t.Error("got one hash for different words")
	}
}

func TestQuotable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 5, ""},
		{" a \n\t b ", 5, "a b"},
		{"`a` \"b\" {c} “d” [e] <f>", 40, "'a' 'b' (c) 'd' [e] <f>"},
		{"｛a｝ Ｂ", 9, "(a) Ｂ"},
		{"ab cd", 5, "ab cd"},
		{"ab cd", 4, "ab…"},
		{"ab cde", 5, "ab c…"},
		{"ab cd", 3, "ab…"},
		{"ab  ", 2, "ab"},
		{"ééé", 2, "é…"},
		{"a\xff\x00\u200d\u202eb\ufe0f", 5, "ab"},
		{"ab", 1, "…"},
		{"ab", 0, ""},
		{"ab", -1, ""},
		{strings.Repeat(" ", 1<<20) + "a", 5, "…"},
	} {
		if got := text.Quotable(tt.in, tt.limit); got != tt.want {
			t.Errorf("Quotable(%q, %d): got %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add("getUser 値段 é\xff")
	f.Fuzz(func(t *testing.T, s string) {
		rest := s
		for w := range text.Words(s) {
			i := strings.Index(rest, w)
			if i < 0 || w == "" || strings.ContainsFunc(rest[:i], text.InWord) || strings.ContainsFunc(w, func(r rune) bool { return !text.InWord(r) && !text.Unspaced(r) }) {
				t.Fatalf("got the word %q in %q", w, rest)
			}
			if strings.Join(slices.Collect(text.Parts(w)), "") != w {
				t.Errorf("the parts of %q miss a character", w)
			}
			rest = rest[i+len(w):]
		}
		if strings.ContainsFunc(rest, text.InWord) {
			t.Errorf("no word in %q", rest)
		}
		if q := text.Quotable(s, 10); utf8.RuneCountInString(q) > 10 || !utf8.ValidString(q) || strings.ContainsAny(q, "`{\n") {
			t.Errorf("got %q", q)
		}
	})
}

func TestUnlessNone(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "None", "none.", "N/A", "na", "`null`", "(empty)", "-", "…", "No", "Not applicable.", "Always", "It always holds."} {
		if got := text.UnlessNone(s); got != "" {
			t.Errorf("%q: got %q, want nothing", s, got)
		}
	}
	for _, s := range []string{"No retries.", "None of the shelves count.", "Always count.", "税", "nano", "7", "no-cache", "the shelf is empty"} {
		if got := text.UnlessNone(s); got != s {
			t.Errorf("%q: got %q", s, got)
		}
	}
}
