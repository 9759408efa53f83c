package index

import (
	"context"
	"errors"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/operate/doctor"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/similar"
)

// ErrBookNotFound is the error for a playbook without a version.
var ErrBookNotFound = errors.New("playbook not found")

// Books keeps the playbooks that were read last in memory. Each read asks the server only for the deltas since the read before. The playbooks
// that its methods return are shared: the caller must not change them. It is safe for concurrent use.
type Books struct {
	store *deltalog.Store
	logs  *Logs
	open  *lru.Cache[playbook.Book, *openBook]
}

// openBook is a playbook in memory.
type openBook struct {
	mu     sync.Mutex // held while the playbook is read
	writer *deltalog.Writer
	last   *playbook.Playbook // copy of the newest version; nil before the first read and after a failed one
	label  string             // of last
}

func newBooks(store *deltalog.Store, logs *Logs) *Books {
	open, _ := lru.New[playbook.Book, *openBook](maxBooks) // fails only for a size of 0
	return &Books{store: store, logs: logs, open: open}
}

// readAll reads all playbooks, at most those that stay in memory. It skips those that cannot be read: a request for one has the error.
func (s *Books) readAll(ctx context.Context) {
	names, _ := s.store.AllBooks(ctx) // without names, requests read them
	for _, name := range names[:min(maxBooks, len(names))] {
		_, _, _ = s.Newest(ctx, name)
	}
}

// Newest returns the newest version of a playbook, and its label. An unknown playbook has the version 0.
func (s *Books) Newest(ctx context.Context, name playbook.Book) (*playbook.Playbook, string, error) {
	b := entryOf(s.open, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.refresh(ctx, name, b)
	return b.last, b.label, err
}

// At returns a playbook at a version, and the label of the version: a number, label, time, duration or name, or empty for the newest. It returns
// ErrBookNotFound for the newest version of a playbook without one.
func (s *Books) At(ctx context.Context, name playbook.Book, point string) (*playbook.Playbook, string, error) {
	if point == "" {
		p, label, err := s.Newest(ctx, name)
		if err == nil && p.Version() == 0 {
			err = ErrBookNotFound
		}
		return p, label, err
	}
	at, err := s.logs.Version(ctx, name, point)
	if err != nil {
		return nil, "", err
	}
	if p, label, err := s.Newest(ctx, name); err == nil && label == at.Label() {
		return p, label, nil
	}
	p, err := s.store.PlaybookAt(ctx, name, at.Number)
	return p, at.Label(), explain.LogError(err)
}

// Version finds a version of a playbook; see explain.VersionHelp for the formats.
func (s *Books) Version(ctx context.Context, name playbook.Book, point string) (explain.Version, error) {
	return s.logs.Version(ctx, name, point)
}

// NearestBullet is the bullet whose text is most similar to another one.
type NearestBullet struct {
	ID         playbook.BulletID `json:"id"`
	Content    string            `json:"content"`
	State      playbook.Status   `json:"state"`
	Similarity float64           `json:"similarity" doc:"From 0 to 1, by words and by neighbouring characters."`
	Difference string            `json:"difference,omitempty" doc:"What separates the two texts, such as other numbers or a negation; empty if they mean the same."`
}

// Nearest returns a function that finds the other bullet of a playbook with the most similar text, without retired ones. It returns nil if none
// is similar.
func Nearest(p *playbook.Playbook) func(*playbook.Bullet) *NearestBullet {
	var texts similar.Index
	for b := range p.All() {
		if b.Status != playbook.Retired {
			texts.Put(string(b.ID), b.Content)
		}
	}
	return func(b *playbook.Bullet) *NearestBullet {
		m, found := texts.Nearest(b.Content, minSimilarity, func(id string) bool { return id == string(b.ID) })
		if !found {
			return nil
		}
		other := p.Bullet(playbook.BulletID(m.ID))
		return &NearestBullet{
			ID: other.ID, Content: other.Content, State: explain.Status(other), Similarity: m.Similarity,
			Difference: similar.Difference(b.Content, other.Content).Reason,
		}
	}
}

// BookActivity has the numbers of a playbook.
type BookActivity struct {
	Book playbook.Book `json:"book"`
	playbook.About
	Version     uint64 `json:"version"`
	Label       string `json:"label"`
	Bullets     int    `json:"bullets"`
	Shown       int    `json:"shown" doc:"Bullets that generators show."`
	Probation   int    `json:"probation"`
	Candidates  int    `json:"candidates"`
	Quarantined int    `json:"quarantined"`
	Executions  int    `json:"executions" doc:"Executions since the start of the retention."`
	Error       string `json:"error,omitempty" doc:"Damage of the log of the playbook."`
}

// Activity returns the numbers of a playbook, without those of its executions. A damaged log is no error: the field Error describes it.
func (s *Books) Activity(ctx context.Context, name playbook.Book) (BookActivity, error) {
	out := BookActivity{Book: name}
	p, label, err := s.Newest(ctx, name)
	if IsDamaged(err) {
		out.Error = err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.About = p.About()
	out.Version, out.Label, out.Bullets = p.Version(), label, p.Len()
	counts := p.Stats().ByStatus
	out.Shown, out.Probation = counts[playbook.Active], counts[playbook.Probation]
	out.Candidates, out.Quarantined = counts[playbook.Candidate], counts[playbook.Quarantined]
	return out, nil
}

// States returns the state of every playbook, with the lag of its view. A damaged log is no error: its state describes it.
func (s *Books) States(ctx context.Context, js jetstream.JetStream) (all []doctor.BookState, err error) {
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

// state returns the state of a playbook.
func (s *Books) state(ctx context.Context, js jetstream.JetStream, name playbook.Book) (doctor.BookState, error) {
	b := entryOf(s.open, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.refresh(ctx, name, b)
	if err == nil {
		err = b.writer.CheckView(ctx)
		b.copyNewest()
	}
	return doctor.StateOf(ctx, js, name, b.writer, err)
}

// IsDamaged reports whether the log of a playbook cannot be read: it is damaged, or a newer program wrote it.
func IsDamaged(err error) bool {
	return errors.Is(err, deltalog.ErrBrokenLog) || errors.Is(err, events.ErrNewerSchema)
}

// refresh reads the newest version of a playbook. The caller holds its lock.
func (s *Books) refresh(ctx context.Context, name playbook.Book, b *openBook) error {
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

// copyNewest copies the playbook of the writer to last if it has another version.
func (b *openBook) copyNewest() {
	p := b.writer.State().Playbook()
	label := playbook.VersionLabel(p.Version(), b.writer.State().Chain())
	if b.last == nil || label != b.label {
		b.last, b.label = p.Clone(), label
	}
}
