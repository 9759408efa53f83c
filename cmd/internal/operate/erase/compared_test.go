package erase

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/erasure"
	"debrief/reflector"
)

// startReflector runs a reflector whose model quotes the canaries of the prompt in its insight.
func (d *desk) startReflector(t *testing.T) {
	t.Helper()
	model := chat.ModelFunc(func(_ context.Context, p chat.Prompt) (chat.Reply, error) {
		var said []string
		for _, m := range p.Messages {
			for _, word := range strings.FieldsFunc(m.Text, func(r rune) bool { return strings.ContainsRune("\"{}:, \n", r) }) {
				if strings.HasPrefix(word, "canary-") {
					said = append(said, word)
				}
			}
		}
		insight := "Book the berth of the order before anything else."
		if len(said) > 0 {
			insight = fmt.Sprintf("Before the berth is booked, compare it with %s of the list, and ask the harbour master for his word on each.", strings.Join(said, " and "))
		}
		reply, err := json.Marshal(map[string]any{"reasoning": "r", "root_cause_analysis": "No " + strings.Join(said, " "), "key_insight": insight})
		return chat.Reply{Text: string(reply), Model: "m"}, err
	})
	role := bustest.Must(reflector.New(model, reflector.Config{}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, d.conn, role) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// book stores a run of a user that makes a call, and waits until the curator has decided on the reflection. It returns the handle.
func (d *desk) book(t *testing.T, task, user, argument string, label events.Label) events.Handle {
	t.Helper()
	run := task + "-" + user
	r, err := d.conn.Publish(t.Context(), &events.Execution{
		Book: "b", ID: events.ExecutionID("b", "", run, 0), RunID: run, User: user, Session: "session of " + user,
		Question: "Which berth has order " + task + "?", Answer: "7", Started: time.Now().UTC().Add(-time.Minute), Outcome: events.Outcome{Label: label}.Complete(),
		Steps: []events.Step{{Speaker: "assistant", Calls: []events.ToolCall{{
			Tool: "book", Arguments: fmt.Sprintf(`{"berth":%q}`, argument), Output: "done", Outcome: events.Success,
		}}}},
	}, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	logs := deltalog.New(d.conn.JetStream())
	for covered := false; !covered; time.Sleep(10 * time.Millisecond) {
		err := logs.ReadLog(t.Context(), "b", func(record *deltalog.Record) error {
			for _, c := range record.Covers {
				covered = covered || c.Evidence != nil && c.Evidence.Execution == string(r.Handle)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r.Handle
}

// decoded returns the events of a stream and the log of the playbook as JSON.
func (d *desk) decoded(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for stream, kinds := range map[string][]events.Kind{
		events.StreamExecutions: {events.KindExecution}, events.StreamReflections: {events.KindReflection},
	} {
		for _, kind := range kinds {
			err := d.conn.Events.Scan(t.Context(), stream, kind.Subject("b"), 1, func(s bus.Stored) error {
				if s.Err != nil {
					return s.Err
				}
				return enc.Encode(s.Event)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	err := deltalog.New(d.conn.JetStream()).ReadLog(t.Context(), "b", func(r *deltalog.Record) error { return enc.Encode(r.Delta) })
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ann", "bob", "cleo"} {
		notes, _, err := d.windows.Notes(t.Context(), "b", "", "session of "+user, 20)
		if err == nil {
			err = enc.Encode(notes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestErasedRunLeavesReflectionsOfOthers erases a run that the reflection on a run of another user was compared with, and quotes. The
// reflection and the bullet that was learned from it go, and the other run stays.
func TestErasedRunLeavesReflectionsOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, what := range []string{"user", "session", "execution"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := startDesk(t)
			d.startCurator(t)
			d.startReflector(t)
			erased := d.book(t, "1", "ann", canary("ann", "call"), events.Success)
			d.book(t, "2", "cleo", canary("cleo", "call"), events.Success)
			kept := d.book(t, "1", "bob", "7", events.Failure)
			d.book(t, "2", "bob", "8", events.Failure)
			quoted := []byte(canary("ann", "call"))
			count := func(text string) [2]int {
				return [2]int{bytes.Count(d.files(t), []byte(text)), bytes.Count(d.decoded(t), []byte(text))}
			}
			before := d.reflectionOn(t, kept)
			if before == nil || !strings.Contains(before.KeyInsight, string(quoted)) || before.OtherRun == nil || before.OtherRun.Execution != erased {
				t.Fatalf("before: got the reflection %+v on the kept run, want one that quotes the other run", before)
			}
			ofAnn, ofCleo := count(string(quoted)), count(canary("cleo", "call"))
			if ofAnn[0] < 5 || ofAnn[1] < 5 || ofAnn[1] != ofCleo[1] { // each in two reflections, the log and the bullets
				t.Fatalf("before: found the texts %v and %v times, want at least 5 of each", ofAnn, ofCleo)
			}
			d.erase(t, map[string]erasure.Request{
				"user": {User: "ann"}, "session": {Session: "session of ann"}, "execution": {Book: "b", Execution: erased},
			}[what])
			if got := d.reflectionOn(t, kept); got != nil {
				t.Errorf("after: the reflection on the kept run is still stored: %+v", got)
			}
			if got := count(canary("cleo", "call")); got[1] != ofCleo[1] {
				t.Errorf("after: found the texts of cleo %v times, want %v", got, ofCleo)
			}
			runs := 0
			err := d.conn.Events.Scan(t.Context(), events.StreamExecutions, events.KindExecution.Subject("b"), 1, func(bus.Stored) error { runs++; return nil })
			if err != nil || runs != 3 {
				t.Errorf("after: got %d executions and error %v, want 3", runs, err)
			}
			p, err := deltalog.Load(t.Context(), d.conn, "b")
			if err != nil {
				t.Fatal(err)
			}
			for b := range p.All() {
				if strings.Contains(b.Content, string(quoted)) {
					t.Errorf("after: bullet %s says %q", b.ID, b.Content)
				}
			}
			if v, err := deltalog.New(d.conn.JetStream()).Verify(t.Context(), "b"); err != nil || v.Damaged() {
				t.Errorf("after: got %+v and error %v, want a log without damage", v, err)
			}
			if again := d.erase(t, erasure.Request{User: "nobody"}); again.Versions != 0 || again.Removed != 0 {
				t.Errorf("a second erasure: got %+v, want nothing to remove", again)
			}
			if got := d.decoded(t); bytes.Contains(got, quoted) {
				t.Errorf("after: the text of ann is still stored: %s", got)
			}
			d.stop()
			if data := d.files(t); bytes.Contains(data, quoted) || !bytes.Contains(data, []byte(canary("cleo", "call"))) {
				t.Error("after: want the text of cleo in the files, and not that of ann")
			}
		})
	}
}

// reflectionOn returns the stored reflection on an execution, or nil.
func (d *desk) reflectionOn(t *testing.T, h events.Handle) (found *events.Reflection) {
	t.Helper()
	err := d.conn.Events.Scan(t.Context(), events.StreamReflections, events.KindReflection.Subject("b"), 1, func(s bus.Stored) error {
		if r, ok := s.Event.(*events.Reflection); ok && r.Handle == h {
			found = r
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
