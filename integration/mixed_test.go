package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/integration/auditor"
	"debrief/playbook"
)

// mixedLoad configures a load of all kinds of requests on real processes that are killed at random.
type mixedLoad struct {
	load        time.Duration // of the requests and the kills
	kills       int           // SIGKILL, and for one in five SIGSTOP for longer than the ack wait
	serverKills int           // kills of the server, included in kills
	pace        time.Duration // interval of requests of the same kind
	resendAfter time.Duration // minimum time until an id is sent again
	window      time.Duration // the server's duplicate window; 0 leaves the default of two minutes
	settle      time.Duration
}

// TestMixedLoadUnderKills publishes tasks, reports over HTTP, late feedback, edits, imports, forgets and restores, and
// sends old ids again after the server's duplicate window, while roles and servers are killed or stopped at random. An
// audit that shares no code with the product then recomputes the expected state from the streams. Dead letters and panics
// fail the test. The long form:
//
//	DEBRIEF_LONG=1 go test ./integration -run TestMixedLoadUnderKills -v -timeout 60m
func TestMixedLoadUnderKills(t *testing.T) {
	t.Parallel()
	m := mixedLoad{
		load: 15 * time.Second, kills: 15, serverKills: 1, pace: 60 * time.Millisecond,
		resendAfter: 2 * time.Second, window: time.Second, settle: 100 * time.Second,
	}
	if os.Getenv(longEnv) != "" {
		m = mixedLoad{
			load: 20 * time.Minute, kills: 1350, serverKills: 50, pace: 150 * time.Millisecond,
			resendAfter: 125 * time.Second, settle: 15 * time.Minute,
		}
	}
	bin := program(t, "debrief")
	seed := chooseSeed(t)
	server, url := startServer(t)
	model := startModel(t, 10*time.Millisecond)
	// After the ack wait the server redelivers the messages of killed workers.
	shared := []string{"--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", "2s"}
	var victims []*process
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		for i := range 2 {
			victims = append(victims, startWorker(t, fmt.Sprint(role, i+1), role, shared...))
		}
	}
	health, web := freeAddress(t), freeAddress(t)
	up := start(t, "up", func() *exec.Cmd {
		return exec.Command(bin, append([]string{"up", "--http", web, "--health", health}, shared...)...)
	})
	awaitReady(t, health)

	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), m.load+m.settle)
	defer cancel()
	if m.window > 0 {
		shrinkWindows(t, ctx, conn.JetStream(), m.window)
	}
	c := newClients(t, conn, web, seed)
	c.seed(ctx)
	began := time.Now()
	loading, stop := context.WithTimeout(ctx, m.load)
	defer stop()
	var all sync.WaitGroup
	for _, request := range []func(context.Context, *rand.Rand){c.task, c.report, c.judge, c.edit, c.resend(m.resendAfter)} {
		rng := rand.New(rand.NewPCG(seed, uint64(len(c.done))))
		c.done = append(c.done, 0)
		kind := len(c.done) - 1
		all.Go(func() {
			for loading.Err() == nil {
				request(ctx, rng)
				c.count(kind)
				pause(loading, m.pace)
			}
		})
	}
	killed, stopped := m.strike(t, ctx, rand.New(rand.NewPCG(seed, 99)), append(victims, up), server)
	defer supervise(t, ctx, append(victims, up))()
	all.Wait()
	t.Logf("%s of load; %d SIGKILL of roles, %d SIGSTOP, %d SIGKILL of the server", time.Since(began).Round(time.Second), killed, stopped, m.serverKills)

	awaitSettled(t, ctx, conn)
	for _, book := range []playbook.Book{desk, agents} {
		awaitView(t, ctx, conn, book)
	}
	streams, err := auditor.Read(ctx, conn.JetStream())
	if err != nil {
		t.Fatal(err)
	}
	report := auditor.Check(streams, c.accepted)
	for _, p := range report.Problems(8) {
		t.Error(p)
	}
	err = conn.DeadLetters.List(ctx, bus.LetterFilter{}, func(l *bus.Letter) error {
		t.Errorf("dead letter of the %s: %s: %s", l.Role, l.Code, l.Reason)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	reportPanics(t, append(victims, up, server))
	c.log()
	t.Log("AUDIT ", report)
	if report.Strays > 0 {
		t.Errorf("%d messages in DELTAS do not belong to a log", report.Strays)
	}
}

// supervise starts processes again that end by themselves, as a supervisor does: one that finds the server busy gives up. The
// returned function ends that.
func supervise(t *testing.T, ctx context.Context, all []*process) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			revive(t, all)
			pause(ctx, time.Second)
		}
	})
	return func() {
		stop()
		running.Wait()
	}
}

// reportPanics fails the test for each panic in the logs of processes, of all their lives.
func reportPanics(t *testing.T, all []*process) {
	t.Helper()
	for _, p := range all {
		text, err := os.ReadFile(p.log)
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "handler panicked") || strings.HasPrefix(line, "panic:") {
				t.Errorf("%s: %.500s", p.name, line)
			}
		}
	}
}

// shrinkWindows shortens the duplicate windows of the streams, so that a short test can store a resent message again.
func shrinkWindows(t *testing.T, ctx context.Context, js jetstream.JetStream, window time.Duration) {
	t.Helper()
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.Duplicates = window
		if _, err := js.UpdateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// strike kills or stops processes one at a time, evenly over the load, and restarts each.
func (m mixedLoad) strike(t *testing.T, ctx context.Context, rng *rand.Rand, roles []*process, server *process) (killed, stopped int) {
	var all sync.WaitGroup
	defer all.Wait()
	gap := m.load / time.Duration(m.kills+1)
	began := time.Now()
	for i := range m.kills {
		at := gap*time.Duration(i) + time.Duration(rng.Int64N(int64(gap)))
		pause(ctx, time.Until(began.Add(at)))
		if ctx.Err() != nil {
			return killed, stopped
		}
		revive(t, roles)
		down := time.Duration(rng.Int64N(int64(300 * time.Millisecond)))
		p := roles[rng.IntN(len(roles))]
		switch {
		case m.serverKills > 0 && i%(m.kills/m.serverKills) == m.kills/m.serverKills/2:
			p = server
		case rng.IntN(5) == 0:
			stopped++
			life := p.current()
			if p.signal(syscall.SIGSTOP) == nil {
				all.Go(func() {
					pause(ctx, 3*time.Second)
					_ = life.Process.Signal(syscall.SIGCONT) // it may have been killed meanwhile
				})
			}
			continue
		default:
			killed++
		}
		p.kill()
		pause(ctx, down)
		if err := p.start(); err != nil {
			t.Error(err)
		}
	}
	pause(ctx, time.Until(began.Add(m.load)))
	revive(t, roles)
	return killed, stopped
}

// revive restarts processes that exited because the server was unavailable, as a supervisor does.
func revive(t *testing.T, roles []*process) {
	t.Helper()
	for _, p := range roles {
		p.mu.Lock()
		cmd, ended := p.cmd, p.ended
		p.mu.Unlock()
		select {
		case <-ended:
		default:
			continue
		}
		if code := cmd.ProcessState.ExitCode(); code != -1 && code != 4 {
			t.Errorf("%s ended by itself with exit code %d", p.name, code)
		}
		if err := p.start(); err != nil {
			t.Error(err)
		}
	}
}

const agents = playbook.Book("agents")

// clients send requests until they are accepted, and record the accepted ones.
type clients struct {
	t    *testing.T
	conn *bus.Conn
	web  string
	http *http.Client

	mu       sync.Mutex
	accepted auditor.Accepted
	tasks    []*events.Task // ready to be sent
	sent     []sent
	reports  []sent
	context  reply // a context of the book of agents, which all reports refer to
	n        int
	done     []int
	resent   int
}

// sent is a request that was accepted, to be sent again.
type sent struct {
	at     time.Time
	task   *events.Task
	path   string
	body   []byte
	handle string
}

func newClients(t *testing.T, conn *bus.Conn, web string, seed uint64) *clients {
	return &clients{
		t: t, conn: conn, web: web, http: &http.Client{Timeout: 15 * time.Second},
		accepted: auditor.Accepted{Tasks: map[string][]string{}, Feedback: map[string][]string{}, Edits: map[string][]string{}},
		tasks:    invoices(rand.New(rand.NewPCG(seed, 7)), 20_000),
	}
}

// seed commits a first version of both books, for the restores, and requests the context of the reports.
func (c *clients) seed(ctx context.Context) {
	for _, book := range []playbook.Book{desk, agents} {
		e := c.newEdit(book)
		e.Ops = []playbook.Op{{Kind: playbook.Add, Section: "desk", Content: "Read the question twice."}}
		c.publishEdit(ctx, e)
	}
	var ok bool
	c.context, ok = c.post(ctx, "/api/v1/contexts", c.encode(map[string]any{"book": agents, "session": "seed", "query": "Book a room.", "min_version": 1}))
	if !ok || len(c.context.Shown) == 0 {
		c.t.Fatalf("got %+v, want a context with the bullet", c.context)
	}
}

// number returns another number for each call.
func (c *clients) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *clients) count(kind int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[kind]++
}

func (c *clients) log() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Logf("accepted: %d tasks, %d reports, %d feedback, %d edits; %d ids sent again", len(c.accepted.Tasks[string(desk)]),
		len(c.accepted.Tasks[string(agents)]), len(c.accepted.Feedback[string(agents)]),
		len(c.accepted.Edits[string(desk)])+len(c.accepted.Edits[string(agents)]), c.resent)
}

// task submits the next invoice.
func (c *clients) task(ctx context.Context, _ *rand.Rand) {
	task := c.tasks[c.number()%len(c.tasks)]
	if submit(ctx, c.conn, task) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted.Tasks[string(desk)] = append(c.accepted.Tasks[string(desk)], task.ID)
	c.sent = append(c.sent, sent{at: time.Now(), task: task})
}

// reply has the fields that the clients need of a reply to any request.
type reply struct {
	Handle string               `json:"handle"`
	ID     events.ID            `json:"context_id"`
	Shown  []events.ShownBullet `json:"shown"`
}

// post sends a body until it is accepted.
func (c *clients) post(ctx context.Context, path string, body []byte) (answer reply, ok bool) {
	for ; ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		r, err := c.http.Post("http://"+c.web+path, "application/json", bytes.NewReader(body))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests {
			continue
		}
		if r.StatusCode/100 != 2 {
			c.t.Errorf("POST %s: %s %s", path, r.Status, text)
			return answer, false
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			c.t.Errorf("POST %s: %v in %s", path, err, text)
		}
		return answer, err == nil
	}
	return answer, false
}

func (c *clients) encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings and numbers
	}
	return data
}

// report reports a run of an outside agent that cites the bullet, so that its outcome counts.
func (c *clients) report(ctx context.Context, rng *rand.Rand) {
	n := c.number()
	id, label := fmt.Sprint("run-", n), []string{"success", "failure"}[rng.IntN(2)]
	body := c.encode(map[string]any{
		"book": agents, "run_id": id, "session": fmt.Sprint("session-", rng.IntN(40)), "question": fmt.Sprintf("Book room %d.", n),
		"context_id": c.context.ID, "cited": []any{c.context.Shown[0].ID}, "outcome": map[string]any{"label": label},
	})
	reply, ok := c.post(ctx, "/api/v1/executions", body)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted.Tasks[string(agents)] = append(c.accepted.Tasks[string(agents)], id)
	s := sent{at: time.Now(), path: "/api/v1/executions", body: body, handle: reply.Handle}
	c.sent, c.reports = append(c.sent, s), append(c.reports, s)
}

// judge gives feedback on a run that was reported before: on any run, or on one of the last four, whose reflection is in flight.
func (c *clients) judge(ctx context.Context, rng *rand.Rand) {
	c.mu.Lock()
	if len(c.reports) == 0 {
		c.mu.Unlock()
		return
	}
	on := c.reports[rng.IntN(len(c.reports))]
	if rng.IntN(2) == 0 { // a second opinion soon after: its run is not reflected on yet, or feedback on it waits
		on = c.reports[len(c.reports)-1-rng.IntN(min(4, len(c.reports)))]
	}
	c.mu.Unlock()
	text := fmt.Sprint("verdict ", c.number())
	body := c.encode(map[string]any{
		"book": agents, "id": events.NewID(), "execution": on.handle,
		"outcome": map[string]any{"label": []string{"success", "failure"}[rng.IntN(2)], "feedback": text},
	})
	if _, ok := c.post(ctx, "/api/v1/feedback", body); !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted.Feedback[string(agents)] = append(c.accepted.Feedback[string(agents)], text)
	c.sent = append(c.sent, sent{at: time.Now(), path: "/api/v1/feedback", body: body})
}

func (c *clients) newEdit(book playbook.Book) *events.Edit {
	e := &events.Edit{Book: book, ID: events.NewID(), Author: "operator", Reason: "test", Created: time.Now().UTC()}
	return e
}

// edit publishes an addition, an addition of several deltas, a forget or a restore.
func (c *clients) edit(ctx context.Context, rng *rand.Rand) {
	n := c.number()
	e := c.newEdit([]playbook.Book{desk, agents}[rng.IntN(2)])
	first := uint64(1)
	switch kind := rng.IntN(20); {
	case kind == 0:
		e.Restore = &first
	case kind < 4:
		e.Book = agents
		e.Forget = &playbook.Selector{Session: fmt.Sprint("session-", rng.IntN(40))}
	case kind < 6: // takes several deltas, like an import
		e.Ops = longAdditions(fmt.Sprint(n))
	default:
		e.Ops = []playbook.Op{{Kind: playbook.Add, Section: "desk", Content: fmt.Sprintf("Person %d wants the stamp on top.", n)}}
	}
	c.publishEdit(ctx, e)
	pause(ctx, 200*time.Millisecond) // edits are rarer than the rest
}

func (c *clients) publishEdit(ctx context.Context, e *events.Edit) {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := c.conn.Publish(try, e, bus.PublishOptions{})
		cancel()
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.accepted.Edits[string(e.Book)] = append(c.accepted.Edits[string(e.Book)], string(e.ID))
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// resend sends an old request again without changes.
func (c *clients) resend(after time.Duration) func(context.Context, *rand.Rand) {
	return func(ctx context.Context, rng *rand.Rand) {
		c.mu.Lock()
		old := 0
		for old < len(c.sent) && time.Since(c.sent[old].at) > after {
			old++
		}
		if old == 0 {
			c.mu.Unlock()
			return
		}
		s := c.sent[rng.IntN(old)]
		c.resent++
		c.mu.Unlock()
		if s.task != nil {
			_ = submit(ctx, c.conn, s.task) // the context has ended
			return
		}
		c.post(ctx, s.path, s.body)
	}
}
