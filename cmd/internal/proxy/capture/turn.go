package capture

import (
	"context"
	"errors"
	"slices"
	"time"

	"debrief/events"
)

// neighbours are known runs that a new run may repeat or follow.
type neighbours struct {
	same    []candidate // began with the same request
	before  []candidate // began with the turn before
	replied []candidate // have the last reply of the turn before
	slots   []string    // keys of the references to the new run
}

// findNeighbours returns the neighbours of a call that begins a run, or that continues an unknown one.
func (ac *ActiveCall) findNeighbours(ctx context.Context) (n neighbours, err error) {
	err = lookupWait.until(ctx, func() (ready bool, err error) {
		n, err = ac.openNeighbours(ctx)
		return !ac.mayMiss(n), err
	})
	if err != nil {
		return n, err
	}
	err = ac.addClosed(ctx, &n)
	return n, err
}

// openNeighbours returns the neighbours in the bucket of open runs.
func (ac *ActiveCall) openNeighbours(ctx context.Context) (n neighbours, err error) {
	p := ac.place
	open, err := ac.store.lookup(ctx, &ac.store.open, ac.call.owns, p.start, p.named, p.previous, p.previousCalls, p.before())
	if err != nil {
		return n, err
	}
	if p.mayBegin {
		n.same = filter(open[p.start].runs, ac.isSame)
	}
	n.before = open[p.before()].runs
	n.replied = mostInCommon(open[p.previous].runs, func(c *candidate) bool {
		return slices.ContainsFunc(open[p.previousCalls].runs, func(other candidate) bool { return other.ID == c.ID })
	})
	for _, key := range []string{p.start, p.named} {
		if key != "" {
			n.slots = append(n.slots, freeSlot(key, open[key].references))
		}
	}
	return n, nil
}

// isSame reports whether a run began with the request of the call.
func (ac *ActiveCall) isSame(c *candidate) bool { return c.Exact == ac.place.exact }

// mayMiss reports whether a neighbour that the call needs may still be stored: see lookupWait.
func (ac *ActiveCall) mayMiss(n neighbours) bool {
	p := ac.place
	if p.mayBegin && ac.call.Retry > 0 && len(n.same) == 0 {
		return true
	}
	if p.previous == "" || len(n.replied) > 0 {
		return false
	}
	unknownResponse := len(p.earlier) == 0 && ac.call.Request.PreviousID != ""
	return anyBusy(n.before) || ac.store.calls.has(p.before()) || unknownResponse
}

// addClosed adds closed runs where no open one is known. The other keys stay empty, and an empty key has no runs.
func (ac *ActiveCall) addClosed(ctx context.Context, n *neighbours) error {
	p := ac.place
	var same, previous, before string
	if ac.call.Retry > 0 && len(n.same) == 0 {
		same = p.start
	}
	if len(n.replied) == 0 {
		previous = p.previous
		before = p.before()
	}
	closed, err := ac.store.lookup(ctx, &ac.store.closed, ac.call.owns, same, previous, before)
	if err != nil {
		return err
	}
	n.same = append(n.same, filter(closed[same].runs, ac.isSame)...)
	n.replied = append(n.replied, closed[previous].runs...)
	n.before = append(n.before, closed[before].runs...)
	return nil
}

// findRepeated returns the run whose first call this call repeats, or nothing.
func (ac *ActiveCall) findRepeated(ctx context.Context, n neighbours) (match, error) {
	if r, retry := repeatedStart(n.same, ac.call.Retry); r != nil {
		m, err := ac.claim(ctx, r.ID, retry)
		if err != nil || m.run != nil {
			return m, err
		}
	}
	if r := repeatedClosed(n.same, ac.call); r != nil {
		return match{run: r.run}, nil
	}
	return match{}, nil
}

// repeatedStart returns the open run whose first call a new call repeats, or nil. Either that call has failed, or the client marks the
// new call as a repetition: marked is its number. The mark counts only if a single run began with these items, because the client
// may mean another of several equal calls. The result retry is marked, or 0 if the mark does not count.
func repeatedStart(list []candidate, marked int) (r *candidate, retry int) {
	retry = marked
	if !isOneRun(list) {
		retry = 0
	}
	for i := range list {
		c := &list[i]
		if c.isOpen() && c.Calls == 1 && c.repeatedAttempt(0, retry) != nil {
			return c, retry
		}
	}
	return nil, 0
}

// claim stores that the call repeats the first call of a run. It returns nothing if another call has repeated it meanwhile: then this
// call belongs to another run. Begin needs to know, so claim cannot run in the background, as other writes do.
func (ac *ActiveCall) claim(ctx context.Context, id events.ID, retry int) (match, error) {
	var claimed attempt
	r, err := ac.store.update(ctx, id, nil, func(r *run) (err error) {
		if r.Calls != 1 || r.repeatedAttempt(0, retry) == nil {
			return errTaken
		}
		claimed, err = r.addAttempt(ac.id, 0, retry, len(ac.place.work), ac.call.At)
		return err
	})
	if errors.Is(err, errTaken) || errors.Is(err, errClosed) {
		return match{}, nil
	}
	return match{run: r, claimed: &claimed}, err
}

// repeatedClosed returns the closed run whose only call a call repeats, or nil. An explicit outcome closes a run after its first call. If
// the gateway dies before the client has the whole response, the client repeats the call, which must not be captured again. So the call
// must be marked as a repetition, and the only run that began with its items must have been closed by an outcome just now. The client of a
// run that closed for another reason has its reply, and its next equal call is a new one.
func repeatedClosed(list []candidate, c *Call) *candidate {
	if c.Retry <= 0 || len(list) == 0 || !isOneRun(list) {
		return nil
	}
	r := &list[0]
	closedByOutcome := !r.isOpen() && r.Calls == 1 && r.Outcome.Known()
	if !closedByOutcome || c.At.Sub(r.Active) >= repetitionTime {
		return nil
	}
	return r
}

const repetitionTime = time.Minute // time in which SDKs repeat a call

// newRun returns a run that the call begins. A session without a name begins with its run, so that the equal first words of two persons
// are two sessions.
func (ac *ActiveCall) newRun(ctx context.Context, n neighbours) (match, error) {
	c, p := ac.call, ac.place
	r := &run{
		ID: events.NewID(), Owner: c.Caller.Owner, Caller: c.Caller, User: c.User, Book: c.Book, Session: c.Session, Named: c.Session != "", Task: c.Task, Trace: c.Trace,
		Start: p.start, Exact: p.exact, Question: p.question, System: p.system, Slots: n.slots,
		TurnItem: p.turn, TurnNumber: p.turnNumber, Started: c.At, Active: c.At,
	}
	m := match{run: r, created: true}
	last := ac.turnBefore(n)
	if len(last) > 0 {
		m.previous = ac.follow(r, last)
	}
	switch {
	case len(p.earlier) == 0: // the provider has stored the earlier turns with their blocks
	case len(last) > 0:
		r.Earlier = last[0].placements()
	default:
		var err error
		if r.Earlier, err = ac.earlierPlacements(ctx); err != nil {
			return match{}, err
		}
	}
	if r.Session == "" {
		r.Session = string(r.ID)
	}
	return m, nil
}

// follow gives a new run the number and the session of the turn before. It returns the open run of that turn, which ends now, or "". If the
// turn before may be in several sessions, the new run gets none of them and ends no run: they may be of different persons.
func (ac *ActiveCall) follow(r *run, last []candidate) (previous events.ID) {
	before := last[0]
	r.TurnNumber = max(r.TurnNumber, before.TurnNumber+1)
	if slices.ContainsFunc(last, func(c candidate) bool { return c.Session != before.Session }) {
		ac.store.count(Ambiguous)
		return ""
	}
	if r.Session == "" {
		r.Session, r.Named = before.Session, before.Named
	}
	if ac.place.mayBegin && before.isOpen() {
		return before.ID
	}
	return ""
}

// turnBefore returns the runs that may be the turn before the call: those with its last reply, else those that began with it. Open runs
// are before closed ones, and newer ones before older ones.
func (ac *ActiveCall) turnBefore(n neighbours) []candidate {
	list := n.replied
	if len(list) == 0 {
		list = openOnly(n.before)
	}
	if len(list) == 0 {
		list = n.before
	}
	list = slices.Clone(ac.narrowPrevious(list))
	slices.SortStableFunc(list, func(a, b candidate) int { return b.Started.Compare(a.Started) })
	closed := filter(list, func(c *candidate) bool { return !c.isOpen() })
	return append(openOnly(list), closed...)
}

// narrowPrevious returns the runs of the turn before that have most in common with the call.
func (ac *ActiveCall) narrowPrevious(list []candidate) []candidate {
	return mostInCommon(list,
		func(c *candidate) bool { return ac.call.Session != "" && c.Session == ac.call.Session },
		func(c *candidate) bool { return c.System == ac.place.system },
	)
}
