package integration

import (
	"bytes"
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
	l := &ledger{book: b}
	var errs []error
	read := func(stream, subject string) []message {
		all, err := readAll(ctx, js, stream, subject)
		errs = append(errs, err)
		return all
	}
	l.executions = read(events.StreamExecutions, events.KindExecution.Subject(b))
	l.reflections = read(events.StreamReflections, events.KindReflection.Subject(b))
	l.deltas = read(events.StreamDeltas, events.KindDelta.Subject(b))
	l.view = read("KV_"+events.BucketPlaybook, "$KV."+events.BucketPlaybook+"."+string(b)+".>")
	l.dead = read(events.StreamDead, events.DeadSubject("", ""))
	return l, errors.Join(errs...)
}

func readAll(ctx context.Context, js jetstream.JetStream, stream, subject string) ([]message, error) {
	cons, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	info, err := cons.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	var all []message
	for left := info.NumPending; left > 0; {
		m, err := cons.Next(jetstream.FetchContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", subject, err)
		}
		md, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", subject, err)
		}
		all = append(all, message{md.Sequence.Stream, m.Subject(), m.Headers(), m.Data()})
		left = md.NumPending
	}
	return all, nil
}

// audit is the outcome of going through a ledger.
type audit struct {
	problems []string

	letters   []string // what became a dead letter, and why: not a problem in itself, and for the caller to judge
	answered  map[events.ID]bool
	reflected map[events.ID]*events.Reflection
	excused   map[events.ID]bool // ids of events that became dead letters
	fold      *playbook.Playbook
	chain     []byte
}

func (a *audit) complain(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// check goes through everything that must hold.
func (l *ledger) check() *audit {
	a := &audit{
		answered: map[events.ID]bool{}, reflected: map[events.ID]*events.Reflection{}, excused: map[events.ID]bool{},
		fold: new(playbook.Playbook),
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
		if a.reflected[r.ID] == nil {
			a.reflected[r.ID] = r
		}
		on[r.Execution] = true
	}
	for id := range a.answered {
		if !on[id] && !a.excused[id] {
			a.complain("lost: execution %s has no reflection", id)
		}
	}
}

// checkLog folds the log: each record names the one before it, and together they cover every reflection once.
func (l *ledger) checkLog(a *audit) map[uint64]sighting {
	states := map[uint64]sighting{0: {state: a.fold.StateHash()}}
	covered := map[events.ID]int{}
	var last uint64
	refusedVotes := 0
	for _, m := range l.deltas {
		d, err := events.DecodeDelta(m.data)
		if err != nil {
			a.complain("delta %d: %v", m.seq, err)
			return states
		}
		if d.PrevSeq != last || !bytes.Equal(d.PrevChain, a.chain) {
			a.complain("chain: delta %d at %d does not follow the one at %d", d.Version, m.seq, last)
		}
		if _, err := a.fold.Apply(d); err != nil {
			a.complain("chain: delta %d at %d: %v", d.Version, m.seq, err)
			return states
		}
		sum := sha256.Sum256(m.data)
		last, a.chain = m.seq, sum[:]
		states[d.Version] = sighting{a.fold.StateHash(), string(a.chain)}
		for _, c := range d.Covers {
			covered[events.ID(c.ID)]++
		}
		for _, r := range d.Rejected {
			if r.Op.Kind == playbook.Tag {
				refusedVotes++
			}
		}
	}
	for id, n := range covered {
		if n > 1 {
			a.complain("twice: reflection %s is covered %d times", id, n)
		}
		if a.reflected[id] == nil {
			a.complain("chain: reflection %s is covered and was never stored", id)
		}
	}
	for id := range a.reflected {
		if covered[id] == 0 && !a.excused[id] {
			a.complain("lost: reflection %s is covered by no delta", id)
		}
	}
	a.checkVotes(covered, refusedVotes)
	return states
}

// checkVotes counts the votes of all covered reflections again and compares them with the counters.
func (a *audit) checkVotes(covered map[events.ID]int, refused int) {
	type count struct{ helpful, harmful, neutral int }
	votes := map[playbook.BulletID]count{}
	for id, r := range a.reflected {
		if covered[id] == 0 {
			continue
		}
		for _, t := range r.Tags {
			c := votes[t.ID]
			switch t.Tag {
			case events.Helpful:
				c.helpful++
			case events.Harmful:
				c.harmful++
			default:
				c.neutral++
			}
			votes[t.ID] = c
		}
	}
	for b := range a.fold.All() {
		got, want := count{b.Helpful, b.Harmful, b.Neutral}, votes[b.ID]
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
