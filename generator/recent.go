package generator

import (
	"context"
	"sync"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// recent remembers the last reflections of books for a moment: many tasks of one book ask for the same, and reading them
// costs the server more than laying out all the rest costs us.
type recent struct {
	mu    sync.Mutex
	books map[recentKey]*recentNotes
}

type recentKey struct {
	book playbook.Book
	most int
}

// recentNotes are being read until ready is closed, and do not change after that.
type recentNotes struct {
	ready   chan struct{}
	at      time.Time
	list    []*events.Note
	damaged int
	err     error
}

// notes are those that were read no longer ago than age, or else read now, by one for all who ask. Whoever waits for a
// reader that fails reads for himself: it may be the reader's own time that was over.
func (r *recent) notes(ctx context.Context, of recentKey, age time.Duration, read func() ([]*events.Note, int, error)) ([]*events.Note, int, error) {
	n, mine := r.take(of, age)
	if mine {
		n.list, n.damaged, n.err = read()
		n.at = time.Now()
		close(n.ready)
		return n.list, n.damaged, n.err
	}
	select {
	case <-n.ready:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if n.err != nil {
		return read()
	}
	return n.list, n.damaged, nil
}

// take is what there is of a book. Mine says that it is the caller's to read.
func (r *recent) take(of recentKey, age time.Duration) (n *recentNotes, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = r.books[of]; n != nil {
		select {
		case <-n.ready:
			if n.err == nil && time.Since(n.at) < age {
				return n, false
			}
		default:
			return n, false
		}
	}
	if r.books == nil || len(r.books) >= maxBooks {
		r.books = make(map[recentKey]*recentNotes)
	}
	n = &recentNotes{ready: make(chan struct{})}
	r.books[of] = n
	return n, true
}
