package source

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table reads the records of a CSV text. A field in quotes can have several lines. A stray quote costs only its own record.
type Table struct {
	comma   rune
	columns []string
	pending []tableLine // lines that were read to find the end of a record
}

type tableLine struct {
	n    int
	text string
	err  error // the line is too large; it has no text
}

// FindTable returns a table if the line is a header that has one of each group of columns, else nil.
func FindTable(header []byte, groups ...[]string) *Table {
	if len(header) > 64<<10 {
		return nil
	}
	for _, comma := range []rune{',', ';', '\t'} {
		t := &Table{comma: comma}
		names, err := t.parse(string(header))
		if err != nil {
			continue
		}
		for _, name := range names {
			t.columns = append(t.columns, strings.ToLower(strings.TrimSpace(name)))
		}
		if !slices.ContainsFunc(groups, func(names []string) bool { return t.column(names) < 0 }) {
			return t
		}
	}
	return nil
}

// ColumnNames returns the first columns of a line that looks like the header of a table, for an error, or "".
func ColumnNames(line []byte) string {
	if bytes.ContainsAny(line, "{}[]") {
		return ""
	}
	t := FindTable(line)
	if t == nil || len(t.columns) < 2 {
		return ""
	}
	o := &Object{}
	for _, name := range t.columns {
		if name == "" || strings.Count(name, " ") > 2 {
			return "" // prose
		}
		o.Fields = append(o.Fields, Field{Name: name})
	}
	return o.Names()
}

// column returns the index of the first of the columns, or -1.
func (t *Table) column(names []string) int {
	for _, name := range names {
		if i := slices.Index(t.columns, name); i >= 0 {
			return i
		}
	}
	return -1
}

// Value returns the text of the first of the columns, or "".
func (t *Table) Value(record, names []string) string {
	for _, name := range names {
		if i := slices.Index(t.columns, name); i >= 0 && i < len(record) && record[i] != "" {
			return record[i]
		}
	}
	return ""
}

// parse splits a record into fields.
func (t *Table) parse(record string) ([]string, error) {
	fields, err := t.parseQuoted(record, false)
	if err != nil { // a quote inside a field
		fields, err = t.parseQuoted(record, true)
	}
	return fields, err
}

func (t *Table) parseQuoted(record string, lazy bool) ([]string, error) {
	r := csv.NewReader(strings.NewReader(record))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = t.comma, -1, lazy
	fields, err := r.Read()
	if err == nil {
		if _, end := r.Read(); end != io.EOF {
			err = errors.New("several records")
		}
	}
	return fields, err
}

// Next returns the next record and its first line. At the end it returns io.EOF.
func (t *Table) Next(l *Lines) (fields []string, line int, err error) {
	var text strings.Builder
	used, size := 0, 0
	for quotes := 0; used == 0 || quotes%2 == 1; used++ {
		if used == len(t.pending) {
			if err = t.fill(l); err != nil {
				break
			}
		}
		if err = t.pending[used].err; err != nil {
			break
		}
		if size += len(t.pending[used].text) + 1; size > l.limit {
			err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.limit)
			break
		}
		if used > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(t.pending[used].text)
		quotes += strings.Count(t.pending[used].text, `"`)
	}
	if len(t.pending) == 0 {
		return nil, l.N, err
	}
	first := t.pending[0]
	if first.err != nil {
		t.pending = t.pending[1:]
		return nil, first.n, fmt.Errorf("%w: %w", ErrRecord, first.err)
	}
	fields, parseErr := t.parse(text.String())
	if err != nil || parseErr != nil || used > 1 && len(fields) != len(t.columns) {
		// The quote of the first line has no partner, or one in another record.
		single, e := t.parse(first.text)
		if e == nil && len(single) == len(t.columns) || err != nil || parseErr != nil {
			fields, used, parseErr = single, 1, e
		}
	}
	t.pending = t.pending[used:]
	if parseErr != nil {
		return nil, first.n, ErrRecord
	}
	if len(fields) != len(t.columns) {
		return nil, first.n, fmt.Errorf("%w: got %d fields, want %d", ErrRecord, len(fields), len(t.columns))
	}
	return fields, first.n, nil
}

// ErrRecord is returned for an invalid record. Reading can continue.
var ErrRecord = errors.New("invalid CSV record")

// fill reads the next line that is not blank, or any line inside a record.
func (t *Table) fill(l *Lines) error {
	for {
		line, err := l.Next()
		if errors.Is(err, ErrTooLarge) {
			t.pending = append(t.pending, tableLine{l.N, "", err})
			return nil
		}
		if err != nil {
			return err
		}
		if len(t.pending) > 0 || len(bytes.TrimSpace(line)) > 0 {
			t.pending = append(t.pending, tableLine{l.N, string(line), nil})
			return nil
		}
	}
}
