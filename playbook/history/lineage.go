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

// ErrNoBullet is returned when a log has never had a bullet.
var ErrNoBullet = errors.New("there is no such bullet, and there never was")

// The kinds of events that are rejections and not operations.
const (
	// Again is something that was turned down because the bullet says it already.
	Again playbook.OpKind = "AGAIN"
	// TurnedDown is something that was turned down for another reason.
	TurnedDown playbook.OpKind = "REJECTED"
)

// Event is one operation of a log, or one rejection, that concerns a bullet or rests on an execution.
type Event struct {
	Version uint64          `json:"version"` // with which it took effect
	Time    time.Time       `json:"time"`
	Kind    playbook.OpKind `json:"kind"` // Op.Kind, Again or TurnedDown
	// Bullet is whose event it is: of a lineage also one that was merged into the bullet.
	Bullet  playbook.BulletID `json:"bullet_id"`
	Op      playbook.Op       `json:"operation"` // its Support counts covers of the delta: here they are
	Support []playbook.Cover  `json:"support,omitempty"`

	Author string `json:"author,omitempty"`
	Reason string `json:"reason,omitempty"` // of the operation or rejection, else of the whole change
	Model  string `json:"model,omitempty"`  // that proposed something in this change
	Prompt string `json:"prompt,omitempty"`

	Restores *uint64            `json:"restores,omitempty"`
	Forgets  *playbook.Selector `json:"forgets,omitempty"`

	Delta *playbook.Delta `json:"-"` // that Version is of
}

func (c change) event(part *playbook.Delta, op *playbook.Op) Event {
	d := c.last()
	return Event{
		Version: d.Version, Time: d.Time, Kind: op.Kind, Bullet: op.Bullet, Op: *op, Support: c.support(part, op),
		Author: d.Author, Reason: cmp.Or(op.Reason, d.Reason), Model: d.Model, Prompt: d.Prompt,
		Restores: d.Restores, Forgets: d.Forgets, Delta: d,
	}
}

// rejection is Again for what a bullet says already, else TurnedDown.
func (c change) rejection(part *playbook.Delta, j *playbook.Rejection) Event {
	e := c.event(part, &j.Op)
	if e.Kind, e.Reason = TurnedDown, j.Reason; j.Same != "" {
		e.Kind, e.Bullet = Again, j.Same
	}
	return e
}

// Lineage is everything in a log that made, changed and counted a bullet, and those that were merged into it up to the
// moment when they were. What was restored or forgotten later is history as well, and in it.
type Lineage struct {
	Bullet playbook.BulletID `json:"bullet_id"`
	Is     *playbook.Bullet  `json:"is"`               // nil when it is gone
	Ended  *Event            `json:"ended,omitempty"`  // what took it out, when it is gone
	Merged []string          `json:"merged,omitempty"` // the bullets whose events are here, too
	Events []Event           `json:"events"`           // oldest first
	Summary
}

// Votes are counts by kind.
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

func (v *Votes) of(kind playbook.Vote) *int {
	switch kind {
	case playbook.Helpful:
		return &v.Helpful
	case playbook.Harmful:
		return &v.Harmful
	}
	return &v.Neutral
}

// Summary is a lineage in short.
type Summary struct {
	Author string    `json:"author"` // who made the bullet first
	First  time.Time `json:"first"`  // recorded times of the first and the last event
	Last   time.Time `json:"last"`
	// Outcomes counts the different executions behind it by the label of their outcome, the newest one known; "unknown"
	// where there is none. Forgotten counts those that were forgotten since, which are not in Outcomes.
	Outcomes  map[string]int `json:"outcomes"`
	Forgotten int            `json:"forgotten,omitempty"`
	// Counted are the votes ever cast, each as it was corrected; Live those that the bullet has now. What was restored or forgotten makes the
	// second smaller, what came with an import makes it larger.
	Counted Votes `json:"votes_counted"`
	Live    Votes `json:"votes_live"`
}

// Of is the lineage of a bullet.
func Of(log Log, id playbook.BulletID) (*Lineage, error) {
	t := &tracer{id: id, want: map[playbook.BulletID]place{id: {math.MaxInt, math.MaxUint64}}}
	newest, err := t.survey(log)
	if err != nil {
		return nil, err
	}
	t.at = 0
	if err := log.changes(newest, t.take); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(t.events, func(e Event) bool { return e.Bullet == id && e.Kind != Again }) {
		return nil, fmt.Errorf("bullet %q: %w", id, ErrNoBullet)
	}
	l := &Lineage{Bullet: id, Is: t.state.Bullet(id), Events: t.events}
	if l.Is == nil {
		l.Ended = &t.events[t.ended]
	}
	for other := range t.want {
		if other != id {
			l.Merged = append(l.Merged, string(other))
		}
	}
	slices.Sort(l.Merged)
	l.Summary = t.summary(l.Is)
	return l, nil
}

// place is a point in a log: how many operations were before it, and in which version it is.
type place struct {
	at      int
	version uint64
}

// tracer follows a bullet, and those that flow into it, through a log.
type tracer struct {
	id   playbook.BulletID
	want map[playbook.BulletID]place // until when their events count
	at   int                         // operations so far

	forgets []forget
	state   playbook.Playbook // of the wanted bullets alone
	events  []Event
	ended   int // event that took the bullet out
}

// survey finds which bullets were merged into the wanted one, and until when: what becomes of one that a restore brings
// back is its own. It keeps every merge of the log until it has seen all of it.
func (t *tracer) survey(log Log) (newest uint64, err error) {
	type merge struct {
		place
		into playbook.BulletID
		from []playbook.BulletID
	}
	var merges []merge
	err = log.changes(all, func(c change) error {
		newest = c.last().Version
		if f := c.last().Forgets; f != nil {
			t.forgets = append(t.forgets, forget{*f, newest})
		}
		for _, part := range c {
			for i := range part.Ops {
				t.at++
				if op := &part.Ops[i]; op.Kind == playbook.Merge {
					merges = append(merges, merge{place{t.at, newest}, op.Bullet, op.Sources})
				}
			}
		}
		return nil
	})
	for _, m := range slices.Backward(merges) {
		if until, ok := t.want[m.into]; !ok || m.at > until.at {
			continue
		}
		for _, id := range m.from {
			if _, ok := t.want[id]; !ok {
				t.want[id] = m.place
			}
		}
	}
	return newest, err
}

func (t *tracer) take(c change) error {
	for _, part := range c {
		for i := range part.Ops {
			t.at++
			if err := t.op(c, part, &part.Ops[i]); err != nil {
				return err
			}
		}
	}
	for _, part := range c {
		for i := range part.Rejected {
			j := &part.Rejected[i]
			if until, ok := t.want[j.Same]; ok && c.last().Version <= until.version {
				t.events = append(t.events, c.rejection(part, j))
			}
		}
	}
	return nil
}

// op notes what an operation does to the wanted bullets.
func (t *tracer) op(c change, part *playbook.Delta, op *playbook.Op) error {
	wanted := []*playbook.Op{op}
	if _, ok := t.want[op.Bullet]; !ok {
		wanted = nil
		for _, id := range op.Sources { // it went into a bullet that is none of ours
			if _, ok := t.want[id]; ok {
				wanted = append(wanted, &playbook.Op{Kind: playbook.Remove, Bullet: id})
			}
		}
	}
	for _, w := range wanted {
		was := t.state.Bullet(t.id)
		changed, err := t.state.Apply(&playbook.Delta{Version: t.state.Version() + 1, Ops: []playbook.Op{*w}, Covers: c.last().Covers, Time: part.Time})
		if err != nil {
			return err
		}
		if len(changed) == 0 || t.at > t.want[w.Bullet].at {
			continue
		}
		e := c.event(part, op)
		e.Bullet = w.Bullet
		t.events = append(t.events, e)
		if was != nil && t.state.Bullet(t.id) == nil {
			t.ended = len(t.events) - 1
		}
	}
	return nil
}

func (t *tracer) summary(is *playbook.Bullet) Summary {
	first, last := t.events[0], t.events[len(t.events)-1]
	s := Summary{First: first.Time, Last: last.Time, Outcomes: map[string]int{}}
	outcomes := map[string]string{}
	forgotten := map[string]bool{}
	for _, e := range t.events {
		if e.Bullet == t.id && s.Author == "" && e.Kind != Again {
			s.Author = e.Author
		}
		switch e.Kind {
		case playbook.Tag:
			s.Counted.add(&e.Op)
		case playbook.Retag: // a vote that moves is one vote
			s.Counted.add(&e.Op)
			*s.Counted.of(e.Op.Was) -= len(e.Op.Support)
		case playbook.Trial: // a task that the bullet bears on is nothing that stands behind it
			continue
		}
		for _, c := range e.Support {
			switch {
			case c.Evidence == nil:
			case slices.ContainsFunc(t.forgets, func(f forget) bool { return f.reaches(e.Version, c.Evidence) }):
				forgotten[c.Evidence.Execution] = true
			default:
				outcomes[c.Evidence.Execution] = cmp.Or(c.Evidence.Outcome, "unknown")
			}
		}
	}
	for execution, label := range outcomes {
		s.Outcomes[label]++
		delete(forgotten, execution)
	}
	s.Forgotten = len(forgotten)
	if is != nil {
		s.Live = Votes{is.Helpful, is.Harmful, is.Neutral}
	}
	return s
}
