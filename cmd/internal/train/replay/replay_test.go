package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/cmd/internal/train/report"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/generator"
	"debrief/reflector"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// model is the simulated model without HTTP.
type model struct {
	invoices *worlds.Model
	calls    atomic.Int64
	byPrompt sync.Map                  // *atomic.Int64 with the number of calls, by the name of the prompt
	fail     func(p chat.Prompt) error // nil never fails
}

func (m *model) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	m.calls.Add(1)
	n, _ := m.byPrompt.LoadOrStore(p.Name, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if m.fail != nil {
		if err := m.fail(p); err != nil {
			return chat.Reply{}, err
		}
	}
	said, used := make([]worlds.Message, len(p.Messages)), chat.Usage{Calls: 1}
	for i := range p.Messages {
		said[i] = worlds.Message{Speaker: p.Messages[i].Speaker, Text: p.Messages[i].Text}
		used.InputTokens += chat.Tokens(said[i].Text)
	}
	text := m.invoices.Reply(p.Name, said)
	used.OutputTokens = chat.Tokens(text)
	return chat.Reply{Text: text, Model: simulated.Name, Finish: "stop", Usage: used}, nil
}

// house is a server with running roles.
type house struct {
	testing.TB
	conn  *bus.Conn
	model *model
	asked chat.Model // the model of the roles: model, or another
	stop  func()
}

func open(t testing.TB, slots int, fail func(chat.Prompt) error) *house {
	t.Helper()
	m := &model{invoices: invoice.NewModel(1, worlds.Imperfection{}), fail: fail}
	h := openWith(t, slots, m)
	h.model = m
	return h
}

func openWith(t testing.TB, slots int, asked chat.Model) *house {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
	h := &house{TB: t, conn: conn, asked: asked}
	h.work(slots)
	t.Cleanup(func() { h.stop() })
	return h
}

// work starts the roles.
func (h *house) work(slots int) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- program.Run(ctx, h.conn, bustest.Must(generator.New(h.asked, nil, generator.Config{Slots: slots})),
			bustest.Must(reflector.New(h.asked, reflector.Config{Slots: slots})), bustest.Must(curator.New(h.asked, curator.Config{})))
	}()
	h.stop = func() {
		stop()
		if err := <-done; err != nil {
			h.Error(err)
		}
		h.stop = func() {}
	}
}

func sets(train, heldOut int) Sets {
	learn, test := simulated.Tasks(1)
	of := func(name string, tasks []events.Task) *Set {
		return &Set{Data: report.Data{Set: name, File: name + ".jsonl", SHA256: name, Samples: len(tasks)}, Tasks: tasks}
	}
	return Sets{Train: of(Train, learn[:train]), Validation: of(Validation, test[:heldOut]), Test: of(Test, test[heldOut:2*heldOut])}
}

func (h *house) run(c Config, s Sets, o Options) *Result {
	h.Helper()
	out, err := h.try(c, s, o)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

func (h *house) try(c Config, s Sets, o Options) (*Result, error) {
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	return Run(ctx, h.conn, c, s, o)
}

// comparable returns a report without its volatile parts.
func comparable(t testing.TB, out *Result) string {
	t.Helper()
	rep := *out.Report
	rep.Run, rep.Timing, rep.Cost = report.Run{}, report.Timing{}, report.Cost{}
	text, err := json.MarshalIndent([]any{rep, out.Samples}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var batches = Config{Epochs: 2, Batch: 16, Shuffle: true, Seed: 7, ValidateEvery: 48}

func TestRunLearnsAndReports(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(96, 40)
	out := h.run(batches, s, Options{Name: "r"})
	rep := out.Report
	if rep.Before.Accuracy > 0.3 || rep.After.Accuracy < rep.Before.Accuracy+0.3 {
		t.Errorf("test set: before %+v, after %+v", rep.Before, rep.After)
	}
	if len(rep.Epochs) != 2 || rep.Epochs[1].Train.N != 96 || rep.Epochs[0].Validation == nil {
		t.Errorf("epochs: %+v", rep.Epochs)
	}
	var train, validation []int
	for _, p := range rep.Points {
		switch p.Set {
		case Train:
			train = append(train, p.Step)
		case Validation:
			validation = append(validation, p.Step)
		}
	}
	if want := []int{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192}; !slices.Equal(train, want) {
		t.Errorf("training points at %v, want %v", train, want)
	}
	if want := []int{0, 48, 96, 144, 192}; !slices.Equal(validation, want) {
		t.Errorf("validated at %v, want %v", validation, want)
	}
	if rep.Best.Version == 0 || rep.Best.StateHash == "" || len(rep.Bullets) == 0 || rep.Operations["ADD"] == 0 {
		t.Errorf("best %+v, %d bullets, operations %v", rep.Best, len(rep.Bullets), rep.Operations)
	}
	if rep.Cost.Generator.Calls != 2*96+40+40+5*40 {
		t.Errorf("cost %+v", rep.Cost)
	}
	h.hasCost(rep.Cost)
	if rep.Run.Model != simulated.Name || rep.Run.Resumed != 0 {
		t.Errorf("run %+v", rep.Run)
	}

	for role, u := range map[string]report.Usage{"generator": rep.Cost.Generator, "reflector": rep.Cost.Reflector, "curator": rep.Cost.Curator} {
		if u.Seconds == 0 {
			t.Errorf("%s: got no time of the model calls", role)
		}
	}

	// Held-out samples are never learned from: the log covers none of them.
	heldOut := map[string]bool{}
	for _, set := range []*Set{s.Validation, s.Test} {
		for _, task := range set.Tasks {
			heldOut[task.ID] = true
		}
	}
	err := h.conn.Events.Scan(t.Context(), events.StreamReflections, events.KindReflection.Subject("r"), 1, func(st bus.Stored) error {
		ref := st.Event.(*events.Reflection)
		e, err := h.conn.Events.Find(t.Context(), events.StreamExecutions, seqOf(t, ref.Handle), func(id events.ID) bool { return id == ref.Execution })
		if err != nil {
			return err
		}
		id := e.(*events.Execution).RunID
		if _, sample, _ := strings.Cut(id, "/"); heldOut[sample] || !strings.HasPrefix(id, "e0") {
			t.Errorf("there is a reflection on %s", id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	// The second run returns the same report without a model call.
	calls := h.model.calls.Load()
	again := h.run(batches, s, Options{Name: "r"})
	if diff := cmp.Diff(comparable(t, out), comparable(t, again)); diff != "" {
		t.Error(diff)
	}
	state, err := ReadRun(t.Context(), h.conn.JetStream(), "r")
	if err != nil || state.Report == nil {
		t.Fatalf("got no stored report: %v", err)
	}
	if got, want := state.Report.Points, rep.Points; cmp.Diff(want, got) != "" || len(state.Report.Bullets)+len(state.Report.Wrong.First) > 0 {
		t.Errorf("stored report: got other points, or texts of bullets and samples: %s", cmp.Diff(want, got))
	}
	if all, err := ListRuns(t.Context(), h.conn.JetStream()); err != nil || len(all) != 1 {
		t.Errorf("got %d runs, %v, want one", len(all), err)
	}
	if n := h.model.calls.Load(); n != calls {
		t.Errorf("%d calls to look at a run that is over", n-calls)
	}
}

// hasCost compares the cost of a run with the calls that the model has counted.
func (h *house) hasCost(got report.Cost) {
	h.Helper()
	want := map[string]int{"generator": 0, "reflector": 0, "curator": 0}
	h.model.byPrompt.Range(func(name, n any) bool {
		role := name.(string)
		if role == "reducer" {
			role = "curator"
		}
		want[role] += int(n.(*atomic.Int64).Load())
		return true
	})
	calls := map[string]int{"generator": got.Generator.Calls, "reflector": got.Reflector.Calls, "curator": got.Curator.Calls}
	if diff := cmp.Diff(want, calls); diff != "" {
		h.Errorf("calls of models by role:\n%s", diff)
	}
}

func seqOf(t testing.TB, h events.Handle) uint64 {
	t.Helper()
	seq, _, err := h.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// TestResultIsIndependentOfSpeedAndInterruptions varies the number of workers and the interruptions.
func TestResultIsIndependentOfSpeedAndInterruptions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := sets(64, 20)
	want := comparable(t, open(t, 8, nil).run(batches, s, Options{Name: "r"}))
	for _, slots := range []int{1, 16} {
		if diff := cmp.Diff(want, comparable(t, open(t, slots, nil).run(batches, s, Options{Name: "r"}))); diff != "" {
			t.Errorf("%d slots: %s", slots, diff)
		}
	}
	rng := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	h := open(t, 8, nil)
	interrupted := 0
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(30+rng.IntN(400))*time.Millisecond)
		out, err := Run(ctx, h.conn, batches, s, Options{Name: "r"})
		cancel()
		if err == nil {
			if diff := cmp.Diff(want, comparable(t, out)); diff != "" {
				t.Errorf("after %d interruptions: %s", interrupted, diff)
			}
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if interrupted++; rng.IntN(3) == 0 { // interrupt the workers too
			h.stop()
			h.work(1 + rng.IntN(16))
		}
	}
	t.Logf("%d interruptions", interrupted)
}

func TestRunNameIsExclusive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(48, 10)
	ctx, cancel := context.WithCancel(t.Context())
	moved := make(chan struct{}, 1000)
	first := make(chan error, 1)
	go func() {
		_, err := Run(ctx, h.conn, batches, s, Options{Name: "r", OnEvent: func(Event) {
			select {
			case moved <- struct{}{}:
			default:
			}
		}})
		first <- err
	}()
	<-moved
	var used *InUseError
	if _, err := h.try(batches, s, Options{Name: "r"}); !errors.As(err, &used) {
		t.Errorf("a second runner: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first runner: %v", err)
	}
	other := batches
	other.Seed++
	var differs *ConflictError
	o := Options{Name: "r", Settings: []report.Setting{{Name: "seed", Value: "8"}}}
	if _, err := h.try(other, s, o); !errors.As(err, &differs) || differs.Name != "r" || !slices.ContainsFunc(differs.Diffs, func(d string) bool { return strings.HasPrefix(d, "seed: ") }) {
		t.Errorf("another run of this name: %v", err)
	}
	h.run(batches, s, Options{Name: "r"}) // run to the end
	if _, err := h.try(batches, s, Options{Name: "r", From: "x"}); !errors.As(err, &differs) {
		t.Errorf("another run of this name, after its end: %v", err)
	}
}

// TestLostSamplesAreReported has one sample that every generator fails on, and one that every reflector fails on.
func TestLostSamplesAreReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := sets(32, 10)
	bad, worse := s.Train.Tasks[3].Question, s.Train.Tasks[5].Question
	h := open(t, 8, func(p chat.Prompt) error {
		about := func(question string) bool {
			return slices.ContainsFunc(p.Messages, func(m chat.Message) bool { return strings.Contains(m.Text, question) })
		}
		if p.Name == events.RoleGenerator && about(bad) || p.Name == events.RoleReflector && about(worse) {
			return errors.New("no")
		}
		return nil
	})
	rep := h.run(Config{Batch: 16}, s, Options{Name: "r"}).Report
	var lost []string
	for _, l := range rep.Losses {
		lost = append(lost, fmt.Sprint(l.Set, " ", l.Sample == s.Train.Tasks[3].ID || l.Sample == s.Train.Tasks[5].ID))
	}
	if len(lost) != 2 || rep.Epochs[0].Train.Lost != 1 {
		t.Errorf("losses %v, training %+v", rep.Losses, rep.Epochs[0].Train)
	}
	if rep.After.Accuracy < rep.Before.Accuracy {
		t.Errorf("before %+v, after %+v", rep.Before, rep.After)
	}
}

func TestPatienceStopsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(32, 10)
	s.Validation.Tasks = slices.Clone(s.Validation.Tasks)
	for i := range s.Validation.Tasks { // no learned bullet changes their accuracy
		s.Validation.Tasks[i].Question, s.Validation.Tasks[i].Evaluator, s.Validation.Tasks[i].Target = "What is it?", "", "nothing"
	}
	rep := h.run(Config{Epochs: 9, Batch: 16, Patience: 3}, s, Options{Name: "r"}).Report
	if len(rep.Epochs) != 3 || rep.Stopped == "" {
		t.Errorf("%d epochs, stopped: %q", len(rep.Epochs), rep.Stopped)
	}
	if rep = h.run(Config{Epochs: 3, Batch: 16, Patience: 3}, s, Options{Name: "whole"}).Report; len(rep.Epochs) != 3 || rep.Stopped != "" {
		t.Errorf("%d epochs of 3, stopped: %q", len(rep.Epochs), rep.Stopped)
	}
}

// TestOnlineSampleWithoutReflectionIsALoss has an answered sample whose reflection is dead-lettered.
func TestOnlineSampleWithoutReflectionIsALoss(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := sets(15, 4)
	s.Validation, s.Test = nil, nil
	bad := s.Train.Tasks[3].Question
	h := open(t, 8, func(p chat.Prompt) error {
		for _, m := range p.Messages {
			if p.Name == events.RoleReflector && strings.Contains(m.Text, bad) {
				return errors.New("no")
			}
		}
		return nil
	})
	rep := h.run(Config{Mode: Online}, s, Options{Name: "r"}).Report
	if len(rep.Losses) != 1 || rep.Losses[0].Sample != s.Train.Tasks[3].ID || rep.Epochs[0].Train.N != 15 {
		t.Errorf("losses %+v, training %+v", rep.Losses, rep.Epochs[0].Train)
	}
}

// TestOnlineCostHasAllRoles learns from each sample alone.
func TestOnlineCostHasAllRoles(t *testing.T) {
	t.Parallel()
	h := open(t, 2, nil)
	s := sets(8, 4)
	s.Validation, s.Test = nil, nil
	rep := h.run(Config{Mode: Online, Batch: 1}, s, Options{Name: "r"}).Report
	h.hasCost(rep.Cost)
	if rep.Cost.Curator.Calls == 0 || rep.Cost.Reflector.Calls != 8 {
		t.Errorf("got cost %+v, want calls of the Curator, and one of the Reflector for each sample", rep.Cost)
	}
}

func TestOnlineScoresBeforeLearning(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(90, 20)
	s.Validation = nil
	rep := h.run(Config{Mode: Online}, s, Options{Name: "r"}).Report
	if n := len(rep.Epochs); n != 1 || rep.Epochs[0].Train.N != 90 {
		t.Fatalf("%d epochs: %+v", n, rep.Epochs)
	}
	var first, last report.Score
	for _, p := range rep.Points {
		if p.Set == Train {
			if first.N == 0 {
				first = p.Score
			}
			last = p.Score
		}
	}
	if first.N != 15 || last.Accuracy <= first.Accuracy {
		t.Errorf("first window %+v, last %+v", first, last)
	}
	// Every sample was answered before the playbook learned from it.
	learned := map[string]uint64{} // version by execution handle
	store := deltalog.New(h.conn.JetStream())
	err := store.ReadLog(t.Context(), "r", func(rec *deltalog.Record) error {
		for _, c := range rec.Covers {
			if c.Evidence != nil {
				learned[c.Evidence.Execution] = rec.Version
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = h.conn.Events.Scan(t.Context(), events.StreamExecutions, events.KindExecution.Subject("r"), 1, func(st bus.Stored) error {
		e := st.Event.(*events.Execution)
		if v := learned[string(events.NewHandle(st.Seq, e.ID))]; v > 0 && (e.Version >= v || e.Purpose == events.Evaluate) {
			t.Errorf("%s was answered with version %d and learned from in version %d", e.RunID, e.Version, v)
		}
		return nil
	})
	if err != nil || len(learned) < 60 {
		t.Errorf("%d executions were learned from: %v", len(learned), err)
	}
	if rep.After.Accuracy <= rep.Before.Accuracy {
		t.Errorf("before %+v, after %+v", rep.Before, rep.After)
	}
}

// TestRecordedExecutionsAreReflectedOnAgain learns a second playbook from the executions of the first without running
// tasks.
func TestRecordedExecutionsAreReflectedOnAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(64, 20)
	s.Validation = nil
	first := h.run(Config{Batch: 16}, s, Options{Name: "first"}).Report
	looks := bustest.Must(reflector.New(h.model, reflector.Config{}))
	o := Options{Name: "second", Source: Source{Book: "first", Reflect: looks.Reflect, Concurrency: 4}}
	calls := h.model.calls.Load()
	second := h.run(Config{Mode: Executions, Batch: 16}, Sets{Test: s.Test}, o).Report
	if second.Epochs[0].Train.N != 64 || second.Epochs[0].Train.Right != first.Epochs[0].Train.Right {
		t.Errorf("recorded %+v, were %+v", second.Epochs[0].Train, first.Epochs[0].Train)
	}
	if second.Before.Right != first.After.Right {
		t.Errorf("the first book: %+v, was %+v", second.Before, first.After)
	}
	if second.Final.Bullets == 0 || second.After.Accuracy < first.Before.Accuracy {
		t.Errorf("the second book: %+v, %+v", second.Final, second.After)
	}
	for _, b := range second.Bullets {
		if b.Helpful+b.Harmful+b.Neutral > 0 {
			t.Errorf("bullet %s has votes: nothing showed it", b.ID)
		}
	}
	asked := h.model.calls.Load() - calls
	if most := int64(64 + 2*20 + 40); asked > most {
		t.Errorf("%d calls, want at most %d: reflections, two tests, curation", asked, most)
	}
	w, err := deltalog.New(h.conn.JetStream()).Writer(t.Context(), "second")
	if err != nil {
		t.Fatal(err)
	}
	if w.State().Playbook().Len() != len(second.Bullets) {
		t.Errorf("%d bullets, the report has %d", w.State().Playbook().Len(), len(second.Bullets))
	}
}
