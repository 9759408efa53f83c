package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"debrief/playbook"
	"debrief/playbook/text"
)

// nativeSchema is the version of the project's own formats, and native the value of "format" in them.
const (
	nativeSchema = 1
	native       = "debrief-playbook"
)

// nativeHead is the header of the project's own formats: a json file without its bullets, or the first line of a jsonl
// file.
type nativeHead struct {
	Format string `json:"format"`
	Schema int    `json:"schema"`
	Book   string `json:"book"`
}

// check returns an error for a file of another format or of a newer schema.
func (h nativeHead) check() error {
	switch {
	case h.Format != native:
		return fmt.Errorf("%w of this format: want \"format\":%q", ErrFormat, native)
	case h.Schema < 1 || h.Schema > nativeSchema:
		return fmt.Errorf("unknown schema %d; this program supports schemas up to %d", h.Schema, nativeSchema)
	}
	return nil
}

// readJSON reads one object with all bullets.
func (r *reader) readJSON(input string) (list []rawBullet, err error) {
	var file struct {
		nativeHead
		Bullets []json.RawMessage `json:"bullets"`
	}
	if err := decode(input, &file); err != nil {
		return nil, err
	}
	for i, raw := range file.Bullets {
		var b playbook.Bullet
		if err := json.Unmarshal(raw, &b); err != nil {
			return nil, fmt.Errorf("bullets[%d]: %w", i, err)
		}
		list = append(list, rawBullet{b, Note{Item: text.Prefix(string(b.ID), playbook.MaxID)}})
	}
	return list, file.check()
}

// readJSONL reads a header and one bullet per line.
func (r *reader) readJSONL(input string) (list []rawBullet, err error) {
	heads, n := 0, 0
	for row := range strings.Lines(input) {
		n++
		if strings.TrimSpace(row) == "" {
			continue
		}
		var line struct {
			nativeHead
			playbook.Bullet
		}
		if err := json.Unmarshal([]byte(row), &line); err != nil {
			return nil, fmt.Errorf("line %d: incomplete or invalid bullet: %w", n, err)
		}
		if line.Format == "" {
			list = append(list, rawBullet{line.Bullet, Note{Line: n}})
			continue
		}
		if err := line.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		heads++
	}
	if heads == 0 && len(list) > 0 {
		r.note(Note{}, "the header line is missing; read as schema %d", nativeSchema)
	}
	return list, nil
}

func (w *writer) head() nativeHead {
	return nativeHead{Format: native, Schema: nativeSchema, Book: w.name}
}

func (w *writer) writeJSON() ([]byte, error) {
	return encode(struct {
		nativeHead
		Bullets []*playbook.Bullet `json:"bullets"`
	}{w.head(), w.bullets}, indentation)
}

func (w *writer) writeJSONL() ([]byte, error) {
	out, err := encode(w.head(), "")
	if err != nil {
		return nil, err
	}
	for _, b := range w.bullets {
		line, err := encode(b, "")
		if err != nil {
			return nil, err
		}
		out = append(out, line...)
	}
	return out, nil
}

// decode parses a JSON text. A syntax error has the number of the line.
func decode(text string, v any) error {
	err := json.Unmarshal([]byte(text), v)
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok:
		return err
	case syntax.Offset >= int64(len(text)):
		return fmt.Errorf("the JSON is cut off in line %d: %w", 1+strings.Count(text, "\n"), err)
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(text[:syntax.Offset], "\n"), err)
}

// indentation is that of the JSON formats, except jsonl.
const indentation = "  "

// encode returns v as JSON with a line end, without escaping < > &. Without an indentation it is one line.
func encode(v any, indent string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return buf.Bytes(), err
}
