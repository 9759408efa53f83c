package text_test

import (
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

func TestPrefix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"", 0, ""},
		{"aé", 2, "a"},
		{"é", 1, ""},
		{"日本", 5, "日"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80"},
	} {
		if got := text.Prefix(tt.in, tt.limit); got != tt.want {
			t.Errorf("Prefix(%q, %d): got %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
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
	} {
		if got := text.Clip(tt.in, tt.limit); got != tt.want {
			t.Errorf("Clip(%q, %d): got %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{" \n a\nb \t", 3, "a\nb"},
		{" abc ", 2, "ab…"},
		{" \n ", 0, ""},
		{"", 3, ""},
	} {
		if got := text.Excerpt(tt.in, tt.limit); got != tt.want {
			t.Errorf("Excerpt(%q, %d): got %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
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
	} {
		if got := text.Line(tt.in, tt.limit); got != tt.want {
			t.Errorf("Line(%q, %d): got %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func FuzzShorten(f *testing.F) {
	f.Add("two\nlines", 4)
	f.Add(" é\xff\u200b\u202e価 ", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = min(max(limit, -10), 10_000)
		most := max(limit, 0) + len(text.Ellipsis)
		clipped, line := text.Clip(s, limit), text.Line(s, limit)
		if p := text.Prefix(s, limit); len(p) > max(limit, 0) || !strings.HasPrefix(s, p) {
			t.Errorf("Prefix(%q, %d): got %q", s, limit, p)
		}
		if len(clipped) > most || !utf8.ValidString(clipped) {
			t.Errorf("Clip(%q, %d): got %q", s, limit, clipped)
		}
		if len(line) > most || !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) || line != text.Line(line, math.MaxInt) {
			t.Errorf("Line(%q, %d): got %q", s, limit, line)
		}
	})
}
