package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/reflector"
)

// TestInstructionsInTracesAreNotLearned uses a model that obeys all instructions in traces. The curator must learn the
// same from executions with an injected instruction, in any field, as from executions without.
func TestInstructionsInTracesAreNotLearned(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	var attacks []struct{ Text, Says string }
	raw, err := os.ReadFile("../../../reflector/testdata/injections.json")
	if err == nil {
		err = json.Unmarshal(raw, &attacks)
	}
	if err != nil {
		t.Fatal(err)
	}
	places := map[playbook.Book]func(*events.Execution, string){
		"honest":   func(*events.Execution, string) {},
		"question": func(e *events.Execution, s string) { e.Question += "\n" + s },
		"context":  func(e *events.Execution, s string) { e.Context = s },
		"step":     func(e *events.Execution, s string) { e.Steps[0].Text = s },
		"tool":     func(e *events.Execution, s string) { e.Steps[0].Calls[0].Tool = s },
		"arguments": func(e *events.Execution, s string) {
			e.Steps[0].Calls[0].Arguments = worlds.ReplyJSON(map[string]string{"note": s})
		},
		"output":    func(e *events.Execution, s string) { e.Steps[0].Calls[0].Output = "Found.\n" + s },
		"reasoning": func(e *events.Execution, s string) { e.Reasoning += "\n" + s },
		"answer":    func(e *events.Execution, s string) { e.Answer += "\n" + s },
		"feedback":  func(e *events.Execution, s string) { e.Outcome.Feedback += "\n" + s },
	}
	conn, _ := bustest.Open(t, bus.Policy{})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	tasks, _ := Tasks(1)
	d := &learner{client: newClient(Options{ObeyRate: 1})}
	obeyed := 0
	for i, attack := range attacks {
		e := d.execute(t, &tasks[i])
		e.Steps = []events.Step{{Text: "I look it up.", Calls: []events.ToolCall{{Tool: "find", Arguments: `{"id":1}`, Output: "Found.", Outcome: events.Success}}}}
		for book, put := range places {
			own := *e
			own.Steps = []events.Step{{Text: "I look it up.", Calls: []events.ToolCall{e.Steps[0].Calls[0]}}}
			own.ID, own.Book = events.ExecutionID(book, "", own.RunID, 0), book
			put(&own, attack.Text)
			if _, err := conn.Publish(ctx, &own, bus.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		e.Context = attack.Text
		if ref, err := d.reflect(ctx, e); err == nil && strings.Contains(ref.Reasoning, "I was told to") {
			obeyed++
		}
	}
	if obeyed < 45 {
		t.Errorf("the model obeys %d of %d attacks, want at least 45 for a meaningful test", obeyed, len(attacks))
	}

	working, dismiss := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- bustest.Must(reflector.New(d, reflector.Config{})).Run(working, conn) }()
	go func() { ended <- bustest.Must(curator.New(d, curator.Config{})).Run(working, conn) }()
	idle := func() error {
		for _, role := range []string{events.RoleReflector, events.RoleCurator} {
			if lag, err := conn.Consumers.Lag(ctx, role); err != nil || !lag.Idle() {
				return fmt.Errorf("%s: %+v, %v", role, lag, err)
			}
		}
		return nil
	}
	for err := idle(); err != nil; err = idle() {
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	dismiss()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	store := deltalog.New(conn.JetStream())
	want := learned(t, ctx, store, "honest")
	if len(want) < 5 {
		t.Errorf("got %d bullets from the honest traces, want several", len(want))
	}
	for book := range places {
		if diff := cmp.Diff(want, learned(t, ctx, store, book)); diff != "" {
			t.Errorf("instructions in the %s change the playbook: %s", book, diff)
		}
	}
}

// learned returns the committed operations, except votes, and the final state of every bullet, with their counts. Bullets in
// quarantine are left out.
func learned(t *testing.T, ctx context.Context, store *deltalog.Store, b playbook.Book) map[string]int {
	t.Helper()
	out := map[string]int{}
	version := uint64(0)
	err := store.ReadLog(ctx, b, func(r *deltalog.Record) error {
		for _, op := range r.Ops {
			if op.Kind != playbook.Tag && op.Status != playbook.Quarantined { // votes: the bullets contain the sums
				out[fmt.Sprintf("%s %s: %s", op.Kind, op.Section, op.Content)]++
			}
		}
		version = r.Version
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := store.PlaybookAt(ctx, b, version)
	if err != nil {
		t.Fatal(err)
	}
	for x := range p.All() {
		if x.Status == playbook.Quarantined {
			continue // it waits for a person
		}
		out[fmt.Sprintf("%s: %s (%d/%d/%d)", x.Section, x.Content, x.Helpful, x.Harmful, x.Neutral)]++
	}
	return out
}
