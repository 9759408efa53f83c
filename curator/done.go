package curator

import (
	"context"
	"fmt"
	"time"

	"debrief/events/bus"
)

// done reports whether the log covers a delivery, by a delta of this process or of another. It locks the book.
func (d *desk) done(ctx context.Context, del *bus.Delivery) (bool, error) {
	k, err := newDocket(del, nil)
	if err != nil {
		return false, nil // the curator handles no such event, so it has no effect
	}
	b := d.book(del.Event.InBook())
	b.mu.Lock()
	defer b.mu.Unlock()
	err = d.open(ctx, b)
	if err == nil {
		err = b.w.CheckView(ctx) // reads the end of the log
	}
	if err == nil {
		err = b.w.OpenIndex(ctx)
	}
	log, covered := lookup{err: err}, false
	if err == nil {
		log.state = b.w.State()
		covered = log.covered(k)
	}
	if log.err != nil {
		b.close()
		return false, fmt.Errorf("look up %s %s in the log of playbook %q: %w", del.Event.Kind(), k.id, b.name, log.err)
	}
	b.used = time.Now()
	return covered, nil
}
