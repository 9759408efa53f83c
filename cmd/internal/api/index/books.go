package index

import (
	"context"
	"errors"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/operate/doctor"
	"debrief/curator/draft"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/similar"
)

// ErrBookNotFound is the error for a playbook without a version.
var ErrBookNotFound = errors.New("playbook not found")

// Books keeps the playbooks that were read last in memory. Each read asks the server only for the deltas since the read before. The values
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

	// The following are computed from last when they are needed. Until then they are nil, except subjects.
	bullets   []BulletItem
	gate      *explain.Gate
	gateLimit int // the limit with which gate was computed
	review    []*history.Quarantined
	texts     *Texts
	subjects  func() [][]draft.SubjectBullet // computes them once, without the lock: 10,000 bullets take seconds
}

func newBooks(store *deltalog.Store, logs *Logs) *Books {
	open, _ := lru.New[playbook.Book, *openBook](maxBooks) // fails only for a size of 0
	return &Books{store: store, logs: logs, open: open}
}

// readAll reads all playbooks, at most those that stay in memory. It skips those that cannot be read: a request for one has the error.
func (s *Books) readAll(ctx context.Context) {
	names, _ := s.store.AllBooks(ctx) // without names, requests read them
	for _, name := range names[:min(maxBooks, len(names))] {
		_, _ = s.Bullets(ctx, name)
		_, _ = s.Subjects(ctx, name)
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

// Bullets returns the bullets of the newest version of a playbook.
func (s *Books) Bullets(ctx context.Context, name playbook.Book) (*BulletList, error) {
	b, err := s.lockNewest(ctx, name)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	if b.bullets == nil {
		b.bullets = bulletItems(b.last)
	}
	return &BulletList{Playbook: b.last, Label: b.label, Items: b.bullets}, nil
}

// BulletsAt returns the bullets of a version of a playbook: a number, label, time, duration or name, or empty for the newest.
func (s *Books) BulletsAt(ctx context.Context, name playbook.Book, point string) (*BulletList, error) {
	if point == "" {
		return s.Bullets(ctx, name)
	}
	p, label, err := s.logs.At(ctx, name, point)
	if err != nil {
		return nil, err
	}
	return &BulletList{Playbook: p, Label: label, Items: bulletItems(p)}, nil
}

// Gate returns the state of the gate of the newest version of a playbook. Only the first limit bullets of each list have a lift and a
// next step. The caller may change the fields of the result, but not its lists.
func (s *Books) Gate(ctx context.Context, name playbook.Book, limit int) (*explain.Gate, error) {
	b, err := s.lockNewest(ctx, name)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	if b.gate == nil || b.gateLimit < limit {
		decisions, version, err := s.logs.Decisions(ctx, name)
		if err != nil {
			return nil, err
		}
		g := explain.GateAt(name, b.last, b.label, decisions, gate.Config{}, limit)
		if version != b.last.Version() { // the log has grown since it was locked: do not keep a mixture of two versions
			return g, nil
		}
		b.gate, b.gateLimit = g, limit
	}
	g := *b.gate
	return &g, nil
}

// Review returns the bullets in quarantine of the newest version of a playbook.
func (s *Books) Review(ctx context.Context, name playbook.Book) ([]*history.Quarantined, error) {
	b, err := s.lockNewest(ctx, name)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	if b.review == nil {
		all, err := s.logs.Quarantine(ctx, name, b.last)
		if err != nil {
			return nil, err
		}
		b.review = append([]*history.Quarantined{}, all...) // not nil: read, and perhaps empty
	}
	return b.review, nil
}

// Texts finds similar bullets among those of a version that are not retired. It is safe for concurrent use.
type Texts struct {
	Playbook *playbook.Playbook

	mu    sync.Mutex
	index similar.Index
}

// NearestBullet is the bullet whose text is most similar to another one.
type NearestBullet struct {
	ID         playbook.BulletID `json:"id"`
	Content    string            `json:"content"`
	State      playbook.Status   `json:"state"`
	Similarity float64           `json:"similarity" doc:"From 0 to 1, by words and by neighbouring characters."`
	Difference string            `json:"difference,omitempty" doc:"What separates the two texts, such as other numbers or a negation; empty if they mean the same."`
}

// Nearest returns the other bullet with the most similar text, nil if none is similar.
func (x *Texts) Nearest(b *playbook.Bullet) *NearestBullet {
	x.mu.Lock()
	defer x.mu.Unlock()
	m, found := x.index.Nearest(b.Content, minSimilarity, func(id string) bool { return id == string(b.ID) })
	if !found {
		return nil
	}
	other := x.Playbook.Bullet(playbook.BulletID(m.ID))
	return &NearestBullet{
		ID: other.ID, Content: other.Content, State: explain.Status(other), Similarity: m.Similarity,
		Difference: similar.Difference(b.Content, other.Content).Reason,
	}
}

// Texts returns the texts of the newest version of a playbook.
func (s *Books) Texts(ctx context.Context, name playbook.Book) (*Texts, error) {
	b, err := s.lockNewest(ctx, name)
	if err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	if b.texts == nil {
		b.texts = &Texts{Playbook: b.last}
		for bullet := range b.last.All() {
			if bullet.Status != playbook.Retired {
				b.texts.index.Put(string(bullet.ID), bullet.Content)
			}
		}
	}
	return b.texts, nil
}

// Subjects returns the bullets on one subject of the newest version of a playbook, without retired ones.
func (s *Books) Subjects(ctx context.Context, name playbook.Book) ([][]draft.SubjectBullet, error) {
	b, err := s.lockNewest(ctx, name)
	if err != nil {
		return nil, err
	}
	compute := b.subjects
	b.mu.Unlock()
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

// lockNewest reads the newest version of a playbook and returns its entry, which the caller unlocks. It returns ErrBookNotFound for a playbook
// without a version.
func (s *Books) lockNewest(ctx context.Context, name playbook.Book) (*openBook, error) {
	b := entryOf(s.open, name)
	b.mu.Lock()
	err := s.refresh(ctx, name, b)
	if err == nil && b.last.Version() == 0 {
		err = ErrBookNotFound
	}
	if err != nil {
		b.mu.Unlock()
		return nil, err
	}
	return b, nil
}

// StateByBullet are the states of bullets of one playbook.
type StateByBullet map[playbook.BulletID]string

// removedState is the state of a bullet that is not in the newest version.
const removedState = "removed"

// LessonStates returns the state now of the bullets of the changes' lessons. Books that cannot be read have none.
func (s *Books) LessonStates(ctx context.Context, changes []Change) map[playbook.Book]StateByBullet {
	all := map[playbook.Book]StateByBullet{}
	for _, change := range changes {
		for _, l := range change.Lessons {
			if all[change.Book] == nil {
				all[change.Book] = StateByBullet{}
			}
			all[change.Book][l.Bullet] = removedState
		}
	}
	for name, states := range all {
		p, _, err := s.Newest(ctx, name)
		if err != nil {
			delete(all, name) // Activity reports the error
			continue
		}
		for id := range states {
			if b := p.Bullet(id); b != nil {
				states[id] = string(explain.Status(b))
			}
		}
	}
	return all
}

// BookActivity has the numbers of a playbook.
type BookActivity struct {
	Book playbook.Book `json:"book"`
	playbook.About
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
	out.Label, out.Bullets = label, p.Len()
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

// copyNewest copies the playbook of the writer to last if it has another version, and drops what was computed from last.
func (b *openBook) copyNewest() {
	p := b.writer.State().Playbook()
	label := playbook.VersionLabel(p.Version(), b.writer.State().Chain())
	if b.last == nil || label != b.label {
		b.last, b.label = p.Clone(), label
		b.bullets = nil
		b.gate = nil
		b.review = nil
		b.texts = nil
		b.subjects = subjectsOf(b.last)
	}
}
