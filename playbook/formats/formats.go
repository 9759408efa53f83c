package formats

import (
	"errors"
	"fmt"

	"debrief/playbook"
)

// Format names a format that a playbook can be in. Stored in frames; append only.
type Format string

const (
	ACE      Format = "ace"      // text of ace-agent/ace
	AppWorld Format = "appworld" // text of ace-agent/ace-appworld: no counters, contents of several lines
	Kayba    Format = "kayba"    // JSON of kayba-ai/agentic-context-engine
	SweCLI   Format = "swecli"   // JSON of swecli
	JSON     Format = "json"     // the project's own, one object
	JSONL    Format = "jsonl"    // the project's own, one bullet a line
	Markdown Format = "markdown" // what a prompt shows; written only
)

// Formats lists the formats that Read reads and those that Write writes.
func Formats() (readable, writable []Format) {
	readable = []Format{ACE, AppWorld, Kayba, SweCLI, JSON, JSONL}
	return readable, append(readable[:len(readable):len(readable)], Markdown)
}

// MaxFrame bounds a frame, in bytes.
const MaxFrame = 16 << 20

var (
	// ErrFormat is returned when the data is in none of the formats.
	ErrFormat = errors.New("is no playbook")
	// ErrNoBullet is returned when there is no bullet in the data, so that no book is emptied by a mistake.
	ErrNoBullet = errors.New("no bullet found")
)

// Document is a file as it was read.
type Document struct {
	Format Format
	// Book is the name that the file gives the book, "" for none. Only json and jsonl have one.
	Book string
	// Bullets are in file order. Their ids are unique, their contents and sections as a playbook has them.
	Bullets []*playbook.Bullet
	// Frame is for Write: what the file has besides its bullets. It is nil when there is nothing.
	Frame []byte
	// Notes tell what was repaired and what was left out.
	Notes []Note
}

// Note tells of one repair or omission. Line, counted from 1, is where in a text; Item is the id in a JSON file. A note
// about the whole file has neither.
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

// Loss is something of one bullet that a file could not hold. Field is the bullet's field as JSON names it, or that of
// the format (embedding), so that a caller can add up the losses of a kind.
type Loss struct {
	Bullet playbook.BulletID
	Field  string
	Reason string
}

// Read reads a file. An empty format is detected. Taken reports whether the book that the bullets go into has the id
// with another section or content; it may be nil. Such an id, and the second use of one in the file, becomes
// "<id>-2", "-3" and so on, with a Note. Errors wrap ErrFormat or ErrNoBullet where these apply.
func Read(data []byte, f Format, taken func(id playbook.BulletID, section, content string) bool) (*Document, error) {
	if f == "" {
		var err error
		if f, err = Detect(data); err != nil {
			return nil, err
		}
	}
	r := &reader{doc: &Document{Format: f}, names: newNamer(taken)}
	if err := errors.Join(r.read(data), r.refused); err != nil {
		return nil, fmt.Errorf("read %s: %w", f, err)
	}
	if len(r.doc.Bullets) == 0 {
		why := ""
		if len(r.doc.Notes) > 0 {
			why = "; " + r.doc.Notes[0].String()
		}
		return nil, fmt.Errorf("read %s: %w%s", f, ErrNoBullet, why)
	}
	if n := len(r.doc.Frame); n > MaxFrame {
		return nil, fmt.Errorf("read %s: what the file has besides its bullets takes %d bytes, more than the %d that a frame can have", f, n, MaxFrame)
	}
	return r.doc, nil
}

// Write writes bullets in a format. The name is the book's and the frame that of the newest import, nil for none. Where
// the frame does not say where a bullet goes, the bullets keep the order that they are given in. Every bullet is
// written whatever its status, except as markdown, which shows the active ones.
func Write(f Format, name string, bullets []*playbook.Bullet, frame []byte) (data []byte, losses []Loss, err error) {
	w := &writer{format: f, name: name, frame: frame}
	if err := w.accept(bullets); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", f, err)
	}
	if data, err = w.write(); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", f, err)
	}
	return data, w.losses, nil
}

// reader is one call of Read.
type reader struct {
	doc     *Document
	names   *namer
	refused error // the first bullet that no book can take
}

func (r *reader) read(data []byte) error {
	text := string(data)
	switch r.doc.Format {
	case ACE, AppWorld:
		return r.text(text)
	case Kayba:
		return r.tree(text, kaybaTree)
	case SweCLI:
		return r.tree(text, sweTree)
	case JSON:
		return r.json(text)
	case JSONL:
		return r.jsonl(text)
	case Markdown:
		return errors.New("this format is written and not read")
	}
	return fmt.Errorf("format %q is none of those that are read", r.doc.Format)
}

func (r *reader) note(at Note, format string, args ...any) {
	at.Text = fmt.Sprintf(format, args...)
	r.doc.Notes = append(r.doc.Notes, at)
}

// take makes b, which has all but its id and clean content, one of the document's. It reports false, with a note, if
// the content is one that no bullet can have.
func (r *reader) take(at Note, b *playbook.Bullet, id, content string) bool {
	clean, err := playbook.CleanContent(content)
	if err != nil {
		r.note(at, "%v; the bullet is left out", err)
		return false
	}
	if garbled(content, clean) {
		r.note(at, "characters that a bullet cannot hold were dropped or replaced")
	}
	b.Content = clean
	var why string
	if b.ID, why = r.names.name(id, b.Section, b.Content); why != "" {
		r.note(at, "%s; it is %s here", why, b.ID)
	}
	if err := b.ID.CheckForeign(); err != nil && r.refused == nil {
		at.Text = err.Error()
		if at.Item == "" {
			at.Item = string(b.ID)
		}
		r.refused = errors.New(at.String())
	}
	r.doc.Bullets = append(r.doc.Bullets, b)
	return true
}

// writer is one call of Write.
type writer struct {
	format  Format
	name    string
	frame   []byte
	bullets []*playbook.Bullet
	losses  []Loss
}

func (w *writer) write() ([]byte, error) {
	switch w.format {
	case ACE, AppWorld:
		return w.text()
	case Kayba:
		return w.tree(kaybaTree)
	case SweCLI:
		return w.tree(sweTree)
	case JSON:
		return w.json()
	case JSONL:
		return w.jsonl()
	case Markdown:
		return w.markdown(), nil
	}
	return nil, errors.New("is none of the formats that are written")
}

func (w *writer) lose(id playbook.BulletID, field, format string, args ...any) {
	w.losses = append(w.losses, Loss{id, field, fmt.Sprintf(format, args...)})
}

// accept takes the bullets that can be written, as a playbook would have them. What a playbook cannot hold got here
// past CleanContent, and no format is the place to pass it on.
func (w *writer) accept(bullets []*playbook.Bullet) error {
	seen := make(map[playbook.BulletID]bool, len(bullets))
	w.bullets = make([]*playbook.Bullet, 0, len(bullets))
	for _, b := range bullets {
		switch {
		case b == nil:
			return errors.New("a bullet is nil")
		case seen[b.ID]:
			return fmt.Errorf("two bullets have the id %q", b.ID)
		}
		seen[b.ID] = true
		content, err := playbook.CleanContent(b.Content)
		if err != nil {
			w.lose(b.ID, "content", "%v; the bullet is left out", err)
			continue
		}
		section, fixed := playbook.Section(b.Section), *b
		if content != b.Content {
			w.lose(b.ID, "content", "holds characters that a bullet cannot; they were dropped or replaced")
		}
		if section != b.Section {
			w.lose(b.ID, "section", "%q is no name of a section; it was written as %q", b.Section, section)
		}
		for i, n := range []*int{&fixed.Helpful, &fixed.Harmful, &fixed.Neutral} {
			if *n < 0 {
				w.lose(b.ID, [...]string{"helpful", "harmful", "neutral"}[i], "%d is no count; it was written as 0", *n)
				*n = 0
			}
		}
		if err := checkID(string(b.ID)); err != nil && w.format != ACE && w.format != AppWorld { // these two find another id
			w.lose(b.ID, "id", "%v; it is written as it is and reads back as another", err)
		}
		fixed.Content, fixed.Section = content, section
		w.bullets = append(w.bullets, &fixed)
	}
	return nil
}
