package natskv

import (
	"bytes"
	"context"
	"crypto/sha256"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
)

// view is what the bucket holds of a book.
type view struct {
	head     head
	headRev  uint64 // revision of the head's key, 0 if it was never written
	headData []byte // nil if there is none
	values   map[string]value
}

// value is what a key of a bullet holds. Bullet is nil where that cannot be read or is under another bullet's key: the
// view is then as good as torn, and no reason not to open the book.
type value struct {
	bullet *playbook.Bullet
	data   []byte
}

// playbook is the view as a playbook, nil if head and bullets do not belong together.
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
	p.SetGate(v.head.Gate)
	return p
}

// viewReads is how often a view that changes under the reader is read again before it counts as torn.
const viewReads = 3

func (s *Store) readView(ctx context.Context, b playbook.Book) (*view, error) {
	for try := 1; ; try++ {
		v := &view{values: make(map[string]value)}
		err := s.scan(ctx, viewStream, viewPrefix+string(b)+".>", 1, func(m direct.Message) error {
			v.put(b, m)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if try == viewReads || v.head.Version == 0 || v.head.Partial || v.playbook() != nil {
			return v, nil
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// put takes one stored key.
func (v *view) put(b playbook.Book, m direct.Message) {
	e := parseEntry(b, m)
	key := m.Subject[len(viewPrefix):]
	switch {
	case key == events.HeadKey(b):
		v.head, v.headRev, v.headData = head{}, m.Seq, nil
		if e.head != nil {
			v.head, v.headData = *e.head, m.Data
		}
	case m.Removed():
		delete(v.values, key)
	default:
		v.values[key] = value{e.bullet, m.Data}
	}
}

// entry is one value of the bucket: a head, a bullet, or neither: the marker of a removed one, or nothing of ours.
type entry struct {
	head   *head
	bullet *playbook.Bullet
}

func parseEntry(b playbook.Book, m direct.Message) (e entry) {
	if m.Removed() {
		return e
	}
	key := m.Subject[len(viewPrefix):]
	if key == events.HeadKey(b) {
		h := new(head)
		if events.Unmarshal(m.Data, h) == nil {
			e.head = h
		}
		return e
	}
	bullet := new(playbook.Bullet)
	if events.Unmarshal(m.Data, bullet) == nil && key == events.BulletKey(b, bullet.ID) {
		e.bullet = bullet
	}
	return e
}

// readHead is the head of a book's view and the revision of its key; nil and 0 where it was never written, nil where it
// is gone or unreadable.
func (s *Store) readHead(ctx context.Context, b playbook.Book) (*head, uint64, error) {
	m, err := s.last(ctx, viewStream, viewPrefix+events.HeadKey(b))
	if err != nil || m == nil {
		return nil, 0, err
	}
	return parseEntry(b, *m).head, m.Seq, nil
}

// Current reports whether a book's view is at the end of its log, by a look at the two ends alone.
func (s *Store) Current(ctx context.Context, b playbook.Book) (bool, error) {
	h, rev, err := s.readHead(ctx, b)
	if err != nil {
		return false, err
	}
	m, err := s.last(ctx, events.StreamDeltas, events.KindDelta.Subject(b))
	if err != nil || m == nil {
		return m == nil && rev == 0, err
	}
	sum := sha256.Sum256(m.Data)
	return h != nil && !h.Partial && h.Seq == m.Seq && bytes.Equal(h.Chain, sum[:]), nil
}
