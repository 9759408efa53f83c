package source

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// table reads the rows of a CSV text. A field in quotes can have several lines. A stray quote costs only its own row.
type table struct {
	comma   rune
	columns []string
	pending []tableLine // lines that were read to find the end of a row
}

type tableLine struct {
	n    int
	text string
	err  error // the line is too large; it has no text
}

// newTable returns the table with a header, whose comma gives the most columns. For a line that is not a header it has no columns.
func newTable(header []byte) *table {
	best := &table{}
	if len(header) > 64<<10 || bytes.ContainsAny(header, "{}[]") {
		return best
	}
	for _, comma := range []rune{',', ';', '\t'} {
		t := &table{comma: comma}
		names, err := t.parse(string(header))
		if err != nil || len(names) <= len(best.columns) {
			continue
		}
		for _, name := range names {
			t.columns = append(t.columns, strings.ToLower(strings.TrimSpace(name)))
		}
		best = t
	}
	return best
}

// has reports whether the table has a column of each group.
func (t *table) has(groups [][]string) bool {
	for _, names := range groups {
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(t.columns, name) }) {
			return false
		}
	}
	return len(groups) > 0
}

// missing returns an error if a line looks like the header of a table without the columns wanted.
func (t *table) missing(line []byte, groups [][]string) error {
	if len(t.columns) < 2 || len(groups) == 0 {
		return nil
	}
	var names, wanted []string
	for _, name := range t.columns {
		if name == "" || strings.Count(name, " ") > 2 {
			return nil // prose
		}
		names = append(names, fmt.Sprintf("%.40q", name))
	}
	for _, group := range groups {
		wanted = append(wanted, group[0])
	}
	return fmt.Errorf("unknown format: a table needs columns for %s, found %s", strings.Join(wanted, " and "), strings.Join(names[:min(8, len(names))], ", "))
}

// readRows reads the rows of a table as objects. An object has no member for an empty field.
func (v *Values) readRows(t *table, fn func(*Value) error) error {
	for {
		fields, line, err := t.next(v)
		value := Value{At: Problem{Line: line}, IsRow: true, Err: err}
		switch {
		case err == io.EOF:
			return nil
		case err == nil:
			row := map[string]string{}
			for i, field := range fields {
				if _, ok := row[t.columns[i]]; !ok && field != "" {
					row[t.columns[i]] = field
				}
			}
			value.Raw, value.Err = json.Marshal(row)
		case !errors.Is(err, errRow):
			return err
		}
		if err := fn(&value); err != nil {
			return err
		}
	}
}

// parse splits a row into fields.
func (t *table) parse(row string) ([]string, error) {
	fields, err := t.parseQuoted(row, false)
	if err != nil { // a quote inside a field
		fields, err = t.parseQuoted(row, true)
	}
	return fields, err
}

func (t *table) parseQuoted(row string, lazy bool) ([]string, error) {
	r := csv.NewReader(strings.NewReader(row))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = t.comma, -1, lazy
	fields, err := r.Read()
	if err == nil {
		if _, end := r.Read(); end != io.EOF {
			err = errors.New("several rows")
		}
	}
	return fields, err
}

// errRow is returned for an invalid row. Reading can continue.
var errRow = errors.New("invalid CSV record")

// next returns the fields of the next row, as many as columns, and its first line. At the end it returns io.EOF.
func (t *table) next(v *Values) (fields []string, line int, err error) {
	var text strings.Builder
	used := 0
	for quotes := 0; used == 0 || quotes%2 == 1; used++ {
		if used == len(t.pending) {
			if err = t.fill(v); err != nil {
				break
			}
		}
		if err = t.pending[used].err; err != nil {
			break
		}
		if text.Len()+len(t.pending[used].text) >= v.limit {
			err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, v.limit)
			break
		}
		if used > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(t.pending[used].text)
		quotes += strings.Count(t.pending[used].text, `"`)
	}
	if len(t.pending) == 0 {
		return nil, v.lines, err
	}
	first := t.pending[0]
	if first.err != nil {
		t.pending = t.pending[1:]
		return nil, first.n, fmt.Errorf("%w: %w", errRow, first.err)
	}
	fields, parseErr := t.parse(text.String())
	if err != nil || parseErr != nil || used > 1 && len(fields) != len(t.columns) {
		// The quote of the first line has no partner, or one in another row.
		single, e := t.parse(first.text)
		if e == nil && len(single) == len(t.columns) || err != nil || parseErr != nil {
			fields, used, parseErr = single, 1, e
		}
	}
	t.pending = t.pending[used:]
	if parseErr != nil {
		return nil, first.n, errRow
	}
	if len(fields) != len(t.columns) {
		return nil, first.n, fmt.Errorf("%w: got %d fields, want %d", errRow, len(fields), len(t.columns))
	}
	return fields, first.n, nil
}

// fill reads the next line that is not blank, or any line inside a row.
func (t *table) fill(v *Values) error {
	for {
		line, err := v.line()
		if errors.Is(err, ErrTooLarge) {
			t.pending = append(t.pending, tableLine{n: v.lines, err: err})
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(t.pending) > 0 || len(bytes.TrimSpace(line)) > 0 {
			t.pending = append(t.pending, tableLine{n: v.lines, text: string(line)})
			return nil
		}
	}
}
