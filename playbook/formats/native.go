package formats

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/playbook"
	"debrief/playbook/text"
)

// nativeSchema is the version of the project's own formats.
const nativeSchema = 1

// nativeHead is the header of the project's own formats: a json file without its bullets, or the first line of a jsonl
// file.
type nativeHead struct {
	Format string `json:"format"`
	Schema int    `json:"schema"`
	Book   string `json:"book"`
}

func (h nativeHead) check() error {
	switch {
	case h.Format != native:
		return fmt.Errorf("%w of this format: want \"format\":%q", ErrFormat, native)
	case h.Schema < 1 || h.Schema > nativeSchema:
		return fmt.Errorf("unknown schema %d; this program supports schemas up to %d", h.Schema, nativeSchema)
	}
	return nil
}

var (
	nativeTop    = []string{"format", "schema", "book", "bullets"}
	nativeBullet = []string{
		"id", "section", "content", "helpful", "harmful", "neutral", "status", "pinned", "created_at", "updated_at", "last_used",
	}
	statuses = []playbook.Status{"", playbook.Active, playbook.Candidate, playbook.Probation, playbook.Retired, playbook.Quarantined}
)

// readJSON reads one object with all bullets.
func (r *reader) readJSON(input string) error {
	input = strings.TrimPrefix(input, bom)
	if err := checkJSON(input); err != nil {
		return err
	}
	var file struct {
		nativeHead
		Bullets []json.RawMessage `json:"bullets"`
	}
	if err := json.Unmarshal([]byte(input), &file); err != nil {
		return err
	}
	if err := file.check(); err != nil {
		return err
	}
	if top, err := parseObject([]byte(input)); err == nil {
		r.noteUnknown(Note{}, top, nativeTop)
	}
	r.doc.Book = file.Book
	list := make([]nativeItem, len(file.Bullets))
	for i, raw := range file.Bullets {
		if err := list[i].decode(raw); err != nil {
			return fmt.Errorf("bullets[%d]: %w", i, err)
		}
		list[i].at = Note{Item: text.Prefix(string(list[i].ID), playbook.MaxID)}
	}
	r.addNatives(list)
	return nil
}

// readJSONL reads a header and one bullet per line.
func (r *reader) readJSONL(text string) error {
	var list []nativeItem
	heads, lineNo := 0, 0
	for text := range strings.Lines(strings.TrimPrefix(text, bom)) {
		lineNo++
		if strings.TrimSpace(text) == "" {
			continue
		}
		raw := []byte(text)
		o, err := parseLine(text)
		if err != nil {
			return fmt.Errorf("line %d: %w", lineNo, err)
		}
		if isNative(o) {
			var head nativeHead
			if err := json.Unmarshal(raw, &head); err != nil {
				return fmt.Errorf("line %d: %w", lineNo, err)
			}
			if err := head.check(); err != nil {
				return fmt.Errorf("line %d: %w", lineNo, err)
			}
			if heads++; heads == 1 {
				r.doc.Book = head.Book
			} else {
				r.note(Note{Line: lineNo}, "second header, of book %q; its bullets are added to the same document", head.Book)
			}
			continue
		}
		item := nativeItem{at: Note{Line: lineNo}}
		if err := item.decode(raw); err != nil {
			return fmt.Errorf("line %d: %w", lineNo, err)
		}
		list = append(list, item)
	}
	if heads == 0 && len(list) > 0 {
		r.note(Note{}, "the header line is missing; read as schema %d", nativeSchema)
	}
	r.addNatives(list)
	return nil
}

func parseLine(text string) (object, error) {
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("incomplete or invalid JSON object: %w", err)
	}
	return parseObject(raw)
}

// nativeItem is a bullet of a file before its repair.
type nativeItem struct {
	playbook.Bullet
	at      Note
	members object
}

func (n *nativeItem) decode(raw json.RawMessage) error {
	var err error
	if n.members, err = parseObject(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, &n.Bullet)
}

// addNatives adds the bullets of a json or jsonl file. It repairs values that this program does not write but other
// programs or people may have written.
func (r *reader) addNatives(list []nativeItem) {
	for i := range list {
		r.names.reserve(string(list[i].ID))
	}
	for i := range list {
		n := &list[i]
		r.noteUnknown(n.at, n.members, nativeBullet)
		b := n.Bullet
		b.Section = playbook.Section(n.Section)
		if b.Section != n.Section {
			r.note(n.at, "invalid section name %q; read as %q", text.Clip(n.Section, 40), b.Section)
		}
		for _, c := range []*int{&b.Helpful, &b.Harmful, &b.Neutral} {
			if *c < 0 {
				r.note(n.at, "invalid count %d; read as 0", *c)
				*c = 0
			}
		}
		if !slices.Contains(statuses, b.Status) {
			r.note(n.at, "unknown status %q; read as retired", text.Clip(string(b.Status), 40))
			b.Status = playbook.Retired
		}
		b.CreatedAt, b.UpdatedAt, b.LastUsed = inUTC(b.CreatedAt), inUTC(b.UpdatedAt), inUTC(b.LastUsed)
		r.addBullet(n.at, &b, string(n.ID), n.Content)
	}
}

// inUTC converts a time to UTC, so that equal times have equal representations.
func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// noteUnknown adds a note for each unknown member, which is ignored.
func (r *reader) noteUnknown(at Note, o object, known []string) {
	for _, m := range o {
		if !slices.Contains(known, m.name) {
			r.note(at, "unknown field %s; ignored", text.Clip(m.name, 40))
		}
	}
}

// encodeBullets encodes the bullets for a json or jsonl file, with times in UTC.
func (w *writer) encodeBullets() ([]json.RawMessage, error) {
	all := make([]json.RawMessage, len(w.bullets))
	for i, b := range w.bullets {
		n := *b
		n.CreatedAt, n.UpdatedAt, n.LastUsed = inUTC(n.CreatedAt), inUTC(n.UpdatedAt), inUTC(n.LastUsed)
		var err error
		if all[i], err = encodeValue(&n); err != nil {
			return nil, fmt.Errorf("bullet %s: %w", b.ID, err)
		}
	}
	return all, nil
}

func (w *writer) head() nativeHead { return nativeHead{native, nativeSchema, w.name} }

func (w *writer) writeJSON() ([]byte, error) {
	all, err := w.encodeBullets()
	if err != nil {
		return nil, err
	}
	raw, err := encodeValue(struct {
		nativeHead
		Bullets []json.RawMessage `json:"bullets"`
	}{w.head(), all})
	if err != nil {
		return nil, err
	}
	return indent(raw)
}

func (w *writer) writeJSONL() ([]byte, error) {
	all, err := w.encodeBullets()
	if err != nil {
		return nil, err
	}
	out := append(encode(w.head()), '\n')
	for _, raw := range all {
		out = append(append(out, raw...), '\n')
	}
	return out, nil
}
