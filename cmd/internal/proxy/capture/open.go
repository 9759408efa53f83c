package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
)

// Open is a call in progress. One goroutine at a time may use it, except for Hold.
type Open struct {
	Run events.ID
	// Session is the session of the run: the one that the call names, else the session of the turn before, else a new one.
	Session string
	Named   bool // the client named the session
	Number  int  // of the turn in its session, from 1
	Closed  bool // the run is closed: the call gets its block, and is not captured
	// New is set if the call begins a run: the caller may set its block. A run that begins in the middle gets none, because
	// its earlier calls had none, and an insertion would change the prefix that the provider has cached.
	New bool
	// Blocks are the blocks to insert, by the index of the user item.
	Blocks map[int]Block
	// Block is the block of the run, if it has one and the call continues the run.
	Block Block

	store *Store
	call  *Call
	place *place
	match match
	beginning
}

// match is the run of a call, as Begin has found it.
type match struct {
	run      *run      // not changed after Start
	created  bool      // the call creates the run
	after    int       // number of the call whose reply this one extends; 0 for none
	previous events.ID // the open run of the turn before, which ends because the call begins a run; may be empty
	claimed  *attempt  // set for a repeated first call: its attempt, which claim has stored already
}

// beginning is the stored beginning of a call.
type beginning struct {
	storeContext func(context.Context) error
	id           string        // of the attempt
	attempt      attempt       // empty until it is stored; valid after done
	agent        *events.Agent // as executions store it; valid after done
	done         chan struct{} // closed when the first try has ended
	failed       error         // of the first try; valid after done
	release      release
}

// Begin assigns a call to an open run, or begins a run. The caller must call Start of the result and then Finish. Begin waits for
// reads only, as long as ctx permits. It returns ErrNoTurn for a call without a user's text, ErrQuota or ErrFull if no more runs can be
// open, and errors of the buckets. After an error the call must go on without capture.
func (s *Store) Begin(ctx context.Context, c *Call) (*Open, error) {
	p, err := locate(c)
	if err != nil {
		return nil, err
	}
	o := &Open{store: s, call: c, place: p, beginning: beginning{id: string(events.NewID()[:8])}}
	if o.match, err = o.find(ctx); err != nil {
		return nil, fmt.Errorf("find the run of a call: %w", err)
	}
	r := o.match.run
	if o.match.created {
		if err := s.quota.add(c.Owner); err != nil {
			s.count(Refused)
			return nil, err
		}
		o.New = p.begins
		s.count(Begun)
	} else {
		s.count(Continued)
	}
	o.Run, o.Session, o.Named = r.ID, r.Session, r.Named
	o.Number, o.Closed = r.Number, !r.open()
	if o.match.claimed != nil {
		o.attempt = *o.match.claimed
	}
	if c.Inject {
		if err := o.setBlocks(ctx); err != nil {
			return nil, fmt.Errorf("read blocks: %w", err)
		}
	}
	return o, nil
}

// find returns the run that the call continues, the one whose first call it repeats, or a new one.
func (o *Open) find(ctx context.Context) (match, error) {
	if o.place.reply != "" {
		if m, err := o.findContinued(ctx); err != nil || m.run != nil {
			return m, err
		}
	}
	if o.place.turn < 0 {
		return match{}, ErrNoTurn // only the provider has the user's text, and the run of that text is unknown
	}
	n, err := o.findNeighbours(ctx)
	if err != nil {
		return match{}, err
	}
	if m, err := o.findRepeated(ctx, n); err != nil || m.run != nil {
		return m, err
	}
	return o.newRun(ctx, n)
}

// Limits of the writes that run while the model works: of all, and of the context.
const (
	writeTimeout   = 5 * time.Second
	contextTimeout = 2 * time.Second
)

// Start stores, while the model works, that the call is in flight, and the block of a new run with its context. A block of another run
// has no effect. The function storeContext is nil without a context. Start must be called once, before Finish.
func (o *Open) Start(b Block, storeContext func(context.Context) error) {
	if o.New && (b.ContextID != "" || b.Text != "" || b.Control) {
		o.Block, o.match.run.Block = b, &b
		o.storeContext = storeContext
	}
	o.store.calls.add(o.place.start, 1)
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		o.failed = o.begin(ctx) // Finish repeats a failed begin
	}()
}

// DropBlocks leaves out all blocks, also in later turns of the conversation. It must be called before Start.
func (o *Open) DropBlocks() {
	clear(o.Blocks)
	if o.match.created {
		o.match.run.Earlier = nil
	}
}

// begin stores that the call is in flight. It can be repeated. Its writes run in parallel, and some may fail: then lookups skip a reference
// to a missing run, and do not find a run without references. begin returns errLate if the client was released meanwhile.
func (o *Open) begin(ctx context.Context) error {
	var others sync.WaitGroup
	if o.match.previous != "" {
		others.Go(func() { o.endPrevious(ctx) })
	}
	var referring, changing error
	if o.match.created {
		others.Go(func() { referring = o.store.refer(ctx, o.beginReferences()) })
		others.Go(func() { o.storeAgent(ctx) })
	}
	if o.attempt.ID == "" {
		changing = o.putBlock(ctx) // before the run: a repeated call at another gateway must not find a run without its block and context
		if changing == nil {
			changing = o.addAttempt(ctx)
		}
	}
	others.Wait()
	err := errors.Join(referring, changing)
	if o.store.quota.refused(err) {
		o.store.count(Refused)
	}
	if err != nil {
		return err
	}
	return o.release.setBegun()
}

// storeAgent stores the system prompt and the tools of a call that creates a run. If that fails, the run is stored without them.
func (o *Open) storeAgent(ctx context.Context) {
	request := o.call.Request
	agent, err := o.store.blobs.PutAgent(ctx, &events.Agent{SystemPrompt: request.System, Tools: steps.ToolsOf(request.Tools())})
	if err != nil {
		o.store.log.Debug().Err(err).Msg("description of an agent not stored")
		return
	}
	o.agent = agent
}

// putBlock stores the block of a new run, and its context.
func (o *Open) putBlock(ctx context.Context) (err error) {
	if !o.match.created || o.match.run.Block == nil {
		return nil
	}
	var contextStored sync.WaitGroup
	contextStored.Go(func() { o.putContext(ctx) })
	_, err = o.store.open.put(ctx, blockKey(o.Run), o.match.run.Block, 0)
	contextStored.Wait()
	return err
}

// putContext stores the context of the block. If that fails, the report of the run cannot tell which bullets were shown.
func (o *Open) putContext(ctx context.Context) {
	if o.storeContext == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, contextTimeout)
	defer cancel()
	if err := o.storeContext(ctx); err != nil {
		o.store.log.Warn().Err(err).Str("run", string(o.Run)).Msg("context of a run not stored: its shown bullets are unknown")
	}
}

// addAttempt adds the call to its run.
func (o *Open) addAttempt(ctx context.Context) error {
	var added attempt
	_, err := o.store.update(ctx, o.Run, o.initial(), func(r *run) (err error) {
		added, err = r.begin(o.id, o.match.after, o.call.Retry, len(o.place.work), o.call.At)
		return err
	})
	if err == nil {
		o.attempt = added
	}
	return err
}

// initial returns the run as it is stored if it does not exist yet, or nil if the call creates no run.
func (o *Open) initial() *run {
	if o.match.created {
		return o.match.run
	}
	return nil
}

// Finish stores the end of the call: the reply of the model with its HTTP status. It must be called once for each call. It waits for
// the writes of Start, and then for a server that restarts, as long as ctx permits. It returns an error if the call is not captured.
func (o *Open) Finish(ctx context.Context, reply *modelapi.Reply, status int) error {
	defer o.store.calls.add(o.place.start, -1)
	err := o.awaitBegin(ctx)
	switch {
	case err == nil:
		err = o.finish(ctx, reply, status)
	case errors.Is(err, errClosed): // before the call was added to the run
		o.Closed = true // the next call finds the run by these references, and needs its block
		err = o.store.refer(ctx, o.replyReferences(reply))
	}
	if errors.Is(err, errClosed) { // from finish: the run is reported without this call
		return nil
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

// finish calls storeEnd. It repeats this after temporary errors.
func (o *Open) finish(ctx context.Context, reply *modelapi.Reply, status int) error {
	for {
		reconnects := o.store.nc.Stats().Reconnects
		err := o.storeEnd(ctx, reply, status)
		if !o.store.isTemporary(err, reconnects) || pause(ctx, retryPause) != nil {
			return err
		}
	}
}

// storeEnd stores once, by putEnd, the part of the call with the references to its reply, and then that it has ended. It can be repeated.
func (o *Open) storeEnd(ctx context.Context, reply *modelapi.Reply, status int) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	outcome := o.call.Outcome.Complete()
	closes := reply.Complete() && outcome.Known()
	e := end{run: o.Run, initial: o.initial(), part: o.newPart(reply, status), references: o.replyReferences(reply)}
	err := o.store.putEnd(ctx, e, func(r *run) {
		r.Agent = cmp.Or(r.Agent, o.agent)
		if isPending(o.call, reply) {
			if a := r.attempt(o.id); a != nil {
				a.Chain = o.place.chain
			}
			r.Active = later(r.Active, time.Now())
			return
		}
		r.end(o.id, o.replyKey(reply), reply, status, time.Now())
		if closes {
			r.Outcome = outcome
			r.Closing = later(r.Closing, time.Now())
		}
	})
	if err == nil && closes {
		o.store.wakeFor(o.Run)
	}
	return err
}

// end is what is stored of the end of a call.
type end struct {
	run        events.ID
	initial    *run // see Store.update
	part       *part
	references []write // to the reply
}

// putEnd stores the end of a call. The function change marks the end in the run. A small part is added to the run before that.
func (s *Store) putEnd(ctx context.Context, e end, change func(*run)) error {
	referring := make(chan error, 1)
	go func() { referring <- s.refer(ctx, e.references) }()
	var putting error
	if !e.part.small() {
		_, putting = s.open.put(ctx, e.part.key(e.run), e.part, 0)
	}
	if err := errors.Join(putting, <-referring); err != nil {
		return err
	}
	_, err := s.update(ctx, e.run, e.initial, func(r *run) error {
		if e.part.small() {
			r.addPart(e.part)
		}
		change(r)
		return nil
	})
	if errors.Is(err, errClosed) && !e.part.small() {
		// The run was reported without this call, so nothing else removes its part.
		if err := s.open.remove(ctx, e.part.key(e.run)); err != nil {
			s.log.Debug().Err(err).Msg("part of a closed run of the gateway not removed")
		}
	}
	return err
}
