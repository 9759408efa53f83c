package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator"
)

// modelRequest is a request to the model of a test.
type modelRequest struct {
	Model    string
	Messages []struct{ Role, Content string }
}

func (a *modelRequest) question() string { return a.Messages[len(a.Messages)-1].Content }

// serveModel serves a model that answers with the result of a function. An empty result is answered with status 400.
func serveModel(t *testing.T, answer func(*modelRequest) string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a modelRequest
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		final := answer(&a)
		if final == "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"invalid request","type":"invalid_request_error"}}`)
			return
		}
		reply, _ := json.Marshal(map[string]any{"reasoning": "none", "bullet_ids": []string{}, "final_answer": final})
		_ = json.NewEncoder(w).Encode(map[string]any{
			"model":   a.Model,
			"choices": []any{map[string]any{"message": map[string]string{"role": "assistant", "content": string(reply)}, "finish_reason": "stop"}},
			"usage":   map[string]int{"prompt_tokens": 10, "completion_tokens": 2},
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// newEvaluation prepares an evaluation without a playbook: samples with the target "right" and a model at url.
func newEvaluation(t *testing.T, url string, samples int, against ...string) *evaluation {
	t.Helper()
	p := cli.ServerFlags{}
	p.Replicas = 1
	s, err := p.StartTemporary(t.Context(), "100ms", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	e := &Eval{Empty: true, Parallel: 4, Model: program.Model{Model: "first", BaseURL: url, Timeout: time.Minute, MaxConcurrent: 1, InputPrice: 1e6}}
	e.Book = "default"
	for _, text := range against {
		var o armSettings
		if err := o.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		e.Against = append(e.Against, o)
	}
	x := &evaluation{parallel: e.Parallel, outageTimeout: time.Minute, pause: time.Millisecond}
	for i := range samples {
		x.samples = append(x.samples, sample{events.Task{ID: fmt.Sprint("s", i), Question: fmt.Sprintf("question %d?", i), Target: "right"}, i})
	}
	t.Cleanup(x.close)
	if err := e.prepare(t.Context(), s, nil, x); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestEvalArmsUseTheirSettings checks the model, the instructions and the cost of each arm, and the parallel calls.
func TestEvalArmsUseTheirSettings(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	full := make(chan struct{})
	var once sync.Once
	url := serveModel(t, func(a *modelRequest) string {
		if n := now.Add(1); n >= 4 {
			once.Do(func() { close(full) })
			most.Store(max(most.Load(), n))
		}
		defer now.Add(-1)
		select {
		case <-full: // four calls are in flight
		case <-time.After(500 * time.Millisecond): // the client begins with fewer calls, and with more after each answer
		}
		prompted := strings.HasPrefix(a.Messages[0].Content, "Think of Paris.")
		return fmt.Sprintf("%s, prompted %v", a.Model, prompted)
	})
	prompt := t.TempDir() + "/prompt.txt"
	if err := os.WriteFile(prompt, []byte("Think of Paris."), 0o600); err != nil {
		t.Fatal(err)
	}
	x := newEvaluation(t, url, 8, "model=second", "prompt="+prompt)
	if err := x.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	res := x.result(report.Data{}, nil)
	for i, want := range []string{"first, prompted false", "second, prompted false", "first, prompted true"} {
		for _, a := range x.arms[i].answers {
			if a.execution.Answer != want || a.execution.Purpose != events.Evaluate || !a.execution.Pinned {
				t.Errorf("got %+v, want %q of an evaluation with a pinned playbook", a.execution, want)
			}
		}
		u := res.Arms[i].Usage
		if u != (report.Usage{Calls: 8, InputTokens: 80, OutputTokens: 16, Dollars: 80, Seconds: u.Seconds}) || u.Seconds == 0 {
			t.Errorf("got usage %+v", u)
		}
	}
	if most.Load() != 4 {
		t.Errorf("%d calls at a time, want 4", most.Load())
	}
}

// TestLostSamplesAreLeftOutOfComparisons checks that a sample lost in one arm is left out in both, and listed.
func TestLostSamplesAreLeftOutOfComparisons(t *testing.T) {
	t.Parallel()
	url := serveModel(t, func(a *modelRequest) string {
		second := a.Model == "second"
		switch q := a.question(); {
		case second && strings.Contains(q, "question 3?"):
			return ""
		case second && strings.Contains(q, "question 5?"):
			return "wrong"
		}
		return "right"
	})
	x := newEvaluation(t, url, 8, "model=second")
	if err := x.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	res := x.result(report.Data{}, nil)
	c := res.Comparisons[0]
	if c.N != 7 || c.LeftOut != 1 || c.Wins != 1 || c.Pair.Losses != 0 || c.P != 1 {
		t.Errorf("got %+v, want 7 pairs and one win", c)
	}
	if len(c.Differ) != 1 || c.Differ[0].ID != "s5" || c.Differ[0].Result != "won" || c.Differ[0].Other != "wrong" {
		t.Errorf("got %+v", c.Differ)
	}
	if s := res.Arms[0].Score; s != (report.Score{N: 8, Right: 8, Accuracy: 1, Mean: 1}) {
		t.Errorf("the first: got %+v", s)
	}
	if s := res.Arms[1].Score; s.N != 7 || s.Right != 6 || s.Lost != 1 {
		t.Errorf("the second: got %+v", s)
	}
	if len(res.Losses) != 1 || res.Losses[0].Sample != "s3" || !strings.Contains(res.Losses[0].Reason, "invalid request") {
		t.Errorf("got losses %+v", res.Losses)
	}
	var out strings.Builder
	if err := res.print(&out); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`accuracy +95 % interval +mean score .*\n.* 8 +8 +100\.0 % +67\.6 to 100\.0 +1\.000 `).MatchString(out.String()) {
		t.Errorf("got %s, want the accuracy, its interval and the mean score in their columns", out.String())
	}
	for _, want := range []string{"model=second: 1 sample is left out", "lost: model=second, s3: ", "won    s5: question 5?"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %q", out.String(), want)
		}
	}
	var lines strings.Builder
	if err := x.write(nopCloser{&lines}); err != nil || strings.Count(lines.String(), "\n") != 16 || strings.Count(lines.String(), `"lost":`) != 1 {
		t.Errorf("got %s, %v, want all 16 answers, one of them lost", lines.String(), err)
	}
}

// A comparison also counts and lists samples that are only partly right, the largest difference first, and leaves out the instructions that all
// questions begin with.
func TestComparisonListsPartialScores(t *testing.T) {
	t.Parallel()
	instructions := strings.Repeat("Choose one of the tags listed here. ", 10)
	x := &evaluation{}
	first, other := &evalArm{}, &evalArm{armResult: armResult{Arm: "empty"}}
	for i, scores := range [][2]float64{{0.5, 0.5}, {0.25, 0.5}, {1, 0}, {0.75, 0.5}} {
		x.samples = append(x.samples, sample{events.Task{ID: fmt.Sprintf("s%d", i), Question: instructions + []string{"Alpha", "Beta", "Gamma", "Delta"}[i] + " is the right sentence.", Target: strings.Repeat("Tag,", 40)}, i})
		for k, arm := range []*evalArm{first, other} {
			outcome := events.Outcome{Score: scores[k], Label: events.LabelOf(scores[k]), Feedback: fmt.Sprintf("%.2f of the entries are right.", scores[k])}
			arm.answers = append(arm.answers, sampleResult{execution: &events.Execution{Answer: "Tag", Outcome: outcome}})
		}
	}
	x.arms = []*evalArm{first, other}
	c := x.compare(first, other)
	if c.Wins != 1 || c.Pair.Losses != 0 || c.Changed != 3 || c.ScoreDifference != 0.25 {
		t.Errorf("got %+v, want one win, 3 changed samples and a difference of 0.25", c)
	}
	var got []string
	for _, d := range c.Differ {
		got = append(got, d.Result+" "+d.Question)
	}
	if want := []string{"won Gamma is the right sentence.", "worse Beta is the right sentence.", "better Delta is the right sentence."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	same := []sample{x.samples[0], x.samples[0]} // one question, asked twice
	if n := sharedBeginning(same); n != 0 {
		t.Errorf("equal questions lose %d bytes at their beginning, want 0", n)
	}
	if reason := c.Differ[1].reason(); !strings.Contains(reason, "0.25 of the entries are right") || !strings.Contains(reason, "0.50 of the entries are right") {
		t.Errorf("got %q, want both verdicts, because the target is too long to show", reason)
	}
}

// TestEvalStopsWhenMostAnswersFail checks that an evaluation ends after half of the samples are lost.
func TestEvalStopsWhenMostAnswersFail(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	x := newEvaluation(t, serveModel(t, func(*modelRequest) string { requests.Add(1); return "" }), 200)
	err := x.run(t.Context())
	if !errors.Is(err, errMostFailed) || !strings.Contains(err.Error(), "invalid request") || strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
	if !x.unfinished || requests.Load() > 101+4 {
		t.Errorf("%d requests, want an end after 101", requests.Load())
	}
}

// TestEvalWaitsForUnavailableModel checks that a short outage loses no samples.
func TestEvalWaitsForUnavailableModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	// Calls 10 to 200 fail: many more than there are samples.
	m := &unavailableModel{from: 10, to: 200}
	x := newEvaluation(t, "http://127.0.0.1:9", 40)
	x.arms[0].generator = bustest.Must(generator.New(m, nil, generator.Config{}))
	if err := x.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := x.arms[0].Score; s.Right != 40 || s.Lost != 0 {
		t.Errorf("got %+v, want all 40", s)
	}

	for name, m := range map[string]*unavailableModel{"never available": {from: 1, to: 1 << 40}, "never back": {from: 10, to: 1 << 40}} {
		x := newEvaluation(t, "http://127.0.0.1:9", 40)
		x.outageTimeout = 50 * time.Millisecond
		x.arms[0].generator = bustest.Must(generator.New(m, nil, generator.Config{}))
		if err := x.run(t.Context()); !errors.Is(err, errMostFailed) {
			t.Errorf("%s: got %v", name, err)
		}
		if n := m.calls.Load(); m.from == 1 && n > 21+4 {
			t.Errorf("%s: %d calls, want one for each of half the samples", name, n)
		}
	}
}

// unavailableModel is a model that is unavailable for some of the calls.
type unavailableModel struct {
	from, to int64
	calls    atomic.Int64
}

// Complete implements chat.Model.
func (m *unavailableModel) Complete(context.Context, chat.Prompt) (chat.Reply, error) {
	if n := m.calls.Add(1); n >= m.from && n <= m.to {
		return chat.Reply{}, &chat.UnavailableError{Err: errors.New("connection refused")}
	}
	return chat.Reply{Text: `{"reasoning":"r","bullet_ids":[],"final_answer":"right"}`, Finish: "stop"}, nil
}

// TestInterruptedEvalKeepsItsAnswers checks that answers before an interrupt can be written: they are paid for.
func TestInterruptedEvalKeepsItsAnswers(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	hung := make(chan struct{})
	var n atomic.Int64
	x := newEvaluation(t, serveModel(t, func(*modelRequest) string {
		if n.Add(1) > 4 {
			stop()
			<-hung
		}
		return "right"
	}), 50)
	t.Cleanup(func() { close(hung) }) // before the server is closed, which waits for its handlers
	if err := x.run(ctx); !errors.Is(err, context.Canceled) || !x.unfinished {
		t.Errorf("got %v", err)
	}
	var lines strings.Builder
	if err := x.write(nopCloser{&lines}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(lines.String(), `"label":"success"`); got < 1 || got > 4 || strings.Contains(lines.String(), `"lost"`) {
		t.Errorf("got %s, want only the answers before the interrupt", lines.String())
	}
}

func TestArmSettings(t *testing.T) {
	t.Parallel()
	first := &armSettings{book: "a", at: "7", model: "m", prompt: "p"}
	for text, want := range map[string]armSettings{
		"model=n":         {book: "a", at: "7", model: "n", prompt: "p"},
		"at=9":            {book: "a", at: "9", model: "m", prompt: "p"},
		"book=b":          {book: "b", model: "m", prompt: "p"}, // a version belongs to its book
		"book=b,at=3":     {book: "b", at: "3", model: "m", prompt: "p"},
		"empty":           {book: "a", empty: true, model: "m", prompt: "p"},
		"prompt=q,at=24h": {book: "a", at: "24h", model: "m", prompt: "q"},
	} {
		var o armSettings
		if err := o.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		want.text = text
		if got := o.withDefaults(first); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	bare := &armSettings{book: "a", empty: true, model: "m"}
	if got := (armSettings{at: "3"}).withDefaults(bare); got.empty || got.at != "3" {
		t.Errorf("a version against an empty playbook: got %+v", got)
	}
	if got := (armSettings{model: "n"}).withDefaults(bare); !got.empty {
		t.Errorf("another model against an empty playbook: got %+v", got)
	}
	for _, text := range []string{"", "x", "at", "at=", "empty=1", "at=1,at=2", "empty,at=1", "book=a,empty", "model=a,", "AT=1"} {
		if err := new(armSettings).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

// nopCloser is an io.WriteCloser whose Close does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
