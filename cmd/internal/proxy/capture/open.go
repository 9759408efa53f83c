package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
)

// ActiveCall is a call in progress: between Begin and the end of Finish. One goroutine at a time may use it, except for Hold.
type ActiveCall struct {
	Run events.ID
	// Session is the session of the run: the one that the call names, else the session of the turn before, else a new one.
	Session    string
	Named      bool // the client named the session
	TurnNumber int  // of the turn in its session, from 1
	Closed     bool // the run is closed: the call gets its block, and is not captured
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
	storeContext func(context.Context) error // stores the context of the block; nil without one
	id           string                      // of the attempt
	attempt      attempt                     // empty until it is stored; valid after done
	agent        *events.Agent               // as executions store it; valid after done
	done         chan struct{}               // closed when the first try has ended
	failed       error                       // of the first try; valid after done
	release      release                     // whether the client got the end of its reply before the beginning was stored
}

// Begin assigns a call to an open run, or begins a run. The caller must call Start of the result and then Finish. Begin waits for
// reads only, as long as ctx permits. It returns ErrNoTurn for a call without a user's text, ErrQuota or ErrFull if no more runs can be
// open, and errors of the buckets. After an error the call must go on without capture.
func (s *Store) Begin(ctx context.Context, c *Call) (*ActiveCall, error) {
	p, err := locate(c)
	if err != nil {
		return nil, err
	}
	ac := &ActiveCall{store: s, call: c, place: p, beginning: beginning{id: string(events.NewID()[:8])}}
	if ac.match, err = ac.find(ctx); err != nil {
		return nil, fmt.Errorf("find the run of a call: %w", err)
	}
	r := ac.match.run
	if ac.match.created {
		if err := s.quota.add(c.Caller.Owner); err != nil {
			s.count(Refused)
			return nil, err
		}
		ac.New = p.mayBegin
		s.count(Begun)
	} else {
		s.count(Continued)
	}
	ac.Run, ac.TurnNumber = r.ID, r.TurnNumber
	ac.Session, ac.Named = r.Session, r.Named
	ac.Closed = !r.isOpen()
	if ac.match.claimed != nil {
		ac.attempt = *ac.match.claimed
	}
	if c.Inject {
		if err := ac.setBlocks(ctx); err != nil {
			return nil, fmt.Errorf("read blocks: %w", err)
		}
	}
	return ac, nil
}

// find returns the run that the call continues, the one whose first call it repeats, or a new one.
func (ac *ActiveCall) find(ctx context.Context) (match, error) {
	if ac.place.reply != "" {
		if m, err := ac.findContinued(ctx); err != nil || m.run != nil {
			return m, err
		}
	}
	if ac.place.turn < 0 {
		return match{}, ErrNoTurn // the call does not have the user's text, and the run of that text is unknown
	}
	n, err := ac.findNeighbours(ctx)
	if err != nil {
		return match{}, err
	}
	if m, err := ac.findRepeated(ctx, n); err != nil || m.run != nil {
		return m, err
	}
	return ac.newRun(ctx, n)
}

// Limits of the writes that run while the model works: of all, and of the context.
const (
	writeTimeout   = 5 * time.Second
	contextTimeout = 2 * time.Second
)

// Start stores, while the model works, that the call is in flight, and the block of a new run with its context. A block of another run
// has no effect. The function storeContext is nil without a context. Start must be called once, before Finish.
func (ac *ActiveCall) Start(b Block, storeContext func(context.Context) error) {
	if ac.New && (b.ContextID != "" || b.Text != "" || b.Control) {
		ac.Block, ac.match.run.Block = b, &b
		ac.storeContext = storeContext
	}
	ac.store.calls.add(ac.place.start, 1)
	ac.done = make(chan struct{})
	go func() {
		defer close(ac.done)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		ac.failed = ac.storeBeginning(ctx) // if it fails, Finish repeats it
	}()
}

// DropBlocks leaves out all blocks, also in later turns of the conversation. It must be called before Start.
func (ac *ActiveCall) DropBlocks() {
	clear(ac.Blocks)
	if ac.match.created {
		ac.match.run.Earlier = nil
	}
}

// storeBeginning stores that the call is in flight. It can be repeated. Its writes run in parallel, and some may fail: then lookups skip a
// reference to a missing run, and do not find a run without references. It returns errLate if the client already has the whole reply.
func (ac *ActiveCall) storeBeginning(ctx context.Context) error {
	var parallel sync.WaitGroup
	if ac.match.previous != "" {
		parallel.Go(func() { ac.endPrevious(ctx) })
	}
	var referenceErr, runErr error
	if ac.match.created {
		parallel.Go(func() { referenceErr = ac.store.putReferences(ctx, ac.beginReferences()) })
		parallel.Go(func() { ac.storeAgent(ctx) })
	}
	if ac.attempt.ID == "" { // neither claim nor an earlier try has stored it
		runErr = ac.putBlock(ctx) // before the run: a repeated call at another gateway must not find a run without its block and context
		if runErr == nil {
			runErr = ac.storeAttempt(ctx)
		}
	}
	parallel.Wait()
	err := errors.Join(referenceErr, runErr)
	if ac.store.quota.refused(err) {
		ac.store.count(Refused)
	}
	if err != nil {
		return err
	}
	return ac.release.setBegun()
}

// storeAgent stores the system prompt and the tools of a call that creates a run. If that fails, the run is stored without them.
func (ac *ActiveCall) storeAgent(ctx context.Context) {
	request := ac.call.Request
	agent, err := ac.store.blobs.PutAgent(ctx, &events.Agent{SystemPrompt: request.System, Tools: steps.ToolsOf(request.Tools())})
	if err != nil {
		ac.store.log.Debug().Err(err).Msg("description of an agent not stored")
		return
	}
	ac.agent = agent
}

// putBlock stores the block of a new run, and its context.
func (ac *ActiveCall) putBlock(ctx context.Context) (err error) {
	if !ac.match.created || ac.match.run.Block == nil {
		return nil
	}
	var contextStored sync.WaitGroup
	contextStored.Go(func() { ac.putContext(ctx) })
	_, err = ac.store.open.put(ctx, blockKey(ac.Run), ac.match.run.Block, 0)
	contextStored.Wait()
	return err
}

// putContext stores the context of the block. If that fails, the report of the run cannot tell which bullets were shown.
func (ac *ActiveCall) putContext(ctx context.Context) {
	if ac.storeContext == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, contextTimeout)
	defer cancel()
	if err := ac.storeContext(ctx); err != nil {
		ac.store.log.Warn().Err(err).Str("run", string(ac.Run)).Msg("context of a run not stored: its shown bullets are unknown")
	}
}

// storeAttempt adds the call to its stored run.
func (ac *ActiveCall) storeAttempt(ctx context.Context) error {
	var added attempt
	_, err := ac.store.update(ctx, ac.Run, ac.initial(), func(r *run) (err error) {
		added, err = r.addAttempt(ac.id, ac.match.after, ac.call.Retry, len(ac.place.work), ac.call.At)
		return err
	})
	if err == nil {
		ac.attempt = added
	}
	return err
}

// initial returns the run as it is stored if it does not exist yet, or nil if the call creates no run.
func (ac *ActiveCall) initial() *run {
	if ac.match.created {
		return ac.match.run
	}
	return nil
}

// Finish stores the end of the call: the reply of the model with its HTTP status. It must be called once for each call. It waits for
// the writes of Start, and then for a server that restarts, as long as ctx permits. It returns an error if the call is not captured.
func (ac *ActiveCall) Finish(ctx context.Context, reply *modelapi.Reply, status int) error {
	defer ac.store.calls.add(ac.place.start, -1)
	err := ac.awaitBegin(ctx)
	switch {
	case err == nil:
		err = ac.storeEndRetrying(ctx, reply, status)
	case errors.Is(err, errClosed): // the run was closed before the call was added to it
		ac.Closed = true // the next call finds the run by these references, and needs its block
		err = ac.store.putReferences(ctx, ac.replyReferences(reply))
	}
	if errors.Is(err, errClosed) { // the run was closed after the call was added to it, and is reported without this call
		return nil
	}
	if err != nil {
		ac.store.count(Lost)
		return fmt.Errorf("store a call of run %s: %w", ac.Run, err)
	}
	return nil
}

// Times of Finish while the server is unreachable.
const (
	finishTimeout = 3 * time.Second // of one try: a request to a server that dies gets no answer
	retryPause    = 100 * time.Millisecond
)

// storeEndRetrying calls storeEnd, and again after each temporary error, until ctx ends.
func (ac *ActiveCall) storeEndRetrying(ctx context.Context, reply *modelapi.Reply, status int) error {
	for {
		reconnects := ac.store.nc.Stats().Reconnects
		err := ac.storeEnd(ctx, reply, status)
		if !ac.store.isTemporary(err, reconnects) || pause(ctx, retryPause) != nil {
			return err
		}
	}
}

// storeEnd stores the part of the call with the references to its reply, and then that the call has ended. It can be repeated.
func (ac *ActiveCall) storeEnd(ctx context.Context, reply *modelapi.Reply, status int) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	outcome := ac.call.Outcome.Complete()
	closes := reply.Complete() && outcome.Known()
	e := callEnd{run: ac.Run, initial: ac.initial(), part: ac.newPart(reply, status), references: ac.replyReferences(reply)}
	err := ac.store.putEnd(ctx, e, func(r *run) {
		r.Agent = cmp.Or(r.Agent, ac.agent)
		if isPending(ac.call, reply) { // PendingCall.Finish stores the end
			if a := r.attempt(ac.id); a != nil {
				a.Chain = ac.place.chain
			}
			r.Active = later(r.Active, time.Now())
			return
		}
		r.endAttempt(ac.id, ac.replyKey(reply), reply, status, time.Now())
		if closes {
			r.Outcome = outcome
			r.Closing = later(r.Closing, time.Now())
		}
	})
	if err == nil && closes {
		ac.store.wakeFor(ac.Run)
	}
	return err
}

// callEnd has the values to store at the end of a call.
type callEnd struct {
	run        events.ID
	initial    *run // see Store.update
	part       *part
	references []referenceWrite // to the reply
}

// putEnd stores the end of a call. The function change marks the end in the run. A small part is added to the run before that.
func (s *Store) putEnd(ctx context.Context, e callEnd, change func(*run)) error {
	var writes errgroup.Group
	writes.Go(func() error { return s.putReferences(ctx, e.references) })
	if !e.part.isSmall() {
		writes.Go(func() error {
			_, err := s.open.put(ctx, e.part.key(e.run), e.part, 0)
			return err
		})
	}
	if err := writes.Wait(); err != nil {
		return err
	}
	_, err := s.update(ctx, e.run, e.initial, func(r *run) error {
		if e.part.isSmall() {
			r.addPart(e.part)
		}
		change(r)
		return nil
	})
	if errors.Is(err, errClosed) && !e.part.isSmall() {
		// The run was reported without this call, so nothing else removes its part.
		if err := s.open.remove(ctx, e.part.key(e.run)); err != nil {
			s.log.Debug().Err(err).Msg("part of a closed run of the gateway not removed")
		}
	}
	return err
}
