package term

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// format prints a table.
func format(t *testing.T, table *Table, text string) string {
	t.Helper()
	var out bytes.Buffer
	table.Out = &out
	_, _ = table.Write([]byte(text))
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTableAlignsCells(t *testing.T) {
	t.Parallel()
	const letters = "id\tcode\treason\n12-ab12cd34\tinvalid\tthe reply of the model has no field answer\n13-98fedcba\texpired\t\n"
	want := `
id           code     reason
12-ab12cd34  invalid  the reply of the model has no field answer
13-98fedcba  expired
`
	if got := "\n" + format(t, new(Table), letters); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := format(t, &Table{Right: true}, "n\tmean\t\n12\t0.5\t\n"), " n  mean\n12   0.5\n"; got != want {
		t.Errorf("aligned to the right: got %q, want %q", got, want)
	}
}

// TestTablesFitTheWidth: the last column is wrapped to the width of the terminal.
func TestTablesFitTheWidth(t *testing.T) {
	t.Parallel()
	lines := []string{"id\treason\n", "12-ab12cd34\tthe reply of the model has no field answer\n", "13\n", "\n", "id\n", "14\n"}
	want := []string{"id\treason\n", "12-ab12cd34\tthe reply of the model\n", "\thas no field answer\n", "13\t\n", "\n", "id\n", "14\n"}
	if got := fit(lines, 38); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := fit(lines, 400); strings.ReplaceAll(strings.Join(got, ""), "13\t", "13") != strings.Join(lines, "") {
		t.Errorf("got %q, want the lines as they are", got)
	}
}

// TestCellsStayOnOneLine: text cannot forge a cell or a line.
func TestCellsStayOnOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewTable(&out)
	if _, err := Fprintf(w, "%s\t%s\n", "a\tb\nc", "\x1b[31m"); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil || out.String() != "a b c  \\u001b[31m\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestTablesAreSeparatedByEmptyLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewTable(&out)
	_, _ = w.Write([]byte("long name\tn\na\t1\n\nb\tn\nc\t\n"))
	if err := w.Flush(); err != nil || out.String() != "long name  n\na          1\n\nb  n\nc\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	out.Reset()
	if err := w.Flush(); err != nil || out.Len() > 0 {
		t.Errorf("an empty table printed %q, %v", out.String(), err)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                               "",
		"It fits.":                       "It fits.",
		"A text that is far too long.":   "A text that is far\ntoo long.",
		"  Indented text, too long.":     "  Indented text, too\n  long.",
		"a-word-of-more-than-20-columns": "a-word-of-more-than-20-columns",
	} {
		if got := strings.Join(Wrap(in, 20), "\n"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
