package liveness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

const patience = 15 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// work runs a role until stop is called or the test ends.
func work(t *testing.T, c *bus.Conn, role string, handle func(*bus.Delivery) bus.Result) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx, bus.Worker{Role: role, Handle: func(_ context.Context, batch []*bus.Delivery) []bus.Result {
			return []bus.Result{handle(batch[0])}
		}})
	}()
	var once bool
	stop = func() {
		if once {
			return
		}
		once = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func publish(t *testing.T, c *bus.Conn, n int) {
	t.Helper()
	for range n {
		e := &events.Execution{Book: "b", ID: events.NewID(), RunID: "t", Answer: "42"}
		if _, err := c.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func reflected(d *bus.Delivery) bus.Result {
	id := d.Event.EventID()
	r := &events.Reflection{Book: "b", ID: events.ReflectionID(id, "", "test"), Execution: id, Handle: d.Handle(), Reflector: "test"}
	return bus.Result{Events: []events.Event{r}}
}

func survey(t *testing.T, c *bus.Conn, role string, floor time.Duration) RoleSummary {
	t.Helper()
	reports, err := CollectReports(t.Context(), c.NATS())
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Consumers.Backlog(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	return Summarize(role, w, reports, time.Now(), floor)
}

// TestProcessIsCountedOnce: two subscriptions reply for one process, as if the server had delivered the request twice.
func TestProcessIsCountedOnce(t *testing.T) {
	t.Parallel()
	conn, nc := bustest.Open(t, bus.Policy{})
	one, two := NewProcess(conn, "one", 0), NewProcess(conn, "two", 0)
	for _, p := range []*Process{one, one, two} {
		closed, err := p.ServeReports()
		if err != nil {
			t.Fatal(err)
		}
		defer closed()
	}
	reports, err := CollectReports(t.Context(), nc)
	if err != nil || len(reports) != 2 || reports[0].Process == reports[1].Process {
		t.Errorf("got %d reports %+v, %v, want one for each process", len(reports), reports, err)
	}
}

// TestCallAndCombine follows a reflector from start to stop.
func TestCallAndCombine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const floor = 100 * time.Millisecond
	conn, nc := bustest.Open(t, bus.Policy{})
	s := survey(t, conn, events.RoleReflector, floor)
	if s.Level != Yellow || s.Workers != 0 || !slices.Equal(s.Problems, []Problem{NoWorker}) {
		t.Errorf("before: got %+v", s)
	}
	closed, err := NewProcess(conn, "one", floor).ServeReports()
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	stop := work(t, conn, events.RoleReflector, reflected)
	publish(t, conn, 5)
	eventually(t, "5 are reflected on", func() bool { return survey(t, conn, events.RoleReflector, floor).Stored == 5 })
	s = survey(t, conn, events.RoleReflector, floor)
	if s.Level != Green || s.Workers != 1 || s.States["running"] != 1 || s.Outputs != 5 || s.LastOutput.IsZero() || s.P95 <= 0 || !s.Idle() {
		t.Errorf("at work: got %+v", s)
	}
	stop()
	publish(t, conn, 2)
	eventually(t, "red", func() bool { return survey(t, conn, events.RoleReflector, floor).Level == Red })
	s = survey(t, conn, events.RoleReflector, floor)
	if s.Workers != 0 || s.Pending != 2 || s.Oldest.IsZero() || s.Book != "b" || !slices.Equal(s.Problems, []Problem{NoWorker}) {
		t.Errorf("stopped: got %+v", s)
	}
	// The curator has never run, and messages wait for it.
	if s := survey(t, conn, events.RoleCurator, floor); s.Level != Red || s.Pending != 5 || s.Oldest.IsZero() {
		t.Errorf("the curator: got %+v", s)
	}
	// An invalid report and an invalid request are ignored.
	sub, err := nc.Subscribe(events.SubjectHealth, func(m *nats.Msg) { _ = m.Respond([]byte("{")) })
	if err != nil {
		t.Fatal(err)
	}
	survey(t, conn, events.RoleReflector, floor)
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(events.SubjectHealth, "debrief.edit.b", nil); err != nil {
		t.Fatal(err)
	}
	survey(t, conn, events.RoleReflector, floor)
	st, err := conn.JetStream().Stream(t.Context(), events.StreamReflections)
	if err != nil {
		t.Fatal(err)
	}
	if n := st.CachedInfo().State.Msgs; n != 5 {
		t.Errorf("a reply went to a stream: %d messages", n)
	}
}

func TestRetriesAreNoSuccess(t *testing.T) {
	t.Parallel()
	const floor = 100 * time.Millisecond
	conn, _ := bustest.Open(t, bus.Policy{MaxAttempts: 1 << 20, BackoffMin: 5 * time.Millisecond, BackoffMax: 5 * time.Millisecond})
	p := NewProcess(conn, "one", floor)
	work(t, conn, events.RoleReflector, func(*bus.Delivery) bus.Result { return bus.Result{Err: context.DeadlineExceeded} })
	publish(t, conn, 3)
	eventually(t, "red", func() bool { return p.Check(t.Context()).Level == Red })
	r := p.Check(t.Context()).Roles[0]
	if r.Stats.Retried == 0 || r.Stats.Stored+r.Stats.Handled != 0 || !r.Stats.LastSuccess.IsZero() || r.State != bus.Running {
		t.Errorf("got %+v", r)
	}
}

// TestPanicMakesRoleYellow: the message is handled at its second delivery, but a panic is an error of the program.
func TestPanicMakesRoleYellow(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{BackoffMin: 5 * time.Millisecond, BackoffMax: 5 * time.Millisecond})
	p := NewProcess(conn, "one", 0)
	work(t, conn, events.RoleReflector, func(d *bus.Delivery) bus.Result {
		if d.Attempt == 1 {
			var none []int
			_ = none[d.Attempt]
		}
		return bus.Result{}
	})
	publish(t, conn, 1)
	eventually(t, "handled", func() bool {
		roles := p.Check(t.Context()).Roles
		return len(roles) == 1 && roles[0].Stats.Handled == 1
	})
	one := p.Check(t.Context())
	b, err := conn.Consumers.Backlog(t.Context(), events.RoleReflector)
	if err != nil {
		t.Fatal(err)
	}
	all := Summarize(events.RoleReflector, b, []Report{one, {Roles: []Role{{RoleHealth: bus.RoleHealth{Role: events.RoleReflector, State: bus.Running}}}}}, time.Now(), 0)
	for what, v := range map[string]Verdict{"process": one.Roles[0].Verdict, "all processes": all.Verdict} {
		if v.Level != Yellow || !slices.Contains(v.Problems, Panicked) || !strings.Contains(strings.Join(v.Reasons, ""), "index out of range [1] with length 0") {
			t.Errorf("%s: got %+v, want yellow with the reason of the panic", what, v)
		}
	}
}

func TestCombineManyWorkers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	worker := func(s bus.State, in, settled time.Duration, stored uint64) Report {
		r := Role{RoleHealth: bus.RoleHealth{Role: "curator", State: s, Since: now.Add(-in)}}
		r.Stats = bus.RoleStats{Stored: stored, Started: now.Add(-time.Hour), LastSuccess: now.Add(-settled), P95: time.Duration(stored) * time.Second}
		return Report{Roles: []Role{r, {RoleHealth: bus.RoleHealth{Role: "reflector", State: bus.Running}}}}
	}
	waiting := bus.Backlog{Lag: bus.Lag{Pending: 3}, Oldest: now.Add(-10 * time.Minute)}
	for _, row := range []struct {
		what    string
		reports []Report
		want    Level
		problem Problem
	}{
		{"one of two is paused", []Report{worker(bus.Paused, time.Hour, time.Hour, 1), worker(bus.Running, time.Hour, time.Second, 2)}, Yellow, Unhealthy},
		{"the other order", []Report{worker(bus.Running, time.Hour, time.Second, 2), worker(bus.Paused, time.Hour, time.Hour, 1)}, Yellow, Unhealthy},
		{"both, one only just", []Report{worker(bus.Paused, time.Hour, time.Hour, 1), worker(bus.Unavailable, time.Second, 2*time.Second, 2)}, Yellow, NotRunning},
		{"both for long", []Report{worker(bus.Paused, time.Hour, time.Hour, 1), worker(bus.Unavailable, 2*time.Minute, 2*time.Minute, 2)}, Red, NotRunning},
		{"one has stopped", []Report{worker(bus.Stopped, time.Hour, time.Hour, 1), worker(bus.Running, time.Hour, time.Second, 2)}, Green, ""},
		{"all have", []Report{worker(bus.Stopped, time.Hour, time.Second, 1)}, Red, NoWorker},
		{"none has", nil, Red, NoWorker},
	} {
		s := Summarize("curator", waiting, row.reports, now, 0)
		if s.Level != row.want || row.problem != "" && !slices.Contains(s.Problems, row.problem) {
			t.Errorf("%s: got %s %q, want %s %s", row.what, s.Level, s.Reasons, row.want, row.problem)
		}
	}
	s := Summarize("curator", waiting, []Report{worker(bus.Running, time.Hour, time.Second, 1), worker(bus.Running, time.Hour, time.Second, 2)}, now, 0)
	if s.Workers != 2 || s.Stored != 3 || s.P95 != 2*time.Second {
		t.Errorf("got %+v, want sums and the slowest", s)
	}
	// A worker that crashes repeatedly has no success. The server keeps the time of the last acknowledgement.
	again := worker(bus.Running, time.Second, time.Second, 0)
	again.Roles[0].Stats = bus.RoleStats{Started: now.Add(-time.Second)}
	again.Roles[0].Backlog.LastAck = now.Add(-5 * time.Minute)
	if s := Summarize("curator", waiting, []Report{again}, now, 0); s.Level != Red {
		t.Errorf("a worker that crashes over and over: got %+v", s.Verdict)
	}
}

func TestPublicReportHidesReasons(t *testing.T) {
	t.Parallel()
	const secret = "the model said: my key is 1234"
	h := bus.RoleHealth{Role: "reflector", State: bus.Paused, Reason: secret, Since: time.Now()}
	r := Role{RoleHealth: h}
	r.Verdict = assess(measure(r, time.Now()), Floor)
	private := Report{Error: secret, Roles: []Role{r}}
	if !strings.Contains(strings.Join(r.Reasons, ""), secret) {
		t.Fatalf("%q contains no text to hide", r.Reasons)
	}
	public := private.Public()
	if s := strings.Join(public.Roles[0].Reasons, "") + public.Roles[0].Reason + public.Error; strings.Contains(s, "1234") || len(public.Roles[0].Reasons) == 0 {
		t.Errorf("got %q", s)
	}
	if private.Roles[0].Reason != secret || !strings.Contains(private.Roles[0].Reasons[0], secret) {
		t.Errorf("the report itself was changed: %+v", private)
	}
}

func TestPublicReportHidesTokensFile(t *testing.T) {
	t.Parallel()
	c := new(Calls)
	c.WatchTokens(func() (int, error) {
		return 0, errors.New("tokens file /etc/debrief/tokens.yaml: token ann: scopes: unknown scope")
	})
	for range maxUnseen {
		c.Add("deadline")
	}
	private := Report{Gateway: c.health()}
	public := private.Public()
	got := strings.Join(public.Gateway.Reasons, "\n")
	if strings.Contains(got, "/etc") || strings.Contains(got, "ann") || !strings.Contains(got, "every request is refused") || !strings.Contains(got, "deadline: 5") {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(strings.Join(private.Gateway.Reasons, ""), "/etc/debrief") {
		t.Errorf("the report itself was changed: %+v", private.Gateway)
	}
}

// TestIdleWorkerIsHealthy: a worker is not red for messages that another worker holds. It is red for messages that
// it holds itself, and for messages that no worker holds.
func TestIdleWorkerIsHealthy(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, row := range []struct {
		what           string
		taken, settled time.Duration
		pending        uint64
		want           Level
	}{
		{"it did what it was given, and another one holds a message", 11 * time.Minute, 10 * time.Minute, 0, Green},
		{"it holds the message itself", 5 * time.Minute, 10 * time.Minute, 0, Red},
		{"more waits", 11 * time.Minute, 10 * time.Minute, 1, Red},
	} {
		r := Role{RoleHealth: bus.RoleHealth{Role: events.RoleReflector, State: bus.Running, Since: ago(time.Hour)}}
		r.Stats = bus.RoleStats{Started: ago(time.Hour), LastDelivery: ago(row.taken), LastSuccess: ago(row.settled), LastEffect: ago(row.settled)}
		r.Backlog.Pending, r.Backlog.InFlight, r.Backlog.Oldest = row.pending, 1, ago(5*time.Minute)
		if got := assess(measure(r, now), Floor); got.Level != row.want {
			t.Errorf("%s: got %+v, want %s", row.what, got, row.want)
		}
	}
}

func TestClosedStoreIsRed(t *testing.T) {
	t.Parallel()
	c, _ := bustest.Open(t, bus.Policy{})
	p := NewProcess(c, "test", 0)
	if r := p.Check(t.Context()); r.Level != Green || r.Store != "" {
		t.Fatalf("before: got %+v", r)
	}
	c.SetStoreClosed(errors.New("the disk of /data has 1 MiB left"))
	r := p.Check(t.Context())
	if r.Level != Red || !strings.Contains(r.Store, "the disk of /data has 1 MiB left") {
		t.Errorf("got %+v, want red and the reason", r)
	}
	if public := r.Public(); public.Level != Red || strings.Contains(public.Store, "/data") || public.Store == "" {
		t.Errorf("got %+v for others, want red without the directory", public)
	}
	if all := StoreErrors([]Report{r, r, {}}); len(all) != 1 {
		t.Errorf("got reasons %q, want one", all)
	}
	c.SetStoreClosed(nil)
	if r := p.Check(t.Context()); r.Level != Green || r.Store != "" {
		t.Errorf("after: got %+v", r)
	}
}
