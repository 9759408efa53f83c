package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
)

// TestProgramsHaveTheRightsTheyNeed runs each program as its user through all functions of the product, including deltas and
// dead letters. The server must log no denial.
func TestProgramsHaveTheRightsTheyNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := startTLSServer(t, "acme")
	s.debrief("acme", "setup", "--wait-server", "10s")
	s.debrief("acme", "setup") // a second call must change nothing
	c := s.setUp("acme")

	// A worker that takes a task and dies, until no attempt is left.
	task := &events.Task{Book: "default", ID: "poison", Question: "?", Created: time.Now().UTC()}
	if _, err := c.Publish(t.Context(), task, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	taken, err := c.JetStream().Consumer(t.Context(), events.StreamTasks, events.RoleGenerator)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		m, err := taken.Next(jetstream.FetchMaxWait(20 * time.Second))
		if err == nil {
			err = m.Nak()
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	model := startModel(t, 0)
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		startWorker(t, role, role, append(s.flags("acme", role), "--model", "simulated-invoice-desk", "--base-url", model)...)
	}
	if _, err := c.NATS().Request("debrief.task.default", []byte("no task"), 10*time.Second); err != nil { // another dead letter
		t.Fatal(err)
	}
	said := s.debrief("acme", "submit", "--wait", "--session", "s1", "--target", "37.5", "--evaluator", "numeric",
		"Invoice 20417, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?")
	handle := regexp.MustCompile(`\d+-[0-9a-f]{8}`).FindString(said)
	if handle == "" {
		t.Fatalf("execution not found: %s", said)
	}
	s.debrief("acme", "feedback", handle, "--bad", "--author", "ann")
	if got := s.debrief("acme", "playbook", "add", "--section", "Tips", "Look twice."); !strings.Contains(got, "Added") {
		t.Errorf("got %s", got)
	}
	train := filepath.Join(t.TempDir(), "train.jsonl")
	sample := `{"question": "Invoice 20418, to be paid in EUR:\n2 x lamp at 12.50\nWhat is the total?", "target": "25"}` + "\n"
	if err := os.WriteFile(train, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	s.debrief("acme", "train", train, "--evaluator", "numeric", "--epochs", "1", "--validation", train, "--out", t.TempDir())
	s.debrief("acme", "context", "pin", handle)

	agent := s.connect("acme", events.UserAgent)
	ask := func(verb string, body any, into any) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		m, err := agent.Request(events.ServiceSubject(verb, "default", ""), data, 20*time.Second)
		if err == nil && m.Header.Get("Nats-Service-Error") != "" {
			err = fmt.Errorf("%s", m.Header.Get("Nats-Service-Error"))
		}
		if err == nil {
			err = json.Unmarshal(m.Data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
	}
	var served events.ContextReply
	ask(events.VerbContext, &events.ContextRequest{Session: "s2", Query: "what is the total"}, &served)
	if len(served.Shown) == 0 {
		t.Fatalf("bullet not found in %+v", served)
	}
	var stored events.StoredReply
	failed := 0.0
	ask(events.VerbReport, map[string]any{
		"context_id": served.ID, "cited": []any{served.Shown[0].ID}, "session": "s2", "question": "what is the total", "answer": strings.Repeat("long ", bus.MaxInline/4),
		"outcome": map[string]any{"score": failed, "label": "failure"},
		"steps": []any{map[string]any{"tool_calls": []any{
			map[string]any{"tool": "find", "arguments": `{"n":1}`, "output": "Error: date must be like 2031-05-17", "outcome": "failure"},
			map[string]any{"tool": "find", "arguments": `{"date":"2031-05-17"}`, "output": "berth 7"},
		}}},
	}, &stored)
	ask(events.VerbFeedback, map[string]any{"execution": stored.Handle, "outcome": map[string]any{"score": 1, "label": "success"}}, &stored)

	eventually(t, 60*time.Second, "all is learned", func() error {
		for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
			if idle, err := c.Consumers.Idle(t.Context(), role); !idle || err != nil {
				return fmt.Errorf("%s: idle %v, error %v", role, idle, err)
			}
		}
		held := map[string]uint64{}
		all, err := c.Streams(t.Context())
		for _, st := range all {
			held[st.Name] = st.Messages
		}
		if held[events.StreamDeltas] < 2 || held[events.StreamDead] != 2 || held[events.StreamTasks] != 0 || held["KV_window"] == 0 || held["KV_contexts"] != 1 {
			return fmt.Errorf("streams hold %v, error %v", held, err)
		}
		return nil
	})
	s.debrief("acme", "playbook", "verify")
	s.debrief("acme", "status")
	if lines := s.said.all(); len(lines) > 0 {
		t.Errorf("the server denied:\n%s", strings.Join(lines, "\n"))
	}
}

// TestTenantsAreIsolated runs random operations on the same names as the operators of ten tenants. Each operator may only read
// data of its tenant. DEBRIEF_LONG=1 runs ten times as many operations.
func TestTenantsAreIsolated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	operations := 1000
	if os.Getenv(longEnv) != "" {
		operations = 10_000
	}
	const n = 10
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("tenant%d", i))
	}
	s := startTLSServer(t, names...)
	rng := rand.New(rand.NewPCG(chooseSeed(t), 7))
	tenants := make([]*tenant, n)
	var all sync.WaitGroup
	for i, name := range names {
		tenants[i] = &tenant{conn: s.connect(name, events.UserOperator), canary: fmt.Sprintf("canary-%d-%x", i, rng.Uint64()), rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
		all.Go(func() { tenants[i].err = tenants[i].open(t) })
	}
	all.Wait()
	for _, one := range tenants {
		all.Go(func() {
			for range operations / n {
				if one.err == nil {
					one.err = one.operate()
				}
			}
		})
	}
	all.Wait()
	own, cross := 0, 0
	for _, one := range tenants {
		if one.err != nil {
			t.Fatal(one.err)
		}
		for _, text := range one.read {
			for _, other := range tenants {
				switch has := strings.Contains(text, other.canary); {
				case has && other == one:
					own++
				case has:
					cross++
					t.Errorf("%s read %.200q", one.canary, text)
				}
			}
		}
	}
	t.Logf("%d operations of %d tenants: %d reads of own data, %d of another tenant's", operations, n, own, cross)
	if own < operations/4 {
		t.Errorf("got %d reads of own data, want more for a meaningful test", own)
	}
}

// tenant is an operator that writes a canary text and reads all data.
type tenant struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	canary string
	rng    *rand.Rand
	mu     sync.Mutex
	read   []string
	err    error
}

func (w *tenant) note(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = append(w.read, string(data))
}

func (w *tenant) open(t *testing.T) (err error) {
	if w.js, err = jetstream.New(w.conn); err != nil {
		return err
	}
	for _, cfg := range []jetstream.StreamConfig{ // only two streams: all of them are slow for ten tenants, with every write flushed
		{Name: events.StreamExecutions, Subjects: []string{"debrief.execution.*"}, AllowDirect: true},
		{Name: "KV_" + events.BucketWindow, Subjects: []string{"$KV.window.>"}, MaxMsgsPerSubject: 20, AllowDirect: true},
	} {
		if _, err := w.js.CreateStream(t.Context(), cfg); err != nil {
			return err
		}
	}
	for _, subject := range []string{events.SubjectHealth, "_INBOX_operator.known", events.HeadSubject("")} {
		if _, err := w.conn.Subscribe(subject, func(m *nats.Msg) { w.note(m.Data) }); err != nil {
			return err
		}
	}
	return w.conn.Flush()
}

// operate runs one operation on a name that all tenants use.
func (w *tenant) operate() error {
	const wait = 20 * time.Second
	subject, body := "", ""
	key := fmt.Sprintf("book.session%d", w.rng.IntN(5))
	switch w.rng.IntN(9) {
	case 0, 1:
		subject, body = "$KV.window."+key, w.canary
	case 2, 3:
		subject, body = "debrief.execution."+w.canary, w.canary
	case 4:
		subject = "$JS.API.DIRECT.GET.KV_window.$KV.window." + key
	case 5:
		subject, body = "$JS.API.DIRECT.GET.EXECUTIONS", fmt.Sprintf(`{"seq":%d}`, 1+w.rng.IntN(20))
	case 6:
		subject, body = "$JS.API.STREAM.INFO.EXECUTIONS", `{"subjects_filter":">"}`
	case 7:
		subject = "$JS.API.STREAM.LIST"
	case 8:
		return w.conn.Publish(events.SubjectHealth, []byte(w.canary)) // all tenants listen to it
	}
	m, err := w.conn.Request(subject, []byte(body), wait)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	w.note(m.Data)
	return nil
}
