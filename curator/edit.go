package curator

import (
	"context"
	"errors"
	"fmt"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/history"
)

// past is what an edit that looks back needs, read from the log as it was at a version.
type past struct {
	newest uint64             // the version
	wanted *playbook.Playbook // how the bullets shall be
	fewer  bool               // counts are gone that were there then
	unfit  string             // why that cannot be
}

// ready reports whether a docket can be drafted against a state: those that look back need to have seen all of its log,
// those that gather what they gather.
func (k *docket) ready(p *playbook.Playbook) bool {
	if k.e == nil {
		return !k.looksBack() || k.looked(p)
	}
	switch {
	case k.gathers():
		return k.gathering != nil
	case k.e.Restore == nil && k.e.Forget == nil && !k.e.Rebuild:
		return true
	}
	return k.past != nil && k.past.newest == p.Version()
}

// prepare reads the past for an edit that looks back. A rebuild is done here: the change only records it.
func (d *desk) prepare(ctx context.Context, b *book, k *docket) error {
	if k.e.Rebuild {
		if k.past == nil {
			if err := b.w.Rebuild(ctx); err != nil {
				return err
			}
		}
		k.past = &past{newest: b.w.State().Playbook().Version()}
		return nil
	}
	log := d.store.History(ctx, b.name)
	k.past = new(past)
	var err error
	if k.e.Restore != nil {
		if k.past.wanted, k.past.newest, err = history.At(log, *k.e.Restore); err == nil {
			was, aerr := d.store.At(ctx, b.name, *k.e.Restore)
			err, k.past.fewer = aerr, aerr == nil && was.StateHash() != k.past.wanted.StateHash()
		}
	} else {
		var f *history.Forgetting
		if err := ResolveSample(ctx, d.conn, log, k.e.Forget); err != nil {
			return err
		}
		if f, err = history.Without(log, *k.e.Forget); err == nil {
			k.past.wanted, k.past.newest, k.past.fewer = f.Playbook, f.Newest, true
			if f.Matched == 0 {
				k.past.unfit = fmt.Sprintf("nothing in the playbook rests on %s", k.e.Forget)
			}
		}
	}
	if missing := (*history.NoVersionError)(nil); errors.As(err, &missing) {
		k.past.unfit, err = missing.Error(), nil
	}
	return err
}

// ResolveSample fills in the sample behind the handle of a selector: from the stored execution, or, when that has expired,
// from its evidence in the log. An unknown handle is left without a sample.
func ResolveSample(ctx context.Context, conn *bus.Conn, log history.Log, s *playbook.Selector) error {
	if s.Execution == "" || s.Sample != "" {
		return nil
	}
	seq, is, err := events.Handle(s.Execution).Parse()
	if err != nil {
		return nil // no execution has such a handle
	}
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if e, ok := found.(*events.Execution); ok {
		s.Sample = string(e.Sample())
		return nil
	}
	if err != nil && !errors.Is(err, bus.ErrGone) {
		return err
	}
	return log(func(d *playbook.Delta) error {
		for _, c := range d.Covers {
			if c.Evidence != nil && c.Evidence.Execution == s.Execution {
				s.Sample = c.Evidence.Sample
			}
		}
		return nil
	})
}

// edited drafts a person's change: a delta of its own, all of it or nothing. What cannot be done is told to the person,
// too.
func (d *draft) edited(k *docket, covered func(*docket) bool, out *playbook.Delta) {
	stale := d.stale
	*d = *newDraft(d.base, d.policy)
	d.whole, d.person, d.stale = true, true, stale
	k.cover, k.decision = d.cover(k), events.Decision{}
	out.Author, out.Reason = clip(k.e.Author, maxAuthor), clip(k.e.Reason, maxReason)
	if k.e.Rebuild && out.Reason == "" {
		out.Reason = "rebuild of the view"
	}

	refused := d.edit(k, covered, out)
	if len(refused) == 0 {
		k.decision.Changed = len(d.changed)
		return
	}
	*d = *newDraft(d.base, d.policy)
	d.stale = stale
	if *out = (playbook.Delta{Author: out.Author, Reason: out.Reason}); !k.gathers() {
		d.cover(k)
	}
	k.decision.Added = nil
	for i, j := range refused {
		d.record.add(j)
		if i < maxRefused {
			k.decision.Refused = append(k.decision.Refused, j.Reason)
		}
	}
	if more := len(refused) - maxRefused; more > 0 {
		k.decision.Refused = append(k.decision.Refused, fmt.Sprintf("%d more", more))
	}
	k.decision.Conflicts = k.decision.Conflicts[:min(len(k.decision.Conflicts), maxRefused)]
}

// maxRefused bounds how many reasons a person is told; the log has more.
const maxRefused = 10

// edit drafts what an edit asks for and returns what of it cannot be done.
func (d *draft) edit(k *docket, covered func(*docket) bool, out *playbook.Delta) (refused []playbook.Rejection) {
	e := k.e
	refuse := func(op playbook.Op, why *refusal) {
		refused = append(refused, playbook.Rejection{Op: op, Reason: why.reason, Same: why.same})
	}
	if e.Restore != nil && e.Forget != nil || (e.Restore != nil || e.Forget != nil) && len(e.Ops) > 0 {
		refuse(playbook.Op{}, no("operations, restore, forget: an edit is one of them"))
		return refused
	}
	if k.gathers() && (len(e.Ops)+len(e.Names) > 0 || e.Restore != nil || e.Forget != nil || e.Gate != "" || e.Rebuild) {
		refuse(playbook.Op{}, no("gather: an edit that gathers reflections does nothing else"))
		return refused
	}
	for _, was := range e.Expect {
		if is, changed := d.differs(was); changed {
			k.decision.Conflicts = append(k.decision.Conflicts, is)
			refuse(playbook.Op{Bullet: was.Bullet}, no("bullet %q has changed since it was read", clip(string(was.Bullet), maxName)))
		}
	}
	if now := d.base.Version(); e.Seen != nil && now > *e.Seen {
		refuse(playbook.Op{}, no("the playbook has moved on to version %d since version %d was read", now, *e.Seen))
	}
	if k.gathers() {
		for _, why := range k.gathering.unfit {
			refuse(playbook.Op{}, no("%s", why))
		}
		if len(refused) == 0 {
			if why := d.gather(k, covered, out); why != nil {
				refuse(playbook.Op{}, why)
			}
		}
		return refused
	}
	for _, n := range e.Names {
		if n.Version == 0 {
			n.Version = d.base.Version()
		}
		if n.Version > d.base.Version() {
			refuse(playbook.Op{}, no("%v", &history.NoVersionError{Version: n.Version, Newest: d.base.Version()}))
		}
		out.Names = append(out.Names, n)
	}
	if e.Gate != "" {
		was := d.mode
		if d.mode, out.Gate = e.Gate, e.Gate; was == playbook.GateOn && d.mode != playbook.GateOn {
			d.release(d.mode)
		}
	}
	for _, op := range e.Ops {
		op.Support = []int{k.cover}
		err := tidy(&op)
		if (op.Kind == playbook.Add || op.Kind == playbook.SetStatus) && (op.Status == playbook.Active || op.Status == "" || op.Status == playbook.Retired) {
			op.Share = d.decree(op.Status)
		}
		if err != nil {
			refuse(op, no("%v", err))
		} else if why := secretIn(&op); why != nil {
			op.Content, op.Whole = redacted(op.Content), nil
			refuse(op, why)
		} else if why := d.change(&op); why != nil {
			refuse(op, why)
		} else if op.Kind == playbook.Add {
			k.decision.Added = append(k.decision.Added, op.Bullet)
		}
	}
	if k.past != nil && k.past.unfit != "" {
		refuse(playbook.Op{}, no("%s", k.past.unfit))
	} else if k.past != nil && k.past.wanted != nil {
		d.become(k.past.wanted, k.past.fewer)
	}
	out.Restores, out.Forgets, out.Frame = e.Restore, e.Forget, e.Frame
	return refused
}

// differs compares a bullet with how it was when a person read it.
func (d *draft) differs(was events.Expectation) (is events.Expectation, changed bool) {
	is.Bullet = was.Bullet
	if b := d.get(was.Bullet); b != nil {
		is.Section, is.Content = b.Section, b.Content
	}
	return is, is != was
}

// become drafts what turns the state into another one. When counts have gone from it, what rules say is brought in line.
func (d *draft) become(wanted *playbook.Playbook, recount bool) {
	for _, op := range history.Towards(d.base, wanted) {
		op.Support = []int{0}
		if old := d.base.Bullet(op.Bullet); old != nil && recount {
			d.touch(old)
		}
		d.set(op)
	}
}

// set drafts a PUT, or the removal of a bullet, whatever is there.
func (d *draft) set(op playbook.Op) {
	b := op.Whole
	d.changed[op.Bullet] = b
	if b != nil {
		d.minted = max(d.minted, b.ID.Number())
		d.texts[playbook.WordingOf(b.Content)] = b.ID
		if b.Rule != nil {
			d.rules[b.Rule.Key] = b.ID
		}
	}
	d.emit(op)
}

// put drafts a bullet from elsewhere under the id that it has there. One that is there already is left as it is.
func (d *draft) put(op *playbook.Op) *refusal {
	if old := d.get(op.Bullet); old != nil {
		if old.Section == op.Whole.Section && old.Content == op.Whole.Content {
			return nil
		}
		return no("bullet %q is there already, with another text", clip(string(op.Bullet), maxName))
	}
	d.set(*op)
	return nil
}

// split makes one delta, or as many as a large change takes.
func split(d *playbook.Delta) []*playbook.Delta {
	var parts []*playbook.Delta
	part := func() *playbook.Delta {
		p := &playbook.Delta{Author: d.Author, Reason: d.Reason}
		parts = append(parts, p)
		return p
	}
	for len(d.Frame) > frameBytes {
		part().Frame, d.Frame = d.Frame[:frameBytes:frameBytes], d.Frame[frameBytes:]
	}
	size := len(d.Frame)
	for i := range d.Covers {
		size += coverBytes(&d.Covers[i])
	}
	for i := range d.Ops {
		size += opSize(&d.Ops[i])
	}
	if size <= fullBytes && len(d.Ops) <= fullKeys {
		return append(parts, d)
	}
	room := 0
	var p *playbook.Delta
	for _, op := range d.Ops {
		if d.Author != Author {
			op.Support = nil // what a person asked for rests on that person's edit alone
		}
		n := opSize(&op)
		if p == nil || room < n || len(p.Ops) == fullKeys {
			p, room = part(), fullBytes
		}
		p.Ops, room = append(p.Ops, op), room-n
	}
	d.Ops = nil
	return append(parts, d)
}

// tidy makes an operation that comes from outside one that a log can hold, or says why it cannot be. A log with an
// operation that it cannot hold would be refused whole, and everybody's reflections with it.
func tidy(op *playbook.Op) (err error) {
	op.Helpful, op.Harmful, op.Neutral = 0, 0, 0
	op.Was, op.Case, op.Seen, op.Share, op.Replaces = "", 0, nil, 0, ""
	op.Reason = clip(op.Reason, maxReason)
	if op.Rule != nil {
		return errors.New("rule: is for what rules find, an edit cannot set it")
	}
	if op.Section != "" {
		op.Section = playbook.Section(op.Section)
	}
	switch op.Kind {
	case playbook.Put:
		op.Content, op.Section = "", ""
		return tidyWhole(op)
	case playbook.Add, playbook.Update, playbook.Merge:
		if op.Content, err = playbook.CleanContent(op.Content); err != nil {
			return err
		}
	default:
		op.Content = ""
	}
	if op.Whole = nil; !op.Status.Valid() {
		return fmt.Errorf("status: %q is none of active, candidate, probation, retired, quarantined", clip(string(op.Status), maxName))
	}
	if op.Status == "" && op.Kind == playbook.SetStatus {
		op.Status = playbook.Active
	}
	if op.Status == playbook.Probation {
		return errors.New("status: the gate alone puts a bullet on probation; make it a candidate")
	}
	return nil
}

// tidyWhole checks a bullet that comes as a whole.
func tidyWhole(op *playbook.Op) error {
	b := op.Whole
	switch {
	case b == nil:
		return errors.New("whole: is missing")
	case len(b.Content) > playbook.MaxContent || b.Rule != nil && (len(b.Rule.Key)+len(b.Rule.Base) > 2*maxRuleKey || len(b.Rule.Text) > maxRuleText):
		return errors.New("whole: is too long")
	}
	if err := b.ID.CheckForeign(); err != nil {
		return fmt.Errorf("whole.id: %q: %w", clip(string(b.ID), maxName), err)
	}
	check := playbook.Delta{Version: 1, Ops: []playbook.Op{{Kind: playbook.Put, Bullet: op.Bullet, Whole: b}}}
	return check.Validate()
}
