package train

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/runs"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// smallDemo is a demo with fewer held-out tasks. It needs all training tasks because each rule occurs in few of them.
func smallDemo() *Demo {
	return &Demo{Epochs: 5, Train: 200, HeldOut: 50, Seed: 1, Model: program.Model{Timeout: time.Minute, MaxConcurrent: 16}}
}

// demoRun is a demo whose roles still run.
type demoRun struct {
	conn           *bus.Conn
	store          *deltalog.Store
	book           book.Book
	version        uint64
	final          []*book.Bullet
	train, heldOut []events.Task
}

// runDemo runs all epochs of a demo and calls check while the roles still run.
func runDemo(t *testing.T, d *Demo, check func(*demoRun, *demoResult)) {
	t.Helper()
	t.Parallel()
	s, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(t.Context(), "100ms", zerolog.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	roles, err := d.roles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = withRoles(t.Context(), s.Conn, roles, func(ctx context.Context) error {
		res, err := d.learn(ctx, s, &demoScreen{out: io.Discard, json: true})
		if err != nil {
			return err
		}
		t.Logf("baseline %.3f, final %.3f, %d bullets, %d calls, %.1f s", res.Baseline, res.Final, res.Bullets, res.Calls, res.Seconds)
		train, heldOut := simulated.Tasks(d.Seed)
		r := &demoRun{
			conn: s.Conn, store: deltalog.New(s.JetStream()), book: book.Book(res.Book), version: res.Epochs[len(res.Epochs)-1].Version,
			final: res.bullets, train: train[:d.Train], heldOut: heldOut[:d.HeldOut],
		}
		check(r, res)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDemoLearnsTheRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	runDemo(t, smallDemo(), func(r *demoRun, res *demoResult) {
		if res.Baseline >= 0.25 || res.Final < 0.95 {
			t.Errorf("held-out accuracy went from %.3f to %.3f, want under 0.25 and at least 0.95", res.Baseline, res.Final)
		}
		if res.Lost != 0 {
			t.Errorf("%d lost tasks", res.Lost)
		}
		if !res.Simulated {
			t.Error("the result does not report the simulated model")
		}
		for i := 1; i < len(res.Epochs); i++ {
			if now, before := res.Epochs[i].HeldOut, res.Epochs[i-1].HeldOut; now < before {
				t.Errorf("epoch %d: held-out accuracy fell from %.3f to %.3f", i+1, before, now)
			}
		}
		checkReflectionsAreOnTraining(t, r)
		checkBulletsAreTraced(t, r)
		checkEditsTakeEffect(t, r)
	})
}

// checkReflectionsAreOnTraining checks that every reflection is on an execution of a training task.
func checkReflectionsAreOnTraining(t *testing.T, r *demoRun) {
	t.Helper()
	training := map[events.ID]bool{}
	err := r.conn.Events.Scan(t.Context(), events.StreamExecutions, events.KindExecution.Subject(r.book), 1, func(s bus.Stored) error {
		e := s.Event.(*events.Execution)
		training[e.ID] = e.Purpose == events.Learn && strings.Contains(e.RunID, "/train-")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = r.conn.Events.Scan(t.Context(), events.StreamReflections, events.KindReflection.Subject(r.book), 1, func(s bus.Stored) error {
		seen++
		if ref := s.Event.(*events.Reflection); !training[ref.Execution] {
			t.Errorf("reflection %s is on execution %s, which is not for learning", ref.ID, ref.Execution)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("no reflections at all")
	}
}

// checkBulletsAreTraced checks that each shown bullet can be traced to stored executions.
func checkBulletsAreTraced(t *testing.T, r *demoRun) {
	t.Helper()
	p, err := r.store.PlaybookAt(t.Context(), r.book, r.version)
	if err != nil {
		t.Fatal(err)
	}
	origins, err := history.Origins(r.store.History(t.Context(), r.book), p)
	if err != nil || len(origins) != len(r.final) {
		t.Fatalf("origins of %d bullets of %d, %v", len(origins), len(r.final), err)
	}
	for _, o := range origins {
		if !o.HasSource() {
			t.Errorf("bullet %s has no origin", o.Bullet)
		}
		for _, c := range o.Support {
			seq, is, err := events.Handle(c.Evidence.Execution).Parse()
			if err != nil {
				t.Fatal(err)
			}
			found, err := r.conn.Events.Find(t.Context(), events.StreamExecutions, seq, is)
			if e, ok := found.(*events.Execution); err != nil || !ok || !strings.HasPrefix(e.Question, c.Evidence.Excerpt[:8]) {
				t.Errorf("bullet %s: execution %s: %v, %v", o.Bullet, c.Evidence.Execution, found, err)
			}
		}
	}
}

var flatRule = regexp.MustCompile(`^For delivery (\w+) the delivery surcharge is (\d+\.\d\d)\.$`)

// checkEditsTakeEffect changes one number in one bullet: the answers that use it must change to that number, and no
// others. The same rule in other words must give the same answers.
func checkEditsTakeEffect(t *testing.T, r *demoRun) {
	t.Helper()
	i := slices.IndexFunc(r.final, func(b *book.Bullet) bool { return flatRule.MatchString(b.Content) })
	if i < 0 {
		t.Fatal("no bullet on a delivery surcharge was learned")
	}
	b := r.final[i]
	parts := flatRule.FindStringSubmatch(b.Content)
	edited := map[string]string{
		"another wording":   "The delivery surcharge is " + parts[2] + " where the invoice says delivery " + parts[1] + ".",
		"an edited number":  strings.Replace(b.Content, parts[2], "98.76", 1),
		"as it was learned": b.Content,
	}
	before := r.reasonings(t, 50, r.version)
	for n, name := range []string{"another wording", "an edited number", "as it was learned"} {
		e := &events.Edit{Book: r.book, ID: events.NewID(), Author: "test", Ops: []book.Op{{Kind: book.Update, Bullet: b.ID, Content: edited[name]}}}
		d, err := request.SubmitEdit(t.Context(), r.conn, e, bus.PublishOptions{})
		if err != nil {
			t.Fatalf("edit: %v", err)
		}
		after := r.reasonings(t, 51+n, d.Version)
		changed := 0
		for id, was := range before {
			now := after[id]
			uses := strings.Contains(was.question, "delivery: "+parts[1]) || strings.Contains(was.question, "Delivery: "+parts[1])
			switch {
			case name == "an edited number" && uses:
				changed++
				if now.answer == was.answer || !strings.Contains(now.reasoning, "delivery surcharge: 98.76") {
					t.Errorf("%s: task %s uses the bullet: answer %s, before %s; reasoning %q", name, id, now.answer, was.answer, now.reasoning)
				}
			case now.answer != was.answer:
				t.Errorf("%s: task %s does not use what changed: answer %s, before %s", name, id, now.answer, was.answer)
			}
		}
		if name == "an edited number" && (changed == 0 || changed == len(before)) {
			t.Errorf("%s: %d of %d answers use the bullet, so the test shows nothing", name, changed, len(before))
		}
	}
}

type reasoning struct{ question, reasoning, answer string }

// reasonings answers the held-out tasks with a version of the playbook, under an epoch of its own.
func (r *demoRun) reasonings(t *testing.T, epoch int, version uint64) map[string]reasoning {
	t.Helper()
	for i := range r.heldOut {
		task := r.heldOut[i]
		task.Book, task.Purpose, task.Playbook, task.Created = r.book, events.Evaluate, &version, time.Now().UTC()
		task.Origin, task.ID = events.Origin{Epoch: epoch}, fmt.Sprintf("again-%d/%s", epoch, task.ID)
		if _, err := r.conn.Publish(t.Context(), &task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := WaitIdle(t.Context(), r.conn, nil, events.RoleGenerator); err != nil {
		t.Fatal(err)
	}
	out := map[string]reasoning{}
	err := r.conn.Events.Scan(t.Context(), events.StreamExecutions, events.KindExecution.Subject(r.book), 1, func(s bus.Stored) error {
		if e := s.Event.(*events.Execution); e.Origin.Epoch == epoch {
			out[e.RunID[strings.LastIndexByte(e.RunID, '/')+1:]] = reasoning{e.Question, e.Reasoning, e.Answer}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(r.heldOut) {
		t.Fatalf("got %d answers, want %d", len(out), len(r.heldOut))
	}
	return out
}

func TestDemoWithNonsenseReflectionsLearnsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	d := smallDemo()
	d.Noise, d.Epochs, d.Train = 1, 3, 100
	runDemo(t, d, func(_ *demoRun, res *demoResult) {
		if res.Final != res.Baseline {
			t.Errorf("accuracy went from %.3f to %.3f, want no change", res.Baseline, res.Final)
		}
		if res.Bullets == 0 {
			t.Error("the nonsense produced no bullet, so the test shows nothing")
		}
	})
}

func TestDemoWithModelFailuresLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	d := smallDemo()
	d.Fail, d.Sloppy, d.Epochs = 0.1, 0.1, 6
	runDemo(t, d, func(_ *demoRun, res *demoResult) {
		if res.Final < 0.95 || res.Lost != 0 {
			t.Errorf("accuracy %.3f with %d lost tasks, want at least 0.95 and none", res.Final, res.Lost)
		}
	})
}

func TestFirstEpochPromptsHaveNoRulesAndNoTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	d := smallDemo()
	d.Epochs = 2
	var mu sync.Mutex
	var asked []string // bodies of the generator's requests, in order
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	model, _, err := simulated.Serve(ctx, "", simulated.Options{Seed: d.Seed})
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(strings.TrimSuffix(model, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	spy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var wire struct {
			Messages []struct{ Content string }
			Format   struct {
				Schema struct{ Name string } `json:"json_schema"`
			} `json:"response_format"`
		}
		if json.Unmarshal(body, &wire) == nil && wire.Format.Schema.Name == events.RoleGenerator {
			text := ""
			for _, m := range wire.Messages {
				text += m.Content + "\n"
			}
			mu.Lock()
			asked = append(asked, text)
			mu.Unlock()
		}
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(spy.Close)
	d.Model.Model, d.Model.BaseURL = simulated.Name, spy.URL+"/v1"

	runDemo(t, d, func(r *demoRun, _ *demoResult) {
		mu.Lock()
		defer mu.Unlock()
		first := asked[:d.HeldOut+d.Train] // the held-out tasks before, then the training tasks
		targets := map[string]string{}     // by question
		for _, task := range append(slices.Clone(r.train), r.heldOut...) {
			var want struct{ Answer string }
			if err := json.Unmarshal([]byte(task.Target), &want); err != nil {
				t.Fatal(err)
			}
			targets[task.Question] = want.Answer
		}
		known := 0
		for _, text := range first {
			for _, b := range r.final {
				if strings.Contains(text, b.Content) {
					t.Fatalf("a request of the first epoch holds the rule %q", b.Content)
				}
			}
			for q, answer := range targets {
				if strings.Contains(text, q) {
					known++
					if strings.Contains(text, answer) {
						t.Fatalf("a request of the first epoch holds its target %s:\n%s", answer, text)
					}
				}
			}
		}
		if known != len(first) || len(r.final) == 0 {
			t.Errorf("recognised %d of %d requests, %d rules learned", known, len(first), len(r.final))
		}
		if late := strings.Join(asked[len(asked)-d.HeldOut:], "\n"); !strings.Contains(late, r.final[0].Content) {
			t.Error("no rule is in the last requests either, so the test shows nothing")
		}
	})
}

// dataFiles returns the recorded runs of the shared data. It skips the test if they are missing.
func dataFiles(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("DEBRIEF_DATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded runs at %s: set DEBRIEF_DATA", dir)
	}
	files := []string{dir + "/tau-bench/gpt-4o-airline-trials-0-2.json"}
	for _, name := range []string{"ctf-crypto-katy", "ctf-web-i-got-id", "function-calling-simple", "marshmallow-1867-function-calling", "pydicom-1458"} {
		files = append(files, dir+"/swe-agent/"+name+".traj")
	}
	return files
}

func TestLearnCountsEachRecordedRunOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	planted := filepath.Join(t.TempDir(), "planted.jsonl") // the real runs teach nothing
	if err := os.WriteFile(planted, []byte(recordedRuns()), 0o600); err != nil {
		t.Fatal(err)
	}
	files := append(dataFiles(t), planted)
	once := func(dir string) *learnResult {
		l := &Learn{Book: "runs", Files: files, JSON: true, NATSFlags: cli.NATSFlags{ServerFlags: cli.ServerFlags{Data: dir, Sync: "100ms", MaxStore: 1 << 30, NATS: program.NATS{Replicas: 1}}}}
		s, err := l.Connect(t.Context(), zerolog.New(io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		res, err := l.learnWithRoles(t.Context(), s, &runs.Reader{Book: "runs"}, l.Files)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.addPlaybook(t.Context(), s, "runs", res); err != nil {
			t.Fatal(err)
		}
		return res
	}
	dir := t.TempDir()
	first, again, other := once(dir), once(dir), once(t.TempDir())
	if first.Executions != 158 || first.Reflected+first.Nothing+first.Dead != 158 || first.Bullets != 1 {
		t.Errorf("got %+v, want 158 runs with a result and one bullet", first)
	}
	if again.StateHash != first.StateHash || again.Reflected != first.Reflected {
		t.Errorf("second time into the same playbook: got %+v, want %+v", again, first)
	}
	if other.StateHash != first.StateHash {
		t.Error("another playbook from the same runs has another state hash")
	}
}
