package deltalog

import (
	"bytes"
	"context"
	"crypto/sha256"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
)

// The bucket of the views: its stream, and the prefix of the subjects of its keys.
const (
	viewStream = "KV_" + events.BucketPlaybook
	viewPrefix = "$KV." + events.BucketPlaybook + "."
)

// head is the value of a book's head key.
type head struct {
	Version uint64            `msgpack:"v"`
	Seq     uint64            `msgpack:"q"` // of the delta with this version
	Chain   []byte            `msgpack:"x"`
	Last    uint64            `msgpack:"l"` // highest number in a bullet id so far, removed bullets included
	Count   int               `msgpack:"n"`
	Sum     playbook.Checksum `msgpack:"s"`
	// From is the sequence of the first delta that a new writer must read: the first delta of an incomplete change, else Seq, to find its
	// place in the log.
	From uint64 `msgpack:"c"`
	// Partial is set while a writer writes a later version in several batches. Until the next head the bullets match no
	// version. Version and Lost have the values of the last complete head; the other fields are not set.
	Partial bool `msgpack:"p,omitempty"`
	// Gate is the book's gate mode; empty if it was never set.
	Gate playbook.Gate `msgpack:"g,omitempty"`
	// LeadingScore is the name of the score that counts if an outcome has several; empty if no person chose one.
	LeadingScore string `msgpack:"ls,omitempty"`
	// About is the name and the description of the book.
	About playbook.About `msgpack:"ab,omitempty"`
	// Judge is the measured error of the judge.
	Judge playbook.Judge `msgpack:"ju,omitempty"`
	// Admission decides which reflections a prompt may contain.
	Admission playbook.Admission `msgpack:"a,omitempty"`
	// Plain counts the outcomes of tasks that cited no bullet.
	Plain playbook.Plain `msgpack:"u,omitempty"`
	// Verdicts describes the newest outcomes of all tasks.
	Verdicts playbook.Verdicts `msgpack:"vd,omitempty"`
	// Lost is the newest version that the view had and the log lost. It is kept until an operator rebuilds the view.
	Lost *lostVersion `msgpack:"z,omitempty"`
	// Recent has every bullet that changed after the version Since. A reader takes these bullets from here and all others from their keys,
	// because the keys of these may be older.
	Since  uint64         `msgpack:"b,omitempty"`
	Recent []recentBullet `msgpack:"d,omitempty"`
	// WithKeys is set if the keys are written with this head, so they have the bullets of Recent too. The next Recent then begins after it.
	WithKeys bool `msgpack:"k,omitempty"`
}

// recentBullet is a bullet that changed after the keys of a view were written.
type recentBullet struct {
	ID      playbook.BulletID `msgpack:"i"`
	Version uint64            `msgpack:"v"` // of the last change
	Data    []byte            `msgpack:"d"` // the value for its key; empty if the bullet was removed
}

// view is the content of the bucket for one book.
type view struct {
	head    head             // zero if it is missing or unreadable
	headRev uint64           // revision of the head's key, 0 if it was never written
	values  map[string]value // by key; a value in the head replaces the value of its key
}

// value is the content of a bullet's key, or of a bullet in a head.
type value struct {
	// bullet is nil if the data is unreadable or belongs to another key. Then the view does not match its head, but the book can
	// still be opened.
	bullet *playbook.Bullet
	data   []byte // empty if the bullet was removed
}

// playbook returns the view as a playbook, or nil if the bullets do not match the head.
func (v *view) playbook() *playbook.Playbook {
	for _, e := range v.values {
		if e.bullet == nil {
			return nil
		}
	}
	p := playbook.Restore(v.head.Version, v.head.Last, func(yield func(*playbook.Bullet) bool) {
		for _, e := range v.values {
			if !yield(e.bullet) {
				return
			}
		}
	})
	if v.head.Partial || p.Len() != v.head.Count || p.Checksum() != v.head.Sum {
		return nil
	}
	v.head.copyTo(p)
	return p
}

// copyTo copies the state of the book that is not in a bullet from the head to a playbook.
func (h *head) copyTo(p *playbook.Playbook) {
	p.SetGate(h.Gate)
	p.SetLeadingScore(h.LeadingScore)
	p.SetAbout(h.About)
	p.SetJudge(h.Judge)
	p.SetAdmission(h.Admission)
	p.SetPlain(h.Plain)
	p.SetVerdicts(h.Verdicts)
}

// viewReads is the maximum number of reads of a view that does not match its head. A writer may be changing it.
const viewReads = 3

// readView returns the view of a book. It reads again if the head is complete and the bullets do not match it. The bullets of the
// returned view do not match its head if the view is partial or damaged.
func (s *Store) readView(ctx context.Context, b playbook.Book) (*view, error) {
	for try := 1; ; try++ {
		v := &view{values: make(map[string]value)}
		err := s.scanView(ctx, viewPrefix+string(b)+".>", 1, func(m direct.Message) error {
			v.put(b, m)
			return nil
		})
		if err != nil {
			return nil, err
		}
		isComplete := v.head.Version > 0 && !v.head.Partial
		if !isComplete || v.playbook() != nil || try == viewReads {
			return v, nil
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// put adds the next message of the view.
func (v *view) put(b playbook.Book, m direct.Message) {
	h, isHead := readMessage(b, m, func(key string, e value) {
		if len(e.data) == 0 {
			delete(v.values, key)
		} else {
			v.values[key] = e
		}
	})
	if isHead {
		v.head, v.headRev = head{}, m.Seq
		if h != nil {
			v.head = *h
		}
	}
}

// readMessage decodes a message of the view: a head, or the value of a bullet's key. It calls set for each key that the message changes;
// a head changes the keys of its recent bullets. A reader of all messages, in order, has the whole view after each head. The returned head
// is nil if the message is not a head, or if the head was deleted or is unreadable.
func readMessage(b playbook.Book, m direct.Message, set func(key string, v value)) (h *head, isHead bool) {
	key := m.Subject[len(viewPrefix):]
	if key != events.HeadKey(b) {
		if m.Deleted() {
			m.Data = nil
		}
		set(key, parseValue(b, key, m.Data))
		return nil, false
	}
	if h = parseHead(m); h != nil {
		h.readRecent(b, 0, set)
	}
	return h, true
}

// readRecent calls set for each recent bullet that changed after a version.
func (h *head) readRecent(b playbook.Book, after uint64, set func(key string, v value)) {
	for _, r := range h.Recent {
		if r.Version > after {
			key := events.BulletKey(b, r.ID)
			set(key, parseValue(b, key, r.Data))
		}
	}
}

// parseHead returns the head that a message stores, or nil if it was deleted or is unreadable.
func parseHead(m direct.Message) *head {
	h := new(head)
	if m.Deleted() || events.Unmarshal(m.Data, h) != nil {
		return nil
	}
	return h
}

// parseValue decodes the value of a key.
func parseValue(b playbook.Book, key string, data []byte) value {
	bullet := new(playbook.Bullet)
	if len(data) == 0 || events.Unmarshal(data, bullet) != nil || key != events.BulletKey(b, bullet.ID) {
		bullet = nil
	}
	return value{bullet, data}
}

// LeadingScore returns the name of the score that counts if an outcome has several, or "" if the book has none.
func (s *Store) LeadingScore(ctx context.Context, b playbook.Book) (string, error) {
	h, _, err := s.readHead(ctx, b)
	if h == nil {
		return "", err
	}
	return h.LeadingScore, err
}

// readHead returns the head of a book's view and the revision of its key. The head is nil if it was never written, was
// deleted or is unreadable. The revision is 0 only if it was never written.
func (s *Store) readHead(ctx context.Context, b playbook.Book) (*head, uint64, error) {
	m, err := s.last(ctx, viewStream, viewPrefix+events.HeadKey(b))
	if err != nil || m == nil {
		return nil, 0, err
	}
	return parseHead(*m), m.Seq, nil
}

// IsViewCurrent reports whether a book's view is at the end of its log. It reads only the head and the last delta.
func (s *Store) IsViewCurrent(ctx context.Context, b playbook.Book) (bool, error) {
	h, rev, err := s.readHead(ctx, b)
	if err != nil {
		return false, err
	}
	m, err := s.last(ctx, events.StreamDeltas, events.KindDelta.Subject(b))
	if err != nil {
		return false, err
	}
	if m == nil { // without a log there must be no view
		return rev == 0, nil
	}
	if h == nil || h.Partial {
		return false, nil
	}
	sum := sha256.Sum256(m.Data)
	return h.Seq == m.Seq && bytes.Equal(h.Chain, sum[:]), nil
}
