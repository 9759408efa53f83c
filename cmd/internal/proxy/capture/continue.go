package capture

import (
	"context"
	"slices"
	"time"
)

// lookupWait is the wait of a lookup for a missing value that the server may store soon, in two cases:
//
//   - The client sees a reply before the reply is stored, so its next call may arrive first. This is possible while a call of the turn is
//     in flight, stored or not. For a call without its turn, and for an unknown response, it is always possible.
//   - A call is marked as a repetition and its first attempt is unknown. The gateway of that attempt may have died, while the server
//     still stores its last writes.
var lookupWait = wait{tries: 6, pause: 15 * time.Millisecond}

// findContinued returns the run that the call continues, or nothing.
func (ac *ActiveCall) findContinued(ctx context.Context) (m match, err error) {
	p := ac.place
	var open map[string]lookupResult
	isAmbiguous := false
	err = lookupWait.until(ctx, func() (ready bool, err error) {
		open, err = ac.store.lookup(ctx, &ac.store.open, ac.call.owns, p.reply, p.named, p.start)
		if err != nil {
			return false, err
		}
		best, several := ac.chooseReplied(open[p.reply].runs)
		if best != nil {
			m = match{run: best.run, after: best.call}
		}
		isAmbiguous = several
		mayStillCome := !p.mayBegin && (p.turn < 0 || anyBusy(open[p.start].runs) || ac.store.calls.has(p.start)) // see lookupWait
		return best != nil || several || !mayStillCome, nil
	})
	switch {
	case err != nil || m.run != nil:
		return m, err
	case isAmbiguous:
		ac.store.count(Ambiguous)
		return match{}, nil
	case p.mayBegin: // no run has the reply, so the client wrote the reply itself: see place.mayBegin
		return match{}, nil
	}
	return ac.findByTexts(ctx, open)
}

// chooseReplied returns the open run with the reply that the call extends, or nil. It returns nil and several if more than one run may have
// the reply. But if all of them began with the same request, even the client cannot tell them apart: then chooseReplied returns a run whose
// call after this reply has failed, else a run without a call after it.
func (ac *ActiveCall) chooseReplied(list []candidate) (best *candidate, several bool) {
	list = openOnly(list)
	if ac.place.numberedIDs { // such ids alone prove nothing
		list = filter(list, ac.isRelated)
	}
	list = ac.narrow(list)
	if len(list) == 0 {
		return nil, false
	}
	if len(list) == 1 {
		return &list[0], false
	}
	if slices.ContainsFunc(list, func(c candidate) bool { return c.Exact != list[0].Exact }) {
		return nil, true
	}
	for i := range list {
		c := &list[i]
		if c.repeatedAttempt(c.call, 0) != nil { // a call after this reply has failed
			return c, false
		}
		if best == nil && !c.isExtended(c.call) {
			best = c
		}
	}
	return best, best == nil
}

// findByTexts returns the run of a call that extends an unknown reply: by its named session and question, or by the texts of the
// conversation. Without an open run it may return a closed one. The call does not continue that run, but gets its block.
func (ac *ActiveCall) findByTexts(ctx context.Context, open map[string]lookupResult) (match, error) {
	p := ac.place
	if p.turn >= 0 {
		for _, key := range []string{p.named, p.start} {
			list := ac.narrow(openOnly(open[key].runs))
			if len(list) > 1 {
				ac.store.count(Ambiguous)
				return match{}, nil
			}
			if len(list) == 1 {
				return match{run: list[0].run, after: list[0].lastReply()}, nil
			}
		}
	}
	closed, err := ac.store.lookup(ctx, &ac.store.closed, ac.call.owns, p.reply, p.start)
	if err != nil {
		return match{}, err
	}
	// A run that is being closed is still in the bucket of open runs.
	for _, list := range [][]candidate{closed[p.reply].runs, closed[p.start].runs, open[p.start].runs} {
		list = filter(list, func(c *candidate) bool { return p.turn < 0 || c.Question == p.question })
		list = ac.narrow(list)
		if len(list) > 0 && isOneRun(list) {
			return match{run: list[0].run, after: list[0].call}, nil
		}
	}
	return match{}, nil
}

// isRelated reports whether more than an id connects the call with a run: the question, the texts, or the named session. A call without
// its turn has only the id, which is then enough.
func (ac *ActiveCall) isRelated(c *candidate) bool {
	p := ac.place
	return p.turn < 0 || c.Question == p.question || c.Start == p.start || (c.Named && c.Session == ac.call.Session)
}

// narrow returns the runs that have most in common with the call: the named session, the question, the texts of the conversation, the
// system prompt.
func (ac *ActiveCall) narrow(list []candidate) []candidate {
	p := ac.place
	return mostInCommon(list,
		func(c *candidate) bool { return ac.call.Session != "" && c.Named && c.Session == ac.call.Session },
		func(c *candidate) bool { return c.Question == p.question },
		func(c *candidate) bool { return c.Start == p.start },
		func(c *candidate) bool { return c.System == p.system },
	)
}

// mostInCommon filters a list by one property after the other. A property that no run of the list has is skipped.
func mostInCommon(list []candidate, properties ...func(*candidate) bool) []candidate {
	for _, has := range properties {
		if fit := filter(list, has); len(fit) > 0 {
			list = fit
		}
	}
	return list
}

// filter returns the runs with a property.
func filter(list []candidate, has func(*candidate) bool) (fit []candidate) {
	for i := range list {
		if has(&list[i]) {
			fit = append(fit, list[i])
		}
	}
	return fit
}

func openOnly(list []candidate) []candidate {
	return filter(list, func(c *candidate) bool { return c.isOpen() })
}

func isOneRun(list []candidate) bool {
	return !slices.ContainsFunc(list, func(c candidate) bool { return c.ID != list[0].ID })
}

func anyBusy(list []candidate) bool {
	return slices.ContainsFunc(list, func(c candidate) bool { return c.isOpen() && c.isBusy() })
}
