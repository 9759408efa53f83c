package curator

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// A correction is a reflection on feedback that replaces the votes and outcomes of its sample. It reads the current votes
// and outcomes from the log, up to the version before its own delta, so it gets a separate delta. It also waits until
// the earlier reflections on the same sample are in the log; reflections on other samples do not matter. The wait is
// limited to some attempts. If an earlier reflection is committed after the correction, all of it is rejected
// (ReasonCorrected) and its lessons are lost. The wait makes that rare.
//
// The first feedback on an execution that had no outcome before has no votes to replace. Its reflection is not a
// correction, unless other feedback on the same sample was faster.

// isCorrection reports whether a work item is a reflection on feedback that may have votes or outcomes to replace.
func (item *workItem) isCorrection() bool {
	return item.reflection != nil && item.reflection.FeedbackSeq > 0 && (!item.reflection.FirstOutcome || item.mustCorrect)
}

// logRead reports whether the votes and outcomes of a correction are known up to a state.
func (item *workItem) logRead(p *playbook.Playbook) bool {
	return item.waitDone && item.contribution.Version() == p.Version()
}

// sortCorrectionsLast moves corrections behind the other items, in the order of the stream.
func sortCorrectionsLast(items []*workItem) {
	slices.SortStableFunc(items, func(a, b *workItem) int {
		switch x, y := a.isCorrection(), b.isCorrection(); {
		case x && y && a.seq < b.seq, !x && y:
			return -1
		case x && y && a.seq > b.seq, x && !y:
			return 1
		}
		return 0
	})
}

// Bounds of the wait for earlier reflections on the same sample. The wait is short because it blocks the book; a
// reflection that arrives in this process meanwhile is in the batch of the next attempt.
const (
	earlierWait  = 2 * time.Second // in each attempt that waits
	waitAttempts = 4               // attempts that wait, out of five deliveries
)

// prepareCorrections waits for earlier reflections and reads the votes and outcomes of a correction from the log. It returns
// the items that are left, those that wait for nothing first. If every correction has waited without success, each gets an
// error as its result and leaves the batch. failed reports whether an event failed in this batch.
func (w *worker) prepareCorrections(
	ctx context.Context, b *book, item *workItem, items []*workItem, failed func(seq uint64) bool,
) (left []*workItem, err error) {
	if !item.waitDone {
		missing, err := w.waitForEarlier(ctx, b, items, failed)
		if err != nil {
			return nil, err
		}
		var ready, waiting []*workItem
		for _, item := range items {
			if missing[item] > 0 {
				waiting = append(waiting, item)
			} else {
				item.waitDone = item.waitDone || item.isCorrection()
				ready = append(ready, item)
			}
		}
		if !slices.ContainsFunc(ready, func(item *workItem) bool { return item.waitDone }) {
			waiting = slices.DeleteFunc(waiting, func(item *workItem) bool {
				if item.waitDone = item.attempt > waitAttempts; !item.waitDone {
					err := fmt.Errorf("correct votes: earlier reflection %d on the same sample is not in the log", missing[item])
					*item.result = bus.Result{Err: err}
				}
				return !item.waitDone
			})
		}
		if items = append(ready, waiting...); missing[item] > 0 {
			return items, nil
		}
	}
	return items, w.readContributions(ctx, b, item, items)
}

// readContributions reads the log for a correction, and at once for the other corrections that have read as far.
func (w *worker) readContributions(ctx context.Context, b *book, item *workItem, items []*workItem) error {
	var with []*workItem
	for _, other := range items {
		if !other.isCorrection() || other.readSeq != item.readSeq {
			continue
		}
		if other.contribution == nil {
			other.contribution = history.NewContribution(string(other.reflection.SampleID()))
		}
		with = append(with, other)
	}
	return w.store.DeltasAfter(ctx, b.name, item.readSeq, func(r *deltalog.Record) error {
		for _, other := range with {
			other.contribution.Apply(&r.Delta)
			other.readSeq = r.Seq
		}
		return nil
	})
}

// waitForEarlier waits until at least one correction has all earlier reflections on its sample in the log or dead-lettered.
// For each other correction it returns the sequence of a missing reflection. It does not wait for reflections of the same
// batch. It waits for lower sequences only, so that two processes never wait for each other.
func (w *worker) waitForEarlier(
	ctx context.Context, b *book, items []*workItem, failed func(seq uint64) bool,
) (missing map[*workItem]uint64, err error) {
	waiting, last, batch := map[events.ID][]*workItem{}, uint64(0), map[uint64]bool{}
	corrections := 0
	for _, item := range items {
		batch[item.seq] = true
		if item.isCorrection() && !item.waitDone {
			id := item.reflection.SampleID()
			waiting[id], last = append(waiting[id], item), max(last, item.seq)
			corrections++
		}
	}
	floor, err := w.ackFloor(ctx)
	if err != nil {
		return nil, err
	}
	earlier, err := w.reflectionsBetween(ctx, b.name, max(floor, b.writer.State().Floor()), last)
	if err != nil {
		return nil, err
	}
	earlier = slices.DeleteFunc(earlier, func(e *workItem) bool { return batch[e.seq] || waiting[e.reflection.SampleID()] == nil })
	earlierFailed := func(e *workItem) bool { return failed(e.seq) }
	until := time.Now().Add(earlierWait)
	var log coverLookup
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		if err := b.writer.CheckView(ctx); err != nil { // also reads the end of the log
			return nil, err
		}
		if floor, err = w.ackFloor(ctx); err != nil {
			return nil, err
		}
		log.state = b.writer.State()
		earlier = slices.DeleteFunc(earlier, func(e *workItem) bool { return e.seq <= floor || log.covered(e) })
		if log.err != nil {
			return nil, log.err
		}
		missing = map[*workItem]uint64{}
		for _, e := range slices.Backward(earlier) {
			for _, item := range waiting[e.reflection.SampleID()] {
				if e.seq < item.seq {
					missing[item] = e.seq
				}
			}
		}
		if len(missing) < corrections || time.Now().After(until) || slices.ContainsFunc(earlier, earlierFailed) {
			return missing, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// readTimeout is the timeout for reading a range of the stream.
const readTimeout = 10 * time.Second

// reflectionsBetween returns the reflections of a book with a sequence after one and before another, without held ones. It
// skips messages that cannot be decoded, because they are dead-lettered.
func (w *worker) reflectionsBetween(ctx context.Context, b playbook.Book, after, before uint64) (found []*workItem, err error) {
	if after+1 >= before {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, readTimeout)
	defer stop()
	subject := events.KindReflection.Subject(b)
	err = w.conn.Poll(ctx, events.StreamReflections, subject, after+1, 5*time.Millisecond, func(s bus.Stored) error {
		switch {
		case s.Seq >= before:
			return bus.ErrStop
		case !isHeld(s.Event): // a held reflection has no votes by itself
			if r, ok := s.Event.(*events.Reflection); ok {
				found = append(found, &workItem{id: r.ID, seq: s.Seq, reflection: r})
			}
		}
		return nil
	})
	return found, err
}

// rejectOutdated rejects all parts of a reflection if later feedback on its sample is in the log.
func (d *draft) rejectOutdated(item *workItem) {
	why := screen.Refusef(playbook.ReasonCorrected, "later feedback changed the outcome")
	for _, t := range item.reflection.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{item.coverIndex}}
		setVote(&op, t.Tag)
		d.reject(op, why)
	}
	for i := range item.reflection.Findings {
		key := screen.Truncate(item.reflection.Findings[i].Key, screen.MaxName)
		d.reject(playbook.Op{Kind: playbook.Tag, Support: []int{item.coverIndex}}, screen.Refusef(why.Code, "finding %q: %s", key, why.Reason))
	}
	for _, p := range item.proposals {
		op := p.op
		op.Support = []int{item.coverIndex}
		d.reject(op, why)
	}
	if len(item.reflection.Tags)+len(item.reflection.Findings)+len(item.proposals) == 0 {
		d.reject(playbook.Op{Kind: playbook.Retag, Support: []int{item.coverIndex}}, why)
	}
}

// draftCorrection drafts a correction: it replaces the votes and outcomes of its sample and drafts the new proposals.
func (d *draft) draftCorrection(item *workItem) {
	if item.contribution.LastFeedback() > item.reflection.FeedbackSeq {
		d.rejectOutdated(item)
		return
	}
	for _, r := range item.rejected {
		d.rejections.add(r)
	}
	wanted := map[playbook.BulletID][]playbook.Vote{}
	var order []playbook.BulletID
	want := func(id playbook.BulletID, v playbook.Vote) {
		if d.get(id) == nil {
			id = item.contribution.MergedInto(id)
		}
		if wanted[id] == nil {
			order = append(order, id)
		}
		wanted[id] = append(wanted[id], v)
	}
	asked := map[playbook.BulletID]bool{}
	for _, t := range item.reflection.Tags {
		if !asked[t.ID] {
			asked[t.ID] = true
			want(t.ID, t.Tag)
		}
	}
	voted := map[playbook.BulletID]bool{}
	for i := range item.reflection.Findings {
		f := &item.reflection.Findings[i]
		if d.trustLevel(item.coverIndex) == Untrusted {
			break
		}
		if b := d.ruleBullet(f.Key); b == nil {
			d.countFinding(f, item.coverIndex, voted)
		} else if !asked[b.ID] && !voted[b.ID] {
			asked[b.ID] = true
			want(b.ID, f.Vote)
		}
	}
	has := item.contribution.Votes()
	for _, id := range slices.Sorted(maps.Keys(has)) {
		if wanted[id] == nil {
			order = append(order, id)
		}
	}
	for _, id := range order {
		d.correctVotes(id, has[id], wanted[id], item.coverIndex, voted)
	}
	d.correctOutcomes(item)
	d.draftProposals(item, voted)
}

// correctVotes drafts the change from the votes that a bullet has of a sample to the wanted ones. A bullet has several votes
// of one sample if bullets with votes were merged into it.
func (d *draft) correctVotes(id playbook.BulletID, has, wanted []playbook.Vote, cover int, voted map[playbook.BulletID]bool) {
	b := d.get(id)
	if b == nil && len(wanted) == 0 {
		return // the bullet was removed together with its votes
	}
	var old []playbook.Vote // votes to move; a vote that the counters no longer contain cannot be moved
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
	for _, from := range old {
		to := playbook.Vote("")
		if len(wanted) > 0 {
			to, wanted = wanted[0], wanted[1:]
			kept++
		}
		d.moveVote(id, from, to, cover)
	}
	if len(wanted) > 0 && kept == 0 {
		d.vote(playbook.Op{Kind: playbook.Tag, Bullet: id, Support: []int{cover}}, wanted[0], voted)
	}
	voted[id] = true
}

// moveVote drafts the move of a vote to another counter. An empty to removes the vote.
func (d *draft) moveVote(id playbook.BulletID, from, to playbook.Vote, cover int) {
	op := playbook.Op{Kind: playbook.Retag, Bullet: id, OldVote: from, Support: []int{cover}}
	if to != "" {
		setVote(&op, to)
	}
	bullets := 1
	if d.changed[id] != nil {
		bullets = 0
	}
	if !d.hasRoom(&op, bullets) {
		d.reject(op, errFull)
		return
	}
	b := d.get(id)
	d.markStale(b)
	if to == events.Harmful {
		d.evidenceChanged[id] = struct{}{}
	}
	d.changed[id] = b.Apply(&op, d.covers)
	d.addOp(op)
}

// correctOutcomes drafts the corrected outcomes of a sample for experiments that are still current. If the log has no
// outcome of the sample, it is added only for a first outcome; a corrected one was left out before for a reason.
func (d *draft) correctOutcomes(item *workItem) {
	if !item.reflection.Outcome.Known() || d.trustLevel(item.coverIndex) == Untrusted {
		return
	}
	score := int(math.Round(item.reflection.FirstRoundScore * playbook.MaxScore))
	trials := item.reflection.Exposures[:min(len(item.reflection.Exposures), maxTrials)]
	for i, t := range trials {
		b := d.get(t.Bullet)
		duplicate := slices.ContainsFunc(trials[:i], func(o events.Exposure) bool { return o.Bullet == t.Bullet })
		if b == nil || b.CurrentExperiment().Number != t.Experiment || duplicate {
			continue
		}
		op := playbook.Op{Kind: playbook.AddExposures, Bullet: t.Bullet, ExperimentNumber: t.Experiment}
		counted := item.contribution.Outcomes(t.Bullet, t.Experiment)
		for _, seen := range counted {
			if seen.Score != score {
				undo := seen
				undo.Undo, seen.Score = true, score
				op.Exposures = append(op.Exposures, undo, seen)
			}
		}
		if len(counted) == 0 && !item.reflection.Corrects && d.mode != playbook.GateOff && decided(t.Arm) {
			op.Exposures = append(op.Exposures, playbook.Exposure{Arm: t.Arm, Score: score})
		}
		if len(op.Exposures) == 0 {
			continue
		}
		for range op.Exposures {
			op.Support = append(op.Support, item.coverIndex)
		}
		bullets := 1
		if d.changed[t.Bullet] != nil {
			bullets = 0
		}
		if !d.hasRoom(&op, bullets) {
			d.reject(op, errFull)
			continue
		}
		d.changed[t.Bullet] = b.Apply(&op, d.covers)
		d.evidenceChanged[t.Bullet] = struct{}{}
		d.addOp(op)
	}
}
