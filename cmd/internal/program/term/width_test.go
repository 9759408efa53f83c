package term

import (
	"strings"
	"testing"
)

func TestReflow(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                               "",
		"\n":                             "\n",
		"It fits.\n\nToo.\n":             "It fits.\n\nToo.\n",
		"A text that is far too long.":   "A text that is far\ntoo long.",
		"  Indented text, too long.\n":   "  Indented text,\n    too long.\n",
		"  key  a value, too long.\n":    "  key  a value, too\n       long.\n",
		"  a long name  a long value\n":  "  a long name  a\n    long value\n",
		"+ a new text, too long.\n":      "+ a new text, too\n  long.\n",
		"a-word-of-more-than-20-columns": "a-word-of-more-than-20-columns",
	} {
		if got := Reflow(in, 20); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if got := Reflow(in, 0); got != in {
			t.Errorf("%q without a width: got %q", in, got)
		}
	}
}

func FuzzReflow(f *testing.F) {
	f.Add("  key  a value that is long\nnext", 20)
	f.Add("界界 界界界 x\t\u0301", 1)
	f.Fuzz(func(t *testing.T, text string, width int) {
		got := Reflow(text, max(width, 0))
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%q at %d: got %q, which has other words", text, width, got)
		}
	})
}
