package api

import (
	"context"
	"errors"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/operate/doctor"
	"debrief/curator/draft"
	"debrief/curator/gate"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/similar"
)

// maxBooks is the number of playbooks that stay in memory.
const maxBooks = 256

// books keeps the playbooks that were read last in memory. Each read asks the server only for the deltas since the read before.
type books struct {
	store *deltalog.Store
	logs  *index.Logs

	open *lru.Cache[playbook.Book, *openBook]
}

// openBook is a playbook in memory.
type openBook struct {
	mu     sync.Mutex // held while the playbook is read
	writer *deltalog.Writer
	last   *playbook.Playbook // copy of the newest version; nil before the first read and after a failed one
	label  string             // of last

	// The following are computed from last when they are needed. Until then they are nil, except subjects.
	items     []BulletItem
	gate      *explain.Gate
	gateLimit int // the limit with which gate was computed
	review    []*history.Quarantined
	texts     *textIndex
	subjects  func() [][]draft.SubjectBullet // computes them once, without the lock: 10,000 bullets take seconds
}

func newBooks(store *deltalog.Store, logs *index.Logs) *books {
	open, _ := lru.New[playbook.Book, *openBook](maxBooks) // fails only for a size of 0
	return &books{store: store, logs: logs, open: open}
}

// readAll reads all playbooks, at most those that stay in memory. It skips those that cannot be read: a request for one has the error.
func (s *books) readAll(ctx context.Context) {
	names, _ := s.store.AllBooks(ctx) // without names, requests read them
	for _, name := range names[:min(maxBooks, len(names))] {
		_, _, _, _ = s.items(ctx, name)
		_, _ = s.subjects(ctx, name)
	}
}

// newest returns the newest version of a playbook, and its label. The caller must not change the playbook.
func (s *books) newest(ctx context.Context, name playbook.Book) (*playbook.Playbook, string, error) {
	b := s.entry(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.refresh(ctx, name, b)
	return b.last, b.label, err
}

// items returns the bullets of the newest version of a playbook, sorted by id, the playbook, and the label of the version. The
// caller must not change them.
func (s *books) items(ctx context.Context, name playbook.Book) ([]BulletItem, *playbook.Playbook, string, error) {
	b := s.entry(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.refreshExisting(ctx, name, b); err != nil {
		return nil, nil, "", err
	}
	if b.items == nil {
		b.items = bulletItems(b.last)
	}
	return b.items, b.last, b.label, nil
}

// gate returns the state of the gate of the newest version of a playbook. Only the first limit bullets of each list have a lift and a
// next step. The caller must not change its lists.
func (s *books) gate(ctx context.Context, name playbook.Book, limit int) (*explain.Gate, error) {
	b := s.entry(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.refreshExisting(ctx, name, b); err != nil {
		return nil, err
	}
	if b.gate == nil || b.gateLimit < limit {
		decisions, version, err := s.logs.Decisions(ctx, name)
		if err != nil {
			return nil, err
		}
		g := explain.GateAt(name, b.last, b.label, decisions, gate.Config{}, limit)
		if version != b.last.Version() { // the log has grown since refresh: do not keep a mixture of two versions
			return g, nil
		}
		b.gate, b.gateLimit = g, limit
	}
	g := *b.gate // the caller may change its fields
	return &g, nil
}

// review returns the bullets in quarantine of the newest version of a playbook. The caller must not change them.
func (s *books) review(ctx context.Context, name playbook.Book) ([]*history.Quarantined, error) {
	b := s.entry(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.refreshExisting(ctx, name, b)
	if err == nil && b.review == nil {
		var all []*history.Quarantined
		all, err = s.logs.Quarantine(ctx, name, b.last)
		b.review = append([]*history.Quarantined{}, all...) // not nil: read, and perhaps empty
	}
	return b.review, err
}

// textIndex finds bullets with similar texts. It is safe for concurrent use.
type textIndex struct {
	mu    sync.Mutex
	index similar.Index
}

// nearest returns the bullet of a playbook with the text that is most similar to that of another one, nil if none is similar.
func (x *textIndex) nearest(p *playbook.Playbook, b *playbook.Bullet) *nearestBullet {
	x.mu.Lock()
	defer x.mu.Unlock()
	m, found := x.index.Nearest(b.Content, minSimilarity, func(id string) bool { return id == string(b.ID) })
	if !found {
		return nil
	}
	other := p.Bullet(playbook.BulletID(m.ID))
	return &nearestBullet{
		ID: other.ID, Content: other.Content, State: explain.Status(other), Similarity: m.Similarity,
		Difference: similar.Difference(b.Content, other.Content).Reason,
	}
}

// texts returns the index of the texts of the newest version of a playbook, and the playbook. The caller must not change it.
func (s *books) texts(ctx context.Context, name playbook.Book) (*textIndex, *playbook.Playbook, error) {
	b := s.entry(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.refreshExisting(ctx, name, b); err != nil {
		return nil, nil, err
	}
	if b.texts == nil {
		b.texts = new(textIndex)
		for _, bullet := range b.last.Sorted() {
			if bullet.Status != playbook.Retired {
				b.texts.index.Put(string(bullet.ID), bullet.Content)
			}
		}
	}
	return b.texts, b.last, nil
}

// subjects returns the bullets on one subject of the newest version of a playbook, without retired ones. The caller must not change them.
func (s *books) subjects(ctx context.Context, name playbook.Book) ([][]draft.SubjectBullet, error) {
	b := s.entry(name)
	b.mu.Lock()
	err := s.refreshExisting(ctx, name, b)
	compute := b.subjects
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return compute(), nil
}

// maxForSubjects is the number of bullets up to which the health of a playbook lists those on one subject. The time for them can grow with the
// square.
const maxForSubjects = 10_000

// subjectsOf returns a function that computes the bullets on one subject at its first call.
func subjectsOf(p *playbook.Playbook) func() [][]draft.SubjectBullet {
	return sync.OnceValue(func() [][]draft.SubjectBullet {
		present := slices.DeleteFunc(p.Sorted(), func(b *playbook.Bullet) bool { return b.Status == playbook.Retired })
		if len(present) > maxForSubjects {
			return [][]draft.SubjectBullet{}
		}
		return draft.SameSubject(present)
	})
}

// refreshExisting reads the newest version of a playbook that must exist. The caller holds its lock.
func (s *books) refreshExisting(ctx context.Context, name playbook.Book, b *openBook) error {
	err := s.refresh(ctx, name, b)
	if err == nil && b.last.Version() == 0 {
		err = errNoBook
	}
	return err
}

// activity returns the numbers of a playbook. A damaged log is no error: the field Error describes it.
func (s *books) activity(ctx context.Context, name playbook.Book) (BookActivity, error) {
	out := BookActivity{Book: name}
	p, label, err := s.newest(ctx, name)
	if isDamaged(err) {
		out.Error = err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.About = p.About()
	out.Label, out.Bullets = label, p.Len()
	counts := p.Stats().ByStatus
	out.Shown, out.Probation = counts[playbook.Active], counts[playbook.Probation]
	out.Candidates, out.Quarantined = counts[playbook.Candidate], counts[playbook.Quarantined]
	return out, nil
}

// states returns the state of every playbook, with the lag of its view. A damaged log is no error: its state describes it.
func (s *books) states(ctx context.Context, js jetstream.JetStream) (all []doctor.BookState, err error) {
	names, err := s.store.AllBooks(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		state, err := s.state(ctx, js, name)
		if err != nil {
			return nil, err
		}
		all = append(all, state)
	}
	return all, nil
}

func (s *books) state(ctx context.Context, js jetstream.JetStream, name playbook.Book) (doctor.BookState, error) {
	b := s.entry(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.refresh(ctx, name, b)
	if err == nil {
		err = b.writer.CheckView(ctx)
		b.copyNewest()
	}
	return doctor.StateOf(ctx, js, name, b.writer, err)
}

// refresh reads the newest version of a playbook. The caller holds its lock.
func (s *books) refresh(ctx context.Context, name playbook.Book, b *openBook) error {
	if b.writer != nil {
		err := b.writer.Refresh(ctx)
		if err == nil {
			b.copyNewest()
			return nil
		}
		b.writer, b.last = nil, nil // the next read begins again from the view
		if !errors.Is(err, deltalog.ErrBrokenLog) {
			return err
		}
		// The log may have been replaced since: begin again now.
	}
	w, err := s.store.Writer(ctx, name)
	if err != nil {
		s.open.Remove(name)
		return explain.LogError(err)
	}
	b.writer = w
	b.copyNewest()
	if b.last.Version() == 0 { // clients may request any name: keep no entry for one that does not exist
		s.open.Remove(name)
	}
	return nil
}

// copyNewest copies the playbook of the writer to last if it has another version, and drops what was computed from last.
func (b *openBook) copyNewest() {
	p := b.writer.State().Playbook()
	label := playbook.VersionLabel(p.Version(), b.writer.State().Chain())
	if b.last == nil || label != b.label {
		b.last, b.label = p.Clone(), label
		b.items = nil
		b.gate = nil
		b.review = nil
		b.texts = nil
		b.subjects = subjectsOf(b.last)
	}
}

// entry returns the entry of a playbook, and adds a missing one. At the limit this removes the entry that was used least recently.
func (s *books) entry(name playbook.Book) *openBook {
	if b, ok := s.open.Get(name); ok {
		return b
	}
	b := new(openBook)
	if other, ok, _ := s.open.PeekOrAdd(name, b); ok { // another request was faster
		return other
	}
	return b
}
