package curator

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/natskv"
)

// A reflection on feedback moves the votes and outcomes of its sample. The log holds these, read up to the version that
// the delta follows. So it is committed in a separate delta, and waits until the earlier reflections on the same sample
// are in the log. Reflections on other samples do not matter to it. The wait is bounded; after some attempts it goes ahead. An
// earlier reflection that comes through later then finds its sample judged since, and casts no vote. Its lessons are lost;
// the wait makes that rare.
//
// The first feedback on an execution that taught nothing by itself has nothing to move and goes with the others, unless
// other feedback on it was faster.

// looksBack reports whether a docket is a reflection on feedback that may have something to move.
func (k *docket) looksBack() bool { return k.r != nil && k.r.Judged > 0 && (!k.r.First || k.back) }

// looked reports whether what such a docket needs to know of the past is known up to a state.
func (k *docket) looked(p *playbook.Playbook) bool {
	return k.waited && k.standing.Version() == p.Version()
}

// backLast puts those that look back behind the others, in the order of the stream.
func backLast(cases []*docket) {
	slices.SortStableFunc(cases, func(a, b *docket) int {
		switch x, y := a.looksBack(), b.looksBack(); {
		case x && y && a.seq < b.seq, !x && y:
			return -1
		case x && y && a.seq > b.seq, x && !y:
			return 1
		}
		return 0
	})
}

// earlierWait bounds the wait for earlier reflections on the same samples, in each of the first attempts. It is short
// because the book waits with it: a reflection that this process received meanwhile is in the batch of the next attempt.
const (
	earlierWait = 2 * time.Second
	waits       = 4 // of five attempts
)

// lookBack continues to read the log for a docket. While a docket waits for earlier reflections, those that wait for none
// go first. If every docket has waited in vain, each gets an error as its result and leaves the batch.
func (d *desk) lookBack(ctx context.Context, b *book, k *docket, cases []*docket, failed func(seq uint64) bool) (left []*docket, err error) {
	if !k.waited {
		missing, err := d.waitForEarlier(ctx, b, cases, failed)
		if err != nil {
			return nil, err
		}
		var ready, waiting []*docket
		for _, k := range cases {
			if missing[k] > 0 {
				waiting = append(waiting, k)
			} else {
				k.waited = k.waited || k.looksBack()
				ready = append(ready, k)
			}
		}
		if !slices.ContainsFunc(ready, func(k *docket) bool { return k.waited }) {
			waiting = slices.DeleteFunc(waiting, func(k *docket) bool {
				if k.waited = k.attempt > waits; !k.waited {
					*k.result = bus.Result{Err: fmt.Errorf("correct votes: the reflection at %d on the same execution is not in the log yet", missing[k])}
				}
				return !k.waited
			})
		}
		if cases = append(ready, waiting...); missing[k] > 0 {
			return cases, nil
		}
	}
	var with []*docket // that are as far: one reading does for all
	for _, other := range cases {
		if !other.looksBack() || other.readTo != k.readTo {
			continue
		}
		if other.standing == nil {
			other.standing = history.NewStanding(string(other.r.SampleID()))
		}
		with = append(with, other)
	}
	return cases, d.store.Since(ctx, b.name, k.readTo, func(r *natskv.Record) error {
		for _, other := range with {
			other.standing.Take(&r.Delta)
			other.readTo = r.Seq
		}
		return nil
	})
}

// waitForEarlier waits until a reflection that looks back lacks no earlier one on its sample: all of them are in the log or
// were given up. It returns the sequence of one that is not for each that lacks any. It waits for no reflection of the
// batch, and for lower sequences only, so that no two processes wait for each other.
func (d *desk) waitForEarlier(ctx context.Context, b *book, cases []*docket, failed func(seq uint64) bool) (missing map[*docket]uint64, err error) {
	waiting, last, batch := map[events.ID][]*docket{}, uint64(0), map[uint64]bool{}
	lookers := 0
	for _, k := range cases {
		batch[k.seq] = true
		if k.looksBack() && !k.waited {
			id := k.r.SampleID()
			waiting[id], last, lookers = append(waiting[id], k), max(last, k.seq), lookers+1
		}
	}
	floor, err := d.ackFloor(ctx)
	if err != nil {
		return nil, err
	}
	earlier, err := d.between(ctx, b.name, max(floor, b.w.State().Floor()), last)
	if err != nil {
		return nil, err
	}
	earlier = slices.DeleteFunc(earlier, func(e *docket) bool { return batch[e.seq] || waiting[e.r.SampleID()] == nil })
	until := time.Now().Add(earlierWait)
	var at lookup
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		if err := b.w.CheckView(ctx); err != nil { // which reads the end of the log
			return nil, err
		}
		if floor, err = d.ackFloor(ctx); err != nil {
			return nil, err
		}
		at.state = b.w.State()
		earlier = slices.DeleteFunc(earlier, func(e *docket) bool { return e.seq <= floor || at.covered(e) })
		if at.err != nil {
			return nil, at.err
		}
		missing = map[*docket]uint64{}
		for _, e := range slices.Backward(earlier) {
			for _, k := range waiting[e.r.SampleID()] {
				if e.seq < k.seq {
					missing[k] = e.seq
				}
			}
		}
		if len(missing) < lookers || time.Now().After(until) || slices.ContainsFunc(earlier, func(e *docket) bool { return failed(e.seq) }) {
			return missing, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// readPatience bounds the reading of what the stream holds.
const readPatience = 10 * time.Second

// between are the reflections of a book between two sequences. What cannot be read will be given up.
func (d *desk) between(ctx context.Context, b playbook.Book, after, before uint64) (found []*docket, err error) {
	if after+1 >= before {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, readPatience)
	defer stop()
	err = d.conn.Poll(ctx, events.StreamReflections, events.KindReflection.Subject(b), after+1, 5*time.Millisecond, func(s bus.Stored) error {
		switch {
		case s.Seq >= before:
			return bus.ErrStop
		case !isHeld(s.Event): // which settle nothing
			if r, ok := s.Event.(*events.Reflection); ok {
				found = append(found, &docket{id: r.ID, seq: s.Seq, r: r})
			}
		}
		return nil
	})
	return found, err
}

// outdated rejects all of a reflection whose sample was judged again since.
func (d *draft) outdated(k *docket) {
	why := no("the outcome was judged again later, by feedback")
	for _, t := range k.r.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{k.cover}}
		setVote(&op, t.Tag)
		d.reject(op, why)
	}
	for i := range k.r.Findings {
		d.reject(playbook.Op{Kind: playbook.Tag, Support: []int{k.cover}}, no("finding %q: %s", clip(k.r.Findings[i].Key, maxName), why.reason))
	}
	for _, p := range k.proposals {
		op := p.op
		op.Support = []int{k.cover}
		d.reject(op, why)
	}
	if len(k.r.Tags)+len(k.r.Findings)+len(k.proposals) == 0 {
		d.reject(playbook.Op{Kind: playbook.Retag, Support: []int{k.cover}}, why)
	}
}

// correction drafts what a reflection on feedback asks for: its execution's votes as they are judged now in place of
// those that it has, the outcomes likewise, and what is learned besides.
func (d *draft) correction(k *docket) {
	if k.standing.Judged() > k.r.Judged {
		d.outdated(k)
		return
	}
	for _, r := range k.rejected {
		d.record.add(r)
	}
	wanted := map[playbook.BulletID][]playbook.Vote{}
	var order []playbook.BulletID
	want := func(id playbook.BulletID, v playbook.Vote) {
		if d.get(id) == nil {
			id = k.standing.Into(id)
		}
		if wanted[id] == nil {
			order = append(order, id)
		}
		wanted[id] = append(wanted[id], v)
	}
	asked := map[playbook.BulletID]bool{}
	for _, t := range k.r.Tags {
		if !asked[t.ID] {
			asked[t.ID] = true
			want(t.ID, t.Tag)
		}
	}
	voted := map[playbook.BulletID]bool{}
	for i := range k.r.Findings {
		f := &k.r.Findings[i]
		if d.level(k.cover) == Untrusted {
			break
		}
		if b := d.byRule(f.Key); b == nil {
			d.finding(f, k.cover, voted)
		} else if !asked[b.ID] && !voted[b.ID] {
			asked[b.ID] = true
			want(b.ID, f.Vote)
		}
	}
	has := k.standing.Votes()
	for _, id := range slices.Sorted(maps.Keys(has)) {
		if wanted[id] == nil {
			order = append(order, id)
		}
	}
	for _, id := range order {
		d.revote(id, has[id], wanted[id], k.cover, voted)
	}
	d.retry(k)
	d.proposed(k, voted)
}

// revote drafts one bullet's votes of an execution as they are wanted in place of those that it has. Where several
// bullets with votes have become one, it has several.
func (d *draft) revote(id playbook.BulletID, has, wanted []playbook.Vote, cover int, voted map[playbook.BulletID]bool) {
	b := d.get(id)
	if b == nil && len(wanted) == 0 {
		return // its votes went with it
	}
	var old []playbook.Vote // that are not wanted; those that have gone some other way cannot be moved
	left := map[playbook.Vote]int{}
	if b != nil {
		left = map[playbook.Vote]int{playbook.Helpful: b.Helpful, playbook.Harmful: b.Harmful, playbook.Neutral: b.Neutral}
	}
	wanted = slices.Clone(wanted)
	kept := 0
	for _, v := range has {
		if left[v] == 0 {
			continue
		}
		left[v]--
		if i := slices.Index(wanted, v); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			kept++
		} else {
			old = append(old, v)
		}
	}
	for _, was := range old {
		is := playbook.Vote("")
		if len(wanted) > 0 {
			is, wanted = wanted[0], wanted[1:]
			kept++
		}
		d.retag(id, was, is, cover)
	}
	if len(wanted) > 0 && kept == 0 {
		d.vote(playbook.Op{Kind: playbook.Tag, Bullet: id, Support: []int{cover}}, wanted[0], voted)
	}
	voted[id] = true
}

// retag drafts that a vote moves to another counter, or is taken back.
func (d *draft) retag(id playbook.BulletID, was, is playbook.Vote, cover int) {
	op := playbook.Op{Kind: playbook.Retag, Bullet: id, Was: was, Support: []int{cover}}
	if is != "" {
		setVote(&op, is)
	}
	bullets := 1
	if d.changed[id] != nil {
		bullets = 0
	}
	if !d.room(&op, bullets) {
		d.reject(op, errFull)
		return
	}
	b := d.get(id)
	d.touch(b)
	if is == events.Harmful {
		d.tried[id] = struct{}{}
	}
	d.changed[id] = b.After(&op, d.covers)
	d.emit(op)
}

// retry drafts the outcomes of an execution as they are judged now, in the cases that are still open. One that was never
// counted is, if nobody knew it before; else there was a reason.
func (d *draft) retry(k *docket) {
	if !k.r.Outcome.Known() || d.level(k.cover) == Untrusted {
		return
	}
	score := int(math.Round(k.r.Score * playbook.MaxScore))
	trials := k.r.Trials[:min(len(k.r.Trials), maxTrials)]
	for i, t := range trials {
		b := d.get(t.Bullet)
		if b == nil || b.TheCase().Number != t.Case || slices.ContainsFunc(trials[:i], func(o events.Trial) bool { return o.Bullet == t.Bullet }) {
			continue
		}
		op := playbook.Op{Kind: playbook.Trial, Bullet: t.Bullet, Case: t.Case}
		counted := k.standing.Seen(t.Bullet, t.Case)
		for _, seen := range counted {
			if seen.Score != score {
				undo := seen
				undo.Undo, seen.Score = true, score
				op.Seen = append(op.Seen, undo, seen)
			}
		}
		if len(counted) == 0 && !k.r.Corrects && d.mode != playbook.GateOff && decided(t.Arm) {
			op.Seen = append(op.Seen, playbook.Seen{Arm: t.Arm, Score: score})
		}
		if len(op.Seen) == 0 {
			continue
		}
		for range op.Seen {
			op.Support = append(op.Support, k.cover)
		}
		bullets := 1
		if d.changed[t.Bullet] != nil {
			bullets = 0
		}
		if !d.room(&op, bullets) {
			d.reject(op, errFull)
			continue
		}
		d.changed[t.Bullet] = b.After(&op, d.covers)
		d.tried[t.Bullet] = struct{}{}
		d.emit(op)
	}
}
