package auditor

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"
)

// world is a small, correct installation. Each test case damages it in one way.
type world struct {
	*testing.T
	Streams
	in Accepted
}

type vote1 struct {
	ID  string `msgpack:"id"`
	Tag string `msgpack:"tag"`
}

func (w *world) encode(v any) []byte {
	w.Helper()
	data, err := msgpack.Marshal(v)
	if err != nil {
		w.Fatal(err)
	}
	return data
}

func add(to *[]Message, subject string, data []byte) uint64 {
	seq := uint64(len(*to) + 1)
	*to = append(*to, Message{Seq: seq, Subject: subject, Header: nats.Header{}, Data: data})
	return seq
}

// reflect stores an execution of a task and the reflection on it, and returns its cover.
func (w *world) reflect(taskID, bulletID, tag string) support {
	id := executionID("b", taskID)
	add(&w.Executions, "debrief.execution.b", w.encode(map[string]any{"id": id, "task": taskID}))
	seq := add(&w.Reflections, "debrief.reflection.b", w.encode(map[string]any{"id": "r-" + id, "execution": id, "handle": fmt.Sprint(len(w.Executions), "-00"), "tags": []vote1{{bulletID, tag}}}))
	w.in.Tasks["b"] = append(w.in.Tasks["b"], taskID)
	return support{ID: id, Seq: seq}
}

// commit appends a delta that covers events.
func (w *world) commit(covers []support, ops ...changeOp) {
	d := change{Version: 1, Covers: covers, Ops: ops, Author: "curator"}
	if n := len(w.Deltas); n > 0 {
		last := w.Deltas[n-1]
		sum := sha256.Sum256(last.Data)
		d.Version, d.PrevSeq, d.PrevChain = uint64(n+1), last.Seq, sum[:]
	}
	add(&w.Deltas, "debrief.delta.b", w.encode(d))
}

func tagOp(kind string, support ...int) changeOp {
	return changeOp{Kind: "TAG", Bullet: "x-1", Helpful: len(support), Support: support, Was: kind}
}

// flush writes the view of the log.
func (w *world) flush() {
	f := newFold("b")
	for _, m := range w.Deltas {
		f.add(m)
	}
	w.View = nil
	for _, b := range f.bullets {
		add(&w.View, "$KV.playbook.b.bullet."+b.ID, w.encode(b))
	}
	add(&w.View, "$KV.playbook.b.head", w.encode(head{Version: f.version, Chain: f.chain, Count: len(f.bullets)}))
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, in: Accepted{Tasks: map[string][]string{}, Feedback: map[string][]string{}, Edits: map[string][]string{}}}
	seq := add(&w.Reflections, "debrief.edit.b", w.encode(map[string]any{"id": "edit-1"}))
	w.in.Edits["b"] = []string{"edit-1"}
	w.commit([]support{{ID: "edit-1", Seq: seq}}, changeOp{Kind: "ADD", Bullet: "x-1", Section: "x", Content: "c", Support: []int{0}})
	w.commit([]support{w.reflect("t1", "x-1", "helpful"), w.reflect("t2", "x-1", "helpful")}, tagOp("", 0, 1))
	add(&w.Executions, "debrief.feedback.b.e.f1", w.encode(map[string]any{"id": "f1", "outcome": map[string]any{"feedback": "wrong after all"}}))
	w.in.Feedback["b"] = []string{"wrong after all"}
	seq = add(&w.Reflections, "debrief.reflection.b", w.encode(map[string]any{
		"id": "r-f1", "execution": executionID("b", "t2"), "feedback": "f1", "feedback_seq": 3, "tags": []vote1{{"x-1", "harmful"}},
	}))
	w.commit([]support{{ID: "f1", Seq: seq}}, changeOp{Kind: "RETAG", Bullet: "x-1", Was: "helpful", Harmful: 1, Support: []int{0}})
	w.flush()
	return w
}

// TestAuditFindsEachDefect is the positive control of the fault tests: the audit reports each kind of defect, and no problem
// in a correct installation.
func TestAuditFindsEachDefect(t *testing.T) {
	t.Parallel()
	letter := func(w *world, stream string, seq uint64, subject string, event map[string]any) {
		add(&w.Dead, "debrief.dead.reflector.b", w.encode(map[string]any{
			"role": "reflector", "reason": "attempts", "stream": stream, "seq": seq, "subject": subject, "data": w.encode(event),
		}))
	}
	for _, test := range []struct {
		name   string
		damage func(w *world)
		want   string
	}{
		{"nothing", func(*world) {}, ""},
		{"a condition", func(w *world) {
			w.commit(nil, changeOp{Kind: "UPDATE", Bullet: "x-1", When: "it rains", Content: "When it rains: c"})
			w.flush()
		}, ""},
		{"a condition that the content does not begin with", func(w *world) {
			w.commit(nil, changeOp{Kind: "UPDATE", Bullet: "x-1", When: "it rains", Content: "c"})
			w.flush()
		}, "wrong: book b: delta at 4: the content of x-1 does not begin with its condition"},
		{"a condition that a merge loses", func(w *world) {
			w.commit(nil, changeOp{Kind: "ADD", Bullet: "x-2", Section: "x", When: "it rains", Content: "When it rains: d"}, changeOp{Kind: "MERGE", Bullet: "x-1", Sources: []string{"x-2"}, Content: "c"})
			w.flush()
		}, "wrong: book b: delta at 4: MERGE of x-1 loses the condition"},
		{"a condition that the view lacks", func(w *world) {
			w.commit(nil, changeOp{Kind: "UPDATE", Bullet: "x-1", When: "it rains", Content: "When it rains: c"})
			w.flush()
			w.View[0].Data = w.encode(record{ID: "x-1", Section: "x", Content: "When it rains: c", Helpful: 1, Harmful: 1})
		}, "wrong: book b: the view has"},
		{"a task without an effect", func(w *world) { w.in.Tasks["b"] = append(w.in.Tasks["b"], "t3") }, "lost: book b: task t3"},
		{"feedback that was never stored", func(w *world) { w.in.Feedback["b"] = append(w.in.Feedback["b"], "?") }, "lost: book b: feedback"},
		{"an edit without an effect", func(w *world) { w.in.Edits["b"] = append(w.in.Edits["b"], "edit-2") }, "lost: book b: edit edit-2"},
		{"a dead letter instead of an effect", func(w *world) {
			w.in.Tasks["b"] = append(w.in.Tasks["b"], "t3")
			letter(w, "TASKS", 3, "debrief.task.b", map[string]any{"run_id": "t3"})
		}, ""},
		{"a dead letter besides an effect", func(w *world) {
			letter(w, "EXECUTIONS", 1, "debrief.execution.b", map[string]any{"id": executionID("b", "t1")})
		}, "both: book b"},
		{"a dead letter of a copy", func(w *world) {
			letter(w, "EXECUTIONS", 9, "debrief.execution.b", map[string]any{"id": executionID("b", "t1")})
		}, ""},
		{"a dead letter of feedback besides an effect", func(w *world) {
			letter(w, "EXECUTIONS", 3, "debrief.feedback.b.e.f1", map[string]any{"id": "f1"})
		}, "both: book b"},
		{"a dead letter of the task besides an effect", func(w *world) {
			letter(w, "TASKS", 1, "debrief.task.b", map[string]any{"run_id": "t1"})
		}, "both: book b"},
		{"a dead letter of the reflection besides an effect", func(w *world) {
			letter(w, "REFLECTIONS", 2, "debrief.reflection.b", map[string]any{"id": "r", "execution": executionID("b", "t1")})
		}, "both: book b"},
		{"a dead letter of a copy of the reflection", func(w *world) {
			letter(w, "REFLECTIONS", 9, "debrief.reflection.b", map[string]any{"id": "r", "execution": executionID("b", "t1")})
		}, ""},
		{"an event covered twice", func(w *world) {
			w.commit([]support{{ID: executionID("b", "t1"), Seq: 2}})
			w.flush()
		}, "twice: book b: event " + executionID("b", "t1") + " is covered"},
		{"a vote counted twice", func(w *world) {
			w.commit([]support{{ID: executionID("b", "t1"), Seq: 2}}, tagOp("", 0))
			w.flush()
		}, "votes on x-1 in the deltas"},
		{"a vote of no reflection", func(w *world) {
			w.commit([]support{{ID: "f1", Seq: 99}}, tagOp("", 0))
			w.flush()
		}, "has no reflection at 99"},
		{"a vote that the reflection does not say", func(w *world) {
			w.Reflections[1].Data = w.encode(map[string]any{"execution": executionID("b", "t1"), "tags": []vote1{{"x-1", "neutral"}}})
		}, "does not say"},
		{"more votes than supporters", func(w *world) {
			w.commit(nil, changeOp{Kind: "TAG", Bullet: "x-1", Helpful: 2})
			w.flush()
		}, "counts 2 votes of 0 supporters"},
		{"an event from nowhere", func(w *world) {
			w.commit([]support{{ID: "forged", Seq: 1}})
			w.flush()
		}, "was never stored"},
		{"a view behind its log", func(w *world) { w.commit(nil) }, "the view's head"},
		{"another bullet in the view", func(w *world) {
			w.View[0].Data = w.encode(record{ID: "x-1", Section: "x", Content: "other"})
		}, "the log folds to"},
		{"one bullet too many in the view", func(w *world) {
			add(&w.View, "$KV.playbook.b.bullet.x-2", w.encode(record{ID: "x-2"}))
		}, "which is not in the log"},
		{"a delta changed afterwards", func(w *world) {
			w.Deltas[1].Data = append(w.Deltas[1].Data, 0)
		}, "the view's head"},
		{"a bullet added twice", func(w *world) {
			w.commit(nil, changeOp{Kind: "ADD", Bullet: "x-1", Content: "again"})
			w.flush()
		}, "which exists"},
		{"a task that waits", func(w *world) { add(&w.Tasks, "debrief.task.b", nil) }, "still waits"},
		{"garbage in the log alone", func(w *world) {
			garbage := []byte("garbage")
			w.Deltas = slices.Insert(w.Deltas, 3, Message{Seq: 4, Subject: "debrief.delta.b", Data: garbage})
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.damage(w)
			report := Check(&w.Streams, w.in)
			got := strings.Join(report.Problems(10), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}
