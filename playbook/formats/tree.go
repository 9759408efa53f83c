package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"debrief/playbook"
	"debrief/playbook/text"
)

// kaybaFile is a file of kayba.
type kaybaFile struct {
	Version   any     `json:"schema_version,omitempty"`
	Skills    ordered `json:"skills"`
	Bullets   ordered `json:"bullets,omitempty"` // the skills, up to version 0.6
	Sections  ordered `json:"sections"`
	NextID    any     `json:"next_id"` // the last number used, despite its name
	Decisions ordered `json:"similarity_decisions"`
}

// skill is an item of kayba.
type skill struct {
	ID        any             `json:"id"`
	Section   string          `json:"section"`
	Content   string          `json:"content"`
	Helpful   int             `json:"helpful"`
	Harmful   int             `json:"harmful"`
	Neutral   int             `json:"neutral"`
	CreatedAt *isoTime        `json:"created_at,omitempty"`
	UpdatedAt *isoTime        `json:"updated_at,omitempty"`
	Embedding json.RawMessage `json:"embedding"`
	Status    string          `json:"status"`
	Sources   any             `json:"sources"`
}

// sweFile is a file of swecli.
type sweFile struct {
	Strategies ordered `json:"strategies"`
	NextID     any     `json:"next_id"` // the next free number
}

// strategy is an item of swecli.
type strategy struct {
	ID        any      `json:"id"`
	Category  string   `json:"category"`
	Content   string   `json:"content"`
	Helpful   int      `json:"helpful_count"`
	Harmful   int      `json:"harmful_count"`
	Neutral   int      `json:"neutral_count"`
	CreatedAt *isoTime `json:"created_at,omitempty"`
	LastUsed  *isoTime `json:"last_used"`
}

func (r *reader) readKayba(input string) ([]rawBullet, error) {
	var file kaybaFile
	if err := decode(input, &file); err != nil {
		return nil, err
	}
	if version := fmt.Sprint(file.Version); file.Version != nil && version != "1" {
		return nil, fmt.Errorf("unsupported schema_version %q; this program supports versions up to 1", text.Clip(version, 20))
	}
	if file.Skills == nil {
		file.Skills = file.Bullets
	}
	return readItems(r, file.Skills, "skills", func(s *skill) playbook.Bullet {
		status := playbook.Status(s.Status)
		switch status {
		case playbook.Active:
			status = ""
		case "invalid":
			status = playbook.Retired
		}
		return playbook.Bullet{
			Section: playbook.Section(s.Section), Content: s.Content, Helpful: s.Helpful, Harmful: s.Harmful, Neutral: s.Neutral,
			Status: status, CreatedAt: s.CreatedAt.time(), UpdatedAt: s.UpdatedAt.time(),
		}
	})
}

func (r *reader) readSwe(input string) ([]rawBullet, error) {
	var file sweFile
	if err := decode(input, &file); err != nil {
		return nil, err
	}
	return readItems(r, file.Strategies, "strategies", func(s *strategy) playbook.Bullet {
		return playbook.Bullet{
			Section: playbook.Section(s.Category), Content: s.Content, Helpful: s.Helpful, Harmful: s.Harmful, Neutral: s.Neutral,
			CreatedAt: s.CreatedAt.time(), LastUsed: s.LastUsed.time(),
		}
	})
}

// readItems reads a map of items. name is that of the map, and bullet converts an item. The key of an item is its id.
func readItems[T any](r *reader, items ordered, name string, bullet func(*T) playbook.Bullet) (list []rawBullet, err error) {
	if items == nil {
		return nil, fmt.Errorf("%w of this format: want an object %s", ErrFormat, name)
	}
	for _, m := range items {
		at := Note{Item: text.Clip(m.name, playbook.MaxID)}
		var item T
		if err := json.Unmarshal(m.value, &item); err != nil {
			r.note(at, "%v; item skipped", err)
			continue
		}
		b := bullet(&item)
		b.ID = playbook.BulletID(m.name)
		list = append(list, rawBullet{b, at})
	}
	return list, nil
}

func (w *writer) writeKayba() ([]byte, error) {
	items, last, err := writeItems(w, func(b *playbook.Bullet) any {
		s := &skill{
			ID: b.ID, Section: b.Section, Content: b.Content, Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral,
			CreatedAt: newTime(b.CreatedAt, "+00:00"), UpdatedAt: newTime(b.UpdatedAt, "+00:00"), Status: "active", Sources: []string{},
		}
		if !b.Shown() {
			s.Status = "invalid"
			if b.Status != playbook.Retired {
				w.addLoss(b.ID, "status", "%s has no status %s; written as invalid", w.format, b.Status)
			}
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	order, bullets := w.bySection()
	sections := ordered{}
	for _, section := range order {
		var ids []playbook.BulletID
		for _, b := range bullets[section] {
			ids = append(ids, b.ID)
		}
		raw, err := encode(ids, "")
		if err != nil {
			return nil, err
		}
		sections = append(sections, member{section, raw})
	}
	return encode(kaybaFile{Skills: items, Sections: sections, NextID: last, Decisions: ordered{}}, indentation)
}

func (w *writer) writeSwe() ([]byte, error) {
	items, last, err := writeItems(w, func(b *playbook.Bullet) any {
		return &strategy{
			ID: b.ID, Category: b.Section, Content: b.Content, Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral,
			CreatedAt: newTime(b.CreatedAt, ""), LastUsed: newTime(b.LastUsed, ""),
		}
	})
	if err != nil {
		return nil, err
	}
	return encode(sweFile{Strategies: items, NextID: last + 1}, indentation)
}

// writeItems returns a map with an item for each bullet, and the largest number in their ids.
func writeItems(w *writer, item func(*playbook.Bullet) any) (items ordered, last uint64, err error) {
	items = ordered{}
	for _, b := range w.bullets {
		raw, err := encode(item(b), "")
		if err != nil {
			return nil, 0, fmt.Errorf("bullet %s: %w", b.ID, err)
		}
		items = append(items, member{string(b.ID), raw})
		last = max(last, b.ID.Number())
	}
	return items, last, nil
}

// ordered is a JSON object with its members in the order of the file. It is nil for a JSON value of another kind.
type ordered []member

// member is a name and a value of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *ordered) UnmarshalJSON(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return err // nil for a value of another kind, which leaves o nil
	}
	*o = ordered{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		m := member{name: name.(string)} // in an object, every other token is a string
		if err := dec.Decode(&m.value); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o ordered) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := encode(m.name, "")
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), m.value...)
	}
	return append(out, '}'), nil
}

// isoTime is a time in the form of Python's isoformat.
type isoTime struct {
	at   time.Time // for MarshalText: in UTC, as Write makes all times
	zone string    // suffix for MarshalText
}

func newTime(at time.Time, zone string) *isoTime {
	if at.IsZero() {
		return nil
	}
	return &isoTime{at, zone}
}

// time returns the time, which is zero for nil.
func (t *isoTime) time() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.at
}

// MarshalText implements encoding.TextMarshaler.
func (t *isoTime) MarshalText() ([]byte, error) {
	return []byte(t.at.Format("2006-01-02T15:04:05.000000") + t.zone), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. A time without a zone is UTC.
func (t *isoTime) UnmarshalText(text []byte) (err error) {
	for _, layout := range []string{
		"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02",
	} {
		t.at, err = time.Parse(layout, string(text))
		if err == nil {
			return nil
		}
	}
	if len(text) == 0 {
		return nil
	}
	return errors.New("invalid time")
}
