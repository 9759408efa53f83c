package formats

import (
	"errors"
	"fmt"

	"debrief/playbook"
)

// Format is the name of a file format.
type Format string

const (
	ACE      Format = "ace"      // text of ace-agent/ace
	AppWorld Format = "appworld" // text of ace-agent/ace-appworld: no counters, contents of several lines
	Kayba    Format = "kayba"    // JSON of kayba-ai/agentic-context-engine
	SweCLI   Format = "swecli"   // JSON of swecli
	JSON     Format = "json"     // the project's own, one object
	JSONL    Format = "jsonl"    // the project's own, one bullet per line
	Markdown Format = "markdown" // like in a prompt; can only be written
)

// Formats returns the formats that Read and Write support.
func Formats() (readable, writable []Format) {
	readable = []Format{ACE, AppWorld, Kayba, SweCLI, JSON, JSONL}
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
	// Book is the name of the book in the file, empty if it has none. Only json and jsonl have one.
	Book string
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

// Loss is a value of one bullet that the file could not store. Field is the JSON name of the bullet's field, or a field
// of the format (embedding), so that a caller can count the losses of a field.
type Loss struct {
	Bullet playbook.BulletID
	Field  string
	Reason string
}

// Read parses a file. An empty format is detected. Taken reports whether the target book has another bullet with the id:
// one with another section or content. It may be nil. Such an id, and a duplicate id in the file, is changed to "<id>-2",
// "-3" and so on, with a Note. Errors may wrap ErrFormat or ErrNoBullet.
func Read(data []byte, f Format, taken func(id playbook.BulletID, section, content string) bool) (*Document, error) {
	if f == "" {
		var err error
		if f, err = Detect(data); err != nil {
			return nil, err
		}
	}
	r := &reader{doc: &Document{Format: f}, names: newNamer(taken)}
	if err := errors.Join(r.read(data), r.idErr); err != nil {
		return nil, fmt.Errorf("read %s: %w", f, err)
	}
	if len(r.doc.Bullets) == 0 {
		why := ""
		if len(r.doc.Notes) > 0 {
			why = "; " + r.doc.Notes[0].String()
		}
		return nil, fmt.Errorf("read %s: %w%s", f, ErrNoBullet, why)
	}
	return r.doc, nil
}

// Write formats bullets. Name is the name of the book. A text has the bullets section by section, the other formats in
// the given order. Write writes bullets of every status, except in markdown, which has only the active ones. It
// skips a bullet with invalid content, with a Loss. It returns an error for an unknown format, a nil bullet and a duplicate id.
func Write(f Format, name string, bullets []*playbook.Bullet) (data []byte, losses []Loss, err error) {
	w := &writer{format: f, name: name}
	if err := w.addBullets(bullets); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", f, err)
	}
	if data, err = w.write(); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", f, err)
	}
	return data, w.losses, nil
}

// reader is the state of one call of Read.
type reader struct {
	doc   *Document
	names *namer
	idErr error // the first id that CheckImported rejects
}

func (r *reader) read(data []byte) error {
	text := string(data)
	switch r.doc.Format {
	case ACE, AppWorld:
		return r.readText(text)
	case Kayba:
		return r.readTree(text, kaybaTree)
	case SweCLI:
		return r.readTree(text, sweTree)
	case JSON:
		return r.readJSON(text)
	case JSONL:
		return r.readJSONL(text)
	case Markdown:
		return errors.New("this format can only be written")
	}
	return fmt.Errorf("unknown format %q", r.doc.Format)
}

func (r *reader) note(at Note, format string, args ...any) {
	at.Text = fmt.Sprintf(format, args...)
	r.doc.Notes = append(r.doc.Notes, at)
}

// addBullet sets the id and the cleaned content of b and adds it to the document. If the content is invalid, it adds a
// note and reports false.
func (r *reader) addBullet(at Note, b *playbook.Bullet, id, content string) bool {
	clean, err := playbook.CleanContent(content)
	if err != nil {
		r.note(at, "%v; bullet skipped", err)
		return false
	}
	if invalidRemoved(content, clean) {
		r.note(at, "invalid characters were removed or replaced")
	}
	b.Content = clean
	var why string
	if b.ID, why = r.names.name(id, b.Section, b.Content); why != "" {
		r.note(at, "%s; renamed to %s", why, b.ID)
	}
	if err := b.ID.CheckImported(); err != nil && r.idErr == nil {
		at.Text = err.Error()
		if at.Item == "" {
			at.Item = string(b.ID)
		}
		r.idErr = errors.New(at.String())
	}
	r.doc.Bullets = append(r.doc.Bullets, b)
	return true
}

// writer is the state of one call of Write.
type writer struct {
	format  Format
	name    string
	bullets []*playbook.Bullet
	losses  []Loss
}

func (w *writer) write() ([]byte, error) {
	switch w.format {
	case ACE, AppWorld:
		return w.writeText()
	case Kayba:
		return w.writeTree(kaybaTree)
	case SweCLI:
		return w.writeTree(sweTree)
	case JSON:
		return w.writeJSON()
	case JSONL:
		return w.writeJSONL()
	case Markdown:
		return w.markdown(), nil
	}
	return nil, errors.New("unknown format")
}

func (w *writer) addLoss(id playbook.BulletID, field, format string, args ...any) {
	w.losses = append(w.losses, Loss{id, field, fmt.Sprintf(format, args...)})
}

// addBullets cleans the bullets and adds the valid ones. A bullet may be invalid if it was never checked by CleanContent;
// such data must not get into a file.
func (w *writer) addBullets(bullets []*playbook.Bullet) error {
	seen := make(map[playbook.BulletID]bool, len(bullets))
	w.bullets = make([]*playbook.Bullet, 0, len(bullets))
	for _, b := range bullets {
		switch {
		case b == nil:
			return errors.New("a bullet is nil")
		case seen[b.ID]:
			return fmt.Errorf("duplicate bullet id %q", b.ID)
		}
		seen[b.ID] = true
		content, err := playbook.CleanContent(b.Content)
		if err != nil {
			w.addLoss(b.ID, "content", "%v; bullet skipped", err)
			continue
		}
		section, fixed := playbook.Section(b.Section), *b
		if content != b.Content {
			w.addLoss(b.ID, "content", "invalid characters were removed or replaced")
		}
		if section != b.Section {
			w.addLoss(b.ID, "section", "invalid section name %q; written as %q", b.Section, section)
		}
		for i, n := range []*int{&fixed.Helpful, &fixed.Harmful, &fixed.Neutral} {
			if *n < 0 {
				w.addLoss(b.ID, [...]string{"helpful", "harmful", "neutral"}[i], "invalid count %d; written as 0", *n)
				*n = 0
			}
		}
		if err := checkID(string(b.ID)); err != nil && w.format != ACE && w.format != AppWorld { // text formats repair ids
			w.addLoss(b.ID, "id", "%v; written unchanged, but Read changes it", err)
		}
		fixed.Content, fixed.Section = content, section
		w.bullets = append(w.bullets, &fixed)
	}
	return nil
}
