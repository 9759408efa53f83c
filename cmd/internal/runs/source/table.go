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

// table is the header of a CSV text.
type table struct {
	comma   rune
	columns []string // in lower case
}

// newTable parses the header of a table. Of the possible separators it takes the one with the most columns. For a line that is not a
// header it returns a table without columns.
func newTable(header []byte) *table {
	const maxHeader = 64 << 10
	best := &table{}
	isJSON := bytes.ContainsAny(header, "{}[]")
	if len(header) > maxHeader || isJSON {
		return best
	}
	for _, comma := range []rune{',', ';', '\t'} {
		t := &table{comma: comma}
		r := csv.NewReader(bytes.NewReader(header))
		r.Comma = comma
		names, err := r.Read()
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

// hasColumns reports whether the table has a column of each group. It is false without groups.
func (t *table) hasColumns(groups [][]string) bool {
	for _, names := range groups {
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(t.columns, name) }) {
			return false
		}
	}
	return len(groups) > 0
}

// missing returns an error with the needed columns if the first line looks like the header of a table without them, and nil for any other
// line.
func (t *table) missing(groups [][]string) error {
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

// readRows reads the rows of a table as objects. An object has no member for an empty field. A row that is too large ends the reading.
func (v *Values) readRows(t *table, fn func(*Value) error) error {
	in := &rowReader{Reader: v.r, limit: v.limit + bufferSize} // the CSV reader reads ahead by up to a buffer
	r := csv.NewReader(in)
	r.Comma = t.comma
	r.FieldsPerRecord = len(t.columns)
	r.ReuseRecord = true
	for {
		in.size = 0 // of the next row
		fields, err := r.Read()
		value := Value{IsRow: true}
		invalid, isInvalid := errors.AsType[*csv.ParseError](err)
		switch {
		case isInvalid:
			value.At.Line, value.Err = v.lines+invalid.StartLine, fmt.Errorf("invalid row: %w", invalid.Err)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			line, _ := r.FieldPos(0)
			value.At.Line = v.lines + line
			value.Invalid = invalidIn([]byte(strings.Join(fields, "")))
			value.Raw, value.Err = json.Marshal(t.object(fields))
		}
		if err := fn(&value); err != nil {
			return err
		}
	}
}

// object returns the fields of a row by their columns. Of several columns with one name, the first one with a value counts.
func (t *table) object(fields []string) map[string]string {
	row := map[string]string{}
	for i, field := range fields {
		if _, ok := row[t.columns[i]]; !ok && field != "" {
			row[t.columns[i]] = field
		}
	}
	return row
}

// rowReader returns an error in a row that is larger than the limit.
type rowReader struct {
	io.Reader
	size, limit int // bytes since the last row, and their maximum
}

// Read implements io.Reader.
func (r *rowReader) Read(p []byte) (int, error) {
	if r.size > r.limit {
		return 0, fmt.Errorf("the row is %w", tooLarge(r.size, r.limit))
	}
	n, err := r.Reader.Read(p)
	r.size += n
	return n, err
}
