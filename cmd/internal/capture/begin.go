package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"debrief/events"
)

// Begin assigns a call to an open run, or begins a run. It returns ErrNoTurn for a call without a user's text, and errors of
// the bucket. Without a result the call must go on without capture. It waits for reads only, as long as ctx permits. The caller
// must call Start and then Finish.
func (s *Store) Begin(ctx context.Context, c *Call) (*Open, error) {
	p, err := locate(c)
	if err != nil {
		return nil, err
	}
	o := &Open{store: s, call: c, place: p, id: string(events.NewID()[:8]), session: c.Session, derived: c.Derived, number: p.number}
	if err := s.match(ctx, o); err != nil {
		return nil, fmt.Errorf("find the run of a call: %w", err)
	}
	if o.run == nil {
		o.run = &run{
			ID: events.NewID(), Owner: c.Owner, Book: c.Book, Session: o.session, Derived: o.derived, Caller: c.Caller, User: c.User, Task: c.Task, Trace: c.Trace, Start: p.start,
			Turn: p.turn, Number: o.number, Earlier: o.earlier, Started: c.At, Active: c.At,
		}
		o.New, o.created = p.begins, true
		s.count(Begun)
	} else {
		s.count(Continued)
	}
	o.Run, o.Session = o.run.ID, o.run.Session
	if c.Inject {
		if err := s.setBlocks(ctx, o); err != nil {
			return nil, fmt.Errorf("read blocks: %w", err)
		}
	}
	return o, nil
}

// match sets the run of the call, and the blocks and the open run of the turns before it.
func (s *Store) match(ctx context.Context, o *Open) error {
	if o.place.reply != "" {
		if err := s.matchReply(ctx, o); err != nil || o.run != nil {
			return err
		}
	}
	if o.place.turn < 0 {
		return ErrNoTurn // the user's text is in the history of the provider, and its run is unknown
	}
	found, err := s.neighbours(ctx, o)
	if err != nil {
		return err
	}
	if r, retry := repeatedStart(found.same, o.call.Retry); r != nil {
		if claimed, err := o.claim(ctx, r.ID, retry); claimed || err != nil {
			return err
		}
	}
	if r := repeatedClosed(found.same, o.call); r != nil {
		o.run = r.run
		return nil
	}
	last := lastTurn(found.replied, found.before)
	switch {
	case len(o.place.earlier) == 0: // the provider has stored the earlier turns with their blocks
	case last != nil:
		o.earlier = last.placements()
	default:
		o.earlier, err = s.earlierBlocks(ctx, o.place.earlier)
	}
	if last != nil {
		if o.session == "" {
			o.session, o.derived = last.Session, last.Derived
		}
		o.number = max(o.number, last.Number+1)
	}
	if last != nil && o.place.begins && last.open() {
		o.previous = last.ID
	}
	return err
}

// claim begins the repeated first call of a run. It returns false if another call has repeated it meanwhile. It does not run in
// the background like other writes, because the two calls belong to different runs.
func (o *Open) claim(ctx context.Context, id events.ID, retry int) (bool, error) {
	r, err := o.store.update(ctx, id, nil, func(r *run) (err error) {
		if r.Calls != 1 || r.repeated(0, retry) < 0 {
			return errTaken
		}
		o.attempt, err = r.begin(o.id, 0, retry, o.call.At)
		return err
	})
	if errors.Is(err, errTaken) || errors.Is(err, errClosed) {
		return false, nil
	}
	o.run, o.claimed = r, err == nil
	return o.claimed, err
}

// neighbours are the runs beside a new one.
type neighbours struct {
	same    []candidate // began with the same items
	before  []candidate // began with the turn before
	replied []candidate // have the last reply of the turn before
}

// neighbours returns the runs beside a call that begins a run, or that continues an unknown one.
func (s *Store) neighbours(ctx context.Context, o *Open) (n neighbours, err error) {
	p, keys := o.place, []string{"", "", ""}
	if p.begins {
		keys[0], keys[2] = p.start, p.previous
	}
	if len(p.earlier) > 0 {
		keys[1] = p.earlier[0].start
	}
	for try := 1; ; try++ {
		found, err := s.candidates(ctx, o.call.Owner, keys...)
		if err != nil {
			return n, err
		}
		n = neighbours{found[0], found[1], found[2]}
		late := anyBusy(n.before) || s.calls.has(keys[1]) || len(p.earlier) == 0 && o.call.Request.PreviousID != ""
		missesReply := keys[2] != "" && len(n.replied) == 0 && late
		missesFirst := p.begins && o.call.Retry > 0 && len(n.same) == 0
		if !missesReply && !missesFirst || try == settleTries {
			return n, nil
		}
		if err := pause(ctx, settlePause); err != nil {
			return n, err
		}
	}
}

// matchReply sets the run whose reply the call extends.
func (s *Store) matchReply(ctx context.Context, o *Open) error {
	p := o.place
	for try := 1; ; try++ {
		found, err := s.candidates(ctx, o.call.Owner, p.reply, p.start)
		if err != nil {
			return err
		}
		if c := bestReply(found[0]); c != nil {
			o.run, o.after = c.run, c.call
			return nil
		}
		if p.begins {
			return nil // a draft of an answer
		}
		if p.turn >= 0 && !anyBusy(found[1]) && !s.calls.has(p.start) || try == settleTries {
			if c := onlyOpen(found[1]); c != nil && p.turn >= 0 {
				o.run, o.after = c.run, c.lastReply()
			}
			return nil
		}
		if err := pause(ctx, settlePause); err != nil {
			return err
		}
	}
}

// A reply is visible to the client before it is stored, so the next call may arrive first. While a call of the turn is in
// flight, also one of this process that is not stored yet, the lookup of the reply is repeated. So is that of an unknown
// response, and that of the first attempt of a repeated call: the server may still have to store what its dead gateway wrote.
const (
	settlePause = 15 * time.Millisecond
	settleTries = 6
)

func anyBusy(found []candidate) bool {
	return slices.ContainsFunc(found, func(c candidate) bool { return c.open() && c.busy() })
}

// bestReply returns the run that a call with a known reply continues. Several runs may have the same reply, because some
// servers number the ids of tool calls. Best is a run whose next call failed, then the oldest one that waits for its next call,
// then the newest open one, then the newest closed one.
func bestReply(found []candidate) *candidate {
	best, bestRank := (*candidate)(nil), -1
	for i := range found {
		c := &found[i]
		rank := 0
		switch {
		case !c.open():
		case c.repeated(c.call, 0) >= 0:
			rank = 3
		case !c.extended(c.call):
			rank = 2
		default:
			rank = 1
		}
		if rank > bestRank || rank == bestRank && rank < 2 {
			best, bestRank = c, rank
		}
	}
	return best
}

// onlyOpen returns the open run if there is exactly one. The client may have changed the last reply, so the run is known by its
// first items.
func onlyOpen(found []candidate) *candidate {
	var only *candidate
	for i := range found {
		switch {
		case !found[i].open():
		case only != nil && only.ID != found[i].ID:
			return nil
		default:
			only = &found[i]
		}
	}
	return only
}

// repeatedStart returns the run whose first call is repeated, or nil: a run whose first call has failed. The client's word
// counts only if a single run began with these items, because the client may mean another of several equal calls; otherwise retry
// is 0.
func repeatedStart(found []candidate, said int) (r *candidate, retry int) {
	for i := range found {
		c := &found[i]
		if retry = said; slices.ContainsFunc(found, func(other candidate) bool { return other.ID != c.ID }) {
			retry = 0
		}
		if c.open() && c.Calls == 1 && c.repeated(0, retry) >= 0 {
			return c, retry
		}
	}
	return nil, 0
}

// repeatedClosed returns the only run that began with the items of a marked repetition if its outcome closed it just now, or nil. Its
// gateway died between the reply with the outcome and the end of the response. The repetition is the same call, and is not
// captured again. A run that closed for another reason has a client that got its reply: that of an equal call.
func repeatedClosed(found []candidate, c *Call) *candidate {
	if len(found) == 0 || slices.ContainsFunc(found, func(other candidate) bool { return other.ID != found[0].ID }) {
		return nil
	}
	r := &found[0]
	repeats := !r.open() && r.Calls == 1 && r.Outcome.Known() && c.Retry > 0
	if !repeats || c.At.Sub(r.Active) >= repetitionTime {
		return nil
	}
	return r
}

// repetitionTime is the time in which SDKs repeat a call.
const repetitionTime = time.Minute

// lastTurn returns the run of the turn before this one, or nil: the run with its last reply, or else the only open run that
// began with it, or else the newest one.
func lastTurn(replied, started []candidate) *candidate {
	if c := bestReply(replied); c != nil {
		return c
	}
	if c := onlyOpen(started); c != nil {
		return c
	}
	for i := len(started) - 1; i >= 0; i-- {
		if !started[i].open() {
			return &started[i]
		}
	}
	return nil
}

// earlierBlocks returns the blocks of the newest known turn of a conversation and of the turns before it.
func (s *Store) earlierBlocks(ctx context.Context, turns []earlierTurn) ([]placement, error) {
	keys := make([]string, len(turns))
	for i, t := range turns {
		keys[i] = t.start
	}
	refs, err := s.lastReferences(ctx, keys)
	if err != nil {
		return nil, err
	}
	found, err := s.resolve(ctx, refs)
	for _, list := range found {
		if len(list) > 0 {
			return list[0].placements(), err
		}
	}
	return nil, err
}

// setBlocks sets the texts to insert: those of earlier turns, and that of this turn if it has one. A call without
// its earlier turns gets none for them: the provider has stored them with their texts.
func (s *Store) setBlocks(ctx context.Context, o *Open) error {
	items := len(o.call.Request.Items)
	var places []placement
	for _, b := range o.run.placements() {
		if o.place.turn >= 0 && b.Item <= o.place.turn && b.Item < items {
			places = append(places, b)
		}
	}
	if b := o.run.Block; b != nil {
		o.Block = Block(*b)
		s.recent.putBlock(o.run.ID, b.Text)
	}
	texts, err := s.blocks(ctx, places)
	if err != nil {
		return err
	}
	o.Blocks = make(map[int]string, len(places))
	for _, b := range places {
		if text := texts[b.Run]; text != "" {
			o.Blocks[b.Item] = text
		}
	}
	return nil
}
