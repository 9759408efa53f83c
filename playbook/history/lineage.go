package history

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"debrief/playbook"
)

// ErrBulletNotFound is returned if the log never contained the bullet.
var ErrBulletNotFound = errors.New("not found in the log")

// Kinds of events that are rejections and not operations.
const (
	// DuplicateEvent is a proposal that was rejected because the bullet has the same content.
	DuplicateEvent playbook.OpKind = "AGAIN"
	// RejectedEvent is a proposal that was rejected for another reason.
	RejectedEvent playbook.OpKind = "REJECTED"
)

// Event is an operation or a rejection in a log that concerns a bullet or is supported by an execution.
type Event struct {
	Version uint64          `json:"version"` // with which it took effect
	Time    time.Time       `json:"time"`
	Kind    playbook.OpKind `json:"kind"` // Op.Kind, DuplicateEvent or RejectedEvent
	// Bullet is the bullet of the event. In a lineage it can be one that was merged into the requested bullet.
	Bullet  playbook.BulletID `json:"bullet_id"`
	Op      playbook.Op       `json:"operation"`         // its Support are indices into the covers of the delta
	Support []playbook.Cover  `json:"support,omitempty"` // the covers themselves

	Author string          `json:"author,omitempty"`
	Code   playbook.Reason `json:"code,omitempty"`   // of the operation or rejection
	Reason string          `json:"reason,omitempty"` // of the operation or rejection, else of the whole change
	Model  string          `json:"model,omitempty"`  // that proposed something in this change
	Prompt string          `json:"prompt,omitempty"`

	Restores *uint64            `json:"restored_version,omitempty"`
	Forgets  *playbook.Selector `json:"forget,omitempty"`
}

// event returns the event of an operation in a part of the change.
func (c change) event(part *playbook.Delta, op *playbook.Op) Event {
	d := c.last()
	return Event{
		Version: d.Version, Time: d.Time, Kind: op.Kind, Bullet: op.Bullet, Op: *op, Support: c.support(part, op),
		Author: d.Author, Code: op.Code, Reason: cmp.Or(op.Reason, d.Reason), Model: d.Model, Prompt: d.Prompt,
		Restores: d.RestoredVersion, Forgets: d.Forget,
	}
}

// rejection returns the event of a rejection. Its kind is DuplicateEvent for a duplicate, else RejectedEvent.
func (c change) rejection(part *playbook.Delta, j *playbook.Rejection) Event {
	e := c.event(part, &j.Op)
	e.Kind = RejectedEvent
	e.Code, e.Reason = j.Code, j.Reason
	if j.DuplicateOf != "" {
		e.Kind, e.Bullet = DuplicateEvent, j.DuplicateOf
	}
	return e
}

// MergeExposures merges consecutive events with outcomes of one experiment into one event, because an experiment may have thousands. The
// merged event has the version of the first one. MergeExposures does not change its argument.
func MergeExposures(all []Event) (some []Event) {
	for _, e := range all {
		if n := len(some); n > 0 && sameExperiment(&some[n-1], &e) {
			last := &some[n-1]
			last.Op.Exposures = slices.Concat(last.Op.Exposures, e.Op.Exposures)
			last.Support = slices.Concat(last.Support, e.Support)
			continue
		}
		some = append(some, e)
	}
	return some
}

// sameExperiment reports whether two events are outcomes of the same experiment.
func sameExperiment(a, b *Event) bool {
	areOutcomes := a.Kind == playbook.AddExposures && b.Kind == playbook.AddExposures
	return areOutcomes && a.Bullet == b.Bullet && a.Op.ExperimentNumber == b.Op.ExperimentNumber
}

// Lineage contains all events of a bullet, and those of the bullets that were merged into it until their merge. It
// includes events that were restored or forgotten later.
type Lineage struct {
	Bullet    playbook.BulletID `json:"bullet_id"`
	Current   *playbook.Bullet  `json:"current"`              // nil if the bullet was removed
	RemovedBy *Event            `json:"removed_by,omitempty"` // the event that removed it, if it was removed
	Merged    []string          `json:"merged,omitempty"`     // the bullets merged into it, whose events are included
	Events    []Event           `json:"events"`               // oldest first
	// Supporters are the executions behind the events, each once.
	Supporters []Supporter `json:"-"`
	Summary
}

// Votes counts votes by kind.
type Votes struct {
	Helpful int `json:"helpful"`
	Harmful int `json:"harmful"`
	Neutral int `json:"neutral"`
}

func (v *Votes) add(op *playbook.Op) {
	v.Helpful += op.Helpful
	v.Harmful += op.Harmful
	v.Neutral += op.Neutral
}

func (v *Votes) counter(kind playbook.Vote) *int {
	switch kind {
	case playbook.Helpful:
		return &v.Helpful
	case playbook.Harmful:
		return &v.Harmful
	}
	return &v.Neutral
}

// Summary summarizes a lineage.
type Summary struct {
	Author string    `json:"author"` // of the first event of the bullet itself
	First  time.Time `json:"first"`  // time of the first event
	Last   time.Time `json:"last"`   // time of the last event
	// LearnedFrom counts the executions on which the text rests, by the newest label of their outcome; "unknown" without one.
	LearnedFrom map[string]int `json:"learned_from"`
	// Helped, Harmed and NoEffect count the other executions by the newest vote of each.
	Helped   int `json:"helped"`
	Harmed   int `json:"harmed"`
	NoEffect int `json:"no_effect"`
	// Forgotten counts the executions that were forgotten since. The other fields do not count them.
	Forgotten int `json:"forgotten,omitempty"`
	// VotesCast are all votes ever cast, as corrected.
	VotesCast Votes `json:"votes_cast"`
	// CurrentVotes are the votes that the bullet has now: fewer after a restore or a forget change, more after an import.
	CurrentVotes Votes `json:"current_votes"`
}

// LineageOf returns the lineage of a bullet. It returns ErrBulletNotFound if the log never contained it.
func LineageOf(log Log, id playbook.BulletID) (*Lineage, error) {
	t, err := newTracer(log, id)
	if err != nil {
		return nil, err
	}
	if err := log.changes(t.newest, t.apply); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(t.events, func(e Event) bool { return e.Bullet == id && e.Kind != DuplicateEvent }) {
		return nil, fmt.Errorf("bullet %q: %w", id, ErrBulletNotFound)
	}
	l := &Lineage{Bullet: id, Current: t.state.Bullet(id), Events: t.events}
	if l.Current == nil {
		l.RemovedBy = &t.events[t.endedBy]
	}
	for other := range t.until {
		if other != id {
			l.Merged = append(l.Merged, string(other))
		}
	}
	slices.Sort(l.Merged)
	l.Supporters = supporters(t.events, func(version uint64, e *playbook.Evidence) bool {
		return slices.ContainsFunc(t.forgets, func(f playbook.Forgotten) bool { return f.Matches(version, e) })
	})
	l.Summary = t.summary(l)
	return l, nil
}

// StatesOf calls fn with the state of a bullet after each change that concerns it, nil after its removal. The log may leave out changes that
// concern neither the bullet nor one that was merged into it.
func StatesOf(log Log, id playbook.BulletID, fn func(d *playbook.Delta, b *playbook.Bullet)) error {
	t, err := newTracer(log, id)
	if err != nil {
		return err
	}
	return log.changes(t.newest, func(c change) error {
		before := len(t.events)
		err := t.apply(c)
		if len(t.events) > before {
			fn(c.last(), t.state.Bullet(id))
		}
		t.events = t.events[:0]
		return err
	})
}

// logPosition is a position in a log: the number of operations up to it, and its version.
type logPosition struct {
	opCount int
	version uint64
}

// tracer follows a bullet, and the bullets that are merged into it, through a log.
type tracer struct {
	id      playbook.BulletID
	until   map[playbook.BulletID]logPosition // the followed bullets, with the position up to which their events count
	newest  uint64                            // newest version that findMerged has read
	forgets []playbook.Forgotten

	opCount int               // number of operations applied so far
	state   playbook.Playbook // of the followed bullets alone
	events  []Event
	endedBy int // index of the event that removed the bullet
}

// newTracer returns a tracer at the beginning of a log. It reads the log once, to find the bullets to follow.
func newTracer(log Log, id playbook.BulletID) (*tracer, error) {
	t := &tracer{id: id, until: map[playbook.BulletID]logPosition{id: {math.MaxInt, math.MaxUint64}}}
	return t, t.findMerged(log)
}

// findMerged finds the bullets that were merged into the requested one, and the position of each merge: the events of a merged bullet count up to
// its merge. It keeps all merges in memory, because it must read them from the end.
func (t *tracer) findMerged(log Log) error {
	type merge struct {
		logPosition
		into playbook.BulletID
		from []playbook.BulletID
	}
	var merges []merge
	opCount := 0
	err := log.changes(endOfLog, func(c change) error {
		t.newest = c.last().Version
		if c.last().Forget != nil {
			t.forgets = append(t.forgets, c.last().Forgotten())
		}
		for _, part := range c {
			for i := range part.Ops {
				opCount++
				if op := &part.Ops[i]; op.Kind == playbook.Merge {
					merges = append(merges, merge{logPosition{opCount, t.newest}, op.Bullet, op.Sources})
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(merges) {
		if until, ok := t.until[m.into]; !ok || m.opCount > until.opCount {
			continue
		}
		for _, id := range m.from {
			if _, ok := t.until[id]; !ok {
				t.until[id] = m.logPosition
			}
		}
	}
	return nil
}

func (t *tracer) apply(c change) error {
	for _, part := range c {
		for i := range part.Ops {
			t.opCount++
			if err := t.applyOp(c, part, &part.Ops[i]); err != nil {
				return err
			}
		}
	}
	for _, part := range c {
		for i := range part.Rejected {
			j := &part.Rejected[i]
			if until, ok := t.until[j.DuplicateOf]; ok && c.last().Version <= until.version {
				t.events = append(t.events, c.rejection(part, j))
			}
		}
	}
	return nil
}

// applyOp applies an operation to the followed bullets and records an event for each that it changes.
func (t *tracer) applyOp(c change, part *playbook.Delta, op *playbook.Op) error {
	var ops []playbook.Op // the effect of the operation on the followed bullets
	if _, ok := t.until[op.Bullet]; ok {
		ops = append(ops, *op)
	} else {
		for _, id := range op.Sources { // a followed bullet that merges into another one is removed
			if _, ok := t.until[id]; ok {
				ops = append(ops, playbook.Op{Kind: playbook.Remove, Bullet: id})
			}
		}
	}
	for _, effect := range ops {
		before := t.state.Bullet(t.id)
		// The last part has the covers of the whole change.
		changed, err := t.state.Apply(&playbook.Delta{Version: t.state.Version() + 1, Ops: []playbook.Op{effect}, Covers: c.last().Covers, Time: part.Time})
		if err != nil {
			return err
		}
		if len(changed) == 0 || t.opCount > t.until[effect.Bullet].opCount {
			continue // without effect, or after the bullet was merged into another one
		}
		e := c.event(part, op)
		e.Bullet = effect.Bullet
		t.events = append(t.events, e)
		if before != nil && t.state.Bullet(t.id) == nil {
			t.endedBy = len(t.events) - 1
		}
	}
	return nil
}

// summary returns the summary of a lineage, whose other fields are set.
func (t *tracer) summary(l *Lineage) Summary {
	first, last := t.events[0], t.events[len(t.events)-1]
	s := Summary{First: first.Time, Last: last.Time, LearnedFrom: map[string]int{}}
	for _, e := range t.events {
		if e.Bullet == t.id && s.Author == "" && e.Kind != DuplicateEvent {
			s.Author = e.Author
		}
		switch e.Kind {
		case playbook.Tag:
			s.VotesCast.add(&e.Op)
		case playbook.Retag: // the corrected votes count in place of the old ones
			s.VotesCast.add(&e.Op)
			*s.VotesCast.counter(e.Op.OldVote) -= len(e.Op.Support)
		}
	}
	for i := range l.Supporters {
		switch x := &l.Supporters[i]; {
		case x.Forgotten:
			s.Forgotten++
		case x.Role == Learned:
			s.LearnedFrom[cmp.Or(x.Outcome, "unknown")]++
		case x.Role == Helped:
			s.Helped++
		case x.Role == Harmed:
			s.Harmed++
		default:
			s.NoEffect++
		}
	}
	if b := l.Current; b != nil {
		s.CurrentVotes = Votes{b.Helpful, b.Harmful, b.Neutral}
	}
	return s
}
