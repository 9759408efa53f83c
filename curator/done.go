package curator

import (
	"context"
	"fmt"
	"time"

	"debrief/events/bus"
)

// done reports whether the log covers a delivery, by a delta of this process or of another one. It locks the book.
func (w *worker) done(ctx context.Context, del *bus.Delivery) (bool, error) {
	item, err := newWorkItem(del, nil)
	if err != nil {
		return false, nil // an unexpected event has no effect
	}
	b := w.book(del.Event.InBook())
	b.mu.Lock()
	defer b.mu.Unlock()
	err = w.open(ctx, b)
	if err == nil {
		err = b.writer.CheckView(ctx) // also reads the end of the log
	}
	if err == nil {
		err = b.writer.OpenIndex(ctx)
	}
	log, covered := coverLookup{err: err}, false
	if err == nil {
		log.state = b.writer.State()
		covered = log.covered(&item.Item)
	}
	if log.err != nil {
		b.close()
		return false, fmt.Errorf("look up %s %s in the log of playbook %q: %w", del.Event.Kind(), item.ID, b.name, log.err)
	}
	b.lastUsed = time.Now()
	return covered, nil
}
