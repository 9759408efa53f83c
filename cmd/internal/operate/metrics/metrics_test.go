package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prom "github.com/prometheus/common/model"

	"debrief/cmd/internal/simulated"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/chat/openai"
	"debrief/events/liveness"
	"debrief/generator"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/reflector"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// known lists the values of every label. Other labels are errors.
var known = map[string][]string{
	"role":      {events.RoleGenerator, events.RoleReflector, events.RoleCurator},
	"kind":      {chats, embeds, "active", "cited", "stale", "contradicting"},
	"alarm":     {"harm", "uncited", "no_effect", "contradiction", "stale"},
	"result":    append(slices.Clone(results), "stored", "handled", "retried", "dead", kept, omitted, "begun", "continued", "reported", "dropped", "lost"),
	"state":     append(slices.Clone(breakers), "running", "unavailable", "paused"),
	"direction": {"input", "cached", "output", "in", "out"},
	"secret":    {"authorization", "credentials", "jwt", "key", "password", "secret", "seed", "signature", "token", "webhook", "other"},
	"decision":  {"probation", "shown", "retired", "waiting"},
	"reason":    reasons(),
	"stage":     {"all", "recall", "assembly"},
	"endpoint":  {NATS, HTTP},
	"verb":      {events.VerbContext, events.VerbReport, events.VerbFeedback, none},
	"class":     {"chat", "responses", "messages"},
	"status":    {"2xx"},
	"playbook":  {"book-0", other},
	"outcome":   {"success", "partial", "failure", "unknown"},
	"model":     {"gpt-4o", other},
	"code":      {"cut", "200", "400", "401", "403", "404", "405", "408", "410", "413", "415", "421", "500", "503", "504", "other"},
}

func reasons() (all []string) {
	for _, r := range append(playbook.RejectionReasons(), playbook.StatusReasons()...) {
		all = append(all, string(r))
	}
	return append(all, "no-advice", "deadline", "captured")
}

// figures names one of the playbooks of the tests.
var figures = Figures{Playbooks: []playbook.Book{"book-0"}, Prices: bustest.Must(LoadPrices(""))}

// mostSeries limits our series in one process with all parts, including buckets.
const mostSeries = 726

// whole is a process with all parts and its own server.
type whole struct {
	*Metrics
	t    *testing.T
	conn *bus.Conn
}

func build(t *testing.T) *whole { return buildWith(t, figures) }

// embedConstant answers a request for embeddings: each text has the same vector.
func embedConstant(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Input []string `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var vectors []string
	for i := range in.Input {
		vectors = append(vectors, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[0.6,0.8]}`, i))
	}
	fmt.Fprintf(w, `{"object":"list","model":"constant","data":[%s],"usage":{"prompt_tokens":%d}}`, strings.Join(vectors, ","), 4*len(vectors))
}

func buildWith(t *testing.T, figures Figures) *whole {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{})
	m := New("test", "v1", figures)
	provider := http.NewServeMux()
	provider.Handle("/", simulated.Handler(simulated.Options{Seed: 1}))
	provider.HandleFunc("POST /v1/embeddings", embedConstant)
	model := httptest.NewServer(provider)
	client := func() chat.Model {
		c, err := openai.New(openai.Config{BaseURL: model.URL + "/v1", Model: simulated.Name})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	embedder, err := openai.NewEmbedder(openai.Config{BaseURL: model.URL + "/v1", Model: "constant"})
	if err != nil {
		t.Fatal(err)
	}
	g := bustest.Must(generator.New(m.Model(events.RoleGenerator, client()), m.Embedder(embedder), generator.Config{Meter: m.Generator()}))
	m.SetFollowerLag(g.VersionLag)
	m.Endpoint(NATS)
	m.Endpoint(HTTP)
	roles := []interface {
		Run(context.Context, *bus.Conn) error
	}{
		g, bustest.Must(reflector.New(m.Model(events.RoleReflector, client()), reflector.Config{})),
		bustest.Must(curator.New(m.Model(events.RoleCurator, client()), curator.Config{Meter: m.Curator(), GateMode: playbook.GateStrict})),
	}
	m.Watch(conn, liveness.NewProcess(conn, "test", 0))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	for _, r := range roles {
		go func() { ended <- r.Run(ctx, conn) }()
	}
	t.Cleanup(func() {
		stop()
		for range roles {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		model.Close()
	})
	w := &whole{m, t, conn}
	w.until("every role runs", func() bool { return len(conn.Health.Roles()) == 3 })
	return w
}

func (w *whole) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s: %+v", what, w.conn.Stats.Roles())
		}
	}
}

// gather returns the metrics by name.
func (w *whole) gather() map[string]*dto.MetricFamily {
	w.t.Helper()
	return gather(w.t, w.Metrics)
}

// gather returns the metrics that Prometheus would read, by name. Each series exists once.
func gather(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	response := httptest.NewRecorder()
	m.Handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if response.Code != http.StatusOK {
		t.Fatalf("got status %d: %s", response.Code, response.Body)
	}
	text := response.Body
	seen := map[string]bool{}
	for line := range strings.Lines(text.String()) {
		series := line[:strings.LastIndex(line, " ")]
		if !strings.HasPrefix(line, "#") && seen[series] {
			t.Errorf("%s: exists twice", series)
		}
		seen[series] = true
	}
	parser := expfmt.NewTextParser(prom.LegacyValidation)
	all, err := parser.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sum adds the series of a metric whose labels have these values.
func sum(f *dto.MetricFamily, values ...string) (n float64) {
	for _, m := range f.GetMetric() {
		missing := slices.ContainsFunc(values, func(v string) bool {
			return !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == v })
		})
		if !missing {
			n += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()+m.GetSummary().GetSampleCount())
		}
	}
	return n
}

// series returns the name and labels of each series.
func series(all map[string]*dto.MetricFamily) []string {
	var list []string
	for name, f := range all {
		if !strings.HasPrefix(name, "debrief_") {
			continue
		}
		for _, m := range f.Metric {
			list = append(list, fmt.Sprint(name, m.Label))
			for range m.GetHistogram().GetBucket() {
				list = append(list, fmt.Sprint(name, m.Label))
			}
		}
	}
	slices.Sort(list)
	return list
}

// trust publishes a new bullet and three successes that cite it.
func (w *whole) trust(b playbook.Book) {
	w.t.Helper()
	e := &events.Edit{
		Book: b, ID: events.NewID(), Author: "ann", Ops: []playbook.Op{{Kind: playbook.Add, Section: "others", Content: "Name the currency of each amount."}},
		Evidence: []playbook.Evidence{{Execution: string(events.NewHandle(8999, events.ExecutionID(b, "", "rule", 0)))}}, // not by a person, so it has an experiment
	}
	d, err := bus.Request[events.EditReply](w.t.Context(), w.conn, e, bus.PublishOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	id := d.Added[0]
	var all []events.Event
	for i := range 3 {
		execution := events.ExecutionID(b, "", fmt.Sprint("cites-", i), 0)
		r := &events.Reflection{
			Book: b,
			ID:   events.ReflectionID(execution, "", "v1"), Execution: execution, Handle: events.NewHandle(uint64(9000+i), execution), Reflector: "v1",
			Outcome: events.Outcome{Label: events.Success, Score: 1}, FirstRoundScore: 1,
			Exposures: []events.Exposure{{Bullet: id, Experiment: 1, Arm: playbook.ArmOpen, Cited: true}},
		}
		all = append(all, r)
	}
	for _, e := range all {
		if _, err := w.conn.Publish(w.t.Context(), e, bus.PublishOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestMetricsOfAWholeProcess: each metric is in the table with its kind, exists from the start, counts events, and
// has only labels with known values.
func TestMetricsOfAWholeProcess(t *testing.T) {
	t.Parallel()
	w := build(t)
	w.Gateway()("chat", 200, time.Second, "no-advice", "cut")
	w.Captures()("begun")
	w.Health(func(context.Context, playbook.Book) *history.Health { return new(history.Health) })
	w.GatewayCall("book-0", "").Inc()
	w.playbooks.addUsage("book-0", events.RoleReflector, "gpt-4o-2024-08-06", chat.Usage{OutputTokens: 1000})
	before := w.gather()
	tasks, _ := simulated.Tasks(1)
	for i := range 6 {
		task := tasks[i]
		task.Book, task.Session = playbook.Book(fmt.Sprint("book-", i%3)), fmt.Sprint("session-", i)
		task.Context += "\npassword=correct-Horse7-battery"
		if _, err := w.conn.Publish(t.Context(), &task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.trust("book-0")
	var after map[string]*dto.MetricFamily
	var lacking []string
	defer func() {
		for _, m := range lacking {
			t.Error(m)
		}
	}()
	w.until("six tasks are learned from, a bullet is trusted and the views are current", func() bool {
		after = w.gather()
		lacking = missing(after)
		return sum(after["debrief_view_behind_seconds"]) == 0 && len(lacking) == 0
	})

	had, has := series(before), series(after)
	if !slices.Equal(had, has) {
		for _, s := range has {
			if !slices.Contains(had, s) {
				t.Errorf("%s: was not there from the beginning", s)
			}
		}
	}
	t.Logf("%d series of ours, %d metrics in all", len(has), len(after))
	if len(has) > mostSeries {
		t.Errorf("got %d series, want at most %d: use fewer label values, or raise mostSeries", len(has), mostSeries)
	}
	labels(t, after)
	names(t, after)
}

// missing lists the metrics that are below what six tasks and a trusted bullet count at least.
func missing(all map[string]*dto.MetricFamily) (list []string) {
	for _, tt := range []struct {
		name   string
		values []string
		least  float64
	}{
		{"debrief_model_calls_total", []string{events.RoleGenerator, chats, ok}, 6},
		{"debrief_model_calls_total", []string{events.RoleReflector, chats, ok}, 6},
		{"debrief_model_calls_total", []string{events.RoleGenerator, embeds, ok}, 1},
		{"debrief_model_seconds", []string{events.RoleGenerator, chats}, 6},
		{"debrief_model_requests_total", []string{events.RoleGenerator, chats}, 6},
		{"debrief_model_tokens_total", []string{events.RoleGenerator, "input"}, 100},
		{"debrief_model_tokens_total", []string{events.RoleReflector, "output"}, 10},
		{"debrief_model_breaker_state", []string{"closed"}, 4},
		{"debrief_role_results_total", []string{events.RoleGenerator, "stored"}, 6},
		{"debrief_role_handling_seconds", []string{events.RoleReflector}, 6},
		{"debrief_commit_seconds", nil, 3},
		{"debrief_deltas_applied_total", nil, 3},
		{"debrief_view_delay_seconds", nil, 3},
		{"debrief_gate_decisions_total", []string{"shown", string(playbook.ReasonTrusted)}, 1},
		{"debrief_context_seconds", []string{"all"}, 6},
		{"debrief_context_seconds", []string{"recall"}, 6},
		{"debrief_context_seconds", []string{"assembly"}, 6},
		{"debrief_nats_messages_total", []string{"in"}, 20},
		{"debrief_nats_connected", nil, 1},
		{"debrief_server_answers", nil, 1},
		{"debrief_redactions_total", []string{"password"}, 6},
		{"debrief_store_bytes", nil, 1000},
		{"debrief_playbook_executions_total", []string{"book-0"}, 2},
		{"debrief_playbook_executions_total", []string{other}, 4},
		{"debrief_playbook_tokens_total", []string{"book-0", events.RoleGenerator, other, "input"}, 100},
		{"debrief_playbook_cost_dollars_total", []string{"book-0", events.RoleReflector, "gpt-4o"}, 0.01},
	} {
		if got := sum(all[tt.name], tt.values...); got < tt.least {
			list = append(list, fmt.Sprintf("%s %v: got %v, want at least %v", tt.name, tt.values, got, tt.least))
		}
	}
	return list
}

// labels checks the labels of our metrics.
func labels(t *testing.T, all map[string]*dto.MetricFamily) {
	t.Helper()
	for name, f := range all {
		if !strings.HasPrefix(name, "debrief_") || name == "debrief_build_info" {
			continue
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if !slices.Contains(known[l.GetName()], l.GetValue()) {
					t.Errorf("%s: has %s=%q, which is none of %v", name, l.GetName(), l.GetValue(), known[l.GetName()])
				}
			}
		}
	}
}

// names checks the names of our metrics: those of counters, and only those, end with _total.
func names(t *testing.T, all map[string]*dto.MetricFamily) {
	t.Helper()
	for name, f := range all {
		isCounter := f.GetType() == dto.MetricType_COUNTER
		if strings.HasPrefix(name, "debrief_") && isCounter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, f.GetType())
		}
	}
}

func TestResultOf(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		want string
	}{
		{"well", t.Context(), nil, ok},
		{"well, though nobody waits any more", gone, nil, ok},
		{"the caller gave up", gone, context.Canceled, canceled},
		{"nobody can be asked", t.Context(), fmt.Errorf("ask: %w", &chat.UnavailableError{Err: errors.New("down")}), unavailable},
		{"too long", t.Context(), fmt.Errorf("ask: %w", &chat.TooLongError{Err: errors.New("long")}), tooLong},
		{"refused", t.Context(), fmt.Errorf("ask: %w", &openai.Error{Status: 400}), refused},
		{"otherwise", t.Context(), errors.New("odd"), failed},
	} {
		if got := resultOf(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestDoorCountsKnownLabels(t *testing.T) {
	t.Parallel()
	m := New("test", "v1", figures)
	told := m.Endpoint(HTTP)
	told(events.VerbContext, 200, time.Millisecond)
	told(events.VerbReport, 418, time.Millisecond)
	told(events.VerbReport, 403, time.Millisecond)
	told(events.VerbReport, 410, time.Millisecond)
	told("", 404, time.Millisecond)
	told("/etc/passwd", 404, time.Millisecond)
	w := &whole{Metrics: m, t: t}
	f := w.gather()["debrief_requests_total"]
	for want, values := range map[float64][]string{1: {events.VerbContext, "200"}, 2: {none, "404"}, 6: {HTTP}} {
		if got := sum(f, values...); got != want {
			t.Errorf("%v: got %v, want %v", values, got, want)
		}
	}
	if got := sum(f, events.VerbReport, "other"); got != 1 {
		t.Errorf("a code that is not known: got %v, want 1", got)
	}
	labels(t, w.gather())
}

// TestViewBehind checks the age of a view that is behind, and its delay afterwards.
func TestViewBehind(t *testing.T) {
	t.Parallel()
	w := &whole{Metrics: New("test", "v1", figures), t: t}
	c := w.Curator()
	c.ViewCurrent("a") // the view was current
	c.ViewBehind("a")
	c.ViewBehind("a")
	c.ViewBehind("b")
	all := w.gather()
	if got := sum(all["debrief_view_behind_seconds"]); got <= 0 {
		t.Errorf("two are behind: got %v", got)
	}
	if got := sum(all["debrief_view_delay_seconds"]); got != 0 {
		t.Errorf("delays of views that are behind: got %v, want 0", got)
	}
	c.ViewCurrent("a")
	c.ViewCurrent("b")
	all = w.gather()
	if got := sum(all["debrief_view_behind_seconds"]); got != 0 {
		t.Errorf("none is behind: got %v, want 0", got)
	}
	if got := sum(all["debrief_view_delay_seconds"]); got != 2 {
		t.Errorf("delays: got %v, want 2", got)
	}
}

// TestRoleMetrics: the values of a report are exported, and values that the server did not report are not.
func TestWindowMetrics(t *testing.T) {
	t.Parallel()
	m := New("test", "v1", figures)
	g := m.Generator()
	g.WindowBuilt(generator.WindowSize{Messages: 3, Tokens: 300, OmittedMessages: 1, OmittedTokens: 100})
	g.WindowBuilt(generator.WindowSize{Messages: 2, Tokens: 50})
	all := gather(t, m)
	for name, want := range map[string][2]float64{"debrief_window_messages_total": {5, 1}, "debrief_window_tokens_total": {350, 100}} {
		if got := [2]float64{sum(all[name], kept), sum(all[name], omitted)}; got != want {
			t.Errorf("%s: got %v, want %v kept and omitted", name, got, want)
		}
	}
	if h := all["debrief_window_share"].Metric[0].Histogram; h.GetSampleCount() != 2 || h.GetSampleSum() != 1.75 {
		t.Errorf("share: got %v, want 0.75 and 1", h)
	}
}

func TestRoleMetrics(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := liveness.Role{RoleHealth: bus.RoleHealth{Role: events.RoleCurator, State: bus.Paused, Since: now.Add(-90 * time.Second)}}
	r.Level = liveness.Red
	r.Stats = bus.RoleStats{
		Started: now.Add(-time.Hour), Calls: 4, TotalDuration: 2 * time.Second, P50: 500 * time.Millisecond, P95: 750 * time.Millisecond,
		Stored: 3, Handled: 1, Retried: 7, Dead: 2, LastSuccess: now.Add(-1500 * time.Millisecond), Deltas: 5, Rejected: 6,
	}
	r.Backlog = bus.Backlog{Lag: bus.Lag{Pending: 8, InFlight: 9}, Oldest: now.Add(-time.Minute), Retention: time.Hour, Bytes: 1 << 40, MaxBytes: 10, Dead: 11}
	lines := func(health liveness.Report) []string {
		m := &Metrics{registry: prometheus.NewRegistry()}
		m.register(func(to scrape) { report(to, health) })
		var all []string
		for _, f := range gather(t, m) {
			for _, m := range f.Metric {
				v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetSummary().GetSampleSum()
				line := strings.TrimPrefix(f.GetName(), "debrief_")
				for _, l := range m.Label {
					if l.GetName() != "role" {
						line += " " + l.GetValue()
					}
				}
				all = append(all, fmt.Sprint(line, " ", v))
			}
		}
		slices.Sort(all)
		return all
	}
	want := []string{
		"dead_letters 11", "deltas_applied_total 5", "role_handling_seconds 2", "role_in_flight_messages 9",
		"role_level 2", "role_oldest_seconds 60", "role_results_total dead 2", "role_results_total handled 1",
		"role_results_total retried 7", "role_results_total stored 3", "role_since_effect_seconds 3600", "role_since_success_seconds 1.5", "role_state paused 1",
		"role_state running 0", "role_state unavailable 0", "role_state_seconds 90", "role_waiting_messages 8", "server_answers 1",
		"stream_bytes 1.099511627776e+12", "stream_limit_bytes 10", "stream_retention_seconds 3600",
	}
	if got := lines(liveness.Report{Time: now, Roles: []liveness.Role{r}}); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	silent := lines(liveness.Report{Time: now, Error: "no answer", Roles: []liveness.Role{r}})
	for _, line := range silent {
		if strings.HasPrefix(line, "role_waiting") || strings.HasPrefix(line, "dead_letters") || line == "server_answers 1" {
			t.Errorf("a server that did not answer: got %s", line)
		}
	}
	if len(silent) != len(want)-7 {
		t.Errorf("a server that did not answer: got %d series, want %d", len(silent), len(want)-7)
	}
}

// TestCountingDoesNotAllocate checks the counters on hot paths.
func TestCountingDoesNotAllocate(t *testing.T) {
	m := New("test", "v1", figures)
	c, g, told := m.Curator(), m.Generator(), m.Endpoint(HTTP)
	n := m.models.add(events.RoleCurator, chats, nil)
	for name, f := range map[string]func(){
		"a commit": func() {
			c.Committed(time.Second)
			c.Conflict()
			c.Decided(playbook.Active, playbook.ReasonHelps)
			c.Rejected(playbook.ReasonSecret)
			c.ViewBehind("b")
			c.ViewCurrent("b")
		},
		"a context": func() {
			g.ContextBuilt(1)
			g.Recalled(1)
			g.Assembled(1)
			g.PlaybookDelay(1)
			g.WindowBuilt(generator.WindowSize{Messages: 1})
		},
		"a request": func() { told(events.VerbContext, 200, 1) },
		"a call":    func() { n.end(t.Context(), time.Time{}, nil) },
	} {
		if got := testing.AllocsPerRun(100, f); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}

func BenchmarkCounting(b *testing.B) {
	m := New("test", "v1", figures)
	c, told := m.Curator(), m.Endpoint(HTTP)
	b.Run("commit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.ViewBehind("b")
			c.Committed(time.Millisecond)
			c.ViewCurrent("b")
		}
	})
	b.Run("request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			told(events.VerbContext, 200, time.Millisecond)
		}
	})
}
