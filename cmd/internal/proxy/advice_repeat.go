package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"debrief/cmd/internal/proxy/capture"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/admit"
)

// adviceFilter removes lines from advice that a conversation repeats, if package admit refuses them by now. It follows the
// playbooks of recent calls, so a change of a playbook counts as soon as its follower has read it. It is safe for concurrent use.
type adviceFilter struct {
	conn  *bus.Conn
	store *deltalog.Store
	mu    sync.Mutex
	open  *simplelru.LRU[playbook.Book, *followedBook] // nil after close; removing a book stops it
	runs  sync.WaitGroup                               // one goroutine for each open book
}

const maxBooks = 128 // number of playbooks that are followed

// followedBook is a playbook that is followed.
type followedBook struct {
	stop     context.CancelFunc
	ready    chan struct{}      // closed when loading has succeeded or failed
	follower *deltalog.Follower // follower and err are valid after ready
	err      error

	mu       sync.Mutex // guards the fields below
	rules    admit.Book
	evidence map[events.Handle]*playbook.Evidence // by reflection; nil for a reflection that is not stored anymore
}

const maxEvidence = 1024 // number of reflections of a playbook whose evidence stays in memory

func newAdviceFilter(conn *bus.Conn) *adviceFilter {
	open, _ := simplelru.NewLRU(maxBooks, func(_ playbook.Book, b *followedBook) { b.stop() }) // fails only for a size of 0
	return &adviceFilter{conn: conn, store: deltalog.New(conn.JetStream()), open: open}
}

// close stops following all playbooks. Later calls of follow return nil.
func (f *adviceFilter) close() {
	f.mu.Lock()
	f.open.Purge()
	f.open = nil
	f.mu.Unlock()
	f.runs.Wait()
}

// follow returns a playbook, which may still be loading, or nil after close.
func (f *adviceFilter) follow(name playbook.Book) *followedBook {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return nil
	}
	b, ok := f.open.Get(name)
	if !ok {
		ctx, stop := context.WithCancel(context.Background())
		b = &followedBook{stop: stop, ready: make(chan struct{}), evidence: map[events.Handle]*playbook.Evidence{}}
		f.open.Add(name, b)
		f.runs.Go(func() { f.run(ctx, name, b) })
	}
	return b
}

// run follows a playbook until ctx ends. After an error it forgets the playbook, so that the next call of follow tries again.
func (f *adviceFilter) run(ctx context.Context, name playbook.Book, b *followedBook) {
	defer b.stop()
	var wait func()
	b.follower, wait, b.err = f.store.Follow(ctx, name)
	if b.err == nil {
		b.follower.Read(func(p *playbook.Playbook, _ []byte) { b.rules.Update(p) })
	}
	close(b.ready)
	if b.err != nil {
		f.forget(name, b)
		return
	}
	<-ctx.Done()
	wait()
}

// forget removes a playbook, unless another one has its name by now.
func (f *adviceFilter) forget(name playbook.Book, b *followedBook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return
	}
	if now, _ := f.open.Peek(name); now == b {
		f.open.Remove(name)
	}
}

// admitted returns a block without the lines that a prompt may not contain now. The other lines keep their bytes. If no line is left,
// the text of the block is empty. admitted waits until the playbook is loaded.
func (f *adviceFilter) admitted(ctx context.Context, name playbook.Book, block capture.Block) (capture.Block, error) {
	b := f.follow(name)
	if b == nil {
		return capture.Block{}, context.Canceled
	}
	select {
	case <-b.ready:
	case <-ctx.Done():
		return capture.Block{}, ctx.Err()
	}
	if b.err != nil {
		return capture.Block{}, b.err
	}
	evidence := map[events.Handle]*playbook.Evidence{}
	for _, l := range block.Lines {
		var err error
		evidence[l.Reflection], err = b.evidenceOf(ctx, f.conn, l.Reflection)
		if err != nil {
			return capture.Block{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follower.Read(func(p *playbook.Playbook, _ []byte) {
		b.rules.Update(p)
		block = block.Keep(func(l *events.AdviceLine, text string) bool { return b.admits(p, l, text, evidence[l.Reflection]) })
	})
	return block, nil
}

// hasControl reports whether a playbook has a control share. It is false for a playbook that is not loaded: admitted has then removed its
// advice.
func (f *adviceFilter) hasControl(name playbook.Book) bool {
	b := f.follow(name)
	if b == nil {
		return false
	}
	select {
	case <-b.ready:
	default:
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	admission := b.rules.Admission()
	return admission.ControlShare().PerMille() > 0
}

// evidenceOf returns the evidence of a reflection. It is nil for an empty handle, and for a reflection that is no longer stored or no
// longer has texts.
func (b *followedBook) evidenceOf(ctx context.Context, conn *bus.Conn, h events.Handle) (*playbook.Evidence, error) {
	b.mu.Lock()
	evidence, known := b.evidence[h]
	b.mu.Unlock()
	if known || h == "" {
		return evidence, nil
	}
	seq, matches, err := h.Parse()
	if err != nil {
		return nil, err
	}
	found, err := conn.Events.Find(ctx, events.StreamReflections, seq, matches)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, fmt.Errorf("read reflection %s: %w", h, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.evidence) >= maxEvidence {
		clear(b.evidence)
	}
	if r, ok := found.(*events.Reflection); ok {
		if n := events.NewNote(h, r); n != nil {
			evidence = n.Evidence()
		}
	}
	b.evidence[h] = evidence
	return evidence, nil
}

// admits reports whether a prompt of the conversation may still contain a line.
func (b *followedBook) admits(p *playbook.Playbook, l *events.AdviceLine, text string, evidence *playbook.Evidence) bool {
	if l.Bullet != "" {
		bullet := p.Bullet(l.Bullet)
		reworded := bullet != nil && events.WordingOf(bullet.Content) != l.Wording
		return admit.Decide(admit.Text{Use: admit.UseBullet, State: admit.StateOf(bullet), Gate: b.rules.Gate(), Repeated: true, Reworded: reworded}).Shown()
	}
	if evidence == nil {
		return false
	}
	seq, _, _ := l.Reflection.Parse() // valid, because it was read
	use := admit.UseSession
	if l.Field == events.FieldInsight {
		use = admit.UseInsight
	}
	facts := b.rules.Facts(use, seq, evidence)
	facts.Repeated = true
	_, learned, _ := strings.Cut(text, ": ") // a line is "FIELD: TEXT"
	return admit.Decide(facts).Shown() && !b.rules.HasHiddenCopy(learned)
}
