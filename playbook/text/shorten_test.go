package text_test

import (
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

// shortened is a text, its limit, and the text that is left.
type shortened struct {
	in    string
	limit int
	want  string
}

// checkShort checks a function that shortens texts.
func checkShort(t *testing.T, name string, shorten func(string, int) string, cases []shortened) {
	t.Helper()
	for _, c := range cases {
		if got := shorten(c.in, c.limit); got != c.want {
			t.Errorf("%s(%q, %d): got %q, want %q", name, c.in, c.limit, got, c.want)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	checkShort(t, "Prefix", text.Prefix, []shortened{
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"", 0, ""},
		{"aé", 2, "a"},
		{"é", 1, ""},
		{"日本", 5, "日"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80"},
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()
	checkShort(t, "Ends", text.Ends, []shortened{
		{"", 4, ""},
		{"short", 5, "short"},
		{"two\nlines", 9, "two\nlines"},
		{"begin middle end", 10, "begin … e end"},
		{"äöü ÄÖÜ", 6, "ä … Ü"},
		{"a\xffb", 9, "a\uFFFDb"},
		{"abc", 0, " … "},
		{"abc", -1, " … "},
		{"0\xc3", 3, "0 … "}, // half of U+FFFD
		{"a価", 3, "a … "},
	})
}

func TestClip(t *testing.T) {
	t.Parallel()
	checkShort(t, "Clip", text.Clip, []shortened{
		{"a\nb", 3, "a\nb"},
		{"a\nbc", 3, "a\nb…"},
		{"abc", 0, "…"},
		{"", 0, ""},
		{"abc", -1, "…"},
		{"日本", 5, "日…"},
		{"a\xffb\xff", 8, "a\uFFFDb\uFFFD"},
		{"a\xffb\xff", 7, "a\uFFFDb…"},
		{strings.Repeat("\xff", 100), 10, "\uFFFD…"},
		{"abc", math.MaxInt, "abc"},
	})
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	checkShort(t, "Excerpt", text.Excerpt, []shortened{
		{" \n a\nb \t", 3, "a\nb"},
		{" abc ", 2, "ab…"},
		{" \n ", 0, ""},
		{"", 3, ""},
	})
}

func TestLine(t *testing.T) {
	t.Parallel()
	checkShort(t, "Line", text.Line, []shortened{
		{"one line", 8, "one line"},
		{" \n ", 8, ""},
		{"  two \r\n\t lines\x00\x1b[31m ", 40, "two lines [31m"},
		{"ab cd", 4, "ab c…"},
		{"ab cd", 3, "ab…"},
		{"ab  ", 2, "ab"},
		{"ab\n\n\n", 2, "ab"},
		{"aéé", 4, "aé…"},
		{"a\xffb", 8, "a\uFFFDb"},
		{"a\u2028b\u202ec\u200bd", 8, "a bcd"},
		{"👩\u200d👩", 40, "👩\u200d👩"},
		{"ab", 0, "…"},
		{"ab", -1, "…"},
		{"a  b", math.MaxInt, "a b"},
	})
}

func FuzzShorten(f *testing.F) {
	f.Add("two\nlines", 4)
	f.Add(" é\xff\u200b\u202e価 ", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = min(max(limit, -10), 10_000)
		most := max(limit, 0) + len(text.Ellipsis)
		clipped, line, ends := text.Clip(s, limit), text.Line(s, limit), text.Ends(s, limit)
		if p := text.Prefix(s, limit); len(p) > max(limit, 0) || !strings.HasPrefix(s, p) {
			t.Errorf("Prefix(%q, %d): got %q", s, limit, p)
		}
		if len(clipped) > most || !utf8.ValidString(clipped) {
			t.Errorf("Clip(%q, %d): got %q", s, limit, clipped)
		}
		if len(ends) > most+2 || !utf8.ValidString(ends) {
			t.Errorf("Ends(%q, %d): got %q", s, limit, ends)
		}
		if len(line) > most || !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) || line != text.Line(line, math.MaxInt) {
			t.Errorf("Line(%q, %d): got %q", s, limit, line)
		}
	})
}
