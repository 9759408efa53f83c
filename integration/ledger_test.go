package integration

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// ledger is everything that a run left behind, as the streams hold it, and what a follower saw meanwhile. It is audited
// by code of its own: nothing here asks the packages that wrote it whether they did well.
type ledger struct {
	book        playbook.Book
	tasks       []string // ids handed in
	executions  []message
	reflections []message
	edits       []message
	deltas      []message
	view        []message // of the book's keys
	dead        []message
	seen        map[uint64]sighting // by version
}

// message is one stored message.
type message struct {
	seq     uint64
	subject string
	header  nats.Header
	data    []byte
}

// sighting is what a follower had at a version.
type sighting struct {
	state [32]byte
	chain string
}

// readLedger reads what the streams hold of a book.
func readLedger(ctx context.Context, js jetstream.JetStream, b playbook.Book) (*ledger, error) {
	l, err := readOutcome(ctx, js, b)
	if err != nil {
		return nil, err
	}
	var errs [3]error
	l.executions, errs[0] = readAll(ctx, js, events.StreamExecutions, events.KindExecution.Subject(b))
	l.reflections, errs[1] = readAll(ctx, js, events.StreamReflections, events.KindReflection.Subject(b))
	l.edits, errs[2] = readAll(ctx, js, events.StreamReflections, events.KindEdit.Subject(b))
	return l, errors.Join(errs[:]...)
}

// readOutcome reads what became of a book: its log, its view, and what was given up on.
func readOutcome(ctx context.Context, js jetstream.JetStream, b playbook.Book) (*ledger, error) {
	l := &ledger{book: b}
	var errs [3]error
	l.deltas, errs[0] = readAll(ctx, js, events.StreamDeltas, events.KindDelta.Subject(b))
	l.view, errs[1] = readAll(ctx, js, "KV_"+events.BucketPlaybook, "$KV."+events.BucketPlaybook+"."+string(b)+".>")
	l.dead, errs[2] = readAll(ctx, js, events.StreamDead, events.DeadSubject("", ""))
	return l, errors.Join(errs[:]...)
}

// readAll reads one message after the other: no consumer stays behind on the server.
func readAll(ctx context.Context, js jetstream.JetStream, stream, subject string) ([]message, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	var all []message
	for from := uint64(1); ; {
		m, err := s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", subject, err)
		}
		all = append(all, message{m.Sequence, m.Subject, m.Header, m.Data})
		from = m.Sequence + 1
	}
}

// audit is the outcome of going through a ledger.
type audit struct {
	problems []string

	letters   []string // what became a dead letter, and why: not a problem in itself, and for the caller to judge
	answered  map[events.ID]bool
	reflected map[events.ID]*events.Reflection // by what a delta covers them as
	edited    map[events.ID]bool
	excused   map[events.ID]bool // ids of events that became dead letters
	covered   map[events.ID]int  // how often each is covered by a delta
	fold      *playbook.Playbook
	chain     []byte
}

func (a *audit) complain(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// check goes through everything that must hold.
func (l *ledger) check() *audit {
	a := &audit{
		answered: map[events.ID]bool{}, reflected: map[events.ID]*events.Reflection{}, edited: map[events.ID]bool{},
		excused: map[events.ID]bool{}, covered: map[events.ID]int{}, fold: new(playbook.Playbook),
	}
	l.checkDead(a)
	l.checkExecutions(a)
	l.checkReflections(a)
	states := l.checkLog(a)
	l.checkView(a)
	for _, version := range slices.Sorted(maps.Keys(l.seen)) {
		if got, want := l.seen[version], states[version]; got != want {
			a.complain("torn: the follower's version %d is %x, the log's is %x", version, got.state[:4], want.state[:4])
		}
	}
	return a
}

// checkDead notes what was given up on: it needs no execution, reflection or delta.
func (l *ledger) checkDead(a *audit) {
	for _, m := range l.dead {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.complain("dead letter %d: %v", m.seq, err)
			continue
		}
		letter := e.(*events.DeadLetter)
		a.letters = append(a.letters, fmt.Sprintf("%s %d by the %s after %d deliveries: %s", letter.Stream, letter.Seq, letter.Role, letter.Deliveries, letter.Reason))
		lost, err := events.Decode(letter.Subject, letter.Header, letter.Data)
		if err != nil {
			continue
		}
		a.excused[lost.EventID()] = true
		if task, ok := lost.(*events.Task); ok {
			a.excused[events.ExecutionID(l.book, task.ID, 0)] = true
		}
	}
}

// checkExecutions: every task has an execution, and there are no others. A second one with the same id may be stored;
// the first one counts.
func (l *ledger) checkExecutions(a *audit) {
	wanted := map[events.ID]string{}
	for _, id := range l.tasks {
		wanted[events.ExecutionID(l.book, id, 0)] = id
	}
	for _, m := range l.executions {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.complain("execution %d: %v", m.seq, err)
			continue
		}
		if wanted[e.EventID()] == "" {
			a.complain("execution %d: of no task that was handed in", m.seq)
		}
		a.answered[e.EventID()] = true
	}
	for id, task := range wanted {
		if !a.answered[id] && !a.excused[id] {
			a.complain("lost: task %s has no execution", task)
		}
	}
}

// checkReflections: every execution was reflected on. With these tasks there is something to learn from each.
func (l *ledger) checkReflections(a *audit) {
	on := map[events.ID]bool{}
	for _, m := range l.reflections {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.complain("reflection %d: %v", m.seq, err)
			continue
		}
		r := e.(*events.Reflection)
		if id := covering(r); a.reflected[id] == nil {
			a.reflected[id] = r
		}
		on[r.Execution] = true
	}
	for _, m := range l.edits {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.complain("edit %d: %v", m.seq, err)
			continue
		}
		a.edited[e.EventID()] = true
	}
	for id := range a.answered {
		if !on[id] && !a.excused[id] {
			a.complain("lost: execution %s has no reflection", id)
		}
	}
}

// covering is the id under which a delta covers a reflection: that of the feedback, or of the first round's execution.
func covering(r *events.Reflection) events.ID { return cmp.Or(r.Feedback, r.Sample, r.Execution) }

// checkLog folds the log: each record names the one before it, and together they cover every reflection and edit once.
func (l *ledger) checkLog(a *audit) map[uint64]sighting {
	states := map[uint64]sighting{0: {state: a.fold.StateHash()}}
	var last uint64
	refusedVotes, broken := 0, false
	for _, m := range l.deltas {
		d, err := events.DecodeDelta(m.data)
		if err != nil {
			a.complain("delta %d: %v", m.seq, err)
			return states
		}
		if d.PrevSeq != last || !bytes.Equal(d.PrevChain, a.chain) {
			a.complain("chain: delta %d at %d does not follow the one at %d", d.Version, m.seq, last)
		}
		if _, err := a.fold.Apply(d); err != nil && !broken {
			a.complain("chain: delta %d at %d: %v", d.Version, m.seq, err)
			broken = true // what cannot be folded still says what it covers
		}
		sum := sha256.Sum256(m.data)
		last, a.chain = m.seq, sum[:]
		states[d.Version] = sighting{a.fold.StateHash(), string(a.chain)}
		for _, c := range d.Covers {
			a.covered[events.ID(c.ID)]++
		}
		for _, r := range d.Rejected {
			if r.Op.Kind == playbook.Tag {
				refusedVotes++
			}
		}
	}
	a.checkCovered()
	a.checkVotes(refusedVotes)
	return states
}

// checkCovered: every reflection and edit once, and nothing else.
func (a *audit) checkCovered() {
	for id, n := range a.covered {
		if n > 1 {
			a.complain("twice: reflection %s is covered %d times", id, n)
		}
		if a.reflected[id] == nil && !a.edited[id] {
			a.complain("chain: reflection %s is covered and was never stored", id)
		}
	}
	for id, r := range a.reflected {
		if a.covered[id] == 0 && !a.excused[r.ID] {
			a.complain("lost: reflection %s is covered by no delta", r.ID)
		}
	}
	for id := range a.edited {
		if a.covered[id] == 0 && !a.excused[id] {
			a.complain("lost: edit %s is covered by no delta", id)
		}
	}
}

// tally is the votes on a bullet.
type tally struct{ helpful, harmful, neutral int }

func (c *tally) add(v events.Vote) {
	switch v {
	case events.Helpful:
		c.helpful++
	case events.Harmful:
		c.harmful++
	default:
		c.neutral++
	}
}

func tallyOf(b *playbook.Bullet) tally { return tally{b.Helpful, b.Harmful, b.Neutral} }

// checkVotes counts the votes of all covered reflections again and compares them with the counters.
func (a *audit) checkVotes(refused int) {
	votes := map[playbook.BulletID]tally{}
	vote := func(id playbook.BulletID, v events.Vote) {
		c := votes[id]
		c.add(v)
		votes[id] = c
	}
	for id, r := range a.reflected {
		if a.covered[id] == 0 {
			continue
		}
		for _, t := range r.Tags {
			vote(t.ID, t.Tag)
		}
		for _, f := range r.Findings {
			if b := a.fold.ByRule(f.Key); b != nil {
				vote(b.ID, f.Vote)
			}
		}
	}
	for b := range a.fold.All() {
		got, want := tallyOf(b), votes[b.ID]
		more := got.helpful > want.helpful || got.harmful > want.harmful || got.neutral > want.neutral
		if more || refused == 0 && got != want {
			a.complain("votes: bullet %s has %+v, its reflections gave %+v", b.ID, got, want)
		}
	}
}

// viewHead is a head as the bucket holds it.
type viewHead struct {
	Version uint64            `msgpack:"v"`
	Chain   []byte            `msgpack:"x"`
	Last    uint64            `msgpack:"l"`
	Count   int               `msgpack:"n"`
	Sum     playbook.Checksum `msgpack:"s"`
}

// checkView: the bucket holds what the log folds to.
func (l *ledger) checkView(a *audit) {
	prefix := "$KV." + events.BucketPlaybook + "."
	var head viewHead
	var bullets []*playbook.Bullet
	for _, m := range l.view {
		switch key := strings.TrimPrefix(m.subject, prefix); {
		case m.header.Get("KV-Operation") != "":
		case key == events.HeadKey(l.book):
			if err := events.Unmarshal(m.data, &head); err != nil {
				a.complain("view: %s: %v", key, err)
			}
		default:
			b := new(playbook.Bullet)
			if err := events.Unmarshal(m.data, b); err != nil {
				a.complain("view: %s: %v", key, err)
			}
			if key != events.BulletKey(l.book, b.ID) {
				a.complain("view: bullet %s is under %s", b.ID, key)
			}
			bullets = append(bullets, b)
		}
	}
	got := playbook.Restore(head.Version, head.Last, slices.Values(bullets))
	switch {
	case head.Version != a.fold.Version() || !bytes.Equal(head.Chain, a.chain):
		a.complain("view: is at %s, the log at %s", playbook.Label(head.Version, head.Chain), playbook.Label(a.fold.Version(), a.chain))
	case got.Len() != head.Count || got.Checksum() != head.Sum:
		a.complain("view: the head speaks of %d bullets, %x, the keys hold %d, %x", head.Count, head.Sum[:4], got.Len(), got.Checksum())
	}
	if got.StateHash() != a.fold.StateHash() || got.Checksum() != a.fold.Checksum() {
		a.complain("view: holds other bullets than the log folds to")
	}
}
