package generator

import (
	"context"
	"time"

	"debrief/playbook"
)

// Meter is told how long things took, by many at the same time. It must not block.
type Meter interface {
	// Laid is a whole context: what it is made of was fetched and put together.
	Laid(took time.Duration)
	// Recalled is the part of that in which older executions were looked for and read.
	Recalled(took time.Duration)
	// Assembled is the part in which all of it was put together.
	Assembled(took time.Duration)
	// Followed says how long ago a version of a playbook was flushed that is in memory now.
	Followed(ago time.Duration)
}

type unmetered struct{}

func (unmetered) Laid(time.Duration)      {}
func (unmetered) Recalled(time.Duration)  {}
func (unmetered) Assembled(time.Duration) {}
func (unmetered) Followed(time.Duration)  {}

// Behind is how many versions the books in memory are behind what is stored: the most of any one. It is 0 while the
// generator does not run.
func (g *Generator) Behind(ctx context.Context) (uint64, error) {
	desk := g.desk.Load()
	if desk == nil {
		return 0, nil
	}
	return desk.books.behind(ctx)
}

func (s *shelf) behind(ctx context.Context) (uint64, error) {
	known := make(map[playbook.Book]uint64)
	s.mu.Lock()
	for at, b := range s.books {
		if at.pinned {
			continue
		}
		select {
		case <-b.ready:
			if b.f != nil { // it could be opened
				known[at.book] = b.f.Version()
			}
		default:
		}
	}
	s.mu.Unlock()
	return s.store.Behind(ctx, known)
}
