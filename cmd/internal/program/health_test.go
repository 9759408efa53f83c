package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"debrief/cmd/internal/simulated"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/liveness"
	"debrief/playbook"
	"debrief/reflector"
)

const patience = 20 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// moody is a model that gives one lesson for each reflection. While it is broken it returns prose, and it always does for a
// conversation about poison.
type moody struct {
	broken atomic.Bool
	asked  atomic.Int64
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	n := m.asked.Add(1)
	reply := fmt.Sprintf(`{\"key_insight\": \"Before you book a table for %d guests, find its id.\", \"section\": \"others\"}`, n)
	if m.broken.Load() || bytes.Contains(body, []byte("poison")) {
		reply = "I would rather talk about the weather."
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",
		"message":{"role":"assistant","content":"%s"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, reply)
}

// site is a reflector with a model and a curator without one, with health checks.
type site struct {
	t      *testing.T
	conn   *bus.Conn
	model  *moody
	health *httptest.Server
}

// testFloor is short enough for a test, and long compared with the handling of a message.
const testFloor = 400 * time.Millisecond

func build(t *testing.T) *site {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{
		BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond, ProbeInterval: 60 * time.Millisecond, HoldInterval: 10 * time.Millisecond,
	})
	s := &site{t: t, conn: conn, model: new(moody)}
	watch := liveness.NewProcess(conn, "test", testFloor)
	counts := MetricsWithoutFigures("test")
	counts.Watch(conn, watch)
	checks := checks{conn: conn, watch: watch, metrics: counts, roles: 2, showReasons: true}
	s.health = httptest.NewServer(checks.mux())
	t.Cleanup(s.health.Close)
	return s
}

// work runs both roles until the test ends.
func (s *site) work() {
	s.t.Helper()
	models := httptest.NewServer(s.model)
	flags := Model{ReflectorModel: simulated.Name, BaseURL: models.URL + "/v1", Timeout: 10 * time.Second, MaxConcurrent: 4}
	model, err := flags.OptionalClient(events.RoleReflector)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- Run(ctx, s.conn, bustest.Must(reflector.New(model, reflector.Config{Slots: 4})), bustest.Must(curator.New(nil, curator.Config{})))
	}()
	s.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		models.Close()
	})
}

// runs stores executions with known outcomes.
func (s *site) runs(name string, n int) {
	s.t.Helper()
	for i := range n {
		id := fmt.Sprint(name, "-", i)
		e := &events.Execution{
			Book: "b",
			ID:   events.ExecutionID("b", "", id, 0), RunID: id, Question: "Book a table, " + id + ".", Outcome: events.Outcome{Label: events.Failure},
			Steps: []events.Step{{Speaker: "assistant", Calls: []events.ToolCall{
				{Tool: "book", Arguments: `{"id": 1}`, Output: "no such id", Outcome: events.Failure},
				{Tool: "find", Arguments: `{}`, Output: "2", Outcome: events.Success},
				{Tool: "book", Arguments: `{"id": 2}`, Output: "done", Outcome: events.Success},
			}}},
		}
		if _, err := s.conn.Publish(s.t.Context(), e, bus.PublishOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) get(path string) (int, string) {
	s.t.Helper()
	resp, err := http.Get(s.health.URL + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// role returns the state of a role in /healthz, and the status code.
func (s *site) role(name string) (int, liveness.Role) {
	s.t.Helper()
	code, body := s.get("/healthz")
	var r liveness.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		s.t.Fatalf("%q: %v", body, err)
	}
	for _, role := range r.Roles {
		if role.Role == name {
			return code, role
		}
	}
	return code, liveness.Role{}
}

func (s *site) lag(role string) bus.Lag {
	s.t.Helper()
	l, err := s.conn.Consumers.Lag(s.t.Context(), role)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// stored returns the events of a stream.
func stored[E events.Event](s *site, stream string) (all []E) {
	s.t.Helper()
	err := s.conn.Events.Scan(s.t.Context(), stream, "debrief.>", 1, func(x bus.Stored) error {
		if e, ok := x.Event.(E); ok {
			all = append(all, e)
		}
		return x.Err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// learned returns for each task the number of its reflections, and how often the log covers each of them.
func (s *site) learned() map[string]int {
	s.t.Helper()
	covered := map[string]int{}
	log, err := s.conn.JetStream().Stream(s.t.Context(), events.StreamDeltas)
	if err != nil {
		s.t.Fatal(err)
	}
	for seq := uint64(1); seq <= log.CachedInfo().State.LastSeq; seq++ {
		m, err := log.GetMsg(s.t.Context(), seq)
		if err != nil {
			s.t.Fatal(err)
		}
		var d *playbook.Delta
		if d, err = events.DecodeDelta(m.Data); err != nil {
			s.t.Fatal(err)
		}
		for _, c := range d.Covers {
			covered[c.ID]++
		}
	}
	tasks := map[events.ID]string{}
	for _, e := range stored[*events.Execution](s, events.StreamExecutions) {
		tasks[e.ID] = e.RunID
	}
	times := map[string]int{}
	for _, r := range stored[*events.Reflection](s, events.StreamReflections) {
		times[tasks[r.Execution]] += covered[r.Cover(0).ID]
	}
	return times
}

func TestBrokenReflectorPromptTurnsHealthRed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		what          string
		before, after int // number of executions before the prompt breaks, and after
	}{
		{"broken from the start", 0, 60},
		{"broken in the middle", 30, 60},
		{"broken, and little to do", 0, 3},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			s.work()
			s.runs("before", row.before)
			eventually(t, "the first are learned", func() bool { return len(s.learned()) == row.before && s.lag(events.RoleReflector).Idle() })
			s.model.broken.Store(true)
			s.runs("after", row.after)

			eventually(t, "health is red", func() bool {
				code, r := s.role(events.RoleReflector)
				return code == http.StatusServiceUnavailable && r.Level == liveness.Red && r.State == bus.Paused
			})
			if _, r := s.role(events.RoleReflector); !slices.Contains(r.Problems, liveness.NotRunning) {
				t.Errorf("red because of %q, want a role that does not run", r.Reasons)
			}
			if code, body := s.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "paused") {
				t.Errorf("/readyz: %d %s", code, body)
			}
			if _, body := s.get("/metrics"); !strings.Contains(body, "\ndebrief_role_level{role=\"reflector\"} 2\n") || !strings.Contains(body, "\ndebrief_role_state{role=\"reflector\",state=\"paused\"} 1\n") {
				t.Errorf("/metrics: %s", body)
			}
			asked := s.model.asked.Load()
			eventually(t, "ten probes, each with its second question", func() bool { return s.model.asked.Load() >= asked+20 })
			l := s.lag(events.RoleReflector)
			if waiting := int(l.Pending) + l.InFlight; waiting != row.after || int(l.Floor) != row.before {
				t.Errorf("while broken: %d wait and all up to %d is acked, want %d and %d", waiting, l.Floor, row.after, row.before)
			}
			if n := len(stored[*events.Reflection](s, events.StreamReflections)); n != row.before {
				t.Errorf("while broken: %d reflections, want %d", n, row.before)
			}

			s.model.broken.Store(false)
			eventually(t, "health is green", func() bool {
				code, r := s.role(events.RoleReflector)
				return code == http.StatusOK && r.Level == liveness.Green && s.lag(events.RoleReflector).Idle()
			})
			eventually(t, "the backlog is curated", func() bool { return s.lag(events.RoleCurator).Idle() })
			times := s.learned()
			if len(times) != row.before+row.after {
				t.Errorf("%d of %d executions were learned from", len(times), row.before+row.after)
			}
			for task, n := range times {
				if n != 1 {
					t.Errorf("%s was learned from %d times", task, n)
				}
			}
			for _, d := range stored[*events.DeadLetter](s, events.StreamDead) {
				t.Errorf("dead letter: %s", d.Reason)
			}
		})
	}
}

func TestPoisonMessageIsDeadLettered(t *testing.T) {
	t.Parallel()
	s := build(t)
	s.work()
	s.runs("poison", 2)
	s.runs("sound", 30)
	eventually(t, "all is settled", func() bool {
		return s.lag(events.RoleReflector).Idle() && s.lag(events.RoleCurator).Idle() && len(s.learned()) == 30
	})
	dead := stored[*events.DeadLetter](s, events.StreamDead)
	if len(dead) != 2 || dead[0].Code != events.DeadUseless || dead[1].Code != events.DeadUseless {
		t.Errorf("got the dead letters %+v, want the two of poison", dead)
	}
	if code, r := s.role(events.RoleReflector); code != http.StatusOK || r.Stats.Dead != 2 || r.Backlog.Dead != 2 || r.Stats.Stored != 30 {
		t.Errorf("/healthz: %d %+v", code, r)
	}
	if _, r := s.role(events.RoleCurator); r.Stats.Deltas == 0 || r.Stats.LastEffect.IsZero() || r.Stats.Handled != 30 {
		t.Errorf("the curator: %+v", r.Stats)
	}
}

// TestNotReadyWithoutAStream: the roles run, but the server does not return the state of a stream of one of them.
func TestNotReadyWithoutAStream(t *testing.T) {
	t.Parallel()
	s := build(t)
	s.work()
	eventually(t, "ready", func() bool { code, _ := s.get("/readyz"); return code == http.StatusOK })
	if err := s.conn.JetStream().DeleteStream(t.Context(), "KV_"+events.BucketPlaybook); err != nil {
		t.Fatal(err)
	}
	code, body := s.get("/readyz")
	var states []bus.RoleHealth
	if err := json.Unmarshal([]byte(body), &states); err != nil || code != http.StatusServiceUnavailable {
		t.Fatalf("got %d %s, %v", code, body, err)
	}
	for _, h := range states {
		if want := h.Role != events.RoleCurator; h.Healthy() != want || !want && !strings.Contains(h.Reason, "KV_playbook") {
			t.Errorf("got %+v", h)
		}
	}
	if code, _ := s.get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: got %d", code)
	}
}
