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

// ledger holds the stored messages of a run and the versions that a follower had. The audit recomputes the expected state
// and does not use the packages under test.
type ledger struct {
	book        playbook.Book
	tasks       []string // ids of the submitted tasks
	executions  []message
	reflections []message
	edits       []message
	deltas      []message
	view        []message // the keys of the book
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

// sighting is a follower's state at a version.
type sighting struct {
	state [32]byte
	chain string
}

// readLedger reads the messages of a book from the streams.
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

// readOutcome reads log, view and dead letters of a book.
func readOutcome(ctx context.Context, js jetstream.JetStream, b playbook.Book) (*ledger, error) {
	l := &ledger{book: b}
	var errs [3]error
	l.deltas, errs[0] = readAll(ctx, js, events.StreamDeltas, events.KindDelta.Subject(b))
	l.view, errs[1] = readAll(ctx, js, "KV_"+events.BucketPlaybook, "$KV."+events.BucketPlaybook+"."+string(b)+".>")
	l.dead, errs[2] = readAll(ctx, js, events.StreamDead, events.DeadSubject("", ""))
	return l, errors.Join(errs[:]...)
}

// readAll reads messages one at a time, without a consumer.
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

// audit is the result of checking a ledger.
type audit struct {
	problems []string

	letters      []string // dead letters with reasons; the caller decides whether they are problems
	answered     map[events.ID]bool
	reflected    map[events.ID]*events.Reflection // by the id that deltas cover
	edited       map[events.ID]bool
	deadLettered map[events.ID]bool // ids of events that became dead letters
	covered      map[events.ID]int  // number of deltas that cover each id
	fold         *playbook.Playbook
	chain        []byte
}

func (a *audit) addProblem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// check checks all invariants.
func (l *ledger) check() *audit {
	a := &audit{
		answered: map[events.ID]bool{}, reflected: map[events.ID]*events.Reflection{}, edited: map[events.ID]bool{},
		deadLettered: map[events.ID]bool{}, covered: map[events.ID]int{}, fold: new(playbook.Playbook),
	}
	l.checkDead(a)
	l.checkExecutions(a)
	l.checkReflections(a)
	states := l.checkLog(a)
	l.checkView(a)
	for _, version := range slices.Sorted(maps.Keys(l.seen)) {
		if got, want := l.seen[version], states[version]; got != want {
			a.addProblem("torn: the follower's version %d is %x, the log's is %x", version, got.state[:4], want.state[:4])
		}
	}
	return a
}

// checkDead records the dead letters. Their events need no execution, reflection or delta.
func (l *ledger) checkDead(a *audit) {
	for _, m := range l.dead {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.addProblem("dead letter %d: %v", m.seq, err)
			continue
		}
		letter := e.(*events.DeadLetter)
		a.letters = append(a.letters, fmt.Sprintf("%s %d by the %s after %d attempts: %s", letter.Stream, letter.Seq, letter.Role, letter.Attempts, letter.Reason))
		lost, err := events.Decode(letter.Subject, letter.Header, letter.Data)
		if err != nil {
			continue
		}
		a.deadLettered[lost.EventID()] = true
		if task, ok := lost.(*events.Task); ok {
			a.deadLettered[events.ExecutionID(l.book, "", task.ID, 0)] = true
		}
	}
}

// checkExecutions checks that each task has an execution, and that no others exist. A duplicate with the same id is allowed;
// the first one counts.
func (l *ledger) checkExecutions(a *audit) {
	wanted := map[events.ID]string{}
	for _, id := range l.tasks {
		wanted[events.ExecutionID(l.book, "", id, 0)] = id
	}
	for _, m := range l.executions {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.addProblem("execution %d: %v", m.seq, err)
			continue
		}
		if wanted[e.EventID()] == "" {
			a.addProblem("execution %d: of no task that was handed in", m.seq)
		}
		a.answered[e.EventID()] = true
	}
	for id, task := range wanted {
		if !a.answered[id] && !a.deadLettered[id] {
			a.addProblem("lost: task %s has no execution", task)
		}
	}
}

// checkReflections checks that each execution has a reflection. All tasks of the tests give insights.
func (l *ledger) checkReflections(a *audit) {
	on := map[events.ID]bool{}
	for _, m := range l.reflections {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.addProblem("reflection %d: %v", m.seq, err)
			continue
		}
		r := e.(*events.Reflection)
		if id := coveredID(r); a.reflected[id] == nil {
			a.reflected[id] = r
		}
		on[r.Execution] = true
	}
	for _, m := range l.edits {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			a.addProblem("edit %d: %v", m.seq, err)
			continue
		}
		a.edited[e.EventID()] = true
	}
	for id := range a.answered {
		if !on[id] && !a.deadLettered[id] {
			a.addProblem("lost: execution %s has no reflection", id)
		}
	}
}

// coveredID returns the id under which a delta covers a reflection: that of the feedback, or of the first round's execution.
func coveredID(r *events.Reflection) events.ID { return cmp.Or(r.Feedback, r.Sample, r.Execution) }

// checkLog folds the log. Each delta must name its predecessor, and each reflection and edit must be covered once.
func (l *ledger) checkLog(a *audit) map[uint64]sighting {
	states := map[uint64]sighting{0: {state: a.fold.StateHash()}}
	var last uint64
	refusedVotes, broken := 0, false
	for _, m := range l.deltas {
		d, err := events.DecodeDelta(m.data)
		if err != nil {
			a.addProblem("delta %d: %v", m.seq, err)
			return states
		}
		if d.PrevSeq != last || !bytes.Equal(d.PrevChain, a.chain) {
			a.addProblem("chain: delta %d at %d does not follow the one at %d", d.Version, m.seq, last)
		}
		if _, err := a.fold.Apply(d); err != nil && !broken {
			a.addProblem("chain: delta %d at %d: %v", d.Version, m.seq, err)
			broken = true // the covers of later deltas are still checked
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

// checkCovered checks that exactly the reflections and edits are covered, each once.
func (a *audit) checkCovered() {
	for id, n := range a.covered {
		if n > 1 {
			a.addProblem("twice: reflection %s is covered %d times", id, n)
		}
		if a.reflected[id] == nil && !a.edited[id] {
			a.addProblem("chain: reflection %s is covered and was never stored", id)
		}
	}
	for id, r := range a.reflected {
		if a.covered[id] == 0 && !a.deadLettered[r.ID] {
			a.addProblem("lost: reflection %s is covered by no delta", r.ID)
		}
	}
	for id := range a.edited {
		if a.covered[id] == 0 && !a.deadLettered[id] {
			a.addProblem("lost: edit %s is covered by no delta", id)
		}
	}
}

// tally counts the votes on a bullet.
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

// checkVotes counts the votes of all covered reflections and compares them with the counters.
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
	}
	for b := range a.fold.All() {
		got, want := tallyOf(b), votes[b.ID]
		more := got.helpful > want.helpful || got.harmful > want.harmful || got.neutral > want.neutral
		if more || refused == 0 && got != want {
			a.addProblem("votes: bullet %s has %+v, its reflections gave %+v", b.ID, got, want)
		}
	}
}

// viewHead is the head of a book in the bucket.
type viewHead struct {
	Version uint64            `msgpack:"v"`
	Chain   []byte            `msgpack:"x"`
	Last    uint64            `msgpack:"l"`
	Count   int               `msgpack:"n"`
	Sum     playbook.Checksum `msgpack:"s"`
	Recent  []recentBullet    `msgpack:"d"`
}

// recentBullet is a bullet in a head. It replaces the one of the keys. Without data the bullet was removed.
type recentBullet struct {
	ID   playbook.BulletID `msgpack:"i"`
	Data []byte            `msgpack:"d"`
}

// checkView checks that the bucket equals the folded log.
func (l *ledger) checkView(a *audit) {
	prefix := "$KV." + events.BucketPlaybook + "."
	var head viewHead
	bullets := make(map[playbook.BulletID]*playbook.Bullet)
	for _, m := range l.view {
		switch key := strings.TrimPrefix(m.subject, prefix); {
		case m.header.Get("KV-Operation") != "":
		case key == events.HeadKey(l.book):
			if err := events.Unmarshal(m.data, &head); err != nil {
				a.addProblem("view: %s: %v", key, err)
			}
		default:
			b := new(playbook.Bullet)
			if err := events.Unmarshal(m.data, b); err != nil {
				a.addProblem("view: %s: %v", key, err)
			}
			if key != events.BulletKey(l.book, b.ID) {
				a.addProblem("view: bullet %s is under %s", b.ID, key)
			}
			bullets[b.ID] = b
		}
	}
	for _, r := range head.Recent {
		delete(bullets, r.ID)
		if len(r.Data) == 0 {
			continue
		}
		b := new(playbook.Bullet)
		if err := events.Unmarshal(r.Data, b); err != nil || b.ID != r.ID {
			a.addProblem("view: bullet %s in the head: %v", r.ID, err)
		}
		bullets[r.ID] = b
	}
	got := playbook.Restore(head.Version, head.Last, maps.Values(bullets))
	switch {
	case head.Version != a.fold.Version() || !bytes.Equal(head.Chain, a.chain):
		a.addProblem("view: is at %s, the log at %s", playbook.VersionLabel(head.Version, head.Chain), playbook.VersionLabel(a.fold.Version(), a.chain))
	case got.Len() != head.Count || got.Checksum() != head.Sum:
		a.addProblem("view: the head speaks of %d bullets, %x, the keys hold %d, %x", head.Count, head.Sum[:4], got.Len(), got.Checksum())
	}
	if got.StateHash() != a.fold.StateHash() || got.Checksum() != a.fold.Checksum() {
		a.addProblem("view: holds other bullets than the log folds to")
	}
}
