package deltalog

import (
	"context"
	"time"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
)

// Meter receives the metrics of a store's writers. The writers call it concurrently. It must not block.
type Meter interface {
	// Committed records a stored change and the duration of its commit, retries after conflicts included.
	Committed(took time.Duration)
	// Conflict records a conflict: another writer committed first.
	Conflict()
	// ViewBehind records that the log of a book has deltas that its view does not contain. It may be called several times
	// before ViewCurrent.
	ViewBehind(b playbook.Book)
	// ViewCurrent records that the view contains all deltas that its writer has folded.
	ViewCurrent(b playbook.Book)
}

func (w *Writer) reportBehind() {
	if w.s.Meter != nil {
		w.s.Meter.ViewBehind(w.book)
	}
}

func (w *Writer) reportCurrent() {
	if w.s.Meter != nil {
		w.s.Meter.ViewCurrent(w.book)
	}
}

// MaxViewLag returns the largest lag of any book: the version of its view minus its known version. The map known has
// at most direct.MaxLast books.
func (s *Store) MaxViewLag(ctx context.Context, known map[playbook.Book]uint64) (lag uint64, err error) {
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
	err = s.direct.Read(ctx, viewStream, q, func(m direct.Message) error {
		b := heads[m.Subject]
		if h := parseHead(m); h != nil && h.Version > known[b] {
			lag = max(lag, h.Version-known[b])
		}
		return nil
	})
	return lag, err
}
