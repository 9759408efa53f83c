package metrics

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/liveness"
	"debrief/playbook"
	"debrief/playbook/history"
)

// teams are the playbooks of the load. One of them is not named in the configuration.
var teams = []playbook.Book{"book-0", "sales", "support", "returns", "fraud", "unnamed"}

// TestFiguresEqualTheStreams sends the load of six teams through the roles, with reports of outside agents and feedback, and compares the
// figures of each with a count of the stored events.
func TestFiguresEqualTheStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	w := buildWith(t, Figures{Playbooks: teams[:5], Prices: bustest.Must(LoadPrices(""))})
	tasks, _ := simulated.Tasks(1)
	reported := 0
	for i, b := range teams {
		for j := range 4 + 3*i {
			task := tasks[j]
			task.Book, task.ID = b, fmt.Sprintf("%s-%d", b, j)
			for range 2 { // the server drops the second one
				if _, err := w.conn.Publish(t.Context(), &task, bus.PublishOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			x := &events.Execution{
				Book: b, RunID: fmt.Sprintf("outside-%d", j), Answer: "42", Model: []string{"gpt-4o-2024-08-06", "llama3", "priced-by-flags"}[j%3],
				Usage:   chat.Usage{Calls: 1, InputTokens: 1000 + j, CachedTokens: 100, OutputTokens: 10 * i},
				Outcome: events.Outcome{Label: outcomes[j%4], Score: []float64{1, 0.5, 0, 0}[j%4]},
			}
			if j%3 == 2 {
				x.Usage.Cost = 0.25
			}
			x.ID = events.ExecutionID(b, "", x.RunID, 0)
			r, err := w.conn.Publish(t.Context(), x, bus.PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			reported++
			f := &events.Feedback{Book: b, ID: events.NewID(), Execution: r.Handle, Outcome: events.Outcome{Label: events.Failure}}
			if _, err := w.conn.Publish(t.Context(), f, bus.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.until("all is learned from", func() bool {
		for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
			if idle, err := w.conn.Consumers.Idle(t.Context(), role); err != nil || !idle {
				return false
			}
		}
		return true
	})
	want := w.countStreams(figuresOf(teams[:5]))
	after := w.gather()
	for series, n := range want {
		if got := series.sum(after[series.name]); math.Abs(got-n) > 1e-9 {
			t.Errorf("%+v: got %v, want %v as in the streams", series, got, n)
		}
	}
	total := 0.0
	for series, n := range want {
		if series.name == "debrief_playbook_executions_total" {
			total += n
		}
	}
	if got := sum(after["debrief_playbook_executions_total"]); got != total || int(total) != 2*reported {
		t.Errorf("got %v executions, want %v as in the streams, and %d", got, total, 2*reported)
	}
	for _, m := range after["debrief_playbook_cost_dollars_total"].GetMetric() {
		if m.GetCounter().GetValue() == 0 {
			t.Errorf("a model without a price costs nothing: %v", m)
		}
	}
}

// figure is a series of a playbook.
type figure struct{ name, book, role, model, last string }

// sum returns the sum of the series of a metric with the labels of the figure. An empty label matches all values.
func (f figure) sum(all *dto.MetricFamily) (n float64) {
	want := map[string]string{"playbook": f.book, "role": f.role, "model": f.model, "direction": f.last, "outcome": f.last}
	for _, m := range all.GetMetric() {
		differs := slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool {
			return want[l.GetName()] != "" && want[l.GetName()] != l.GetValue()
		})
		if !differs {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

// figuresOf returns the label of a playbook.
func figuresOf(named []playbook.Book) func(playbook.Book) string {
	return func(b playbook.Book) string {
		for _, n := range named {
			if n == b {
				return string(b)
			}
		}
		return "other"
	}
}

// countStreams counts the stored events. It shares no code with the metrics.
func (w *whole) countStreams(label func(playbook.Book) string) map[figure]float64 {
	w.t.Helper()
	want := map[figure]float64{}
	usage := func(book, role, model string, u chat.Usage) {
		name, dollars := "other", u.Cost
		if model == "gpt-4o-2024-08-06" {
			name = "gpt-4o"
			dollars = (float64(u.InputTokens-u.CachedTokens)*2.5 + float64(u.CachedTokens)*1.25 + float64(u.OutputTokens)*10) / 1e6
		}
		want[figure{"debrief_playbook_tokens_total", book, role, name, "input"}] += float64(u.InputTokens)
		want[figure{"debrief_playbook_tokens_total", book, role, name, "cached"}] += float64(u.CachedTokens)
		want[figure{"debrief_playbook_tokens_total", book, role, name, "output"}] += float64(u.OutputTokens)
		want[figure{"debrief_playbook_cost_dollars_total", book, role, name, ""}] += dollars
	}
	for _, stream := range []string{events.StreamExecutions, events.StreamReflections} {
		err := w.conn.Events.Scan(w.t.Context(), stream, "debrief.>", 1, func(s bus.Stored) error {
			switch e := s.Event.(type) {
			case *events.Execution:
				outcome := string(e.Outcome.Label)
				if outcome == "" {
					outcome = "unknown"
				}
				want[figure{"debrief_playbook_executions_total", label(e.Book), "", "", outcome}]++
				usage(label(e.Book), "generator", e.Model, e.Usage)
			case *events.Feedback:
				want[figure{"debrief_playbook_feedback_total", label(e.Book), "", "", string(e.Outcome.Label)}]++
			case *events.Reflection:
				usage(label(e.Book), "reflector", e.Model, e.Usage)
			}
			return s.Err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return want
}

// TestWaitingMessagesOfPlaybooks counts messages that wait while no role works.
func TestWaitingMessagesOfPlaybooks(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	m := New("test", "v1", Figures{Playbooks: teams[:2]})
	for i, b := range []playbook.Book{"book-0", "book-0", "sales", "support", "book-0", "fraud"} {
		task := &events.Task{Book: b, ID: fmt.Sprint("t", i), Question: "?"}
		if i == 4 {
			task.Owner = string(events.Hash("ann"))
		}
		if _, err := conn.Publish(t.Context(), task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pending, err := conn.Consumers.Pending(t.Context(), events.RoleGenerator, teams[:3])
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{3, 1, 1} {
		if got := pending.Books[i]; got.Messages != want || got.Oldest.IsZero() {
			t.Errorf("%s: got %+v, want %d messages", teams[i], got, want)
		}
	}
	if pending.All != 6 {
		t.Errorf("got %d messages, want 6", pending.All)
	}
	m.register(func(to scrape) {
		r := liveness.Report{Time: time.Now(), Roles: make([]liveness.Role, 2)}
		r.Roles[0].Role, r.Roles[1].Role = events.RoleGenerator, events.RoleReflector
		m.playbooks.collectWaiting(t.Context(), to, conn, r)
	})
	got := gather(t, m)
	for _, test := range []struct {
		book string
		want float64
	}{{"book-0", 3}, {"sales", 1}, {other, 2}} {
		if n := sum(got["debrief_playbook_waiting_messages"], test.book, events.RoleGenerator); n != test.want {
			t.Errorf("%s: got %v waiting messages, want %v", test.book, n, test.want)
		}
	}
	if n := sum(got["debrief_playbook_waiting_messages"], other, events.RoleReflector); n != 0 {
		t.Errorf("got %v waiting executions", n)
	}
	if n := sum(got["debrief_playbook_oldest_seconds"], "sales", events.RoleGenerator); n <= 0 {
		t.Errorf("got an oldest task of %v seconds", n)
	}
}

// TestHealthOfPlaybooks: each named playbook has the numbers and the alarms of its health. If it cannot be read, they are absent.
func TestHealthOfPlaybooks(t *testing.T) {
	t.Parallel()
	m := New("test", "v1", Figures{Playbooks: teams[:2]})
	m.Health(func(_ context.Context, b playbook.Book) *history.Health {
		if b != teams[0] {
			return nil
		}
		return &history.Health{Active: 12, Cited: 4, Stale: 7, Contradictions: make([]history.Contradiction, 2), Alarms: []history.Alarm{{Code: history.AlarmStale}, {Code: history.AlarmHarm}}}
	})
	got := gather(t, m)
	for _, test := range []struct {
		metric, book, label string
		want                float64
	}{
		{"debrief_playbook_bullets", string(teams[0]), "active", 12},
		{"debrief_playbook_bullets", string(teams[0]), "cited", 4},
		{"debrief_playbook_bullets", string(teams[0]), "stale", 7},
		{"debrief_playbook_bullets", string(teams[0]), "contradicting", 2},
		{"debrief_playbook_alarm", string(teams[0]), "stale", 1},
		{"debrief_playbook_alarm", string(teams[0]), "harm", 1},
		{"debrief_playbook_alarm", string(teams[0]), "uncited", 0},
	} {
		if n := sum(got[test.metric], test.book, test.label); n != test.want {
			t.Errorf("%s of %s, %s: got %v, want %v", test.metric, test.book, test.label, n, test.want)
		}
	}
	if n := len(got["debrief_playbook_alarm"].GetMetric()); n != len(history.AlarmCodes()) {
		t.Errorf("got %d series of alarms, want %d of one playbook", n, len(history.AlarmCodes()))
	}
}

// TestLabelsAreBounded counts events of 10,000 playbooks with as many models: the series are those of the named ones and of the rest.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := New("test", "v1", Figures{Playbooks: teams[:5], Prices: bustest.Must(LoadPrices(""))})
	count := func(n int) int {
		for i := range n {
			b := playbook.Book(fmt.Sprint("book-", i))
			x := &events.Execution{Book: b, Model: fmt.Sprint("model-", i), Usage: chat.Usage{InputTokens: 1, CachedTokens: 1, OutputTokens: 1, Cost: 1}}
			x.Outcome.Label = events.Label(fmt.Sprint("label-", i))
			m.playbooks.addStored(x)
			m.playbooks.addStored(&events.Reflection{Book: b, Model: x.Model, Usage: x.Usage})
			m.playbooks.addStored(&events.Feedback{Book: b, Outcome: x.Outcome})
			m.GatewayCall(b, "helper-call").Inc()
		}
		return len(series(gather(t, m)))
	}
	few := count(3)
	if many := count(10_000); many != few {
		t.Errorf("got %d series with 10,000 playbooks, and %d with 3", many, few)
	}
	got := gather(t, m)
	if n := sum(got["debrief_playbook_executions_total"], other, "unknown"); n != 10_001 { // book-0 is named
		t.Errorf("got %v executions of other playbooks, want 10001", n)
	}
}
