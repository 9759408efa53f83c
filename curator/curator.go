// Package curator is the role that changes playbooks, and the only one: it takes what reflections say and what people
// ask for, decides what becomes of it, and commits the outcome as deltas. Models propose; what is committed are
// explicit operations, each with what it rests on, and what was turned down, with the reason.
package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"debrief/curator/gate"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/natskv"
)

// Config of a curator; zero fields are defaults.
type Config struct {
	Slots int `name:"curator-slots" help:"Books worked on at the same time." default:"8"`
	Batch int `name:"curator-batch" help:"Most reflections in one commit." default:"256"`

	Tokens        int `name:"token-budget" help:"Most tokens that a playbook's bullets may take, estimated; -1 is no limit." default:"80000"`
	SectionTokens int `name:"section-token-budget" help:"Most tokens that the bullets of one section may take; -1 is no limit." default:"-1"`

	Mode  playbook.Gate `name:"gate" help:"How new advice earns its place in books for which nobody has said so with 'debrief playbook gate': off, shadow or on." default:"shadow" placeholder:"MODE" group:"Gate"`
	Gate  gate.Config   `embed:""`
	Trust []string      `name:"trust" help:"How far a source is believed: trusted, limited (to a percentage of what is behind a bullet, 50 unless given) or untrusted. May be given more than once. Default: trusted." placeholder:"SOURCE=LEVEL[:SHARE]"`
	Burst int           `name:"burst" help:"Most bullets that one session, or one source that is not trusted, may make in 10 minutes; the others wait in quarantine. -1 is no limit." default:"20"`

	// IndexDir is the directory for the index of covered ids of each book; empty keeps them in memory.
	IndexDir string `kong:"-"`
	// Meter is told what is done; nil is nobody.
	Meter Meter `kong:"-"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Slots == 0 {
		c.Slots = 8
	}
	if c.Batch == 0 {
		c.Batch = 256
	}
	if c.Tokens == 0 {
		c.Tokens = 80_000 // as in the ACE authors' curator (ace-agent/ace)
	}
	if c.Burst == 0 {
		c.Burst = defaultBurst
	}
	c.Gate = c.Gate.WithDefaults()
	return c
}

// Validate names the flag of what cannot be.
func (c Config) Validate() error {
	var errs []error
	if c.Slots < 0 {
		errs = append(errs, fmt.Errorf("--curator-slots: must be at least 1, got %d", c.Slots))
	}
	if c.Batch < 0 || c.Batch == 1 {
		errs = append(errs, fmt.Errorf("--curator-batch: must be at least 2, got %d", c.Batch))
	}
	for flag, n := range map[string]int{"token-budget": c.Tokens, "section-token-budget": c.SectionTokens} {
		if n < -1 {
			errs = append(errs, fmt.Errorf("--%s: must be at least 1, or -1 for no limit, got %d", flag, n))
		}
	}
	if !c.Mode.Valid() {
		errs = append(errs, fmt.Errorf("--gate: %q is none of off, shadow, on", c.Mode))
	}
	if c.Burst < -1 {
		errs = append(errs, fmt.Errorf("--burst: must be at least 1, or -1 for no limit, got %d", c.Burst))
	}
	_, err := parseTrust(c.Trust)
	return errors.Join(append(errs, c.Gate.Validate(), err)...)
}

// Curator curates books.
type Curator struct {
	model   chat.Model
	cfg     Config
	content *contentRules
	trust   trust
}

// New is a curator that asks a model what to make of lessons. Without a model each lesson that the playbook does not
// hold yet becomes a bullet. Told is what models are told in other roles, which is no advice where it turns up.
func New(model chat.Model, cfg Config, told ...string) *Curator {
	sources, _ := parseTrust(cfg.Trust) // Validate says what is wrong with it
	rules := newContentRules(append(told, systemText, reducerText, refinerText)...)
	return &Curator{model: model, cfg: cfg.WithDefaults(), trust: sources, content: rules}
}

// Author is who a reflection's changes are by.
const Author = history.Curator

// Run works until the context ends.
func (c *Curator) Run(ctx context.Context, conn *bus.Conn) error {
	d := &desk{
		Curator: c, conn: conn, store: natskv.New(conn.JetStream()),
		books: make(map[playbook.Book]*book),
	}
	d.store.Meter, d.store.IndexDir = c.cfg.Meter, c.cfg.IndexDir
	d.store.Warn = func(err error) { conn.Log().Warn().Err(err).Msg("index of covered ids") }
	swept := make(chan struct{})
	sweep, stop := context.WithCancel(ctx)
	go func() {
		defer close(swept)
		d.sweep(sweep)
	}()
	err := conn.Run(ctx, bus.Worker{
		Role:   events.RoleCurator,
		Slots:  c.cfg.Slots,
		Batch:  c.cfg.Batch,
		Handle: d.handle,
		Done:   d.done,
	})
	stop()
	<-swept
	for _, b := range d.books { // no other goroutine is left
		b.close()
	}
	return err
}

// desk is a curator at work.
type desk struct {
	*Curator
	conn  *bus.Conn
	store *natskv.Store

	mu    sync.Mutex
	books map[playbook.Book]*book

	floorMu sync.Mutex
	floor   uint64
	floorAt time.Time
}

// book is one playbook being written. The writer is opened when first needed, and anew after an error: what the error
// left behind is in the log. It is let go of when nothing has come for the book for a while.
type book struct {
	name  playbook.Book
	mu    sync.Mutex
	w     *natskv.Writer
	alike alike
	costs costs
	// What proposing models are told of: bullets by their words, and what was turned down.
	shelf  shelf
	memory memory
	annals annals // in place of the memory, where a batch is gathered
	made   births // stays when the book is let go of
	known  doubts
	used   time.Time
	sound  bool // its view was compared with its log, all of it, and nothing has gone wrong since
}

// bookIdle is how long a book is kept in memory that nothing comes for.
const bookIdle = time.Minute

// release lets go of what is in memory.
func (b *book) release() {
	b.close()
	b.alike, b.costs, b.shelf, b.memory, b.annals, b.known = alike{}, nil, shelf{}, memory{}, annals{}, nil
}

// close closes the writer. The next use opens another one and compares the view with the log.
func (b *book) close() {
	if b.w != nil {
		b.w.Close()
	}
	b.w = nil
}

func (d *desk) book(name playbook.Book) *book {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.books[name]
	if b == nil {
		b = &book{name: name}
		d.books[name] = b
	}
	return b
}

func (d *desk) open(ctx context.Context, b *book) error {
	if b.w != nil {
		return nil
	}
	w, err := d.store.Writer(ctx, b.name)
	b.w, b.annals = w, annals{} // of what may be another log
	return err
}

// errUnsettled is the result of what nothing has become of yet.
var errUnsettled = errors.New("not settled")

// handle settles what waits for one book: propose without a lock on anything but our own copy, then commit.
func (d *desk) handle(ctx context.Context, batch []*bus.Delivery) []bus.Result {
	results := make([]bus.Result, len(batch))
	for i := range results {
		results[i].Err = errUnsettled
	}
	b := d.book(batch[0].Event.InBook())
	b.mu.Lock()
	err := errUnsettled
	defer func() { // also when something panics
		if err != nil {
			b.close()
			b.sound = false
		}
		b.used = time.Now()
		b.mu.Unlock()
	}()
	err = d.settle(ctx, b, batch, results)
	if err != nil {
		for i := range results {
			if results[i].Err == errUnsettled { // what was committed before the error stays settled
				results[i].Err = fmt.Errorf("curate playbook %q: %w", b.name, err)
			}
		}
	}
	return results
}

func (d *desk) settle(ctx context.Context, b *book, batch []*bus.Delivery, results []bus.Result) error {
	cases := make([]*docket, 0, len(batch))
	for i, del := range batch {
		k, err := newDocket(del, &results[i])
		switch {
		case err != nil:
			results[i].Err = bus.Discard(err)
		case isHeld(del.Event):
			results[i] = bus.Result{} // its time comes with the edit that gathers it
		default:
			cases = append(cases, k)
		}
	}
	if len(cases) == 0 {
		return nil
	}
	if err := d.open(ctx, b); err != nil {
		return err
	}
	if err := b.w.OpenIndex(ctx); err != nil {
		return err
	}
	backLast(cases)
	failed := func(seq uint64) bool { // in this batch, so that it waits for its next delivery
		i := slices.IndexFunc(batch, func(del *bus.Delivery) bool { return del.Seq == seq })
		return i >= 0 && results[i].Err != nil && results[i].Err != errUnsettled
	}
	if len(b.costs) > 2*b.w.State().Playbook().Len()+100 { // mostly of what is gone
		b.costs = nil
	}
	if b.costs == nil {
		b.costs = make(costs)
	}
	if b.known == nil {
		b.known = make(doubts)
	}
	live := &hearing{memory: &b.memory, load: func(ctx context.Context) error { return b.memory.load(ctx, b.w) }}
	cases, err := d.propose(ctx, b, live, cases)
	if err != nil {
		return err
	}
	floor, err := d.ackFloor(ctx)
	if err != nil {
		return err
	}
	by := policy{
		budget: budget{d.cfg.Tokens, d.cfg.SectionTokens}, alike: &b.alike, costs: b.costs,
		doubts: b.known, mode: d.cfg.Mode, gate: d.cfg.Gate, trust: d.trust,
	}
	var stale []playbook.BulletID
	for again := false; len(cases)+len(stale) > 0 || again; {
		var out drafted
		now := time.Now()
		by.burst, by.now = burst{d.cfg.Burst, b.made.recent(now)}, now
		span := beginCommit(ctx)
		_, err := b.w.Commit(ctx, func(s natskv.State) ([]*playbook.Delta, error) {
			log := &lookup{state: s}
			by.judged = log.judged
			if out = newDraft(s.Playbook(), by).settle(log.covered, cases, stale); log.err != nil {
				return nil, log.err
			}
			at := time.Now().UTC()
			for _, delta := range out.change {
				delta.Floor, delta.Time = floor, at
			}
			return out.change, nil
		})
		endCommit(ctx, span, b, cases[:out.settled], out.change, err)
		if err != nil {
			return err
		}
		for _, delta := range out.change {
			b.memory.note(delta)
			d.cfg.tell(delta)
		}
		for key := range out.doubted {
			b.known[key] = struct{}{}
		}
		d.conn.Applied(events.RoleCurator, len(out.change), rejected(out.change))
		decide(cases[:out.settled], b.w.State())
		cases, stale, again = cases[out.settled:], out.stale, out.again
		b.made.note(out.born, now)
		switch k := out.unready; {
		case k == nil:
		case k.gathers():
			if cases, err = d.fetch(ctx, b, k, cases); err != nil {
				return err
			}
		case k.looksBack():
			if cases, err = d.lookBack(ctx, b, k, cases, failed); err != nil {
				return err
			}
		default:
			if err := d.prepare(ctx, b, k); err != nil {
				return err
			}
		}
	}
	if err := b.w.Flush(ctx); err != nil {
		// The log holds the effect, so the reflections are settled. The view is the sweep's from here.
		d.conn.LogIn(ctx).Warn().Err(err).Str(events.LogBook, string(b.name)).Msg("flush view")
		b.close()
		b.sound = false
	}
	return nil
}

func rejected(change []*playbook.Delta) (n int) {
	for _, delta := range change {
		n += len(delta.Rejected)
	}
	return n
}

// floorAge is how old the ack floor may be that a delta records. An old one is right, only longer ago.
const floorAge = 200 * time.Millisecond

func (d *desk) ackFloor(ctx context.Context) (uint64, error) {
	d.floorMu.Lock()
	defer d.floorMu.Unlock()
	if time.Since(d.floorAt) < floorAge {
		return d.floor, nil
	}
	lag, err := d.conn.Lag(ctx, events.RoleCurator)
	if err != nil {
		return 0, err
	}
	d.floor, d.floorAt = lag.Floor, time.Now()
	return d.floor, nil
}

// How often views are compared with their logs: those of books this curator has in memory, and all that have a log. A
// curator that committed and died before its flush leaves a view behind.
const (
	sweepOpen = time.Second
	sweepAll  = 15 * time.Second
)

func (d *desk) sweep(ctx context.Context) {
	all := time.Time{}
	for ctx.Err() == nil {
		names := d.openBooks()
		if time.Since(all) >= sweepAll {
			// A view without a log is one that lost it.
			if known, err := d.store.Known(ctx); err == nil {
				names, all = known, time.Now()
			}
		}
		for _, name := range names {
			d.look(ctx, d.book(name))
		}
		select {
		case <-ctx.Done():
		case <-time.After(sweepOpen):
		}
	}
}

// openBooks are those in memory that nobody works on at this moment.
func (d *desk) openBooks() []playbook.Book {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]playbook.Book, 0, len(d.books))
	for name, b := range d.books {
		if b.mu.TryLock() {
			if b.w != nil {
				names = append(names, name)
			}
			b.mu.Unlock()
		}
	}
	return names
}

// look brings one view up to its log. A book that is being worked on is left to who works on it. The first look compares
// everything; later ones, of a book that is not in memory, the two ends.
func (d *desk) look(ctx context.Context, b *book) {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	err := d.repair(ctx, b)
	switch {
	case err == nil:
		b.sound = true
		if time.Since(b.used) > bookIdle {
			b.release()
		}
	default:
		b.close() // the next use opens the book and compares its view again
		b.sound = false
		if ctx.Err() == nil {
			d.conn.Log().Warn().Err(err).Str(events.LogBook, string(b.name)).Msg("check view")
		}
	}
}

func (d *desk) repair(ctx context.Context, b *book) error {
	if b.w == nil && b.sound {
		if ok, err := d.store.Current(ctx, b.name); ok || err != nil {
			return err
		}
	}
	if err := d.open(ctx, b); err != nil {
		return err
	}
	if err := b.w.CheckView(ctx); err != nil {
		return err
	}
	return b.w.Flush(ctx)
}
