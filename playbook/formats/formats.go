package formats

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/playbook"
	"debrief/playbook/text"
)

// Format is the name of a file format.
type Format string

// The formats.
const (
	ACE      Format = "ace"      // text of ace-agent/ace, and of ace-agent/ace-appworld, which has no counters
	Kayba    Format = "kayba"    // JSON of kayba-ai/agentic-context-engine
	SweCLI   Format = "swecli"   // JSON of swecli
	JSON     Format = "json"     // the project's own, one object
	JSONL    Format = "jsonl"    // the project's own, one bullet per line
	Markdown Format = "markdown" // like in a prompt; can only be written
)

// codec reads and writes a format.
type codec struct {
	read   func(r *reader, text string) ([]rawBullet, error)
	write  func(w *writer) ([]byte, error)
	stored []string // JSON names of the fields that the format stores, besides id, section and content
}

var codecs = map[Format]codec{
	ACE: {read: (*reader).readText, write: (*writer).writeText, stored: []string{"helpful", "harmful"}},
	Kayba: {
		read: (*reader).readKayba, write: (*writer).writeKayba,
		stored: []string{"helpful", "harmful", "neutral", "status", "created_at", "updated_at"},
	},
	SweCLI:   {read: (*reader).readSwe, write: (*writer).writeSwe, stored: []string{"helpful", "harmful", "neutral", "created_at", "last_used"}},
	JSON:     {read: (*reader).readJSON, write: (*writer).writeJSON, stored: everyField},
	JSONL:    {read: (*reader).readJSONL, write: (*writer).writeJSONL, stored: everyField},
	Markdown: {write: (*writer).writeMarkdown, stored: []string{"helpful", "harmful"}},
}

var everyField = []string{"when", "helpful", "harmful", "neutral", "status", "pinned", "created_at", "updated_at", "last_used"}

// Formats returns the formats that Read and Write support.
func Formats() (readable, writable []Format) {
	readable = []Format{ACE, Kayba, SweCLI, JSON, JSONL}
	return readable, append(readable[:len(readable):len(readable)], Markdown)
}

var (
	// ErrFormat is returned if the data has an unknown format.
	ErrFormat = errors.New("not a playbook file")
	// ErrNoBullet is returned if the data contains no bullet, so that a wrong file does not empty a book.
	ErrNoBullet = errors.New("no bullet found")
)

// Document is an imported file.
type Document struct {
	Format Format
	// Bullets are in file order. Their ids are unique, their contents and sections valid for a playbook.
	Bullets []*playbook.Bullet
	// Notes list the repairs and the skipped parts.
	Notes []Note
}

// Note describes one repair or skipped part. Line is the line number in a text, from 1. Item is the id in a JSON file. A
// note about the whole file has neither.
type Note struct {
	Line int
	Item string
	Text string
}

func (n Note) String() string {
	switch {
	case n.Line > 0 && n.Item != "":
		return fmt.Sprintf("line %d, %s: %s", n.Line, n.Item, n.Text)
	case n.Line > 0:
		return fmt.Sprintf("line %d: %s", n.Line, n.Text)
	case n.Item != "":
		return fmt.Sprintf("%s: %s", n.Item, n.Text)
	}
	return n.Text
}

// Loss is a value of one bullet that the file could not store. Field is the JSON name of the bullet's field, so that a
// caller can count the losses of a field.
type Loss struct {
	Bullet playbook.BulletID
	Field  string
	Reason string
}

// Read parses a file. If the format is empty, Read detects it. The function taken reports whether the target book has a bullet with the id but
// with another section or content; nil means never. Read changes such an id, and a duplicate id in the file, to "<id>-2",
// "<id>-3" and so on, with a Note. Errors may wrap ErrFormat or ErrNoBullet.
func Read(data []byte, f Format, taken func(id playbook.BulletID, section, content string) bool) (*Document, error) {
	if f == "" {
		var err error
		f, err = Detect(data)
		if err != nil {
			return nil, err
		}
	}
	read := codecs[f].read
	switch {
	case f == Markdown:
		return nil, errors.New("read markdown: this format can only be written")
	case read == nil:
		return nil, fmt.Errorf("read: unknown format %q", f)
	}
	r := &reader{doc: &Document{Format: f}, names: newNamer(taken)}
	list, err := read(r, strings.TrimPrefix(string(data), bom))
	if err == nil {
		err = r.addBullets(list)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f, err)
	}
	if len(r.doc.Bullets) == 0 {
		reason := ""
		if len(r.doc.Notes) > 0 {
			reason = "; " + r.doc.Notes[0].String()
		}
		return nil, fmt.Errorf("read %s: %w%s", f, ErrNoBullet, reason)
	}
	return r.doc, nil
}

// Write formats bullets. name is the name of the book. A text has the bullets section by section, the other formats in
// the given order. Write writes bullets of every status, except in markdown, which has only the active ones. It
// skips a bullet with invalid content, with a Loss. It returns an error for an unknown format, a nil bullet and a duplicate id.
func Write(f Format, name string, bullets []*playbook.Bullet) (data []byte, losses []Loss, err error) {
	write := codecs[f].write
	if write == nil {
		return nil, nil, fmt.Errorf("write: unknown format %q", f)
	}
	w := &writer{format: f, name: name, given: map[playbook.BulletID]playbook.BulletID{}}
	err = w.addBullets(bullets)
	if err == nil {
		data, err = write(w)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", f, err)
	}
	return data, w.losses, nil
}

// reader is the state of one call of Read.
type reader struct {
	doc   *Document
	names *namer
}

// rawBullet is a bullet of a file before its repair.
type rawBullet struct {
	playbook.Bullet
	at Note // the place in the file
}

func (r *reader) note(at Note, format string, args ...any) {
	at.Text = fmt.Sprintf(format, args...)
	r.doc.Notes = append(r.doc.Notes, at)
}

// addBullets repairs bullets and adds them to the document. An id with a number that is too large is an error.
func (r *reader) addBullets(list []rawBullet) error {
	for i := range list {
		r.names.reserve(string(list[i].ID))
	}
	for i := range list {
		b, at := &list[i].Bullet, list[i].at
		if !repair(b, func(_, change string) { r.note(at, "%s", change) }) {
			continue
		}
		given := b.ID
		var reason string
		b.ID, reason = r.names.name(string(given), b.Section, b.Content)
		if reason != "" {
			r.note(at, "%s; renamed to %s", reason, b.ID)
		}
		if err := b.ID.CheckNumber(); err != nil {
			return errors.New(Note{Line: at.Line, Item: string(b.ID), Text: err.Error()}.String())
		}
		r.doc.Bullets = append(r.doc.Bullets, b)
	}
	return nil
}

// repair makes the values of a bullet valid, except its id. It calls report for each change, with the field. It returns false if the
// condition or the content cannot be repaired.
func repair(b *playbook.Bullet, report func(field, change string)) bool {
	when, err := playbook.CleanWhen(b.When)
	if err != nil {
		report("when", err.Error()+"; bullet skipped")
		return false
	}
	if when != b.When {
		report("when", fmt.Sprintf("changed to %q", when))
	}
	_, content, err := playbook.CleanText(when, b.Content)
	if err != nil {
		report("content", err.Error()+"; bullet skipped")
		return false
	}
	// Surrounding white space, carriage returns and a condition before the content need no report.
	given := strings.TrimSpace(strings.ReplaceAll(b.Content, "\r", ""))
	if content != given && playbook.Advice(when, content) != given {
		report("content", "invalid characters were removed or replaced")
	}
	section := playbook.Section(b.Section)
	if section != b.Section {
		report("section", fmt.Sprintf("invalid section name %q; changed to %q", text.Clip(b.Section, 40), section))
	}
	b.When, b.Content, b.Section = when, content, section
	for _, c := range []struct {
		field string
		n     *int
	}{{"helpful", &b.Helpful}, {"harmful", &b.Harmful}, {"neutral", &b.Neutral}} {
		if *c.n < 0 {
			report(c.field, fmt.Sprintf("invalid count %d; changed to 0", *c.n))
			*c.n = 0
		}
	}
	if !b.Status.Valid() {
		report("status", fmt.Sprintf("unknown status %q; changed to retired", text.Clip(string(b.Status), 40)))
		b.Status = playbook.Retired
	}
	b.CreatedAt, b.UpdatedAt, b.LastUsed = inUTC(b.CreatedAt), inUTC(b.UpdatedAt), inUTC(b.LastUsed)
	return true
}

// inUTC converts a time to UTC, so that equal times have equal representations.
func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// writer is the state of one call of Write.
type writer struct {
	format  Format
	name    string
	bullets []*playbook.Bullet
	given   map[playbook.BulletID]playbook.BulletID // by id in the file: the id that the caller gave, if it is another one
	losses  []Loss
}

// addLoss adds a Loss of a bullet. id is its id in the file or the one that the caller gave.
func (w *writer) addLoss(id playbook.BulletID, field, format string, args ...any) {
	if given, ok := w.given[id]; ok {
		id = given
	}
	w.losses = append(w.losses, Loss{id, field, fmt.Sprintf(format, args...)})
}

// addBullets repairs copies of the bullets and adds them. The bullets of a caller may be invalid, and invalid data must not get into a
// file.
func (w *writer) addBullets(bullets []*playbook.Bullet) error {
	names := newNamer(nil)
	seen := make(map[playbook.BulletID]bool, len(bullets))
	for _, b := range bullets {
		switch {
		case b == nil:
			return errors.New("a bullet is nil")
		case seen[b.ID]:
			return fmt.Errorf("duplicate bullet id %q", b.ID)
		}
		seen[b.ID] = true
		names.reserve(string(b.ID))
	}
	for _, b := range bullets {
		fixed := *b
		if !repair(&fixed, func(field, change string) { w.addLoss(b.ID, field, "%s", change) }) {
			continue
		}
		fixed.ID, _ = names.name(string(b.ID), "", "")
		if fixed.ID != b.ID {
			w.given[fixed.ID] = b.ID
			w.addLoss(b.ID, "id", "the id is not valid; written as %q", fixed.ID)
		}
		w.bullets = append(w.bullets, &fixed)
		if w.format != Markdown || fixed.Shown() {
			w.loseUnstored(&fixed)
		}
	}
	return nil
}

// loseUnstored adds a Loss for each value that the format does not store.
func (w *writer) loseUnstored(b *playbook.Bullet) {
	for _, v := range []struct {
		field string
		isSet bool
		what  string
	}{
		{"when", b.When != "", "the condition apart from the content, which begins with it"},
		{"helpful", b.Helpful != 0, fmt.Sprintf("the count %d", b.Helpful)},
		{"harmful", b.Harmful != 0, fmt.Sprintf("the count %d", b.Harmful)},
		{"neutral", b.Neutral != 0, fmt.Sprintf("the count %d", b.Neutral)},
		{"status", !b.Shown(), fmt.Sprintf("the status %s; readers of the file will treat the bullet as active", b.Status)},
		{"pinned", b.Pinned, "pins"},
		{"created_at", !b.CreatedAt.IsZero(), "the time"},
		{"updated_at", !b.UpdatedAt.IsZero(), "the time"},
		{"last_used", !b.LastUsed.IsZero(), "the time"},
	} {
		if v.isSet && !slices.Contains(codecs[w.format].stored, v.field) {
			w.addLoss(b.ID, v.field, "%s cannot store %s", w.format, v.what)
		}
	}
}

// bySection returns the sections in order of appearance and the bullets of each.
func (w *writer) bySection() (order []string, bullets map[string][]*playbook.Bullet) {
	bullets = map[string][]*playbook.Bullet{}
	for _, b := range w.bullets {
		if bullets[b.Section] == nil {
			order = append(order, b.Section)
		}
		bullets[b.Section] = append(bullets[b.Section], b)
	}
	return order, bullets
}

// writeMarkdown renders the active bullets like in a prompt.
func (w *writer) writeMarkdown() ([]byte, error) {
	var shown []*playbook.Bullet
	for _, b := range w.bullets {
		if b.Shown() {
			shown = append(shown, b)
		} else {
			w.addLoss(b.ID, "status", "the bullet is %s and markdown has only active bullets; bullet skipped", b.Status)
		}
	}
	return []byte(playbook.RenderWithVotes(shown)), nil
}
