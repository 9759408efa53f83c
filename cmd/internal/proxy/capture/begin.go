package capture

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"debrief/events"
)

// Begin assigns a call to an open run, or begins a run. The caller must call Start of the result and then Finish. Begin waits for
// reads only, as long as ctx permits. It returns ErrNoTurn for a call without a user's text, ErrQuota or ErrFull if no more runs can be
// open, and errors of the buckets. After an error the call must go on without capture.
func (s *Store) Begin(ctx context.Context, c *Call) (*Open, error) {
	p, err := locate(c)
	if err != nil {
		return nil, err
	}
	o := &Open{store: s, call: c, place: p, id: string(events.NewID()[:8]), number: p.number}
	if err := s.match(ctx, o); err != nil {
		return nil, fmt.Errorf("find the run of a call: %w", err)
	}
	if o.run == nil {
		if err := s.quota.add(c.Owner); err != nil {
			s.count(Refused)
			return nil, err
		}
		o.run = o.newRun()
		o.New, o.created = p.begins, true
		s.count(Begun)
	} else {
		s.count(Continued)
	}
	o.Run, o.Session, o.Number, o.Closed = o.run.ID, o.run.Session, o.run.Number, !o.run.open()
	if c.Inject {
		if err := s.setBlocks(ctx, o); err != nil {
			return nil, fmt.Errorf("read blocks: %w", err)
		}
	}
	return o, nil
}

// newRun returns a run that the call begins. A session without a name begins with its run, so that the equal first words of two
// persons are two sessions.
func (o *Open) newRun() *run {
	c, p := o.call, o.place
	r := &run{
		ID: events.NewID(), Owner: c.Owner, Caller: c.Caller, User: c.User, Book: c.Book, Session: c.Session, Named: c.Session != "", Task: c.Task, Trace: c.Trace,
		Start: p.start, Exact: p.exact, Question: p.question, System: o.system(), Slots: o.slots,
		Turn: p.turn, Number: o.number, Earlier: o.earlier, Started: c.At, Active: c.At,
	}
	if r.Session == "" {
		r.Session, r.Named = o.session, o.named
	}
	if r.Session == "" {
		r.Session = string(r.ID)
	}
	return r
}

// match sets the run that the call continues or repeats. Otherwise o.run stays nil, and match sets what the new run has from the turn
// before it.
func (s *Store) match(ctx context.Context, o *Open) error {
	p := o.place
	if p.reply != "" {
		if err := s.matchReply(ctx, o); err != nil || o.run != nil {
			return err
		}
	}
	if p.turn < 0 {
		return ErrNoTurn // the user's text is in the history of the provider, and its run is unknown
	}
	n, err := s.neighbours(ctx, o)
	if err != nil {
		return err
	}
	if r, retry := repeatedStart(n.same, o.call.Retry); r != nil {
		if claimed, err := o.claim(ctx, r.ID, retry); claimed || err != nil {
			return err
		}
	}
	if r := repeatedClosed(n.same, o.call); r != nil {
		o.run = r.run
		return nil
	}
	return s.matchPrevious(ctx, o, n)
}

// matchPrevious sets what a new run has from the turn before it: the blocks of the earlier turns, the session, and the open run that
// ends. If several sessions may have the turn before, the new run gets no session and ends no run: the turn may be that of another person.
func (s *Store) matchPrevious(ctx context.Context, o *Open, n neighbours) error {
	last, sure := lastTurn(o, n)
	switch {
	case len(o.place.earlier) == 0: // the provider has stored the earlier turns with their blocks
	case last != nil:
		o.earlier = last.placements()
	default:
		var err error
		if o.earlier, err = s.earlierBlocks(ctx, o); err != nil {
			return err
		}
	}
	if last == nil {
		return nil
	}
	o.number = max(o.number, last.Number+1)
	if !sure {
		s.count(Ambiguous)
		return nil
	}
	o.session, o.named = last.Session, last.Named
	if o.place.begins && last.open() {
		o.previous = last.ID
	}
	return nil
}

// claim stores that the call repeats the first call of a run. It returns false if another call has repeated it meanwhile: then this
// call belongs to another run. So claim cannot run in the background, as other writes do.
func (o *Open) claim(ctx context.Context, id events.ID, retry int) (bool, error) {
	r, err := o.store.update(ctx, id, nil, func(r *run) (err error) {
		if r.Calls != 1 || r.repeated(0, retry) < 0 {
			return errTaken
		}
		o.attempt, err = r.begin(o.id, 0, retry, len(o.place.work), o.call.At)
		return err
	})
	if errors.Is(err, errTaken) || errors.Is(err, errClosed) {
		return false, nil
	}
	o.run, o.claimed = r, err == nil
	return o.claimed, err
}

// neighbours are known runs that a new run may repeat or follow.
type neighbours struct {
	same    []candidate // began with the same request
	before  []candidate // began with the turn before
	replied []candidate // have the last reply of the turn before
}

// neighbours returns the neighbours of a call that begins a run, or that continues an unknown one. It also chooses the slots of the
// references to the new run.
func (s *Store) neighbours(ctx context.Context, o *Open) (n neighbours, err error) {
	p := o.place
	before := "" // key of the runs that began with the turn before
	if len(p.earlier) > 0 {
		before = p.earlier[0].start
	}
	for try := 1; ; try++ {
		lists, all, err := s.candidates(ctx, &s.open, o.call.Owner, p.start, p.named, p.previous, before, p.previousCalls)
		if err != nil {
			return n, err
		}
		hasReply := alsoIn(lists[2], lists[4]) // previous, and if possible also previousCalls
		n = neighbours{before: lists[3], replied: hasReply}
		if p.begins {
			n.same = slices.DeleteFunc(lists[0], func(c candidate) bool { return c.Exact != p.exact })
		}
		o.slots = slots(p, all)
		unknownResponse := len(p.earlier) == 0 && o.call.Request.PreviousID != ""
		mayCome := anyBusy(n.before) || s.calls.has(before) || unknownResponse
		missesReply := p.previous != "" && len(n.replied) == 0 && mayCome
		missesFirst := p.begins && o.call.Retry > 0 && len(n.same) == 0
		isComplete := !missesReply && !missesFirst
		if isComplete || try == settleTries { // see settlePause
			break
		}
		if err := pause(ctx, settlePause); err != nil {
			return n, err
		}
	}
	return n, s.addClosed(ctx, o, &n, before)
}

// alsoIn returns the runs of a list that are in another list, too. If none is, it returns the whole list.
func alsoIn(list, other []candidate) []candidate {
	both := slices.DeleteFunc(slices.Clone(list), func(c candidate) bool {
		return !slices.ContainsFunc(other, func(o candidate) bool { return o.ID == c.ID })
	})
	if len(both) == 0 {
		return list
	}
	return both
}

// addClosed adds closed runs where no open one is known.
func (s *Store) addClosed(ctx context.Context, o *Open, n *neighbours, before string) error {
	keys := []string{"", "", ""}
	if o.call.Retry > 0 && len(n.same) == 0 {
		keys[0] = o.place.start
	}
	if len(n.replied) == 0 {
		keys[1], keys[2] = o.place.previous, before
	}
	lists, _, err := s.candidates(ctx, &s.closed, o.call.Owner, keys...)
	if err != nil {
		return err
	}
	n.same = append(n.same, slices.DeleteFunc(lists[0], func(c candidate) bool { return c.Exact != o.place.exact })...)
	n.replied = append(n.replied, lists[1]...)
	n.before = append(n.before, lists[2]...)
	return nil
}

// slots returns the keys of the references to the beginning of a new run.
func slots(p *place, all []found) (keys []string) {
	for i, key := range []string{p.start, p.named} {
		if key != "" {
			keys = append(keys, key+"."+all[i].freeSlot(rand.IntN(maxReferences)))
		}
	}
	return keys
}

// matchReply sets the run that the call continues, or leaves o.run nil.
func (s *Store) matchReply(ctx context.Context, o *Open) error {
	p := o.place
	for try := 1; ; try++ {
		lists, _, err := s.candidates(ctx, &s.open, o.call.Owner, p.reply, p.named, p.start)
		if err != nil {
			return err
		}
		byReply, unsure := s.choose(o, lists[0])
		switch {
		case byReply != nil:
			o.run, o.after = byReply.run, byReply.call
			return nil
		case unsure:
			s.count(Ambiguous)
			return nil
		case p.begins:
			return nil // no run has the reply, so the client wrote it: see place.begins
		}
		mayCome := p.turn < 0 || anyBusy(lists[2]) || s.calls.has(p.start)
		if !mayCome || try == settleTries { // see settlePause
			return s.matchTexts(ctx, o, lists[1], lists[2])
		}
		if err := pause(ctx, settlePause); err != nil {
			return err
		}
	}
}

// matchTexts sets the run of a call that extends an unknown reply: by its named session and question, or by the texts of the
// conversation. Without an open run it may set a closed one. The call does not continue that run, but gets its block.
func (s *Store) matchTexts(ctx context.Context, o *Open, named, started []candidate) error {
	p := o.place
	for _, list := range [][]candidate{named, started} {
		list = openOnly(list)
		if len(list) > 1 {
			list = narrow(o, list)
		}
		if len(list) > 1 {
			s.count(Ambiguous)
			return nil
		}
		if len(list) == 1 && p.turn >= 0 {
			o.run, o.after = list[0].run, list[0].lastReply()
			return nil
		}
	}
	lists, _, err := s.candidates(ctx, &s.closed, o.call.Owner, p.reply, p.start)
	if err != nil {
		return err
	}
	for _, list := range append(lists, started) {
		list = slices.DeleteFunc(slices.Clone(list), func(c candidate) bool { return p.turn >= 0 && c.Question != p.question })
		if list = narrow(o, list); len(list) > 0 && sameRun(list) {
			o.run, o.after = list[0].run, list[0].call
			return nil
		}
	}
	return nil
}

// choose returns the open run with the reply that a call extends, or nil. It returns nil and unsure if several runs may be the one. Of
// runs that began with the same request, which the client cannot tell apart either, it returns one that lacks a call after this reply:
// one whose call has failed before one without such a call.
func (s *Store) choose(o *Open, list []candidate) (best *candidate, unsure bool) {
	list = openOnly(list)
	if o.place.numbered { // such ids alone prove nothing
		list = slices.DeleteFunc(list, func(c candidate) bool { return !related(o, &c) })
	}
	if len(list) > 1 {
		list = narrow(o, list)
	}
	switch len(list) {
	case 0:
		return nil, false
	case 1:
		return &list[0], false
	}
	if slices.ContainsFunc(list, func(c candidate) bool { return c.Exact != list[0].Exact }) {
		return nil, true
	}
	for i := range list {
		c := &list[i]
		if c.repeated(c.call, 0) >= 0 {
			return c, false
		}
		if best == nil && !c.extended(c.call) {
			best = c
		}
	}
	return best, best == nil
}

// related reports whether more than an id connects a call with a run: the question, the texts, or the named session. A call without
// its turn has only the id, which is then enough.
func related(o *Open, c *candidate) bool {
	p := o.place
	if p.turn < 0 {
		return true
	}
	sameSession := c.Named && c.Session == o.call.Session
	return c.Question == p.question || c.Start == p.start || sameSession
}

// narrow returns the runs that have most in common with a call: the named session, the question, the texts of the conversation, the
// system prompt.
func narrow(o *Open, list []candidate) []candidate {
	return mostInCommon(list,
		func(c *candidate) bool { return o.call.Session != "" && c.Named && c.Session == o.call.Session },
		func(c *candidate) bool { return c.Question == o.place.question },
		func(c *candidate) bool { return c.Start == o.place.start },
		func(c *candidate) bool { return c.System == o.system() },
	)
}

// narrowPrevious returns the runs of the turn before that have most in common with a call.
func narrowPrevious(o *Open, list []candidate) []candidate {
	return mostInCommon(list,
		func(c *candidate) bool { return o.call.Session != "" && c.Session == o.call.Session },
		func(c *candidate) bool { return len(o.place.earlier) == 0 || c.Question == o.place.earlier[0].question },
		func(c *candidate) bool { return c.System == o.system() },
	)
}

// mostInCommon filters a list by one property after the other. A property that no run of the list has is skipped.
func mostInCommon(list []candidate, properties ...func(*candidate) bool) []candidate {
	for _, has := range properties {
		if fit := slices.DeleteFunc(slices.Clone(list), func(c candidate) bool { return !has(&c) }); len(fit) > 0 {
			list = fit
		}
	}
	return list
}

// system returns the hash of the system prompt of the call.
func (o *Open) system() string { return hex.EncodeToString(o.call.Request.Root[:]) }

func openOnly(list []candidate) []candidate {
	return slices.DeleteFunc(slices.Clone(list), func(c candidate) bool { return !c.open() })
}

func sameRun(list []candidate) bool {
	return !slices.ContainsFunc(list, func(c candidate) bool { return c.ID != list[0].ID })
}

// A lookup is repeated settleTries times, with settlePause between, if the missing value may still be stored:
//
//   - The client sees a reply before it is stored, so its next call may arrive first. This is possible while a call of the turn is in
//     flight, also one of this process that is not stored yet. Without its turn, and for an unknown response, it is always possible.
//   - A call is marked as a repetition and its first attempt is unknown. The gateway of that attempt may have died, while the server
//     still stores its last writes.
const (
	settlePause = 15 * time.Millisecond
	settleTries = 6
)

func anyBusy(found []candidate) bool {
	return slices.ContainsFunc(found, func(c candidate) bool { return c.open() && c.busy() })
}

// repeatedStart returns the open run whose first call a new call repeats, or nil. The first call has failed, or the client marks the
// new call as a repetition, with the number said. The mark counts only if a single run began with these items, because the client
// may mean another of several equal calls. retry is the number that counts: said or 0.
func repeatedStart(found []candidate, said int) (r *candidate, retry int) {
	retry = said
	if !sameRun(found) {
		retry = 0
	}
	for i := range found {
		c := &found[i]
		if c.open() && c.Calls == 1 && c.repeated(0, retry) >= 0 {
			return c, retry
		}
	}
	return nil, 0
}

// repeatedClosed returns the run that a call repeats although the run is closed, or nil. An explicit outcome closes a run after its
// first call. If the gateway dies before the client has the whole response, the client repeats the call, which is not captured again.
// So the call must be marked as a repetition, and the only run that began with its items was closed by an outcome just now. The
// client of a run that closed for another reason has its reply, and its next equal call is a new one.
func repeatedClosed(found []candidate, c *Call) *candidate {
	if c.Retry <= 0 || len(found) == 0 || !sameRun(found) {
		return nil
	}
	r := &found[0]
	closedByOutcome := !r.open() && r.Calls == 1 && r.Outcome.Known()
	if !closedByOutcome || c.At.Sub(r.Active) >= repetitionTime {
		return nil
	}
	return r
}

// repetitionTime is the time in which SDKs repeat a call.
const repetitionTime = time.Minute

// lastTurn returns the run of the turn before a call, or nil: a run with its last reply, else one that began with it. Of several it
// returns the newest open one, else the newest. It is not sure if they have different sessions.
func lastTurn(o *Open, n neighbours) (last *candidate, sure bool) {
	list := n.replied
	if len(list) == 0 {
		list = openOnly(n.before)
	}
	if len(list) == 0 {
		list = n.before
	}
	list = narrowPrevious(o, list)
	if len(list) == 0 {
		return nil, false
	}
	sure = !slices.ContainsFunc(list, func(c candidate) bool { return c.Session != list[0].Session })
	last = &list[0]
	for i := range list {
		c := &list[i]
		if c.open() != last.open() {
			if c.open() {
				last = c
			}
			continue
		}
		if c.Started.After(last.Started) {
			last = c
		}
	}
	return last, sure
}
