package natskv

import (
	"context"
	"time"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
)

// Meter is told what the writers of a store do, by many of them at the same time. It must not block.
type Meter interface {
	// Committed says that a change was stored, and how long that took from the call on, lost races included.
	Committed(took time.Duration)
	// Raced says that another writer was first.
	Raced()
	// Behind says that from now on the log of a book holds what its view does not. Said again before Current it is no news.
	Behind(b playbook.Book)
	// Current says that the view holds all that its writer knows of.
	Current(b playbook.Book)
}

func (w *Writer) behind() {
	if w.s.Meter != nil {
		w.s.Meter.Behind(w.book)
	}
}

func (w *Writer) current() {
	if w.s.Meter != nil {
		w.s.Meter.Current(w.book)
	}
}

// Behind is how many versions the views of books are ahead of what is known of them: the most of any one. Known are up
// to direct.MaxLast books with the version of each.
func (s *Store) Behind(ctx context.Context, known map[playbook.Book]uint64) (most uint64, err error) {
	if len(known) == 0 {
		return 0, nil
	}
	heads := make(map[string]playbook.Book, len(known))
	q := direct.Query{}
	for b := range known {
		subject := viewPrefix + events.HeadKey(b)
		heads[subject] = b
		q.Last = append(q.Last, subject)
	}
	err = direct.Read(ctx, s.nc, viewStream, q, func(m direct.Message) error {
		b := heads[m.Subject]
		if h := parseEntry(b, m).head; h != nil && h.Version > known[b] {
			most = max(most, h.Version-known[b])
		}
		return nil
	})
	return most, err
}
