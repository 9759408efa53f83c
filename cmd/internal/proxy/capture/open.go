package capture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/natserr"
)

// Open is a call in progress. One goroutine at a time may use it, except for Hold.
type Open struct {
	Run events.ID
	// Session is the session of the run: that of the call, else that of the turn before it, else one that begins with the run.
	Session string
	Number  int  // of the turn in its session, from 1
	Closed  bool // the run is reported: the call gets its block, and is not captured
	// New is set if the call begins a run: the caller may set its block. A run that begins in the middle gets none, because
	// its earlier calls had none, and an insertion would change the prefix that the provider has cached.
	New bool
	// Blocks are the blocks to insert, by the index of the user item.
	Blocks map[int]Block
	// Block is the block of the run, if it has one and the call continues the run.
	Block Block

	store    *Store
	call     *Call
	place    *place
	run      *run        // as found, or a new one; not changed after Start
	created  bool        // this call creates the run
	after    int         // number of the call whose reply this one extends; 0 for none
	earlier  []placement // blocks of a new run's earlier turns
	previous events.ID   // the open run of the turn before
	session  string      // of the turn before
	named    bool        // the client named that session
	number   int         // of a new run's turn
	slots    []string    // keys of the references to a new run

	id      string        // of the attempt
	claimed bool          // claim has stored the attempt
	attempt attempt       // as stored; valid after done, unless begin failed
	done    chan struct{} // closed after begin
	failed  error         // of begin; valid after done

	mu    sync.Mutex // guards the fields below
	begun bool       // begin has succeeded
	late  bool       // the client was released before begin has succeeded
	held  time.Time  // of the first Hold
}

// writeTimeout bounds the writes that run while the model works.
const writeTimeout = 5 * time.Second

// maxConflicts is the number of times that a change of a run is repeated after a conflict.
const maxConflicts = 30

// errClosed is returned for a change of a run that is closed or does not exist anymore.
var errClosed = errors.New("the run is closed")

// errLate is returned for a call whose beginning was stored too late.
var errLate = errors.New("its beginning was not stored in time")

// Start stores, while the model works, that the call is in flight, and the block of a new run. A block of another run has no
// effect. Start must be called once, before Finish.
func (o *Open) Start(b Block) {
	if o.New && (b.ContextID != "" || b.Text != "") {
		stored := block(b)
		o.Block, o.run.Block = b, &stored
	}
	o.store.calls.add(o.place.start, 1)
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		o.failed = o.begin(ctx) // Finish repeats a failed begin
		if o.failed == nil {
			o.failed = o.setBegun()
		}
	}()
}

// maxHold is the longest time for which a client waits for a busy server.
const maxHold = 2 * time.Second

// Hold reports whether the client should wait longer for the end of Finish, because the server is busy but stores other calls. If
// Hold returns false, the caller releases the client. A call whose beginning is not stored by then is not captured: the next call of
// the client would find no run, or another one, and the work would count twice.
func (o *Open) Hold() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held.IsZero() {
		o.held = time.Now()
	}
	if !o.late && o.store.working() && time.Since(o.held) < maxHold {
		return true
	}
	o.late = !o.begun
	return false
}

// setBegun records that begin has succeeded. It returns errLate if the client was released before.
func (o *Open) setBegun() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.late {
		return errLate
	}
	o.begun = true
	return nil
}

// Wait waits until the beginning of the call is stored, or until ctx ends. It returns an error if the call is not captured.
func (o *Open) Wait(ctx context.Context) error {
	if o.Closed {
		return errClosed
	}
	select {
	case <-o.done:
		if errors.Is(o.failed, errClosed) {
			return nil // the run was reported meanwhile
		}
		return o.failed
	case <-ctx.Done():
		return errLate
	}
}

// isLate reports whether the client was released before the beginning was stored.
func (o *Open) isLate() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.late
}

// awaitBegin waits until the beginning is stored.
func (o *Open) awaitBegin(ctx context.Context) error {
	tick := time.NewTicker(o.store.patience)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-o.done:
			waiting = false
		case <-ctx.Done():
			return errLate
		case <-tick.C:
			if !o.Hold() && o.isLate() {
				return errLate
			}
		}
	}
	switch {
	case o.failed == nil:
		return nil
	case o.isLate():
		return errLate
	}
	repeating, cancel := context.WithTimeout(ctx, o.store.patience)
	defer cancel()
	if err := o.begin(repeating); err != nil {
		return err
	}
	return o.setBegun()
}

// begin stores that the call is in flight. It can be repeated. Its writes run in parallel: if only some succeed, a reference to a
// missing run and a run without references have no effect.
func (o *Open) begin(ctx context.Context) error {
	var others sync.WaitGroup
	if o.previous != "" {
		others.Go(func() { o.store.endTurn(ctx, o) })
	}
	var referring, changing error
	if o.created {
		others.Go(func() { referring = o.addReferences(ctx) })
	}
	if !o.claimed {
		changing = o.change(ctx, func(r *run) (err error) {
			o.attempt, err = r.begin(o.id, o.after, o.call.Retry, len(o.place.work), o.call.At)
			return err
		})
	}
	others.Wait()
	err := errors.Join(referring, changing)
	if o.store.quota.refused(err) {
		o.store.count(Refused)
	}
	return err
}

// addReferences stores the references to a new run.
func (o *Open) addReferences(ctx context.Context) error {
	keys := o.call.keys()
	var writes []write
	for _, slot := range o.run.Slots {
		dot := strings.LastIndexByte(slot, '.')
		writes = append(writes, write{bucket: &o.store.open, key: slot[:dot], token: slot[dot+1:], ttl: openTTL})
	}
	if o.run.Named {
		turn := fmt.Sprintf("%s/%d", o.run.Session, o.run.Number)
		writes = append(writes, write{bucket: &o.store.closed, key: keys.of(ofSession, o.run.Session), token: newest})
		writes = append(writes, write{bucket: &o.store.closed, key: keys.of(ofTurn, turn), token: string(o.Run)})
	}
	if id := events.TraceID(o.call.Trace); id != "" {
		writes = append(writes, write{bucket: &o.store.closed, key: keys.of(ofTrace, id), token: string(o.Run)})
	}
	return o.store.refer(ctx, reference{Run: o.Run}, writes)
}

// write is a reference to store.
type write struct {
	bucket     *bucket
	key, token string
	ttl        time.Duration // 0 is the age of the bucket
}

// refer stores a reference under several keys.
func (s *Store) refer(ctx context.Context, ref reference, writes []write) error {
	errs := make([]error, len(writes))
	var all sync.WaitGroup
	for i, w := range writes {
		all.Go(func() {
			own := ref // put redacts the value in place
			seq, err := w.bucket.put(ctx, w.key+"."+w.token, &own, w.ttl)
			if err != nil {
				errs[i] = err
				return
			}
			s.recent.addReference(w.bucket.prefix()+w.key, w.token, ref, seq)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// change changes the stored run, and creates it if this call begins it.
func (o *Open) change(ctx context.Context, change func(*run) error) error {
	var initial *run
	if o.created {
		initial = o.run
	}
	_, err := o.store.update(ctx, o.Run, initial, change)
	return err
}

// update changes a stored run by compare-and-swap, and returns the changed run. It may call change several times.
//
//   - If the run does not exist, it stores a changed copy of initial. If initial is nil, it returns nil and errClosed.
//   - If the run is closed, it returns the run and errClosed.
//   - If change returns an error, it stores nothing, and returns the unchanged run and the error.
func (s *Store) update(ctx context.Context, id events.ID, initial *run, change func(*run) error) (*run, error) {
	now := s.recent.run(id, revision{run: initial}) // of the cache, so perhaps not the newest
	isRead := false                                 // now is from the bucket
	var conflict error
	for try := range maxConflicts {
		if now.run == nil {
			var err error
			now, err = s.latest(ctx, id, initial)
			if err != nil {
				return nil, err
			}
			isRead = true
		}
		if now.Closed {
			return now.run, errClosed
		}
		next := now.clone()
		changeErr := change(next)
		if changeErr != nil && isRead {
			return now.run, changeErr
		}
		if changeErr == nil {
			rev, err := s.open.put(ctx, openKey(id), next, openTTL, jetstream.WithExpectLastSequencePerSubject(now.rev))
			if err == nil {
				s.recent.putRun(next, rev)
				return next, nil
			}
			if !natserr.IsConflict(err) {
				return nil, err
			}
			conflict = err
		}
		now = revision{} // the cached or read run may be old: read it, with the changes of other processes
		if err := pause(ctx, rand.N(time.Duration(try+1)*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	return nil, conflict
}

// latest returns the stored run. If it does not exist, it returns initial, or errClosed if initial is nil.
func (s *Store) latest(ctx context.Context, id events.ID, initial *run) (revision, error) {
	found, err := s.runs(ctx, []events.ID{id})
	if err != nil {
		return revision{}, err
	}
	r := found[id]
	if r.run == nil {
		r.run = initial
	}
	if r.run == nil {
		return revision{}, errClosed
	}
	return r, nil
}

// pause waits for a time, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Finish stores the end of the call: the reply of the model with its HTTP status. It must be called once for each call. It waits for
// the writes of Start, and then for a server that restarts, as long as ctx permits. It returns an error if the call is not captured.
func (o *Open) Finish(ctx context.Context, reply *modelapi.Reply, status int) error {
	defer o.store.calls.add(o.place.start, -1)
	err := o.finish(ctx, reply, status)
	if errors.Is(err, errClosed) {
		return nil // reported without this call
	}
	if err != nil {
		o.store.count(Lost)
		return fmt.Errorf("store a call of run %s: %w", o.Run, err)
	}
	return nil
}

// Times of Finish while the server is unreachable.
const (
	finishTimeout = 3 * time.Second // of one try: a request to a server that dies gets no answer
	retryPause    = 100 * time.Millisecond
)

func (o *Open) finish(ctx context.Context, reply *modelapi.Reply, status int) error {
	err := o.awaitBegin(ctx)
	if errors.Is(err, errClosed) {
		return o.referToReply(ctx, reply)
	}
	if err != nil {
		return err
	}
	for {
		reconnects := o.store.nc.Stats().Reconnects
		err := o.storeEnd(ctx, reply, status)
		if !o.store.isTemporary(err, reconnects) || pause(ctx, retryPause) != nil {
			return err
		}
	}
}

// storeEnd stores the parts of the call, and then that it has ended. It can be repeated.
func (o *Open) storeEnd(ctx context.Context, reply *modelapi.Reply, status int) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	stored := o.newPart(reply, status)
	if err := o.storeParts(ctx, reply, stored); err != nil {
		return err
	}
	pending := isPending(o.call, reply)
	outcome := o.call.Outcome.Complete()
	marks := reply.Complete() && outcome.Known() // the outcome closes the run
	err := o.change(ctx, func(r *run) error {
		if stored.small() {
			r.addPart(stored)
		}
		if pending {
			if i := r.attempt(o.id); i >= 0 {
				r.Attempts[i].Chain = o.place.chain
			}
			r.Active = later(r.Active, time.Now())
			return nil
		}
		r.end(o.id, o.replyKey(reply), reply, status, time.Now())
		if marks {
			r.Outcome = outcome
			r.Closing = later(r.Closing, time.Now())
		}
		return nil
	})
	if err == nil && marks {
		o.store.wakeFor(o.Run)
	}
	if errors.Is(err, errClosed) && !stored.small() {
		// The run was reported without this call, so nothing else removes its part.
		if err := o.store.open.remove(ctx, stored.key(o.Run)); err != nil {
			o.store.log.Debug().Err(err).Msg("part of a closed run of the gateway not removed")
		}
	}
	return err
}

// storeParts stores the references to the reply of a call, and a call that is too large for its run.
func (o *Open) storeParts(ctx context.Context, reply *modelapi.Reply, stored *part) error {
	if stored.small() {
		return o.referToReply(ctx, reply)
	}
	writing := make(chan error, 1)
	go func() {
		_, err := o.store.open.put(ctx, stored.key(o.Run), stored, openTTL)
		writing <- err
	}()
	err := o.referToReply(ctx, reply)
	return errors.Join(err, <-writing)
}

// replyKey returns the key of a reply to the call, or "" if it is not complete.
func (o *Open) replyKey(reply *modelapi.Reply) string {
	if !reply.Complete() {
		return ""
	}
	return o.call.keys().reply(o.place.chain, reply.Calls, reply.Text)
}

// referToReply stores the references to a reply. A reply in a closed run gets them, too: the next call needs the block of the run.
func (o *Open) referToReply(ctx context.Context, reply *modelapi.Reply) error {
	ref := reference{Run: o.Run, Call: o.attempt.Call}
	var writes []write
	if key := o.replyKey(reply); key != "" {
		w := write{bucket: &o.store.open, key: key, token: string(o.Run), ttl: openTTL}
		if o.Closed {
			w.bucket, w.ttl = &o.store.closed, referenceTTL
		}
		writes = append(writes, w)
	}
	if reply.ID != "" && (reply.Complete() || isPending(o.call, reply)) {
		writes = append(writes, write{bucket: &o.store.closed, key: o.call.keys().of(ofResponse, reply.ID), token: string(o.Run)})
	}
	if c := o.call.Request.Conversation; c != "" && reply.Complete() {
		writes = append(writes, write{bucket: &o.store.closed, key: o.call.keys().of(ofConversation, c), token: newest})
	}
	return o.store.refer(ctx, ref, writes)
}
