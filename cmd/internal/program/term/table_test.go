package term

import (
	"bytes"
	"strings"
	"testing"
)

// format prints a table for a width.
func format(width int, t *Table, text string) string {
	var p page
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	t.print(&p, rows, width)
	return p.text.String()
}

func TestTableFitsTheWidth(t *testing.T) {
	t.Parallel()
	const letters = "id\tcode\treason\n12-ab12cd34\tinvalid\tthe reply of the model has no field answer\n13-98fedcba\texpired\tgone\n"
	for width, want := range map[int]string{
		0: `
id           code     reason
12-ab12cd34  invalid  the reply of the model has no field answer
13-98fedcba  expired  gone
`,
		44: `
id           code     reason
12-ab12cd34  invalid  the reply of the model
                      has no field answer
13-98fedcba  expired  gone
`,
		40: `
12-ab12cd34
  code    invalid
  reason  the reply of the model has no
          field answer
13-98fedcba
  code    expired
  reason  gone
`,
	} {
		if got := "\n" + format(width, new(Table), letters); got != want {
			t.Errorf("%d columns: got %s\nwant %s", width, got, want)
		}
	}
	if got, want := format(10, new(Table), "id\tcode\treason\n1-ab12\t-\tgone away\n"), "1-ab12\n  reason  gone away\n"; got != want {
		t.Errorf("a cell without a value: got %q, want %q", got, want)
	}
	const roles = "role\twaiting\tin work\thealth\ngenerator\t0\t1\tgreen\ncurator\t12\t0\tred\n"
	want := `
role     generator  curator
waiting  0          12
in work  1          0
health   green      red
`
	if got := "\n" + format(30, new(Table), roles); got != want {
		t.Errorf("rows as columns: got %s\nwant %s", got, want)
	}
	if got, want := format(0, &Table{Right: true}, "n\tmean\n12\t0.5\n"), " n  mean\n12   0.5\n"; got != want {
		t.Errorf("aligned to the right: got %q, want %q", got, want)
	}
}

// TestTableKeepsWords: ids are never broken, wide characters count twice, and text cannot forge a line.
func TestTableKeepsWords(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a", 64)
	for _, width := range []int{1, 20, 40, 80} {
		if got := format(width, new(Table), "id\thash\n1\t"+id+" x\n"); !strings.Contains(got, id) {
			t.Errorf("%d columns: the hash is broken: %s", width, got)
		}
	}
	if got := textWidth("世界e\u0301é"); got != 6 {
		t.Errorf("got width %d, want 6", got)
	}
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
