package integration

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// TestLedgerAuditFindsDefects is the positive control of the process tests: their audit must find each defect.
func TestLedgerAuditFindsDefects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		doctor func(t *testing.T, l *ledger)
		want   string
	}{
		{"nothing", func(*testing.T, *ledger) {}, ""},
		{"a task nobody answered", func(_ *testing.T, l *ledger) { l.tasks = append(l.tasks, "another") }, "lost: task another has no execution"},
		{"an execution from nowhere", func(_ *testing.T, l *ledger) { l.tasks = l.tasks[1:] }, "of no task"},
		{"an execution nobody reflected on", func(_ *testing.T, l *ledger) {
			l.reflections, l.deltas, l.view = l.reflections[:2], nil, nil
		}, "has no reflection"},
		{"a reflection without effect", func(t *testing.T, l *ledger) { // the delta is missing
			l.deltas = l.deltas[:2]
			l.view = viewOf(t, fold(t, l.deltas))
			delete(l.seen, 3)
		}, "is covered by no delta"},
		{"a reflection counted twice", func(t *testing.T, l *ledger) {
			l.deltas = append(l.deltas, deltaOf(t, l.deltas, "t2"))
			l.view = viewOf(t, fold(t, l.deltas))
		}, "is covered 2 times"},
		{"a vote too many", func(t *testing.T, l *ledger) {
			l.reflections = slices.Delete(l.reflections, 1, 2)
			l.reflections = slices.Insert(l.reflections, 1, reflectionOf(t, "t1", nil))
		}, "votes: bullet"},
		{"a log with a hole", func(_ *testing.T, l *ledger) { l.deltas = slices.Delete(l.deltas, 1, 2) }, "chain:"},
		{"a record changed afterwards", func(t *testing.T, l *ledger) {
			d, err := events.DecodeDelta(l.deltas[0].data)
			if err != nil {
				t.Fatal(err)
			}
			d.Ops[0].Content = "Something else."
			l.deltas[0].data = encode(t, d)
		}, "chain: delta 2"},
		{"a view that was left behind", func(t *testing.T, l *ledger) { l.view = viewOf(t, fold(t, l.deltas[:2])) }, "view: is at 2@"},
		{"a view with an old bullet", func(t *testing.T, l *ledger) {
			l.view[0] = viewOf(t, fold(t, l.deltas[:1]))[0]
		}, "view: the head speaks of"},
		{"a torn read", func(_ *testing.T, l *ledger) {
			s := l.seen[2]
			s.state[0]++
			l.seen[2] = s
		}, "torn: the follower's version 2"},
		{"a dead letter excuses", func(t *testing.T, l *ledger) {
			task := &events.Task{Book: desk, ID: "another", Question: "?"}
			l.tasks = append(l.tasks, task.ID)
			m := event(t, task)
			letter := &events.DeadLetter{Book: desk, Role: events.RoleGenerator, Code: events.DeadError, Reason: "five times", Subject: m.subject, Header: m.header, Data: m.data}
			l.dead = append(l.dead, event(t, letter))
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := goodLedger(t)
			test.doctor(t, l)
			got := strings.Join(l.check().problems, "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}

// goodLedger returns the ledger of a correct run with three tasks.
func goodLedger(t *testing.T) *ledger {
	l := &ledger{book: desk, seen: map[uint64]sighting{}}
	for i := range 3 {
		task := fmt.Sprintf("t%d", i)
		l.tasks = append(l.tasks, task)
		e := &events.Execution{Book: desk, ID: events.ExecutionID(desk, "", task, 0), RunID: task}
		l.executions = append(l.executions, event(t, e))
		l.reflections = append(l.reflections, reflectionOf(t, task, []events.BulletTag{{ID: "tax-00001", Tag: events.Helpful}}))
		l.deltas = append(l.deltas, deltaOf(t, l.deltas, task))
		p := fold(t, l.deltas)
		l.seen[p.Version()] = sighting{p.StateHash(), string(chainOf(l.deltas))}
	}
	l.view = viewOf(t, fold(t, l.deltas))
	return l
}

func event(t *testing.T, e events.Event) message {
	t.Helper()
	subject, header, data, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return message{1, subject, header, data}
}

func reflectionID(task string) events.ID {
	return events.ReflectionID(events.ExecutionID(desk, "", task, 0), "", "r1")
}

func reflectionOf(t *testing.T, task string, tags []events.BulletTag) message {
	r := &events.Reflection{
		Book: desk,
		ID:   reflectionID(task), Execution: events.ExecutionID(desk, "", task, 0), Handle: events.NewHandle(1, reflectionID(task)),
		Reflector: "r1", Tags: tags,
	}
	return event(t, r)
}

// deltaOf returns the next delta of a log. It covers a task's reflection and votes for the only bullet.
func deltaOf(t *testing.T, log []message, task string) message {
	d := &playbook.Delta{
		Version: uint64(len(log)) + 1, PrevSeq: uint64(len(log)), PrevChain: chainOf(log), Time: time.Unix(1700000000, 0).UTC(),
		Covers: []playbook.Cover{{ID: string(events.ExecutionID(desk, "", task, 0)), Seq: 1, Evidence: &playbook.Evidence{}}},
	}
	if d.Version == 1 {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Add, Bullet: "tax-00001", Section: "tax", Content: "For region North the region tax is 7 %."})
	}
	d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: "tax-00001", Helpful: 1, Support: []int{0}})
	return message{seq: d.Version, subject: events.KindDelta.Subject(desk), data: encode(t, d)}
}

func encode(t *testing.T, d *playbook.Delta) []byte {
	t.Helper()
	data, err := events.EncodeDelta(d)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func chainOf(log []message) []byte {
	if len(log) == 0 {
		return nil
	}
	sum := sha256.Sum256(log[len(log)-1].data)
	return sum[:]
}

type folded struct {
	*playbook.Playbook
	chain []byte
}

func fold(t *testing.T, log []message) folded {
	t.Helper()
	p := new(playbook.Playbook)
	for _, m := range log {
		d, err := events.DecodeDelta(m.data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	return folded{p, chainOf(log)}
}

// viewOf returns the keys of a playbook in the bucket: bullets and head.
func viewOf(t *testing.T, p folded) []message {
	t.Helper()
	var view []message
	put := func(key string, v any) {
		data, err := events.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		view = append(view, message{subject: "$KV." + events.BucketPlaybook + "." + key, data: data})
	}
	for _, b := range p.Sorted() {
		put(events.BulletKey(desk, b.ID), b)
	}
	put(events.HeadKey(desk), viewHead{Version: p.Version(), Chain: p.chain, Last: p.LastMinted(), Count: p.Len(), Sum: p.Checksum()})
	return view
}
