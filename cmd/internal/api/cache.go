package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/versions"
	"debrief/curator/gate"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// maxBooks is the number of playbooks that stay in memory.
const maxBooks = 256

// books keeps the playbooks that were read last in memory. A read costs one request for the end of the log, and not all bullets.
type books struct {
	store *deltalog.Store

	mu   sync.Mutex
	open map[playbook.Book]*openBook
}

// openBook is a playbook in memory.
type openBook struct {
	used time.Time // guarded by books.mu

	mu     sync.Mutex // held while the playbook is read
	writer *deltalog.Writer
	last   *playbook.Playbook // copy of its newest version
	label  string
	items  []bulletItem // of last; nil until they are needed
	log    *versionLog  // nil until it is needed

	// The following belong to the version of last; nil until they are needed.
	gate   *explain.Gate
	review []*history.Quarantined
}

func newBooks(store *deltalog.Store) *books {
	return &books{store: store, open: map[playbook.Book]*openBook{}}
}

// newest returns the newest version of a playbook, and its label. The caller must not change the playbook.
func (s *books) newest(ctx context.Context, name playbook.Book) (*playbook.Playbook, string, error) {
	b := s.take(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.refresh(ctx, name, b)
	return b.last, b.label, err
}

// items returns the bullets of the newest version of a playbook, sorted by id, the playbook, and the label of the version. The
// caller must not change them.
func (s *books) items(ctx context.Context, name playbook.Book) ([]bulletItem, *playbook.Playbook, string, error) {
	b := s.take(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.existing(ctx, name, b); err != nil {
		return nil, nil, "", err
	}
	if b.items == nil {
		b.items = bulletItems(b.last)
	}
	return b.items, b.last, b.label, nil
}

// gate returns the state of the gate of the newest version of a playbook. The caller must not change its lists.
func (s *books) gate(ctx context.Context, name playbook.Book) (*explain.Gate, error) {
	b := s.take(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.existing(ctx, name, b)
	if err == nil && b.gate == nil {
		b.gate, err = explain.GateAt(ctx, &versions.Book{Store: s.store, Name: name}, b.last, b.label, gate.Config{}, maxLimit)
	}
	if err != nil {
		return nil, err
	}
	g := *b.gate
	return &g, nil
}

// review returns the bullets in quarantine of the newest version of a playbook. The caller must not change them.
func (s *books) review(ctx context.Context, name playbook.Book) ([]*history.Quarantined, error) {
	b := s.take(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.existing(ctx, name, b)
	if err == nil && b.review == nil {
		var all []*history.Quarantined
		if all, err = history.Quarantine(s.store.History(ctx, name), b.last); err != nil {
			return nil, versions.LogError(err)
		}
		b.review = append([]*history.Quarantined{}, all...)
	}
	return b.review, err
}

// existing reads the newest version of a playbook that must exist. The caller holds its lock.
func (s *books) existing(ctx context.Context, name playbook.Book, b *openBook) error {
	err := s.refresh(ctx, name, b)
	if err == nil && b.last.Version() == 0 {
		err = notFound(fmt.Sprintf("playbook %q: not found", name))
	}
	return err
}

// activity returns the numbers of a playbook. The damage of its log is a field.
func (s *books) activity(ctx context.Context, name playbook.Book) (bookActivity, error) {
	out := bookActivity{Book: name}
	p, label, err := s.newest(ctx, name)
	if isDamaged(err) {
		out.Error = err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Label, out.Bullets = label, p.Len()
	for b := range p.All() {
		switch {
		case b.Shown():
			out.Shown++
		case b.Status == playbook.Probation:
			out.Probation++
		case b.Status == playbook.Candidate:
			out.Candidates++
		case b.Status == playbook.Quarantined:
			out.Quarantined++
		}
	}
	return out, nil
}

// refresh reads the newest version of a playbook. The caller holds its lock.
func (s *books) refresh(ctx context.Context, name playbook.Book, b *openBook) error {
	if b.writer != nil {
		err := b.writer.Refresh(ctx)
		if err == nil {
			b.copy()
			return nil
		}
		b.writer, b.last = nil, nil // begin again from the view
		if !errors.Is(err, deltalog.ErrBrokenLog) {
			return err
		}
	}
	w, err := s.store.Writer(ctx, name)
	if err != nil {
		s.forget(name)
		return versions.LogError(err)
	}
	b.writer = w
	b.copy()
	if b.last.Version() == 0 { // clients request names that do not exist
		s.forget(name)
	}
	return nil
}

// copy copies the playbook if it has a new version.
func (b *openBook) copy() {
	p := b.writer.State().Playbook()
	label := playbook.VersionLabel(p.Version(), b.writer.State().Chain())
	if b.last == nil || label != b.label {
		b.last, b.label, b.items, b.gate, b.review = p.Clone(), label, nil, nil, nil
	}
}

// take returns the entry of a playbook. At the limit it removes the entry that was used least recently.
func (s *books) take(name playbook.Book) *openBook {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[name]
	if b == nil {
		if len(s.open) >= maxBooks {
			var oldest playbook.Book
			for other, o := range s.open {
				if oldest == "" || o.used.Before(s.open[oldest].used) {
					oldest = other
				}
			}
			delete(s.open, oldest)
		}
		b = new(openBook)
		s.open[name] = b
	}
	b.used = time.Now()
	return b
}

func (s *books) forget(name playbook.Book) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, name)
}
