package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/window"
	"debrief/generator/assembly"
	"debrief/generator/selection"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// Desk lays out what a model needs to see, for our own prompts and for agents that call their own model: the playbook,
// the windows of the session, and what is recalled. It is safe for concurrent use.
type Desk struct {
	conn    *bus.Conn
	books   *shelf
	windows *window.Store
	memory  *memory // nil where nothing is recalled
	vectors *vectors
	recent  recent
	cfg     Config
	waits   waits
	// moved is told of every turn that a session took; nil where nobody summarises them.
	moved func(b playbook.Book, session string)
}

// Embedder turns texts into vectors, one for each, all of one dimension. It returns when the context ends.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	Model() string
}

// waits are how long a desk waits for what it can do without.
type waits struct {
	version time.Duration // for a version of the playbook that was asked for and has not come
	extras  time.Duration // for windows, vectors and recalled work
	retry   time.Duration // before an embedder that failed is asked again in the background
	notes   time.Duration // how old the recent reflections of a book may be
}

// NewDesk opens a desk. Embedder may be nil: then bullets are found by their words, and history by words and by hashed
// n-grams of them.
func NewDesk(conn *bus.Conn, embedder Embedder, cfg Config) *Desk {
	return newDesk(conn, embedder, cfg, waits{version: 5 * time.Second, extras: 3 * time.Second, retry: 30 * time.Second, notes: 250 * time.Millisecond})
}

func newDesk(conn *bus.Conn, embedder Embedder, cfg Config, w waits) *Desk {
	cfg = cfg.WithDefaults()
	if cfg.Meter == nil {
		cfg.Meter = unmetered{}
	}
	store := natskv.New(conn.JetStream())
	store.Followed = cfg.Meter.Followed
	store.Stalled = func(b playbook.Book, why error) { conn.Lacks(events.RoleGenerator, fmt.Sprintf("playbook %q", b), why) }
	windows := window.New(conn.NATS(), conn.JetStream())
	v := newVectors(windows, embedder, conn.Log())
	d := &Desk{
		conn: conn, books: newShelf(store, v, w.retry), windows: windows, vectors: v, cfg: cfg, waits: w,
	}
	if cfg.Recall != RecallNone {
		d.memory = newMemory(conn, v, cfg.Recall, cfg.RecallMemory, w.retry)
	}
	return d
}

// Loaded waits until what was stored can be recalled, for so long at the most.
func (d *Desk) Loaded(ctx context.Context, patience time.Duration) {
	if d.memory == nil {
		return
	}
	d.memory.begin()
	select {
	case <-d.memory.loaded:
	case <-ctx.Done():
	case <-time.After(patience):
	}
}

// Close stops what the desk follows.
func (d *Desk) Close() {
	if d.memory != nil {
		d.memory.close()
	}
	d.books.close()
}

// order is what a context is wanted for.
type order struct {
	book         playbook.Book
	session      string
	execution    events.ID // whose context it is, which must not see itself; empty where that is not known
	turn         int       // in the session, from 1; 0 is the next
	query, about string
	system, ref  string
	task         string
	running      []events.Step
	tries        []events.Try // rounds at this task that came before
	version      *uint64
	oldest       uint64
	limits       assembly.Limits
	explain      bool
	// draw is what chance is tied to where bullets are tried on the context, by the turn that it is for: the same for
	// the same task. Nil tries none.
	draw func(turn int) string
}

// laid is a context as it was laid out.
type laid struct {
	*assembly.Context
	version uint64
	stale   bool
	turn    int
	seen    bool // the session's window has this execution already
}

func (l *laid) shown() []events.ShownBullet {
	all := make([]events.ShownBullet, 0, len(l.Bullets))
	for _, b := range l.Bullets {
		all = append(all, events.ShownBullet{ID: b.ID, Content: b.Content})
	}
	return all
}

// remarks say what a context had to do without.
type remarks []string

func (r *remarks) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// lay lays out a context. What cannot be had in time is left out and said in the manifest; only a playbook that cannot
// be read, or a limit without room for the query, is an error.
func (d *Desk) lay(ctx context.Context, o *order) (*laid, error) {
	began := time.Now()
	in := assembly.Input{
		Now: time.Now().UTC(), System: o.system, SystemRef: o.ref, Query: o.query, About: o.about, Task: o.task,
		Running: o.running, Tries: o.tries, Explain: o.explain,
	}
	out := &laid{turn: o.turn}
	missed := new(remarks)
	query := d.extras(ctx, o, &in, out, missed)

	b, err := d.books.open(ctx, o.book, o.version)
	if err != nil {
		return nil, err
	}
	switch {
	case o.version != nil:
		// A measurement: what its prompt holds must depend neither on how far the vectors are nor on the time of day. A run
		// that is interrupted and goes on asks with the same prompts.
		in.Still = true
		b.page.settled(ctx, query, d.waits.extras)
	case o.oldest > 0:
		if out.stale, err = b.wait(ctx, o.oldest, d.waits.version); err != nil {
			return nil, err
		}
		if out.stale {
			missed.add("playbook: version %d was asked for, and has not come within %s", o.oldest, d.waits.version)
		}
	}
	err = b.use(func(pg *page) error {
		out.version, in.Book = pg.version, pg.index
		in.Relevance = pg.relevance(query, missed)
		if o.draw != nil {
			in.Trials = &selection.Trials{Bears: pg.bears(o.query + "\n" + o.about), Book: o.book, Task: o.draw(out.turn)}
		}
		in.Degraded = *missed
		assembling := time.Now()
		out.Context, err = assembly.Assemble(in, o.limits)
		d.cfg.Meter.Assembled(time.Since(assembling))
		return err
	})
	if err == nil {
		d.cfg.Meter.Laid(time.Since(began))
	}
	return out, err
}

// extras fetches what a context can do without: the session's past, notes, the query's vector, and with these what is
// recalled.
func (d *Desk) extras(ctx context.Context, o *order, in *assembly.Input, out *laid, missed *remarks) *question {
	soon, cancel := d.patience(ctx)
	defer cancel()
	var (
		all                     sync.WaitGroup
		p                       past
		query                   *question
		session, notes, meaning remarks
	)
	all.Go(func() { p = d.past(soon, o, &session) })
	all.Go(func() { in.Notes = d.notes(soon, o, &notes) })
	all.Go(func() { query = d.vectors.query(soon, o.query, &meaning) })
	all.Wait()
	*missed = slices.Concat(session, notes, meaning)
	d.layer(soon, o, &p, missed)

	in.Window, in.Marks, in.Summary, in.Similar = p.window, p.marks, p.summary, query.similar
	out.seen = p.seen
	if out.turn == 0 {
		out.turn = p.turn
	}
	out.turn = max(out.turn, 1)
	if o.version == nil && d.memory != nil && d.memory.serves(o) {
		soon, cancel := d.patience(ctx) // of its own: an embedder may have used up the other
		defer cancel()
		recalling := time.Now()
		in.Recalled = d.memory.recall(soon, o, p, query, missed)
		d.cfg.Meter.Recalled(time.Since(recalling))
	}
	return query
}

// notes are the reflections that a context shows. A measurement shows none: they move.
func (d *Desk) notes(ctx context.Context, o *order, missed *remarks) []*events.Note {
	if o.version != nil || o.limits.Reflections <= 0 {
		return nil
	}
	read := func() ([]*events.Note, int, error) {
		return d.windows.Notes(ctx, o.book, o.session, o.limits.Reflections)
	}
	var list []*events.Note
	var damaged int
	var err error
	if o.session == "" {
		list, damaged, err = d.recent.notes(ctx, recentKey{o.book, o.limits.Reflections}, d.waits.notes, read)
	} else {
		list, damaged, err = read()
	}
	if err != nil {
		missed.add("reflections: %s", brief(ctx, err))
	}
	if damaged > 0 {
		missed.add("reflections: %d could not be read", damaged)
	}
	return list
}

// patience is a context for what can be done without.
func (d *Desk) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.waits.extras, &slowError{d.waits.extras})
}

// slowError is the cause of a context that ended because something took longer than a prompt can wait.
type slowError struct{ after time.Duration }

func (e *slowError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

// brief is an error for a manifest: in one line, and short. A wait that was ours says so.
func brief(ctx context.Context, err error) string {
	if slow := (*slowError)(nil); errors.As(context.Cause(ctx), &slow) {
		return slow.Error()
	}
	return events.Beginning(strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "\uFFFD")), " "), 200)
}

// cited are the bullets that are cited and were shown, each once.
func cited(ids []playbook.BulletID, shown []events.ShownBullet) []playbook.BulletID {
	var known []playbook.BulletID
	for _, id := range ids {
		there := slices.ContainsFunc(shown, func(b events.ShownBullet) bool { return b.ID == id })
		if there && !slices.Contains(known, id) {
			known = append(known, id)
		}
	}
	return known
}
