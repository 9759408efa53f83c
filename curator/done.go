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
	covered, err := w.isCovered(ctx, b, item)
	if err != nil {
		b.close()
		return false, fmt.Errorf("look up %s %s in the log of playbook %q: %w", del.Event.Kind(), item.ID, b.name, err)
	}
	b.lastUsed = time.Now()
	return covered, nil
}

// isCovered reports whether the log covers an item. It reads the log up to its end.
func (w *worker) isCovered(ctx context.Context, b *book, item *workItem) (bool, error) {
	if err := w.open(ctx, b); err != nil {
		return false, err
	}
	if err := b.writer.CheckView(ctx); err != nil { // also reads the end of the log
		return false, err
	}
	if err := b.writer.OpenIndex(ctx); err != nil {
		return false, err
	}
	log := coverLookup{state: b.writer.State()}
	covered := log.covered(&item.Item)
	return covered, log.err
}
