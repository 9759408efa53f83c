package curator

import (
	"context"
	"time"

	"debrief/curator/draft"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// The sweep compares views with their logs, because a Curator may die between its commit and its flush.
const (
	sweepOpenInterval = time.Second      // for books with an open writer
	sweepAllInterval  = 15 * time.Second // for all books
)

// sweep checks and repairs views until the context ends.
func (w *worker) sweep(ctx context.Context) {
	var lastAll time.Time // when all books were swept
	for ctx.Err() == nil {
		names := w.idleOpenBooks()
		if time.Since(lastAll) >= sweepAllInterval {
			if all, err := w.listBooks(ctx); err == nil {
				names = all
				lastAll = time.Now()
			}
		}
		for _, name := range names {
			w.sweepBook(ctx, w.book(name))
		}
		_ = events.Sleep(ctx, sweepOpenInterval)
	}
}

// listBooks reads the names of all books, also of those that have a view and lost their log. The processes divide them, see bus.Worker.
func (w *worker) listBooks(ctx context.Context) ([]playbook.Book, error) {
	all, err := w.store.AllBooks(ctx)
	if err == nil {
		w.mu.Lock()
		w.known = all
		w.mu.Unlock()
	}
	return all, err
}

// knownBooks returns the names that listBooks has read last.
func (w *worker) knownBooks() []playbook.Book {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// idleOpenBooks returns the books that have an open writer and are not being processed.
func (w *worker) idleOpenBooks() []playbook.Book {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]playbook.Book, 0, len(w.books))
	for name, b := range w.books {
		if b.mu.TryLock() {
			if b.writer != nil {
				names = append(names, name)
			}
			b.mu.Unlock()
		}
	}
	return names
}

// sweepBook brings the view of a book to the version of its log, and unloads an idle book. It skips a book that is being
// processed.
func (w *worker) sweepBook(ctx context.Context, b *book) {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	if err := w.repairView(ctx, b); err != nil {
		b.close() // the next use opens the book and compares the view again
		b.viewChecked = false
		if ctx.Err() == nil {
			w.conn.Log().Warn().Err(err).Str(events.LogBook, string(b.name)).Msg("check view")
		}
		return
	}
	b.viewChecked = true
	if err := w.recordSettings(ctx, b); err != nil && ctx.Err() == nil {
		w.conn.Log().Warn().Err(err).Str(events.LogBook, string(b.name)).Msg("record settings")
	}
	if time.Since(b.lastUsed) > bookIdle {
		b.unload()
	}
}

// recordSettings records the settings of this Curator in the log of a book, and its gate mode if the book has none, once after the start.
// Generators read the settings in the view, so recording them must not wait for the next reflection. Default settings do wait, because the
// Curator of a short command has them too and must not replace the settings of a running Curator.
func (w *worker) recordSettings(ctx context.Context, b *book) error {
	defaults, err := Config{}.WithDefaults().policy()
	if err != nil {
		return err
	}
	isDefault := w.policy.Equal(defaults) && w.cfg.GateMode == playbook.GateGuard
	if b.settingsRecorded || isDefault {
		return nil
	}
	if err := w.open(ctx, b); err != nil {
		return err
	}
	_, err = b.writer.Commit(ctx, func(s deltalog.State) ([]*playbook.Delta, error) {
		p := s.Playbook()
		if p.Version() == 0 {
			return nil, nil
		}
		recorded := p.Admission()
		d := &playbook.Delta{Author: history.Curator, Reason: "settings of the curator", Time: time.Now().UTC()}
		if !w.policy.Equal(defaults) && !recorded.Policy.Equal(w.policy) {
			d.Policy = &w.policy
		}
		if _, chosen := p.Gate(); !chosen && w.cfg.GateMode != playbook.GateGuard {
			d.Gate = w.cfg.GateMode
		}
		if d.Policy == nil && d.Gate == "" {
			return nil, nil
		}
		draft.AddControlSalt(&recorded, d) // the policy may switch the control share on
		return []*playbook.Delta{d}, nil
	})
	if err != nil {
		return err
	}
	b.settingsRecorded = b.writer.State().Playbook().Version() > 0
	return b.writer.Flush(ctx)
}

// repairView compares the view with the log and flushes the difference. If this process has compared the book before and closed it since,
// repairView compares only the last delta with the head of the view.
func (w *worker) repairView(ctx context.Context, b *book) error {
	if b.writer == nil && b.viewChecked {
		if isCurrent, err := w.store.IsViewCurrent(ctx, b.name); isCurrent || err != nil {
			return err
		}
	}
	if err := w.open(ctx, b); err != nil {
		return err
	}
	if err := b.writer.CheckView(ctx); err != nil {
		return err
	}
	return b.writer.Flush(ctx)
}
