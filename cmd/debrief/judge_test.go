package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"debrief/cmd/internal/api"
	"debrief/events"
	"debrief/playbook"
)

// TestErrorOfAJudge reports runs that a judge has rated, gives feedback on them as a person, and compares what the command measures with a
// count by hand: of 30 right answers the judge calls 3 a failure, of 30 wrong ones 6 a success. Two runs have no feedback, and one was rated
// by another judge.
func TestErrorOfAJudge(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, out := startProgram(t, "up", "--simulated", "--data", t.TempDir(), "--listen", "none", "--http", address)
	lines(t, out, "debrief is up")
	client := api.NewClient("http://"+address, "")
	report := func(run, answer, by string, score float64) events.Handle {
		t.Helper()
		label := map[bool]string{true: "success", false: "failure"}[score >= 0.5]
		got, err := api.Post[struct {
			Handle events.Handle `json:"handle"`
		}](t.Context(), client, "/executions", nil, map[string]any{
			"book": "desk", "run_id": run, "question": "Question " + run, "answer": answer, "outcome": map[string]any{"label": label, "score": score, "by": by},
		})
		if err != nil {
			t.Fatal(err)
		}
		return got.Handle
	}
	const name = "judge/m/1"
	for i := range 60 {
		isRight, saysRight := i < 30, i >= 3 && i < 30 || i >= 54
		answer := "Forty-two."
		if i >= 15 && i < 30 || i >= 45 {
			answer = strings.Repeat("äöü ", 100)
		}
		h := report(fmt.Sprint("run-", i), answer, name, map[bool]float64{true: 1, false: 0.1}[saysRight])
		if _, err := api.Post[api.FeedbackReply](t.Context(), client, "/feedback", nil, map[string]any{"book": "desk", "execution": h, "outcome": isRight}); err != nil {
			t.Fatal(err)
		}
	}
	report("without-1", "42", name, 1)
	report("without-2", "42", name, 0)
	other := report("other", "42", "judge/other", 1)
	if _, err := api.Post[api.FeedbackReply](t.Context(), client, "/feedback", nil, map[string]any{"book": "desk", "execution": other, "outcome": false}); err != nil {
		t.Fatal(err)
	}

	bin, err := exec.LookPath("debrief")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bin, append([]string{"playbook", "judge", "--book", "desk", "--url", "http://" + address}, args...)...)
		var diagnosis bytes.Buffer
		cmd.Stderr = &diagnosis
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s%s", args, err, text, diagnosis.Bytes())
		}
		return text
	}
	want := playbook.Judge{Name: name, Right: 30, Wrong: 30, FalseFailures: 3, FalseSuccesses: 6}
	var got playbook.Judge
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) { // the index follows the feedback
		got = playbook.Judge{}
		if err := json.Unmarshal(run("--name", name, "--json"), &got); err != nil {
			t.Fatal(err)
		}
		if got == want || time.Now().After(end) {
			break
		}
	}
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if text := string(run("--name", "judge/other")); !strings.Contains(text, "Not usable yet") || !strings.Contains(text, "0 right and 1 wrong") {
		t.Errorf("a judge with one label: got %s", text)
	}
	var lengths struct {
		By struct {
			Median          int
			Shorter, Longer playbook.Judge
		} `json:"by_length"`
	}
	if err := json.Unmarshal(run("--name", name, "--json"), &lengths); err != nil {
		t.Fatal(err)
	}
	shorter, longer := playbook.Judge{Name: name, Right: 15, Wrong: 15, FalseFailures: 3}, playbook.Judge{Name: name, Right: 15, Wrong: 15, FalseSuccesses: 6}
	if lengths.By.Median != len("Forty-two.") || lengths.By.Shorter != shorter || lengths.By.Longer != longer {
		t.Errorf("by length: got %+v, want a median of 10, %+v and %+v", lengths.By, shorter, longer)
	}
	run("--name", name, "--save")
	state, err := api.Get[struct {
		Judge playbook.Judge `json:"judge"`
	}](t.Context(), client, api.Path("books", "desk", "gate"), nil)
	if err != nil || state.Judge != want {
		t.Errorf("the gate has %+v, %v; want %+v", state.Judge, err, want)
	}
}

// judgePrompts is the JSON of 'debrief context --judge'.
type judgePrompts struct {
	Judge   string
	Score   float64
	Prompts [][]struct{ Content string }
}

// TestCallsOfAJudgeAreCounted submits a task that a judge with a model of its own rates. The metrics count its calls and tokens apart, and a
// command shows the prompt that the judge received.
func TestCallsOfAJudgeAreCounted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	var asked sync.Map // bodies that the judge received
	var judged atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model    string
			Messages []struct{ Content string }
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		text := `{"reasoning": "r", "bullet_ids": [], "final_answer": "42"}`
		if in.Model == "strict" {
			for _, m := range in.Messages {
				asked.Store(m.Content, true)
			}
			judged.Add(1)
			text = `{"reason": "Six times seven.", "score": 1}`
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "1", "object": "chat.completion", "model": in.Model, "usage": map[string]int{"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}},
		})
	}))
	defer provider.Close()
	health, data := freeAddress(), t.TempDir()
	_, out := startProgram(t, "up", "--data", data, "--listen", "127.0.0.1:0", "--http", "none", "--health", health,
		"--model", "m", "--judge-model", "strict", "--base-url", provider.URL+"/v1", "--api-key", "k")
	lines(t, out, "debrief is up")
	bin, err := exec.LookPath("debrief")
	if err != nil {
		t.Fatal(err)
	}
	rubric := filepath.Join(t.TempDir(), "rubric.txt")
	if err := os.WriteFile(rubric, []byte("Another rubric."), 0o600); err != nil {
		t.Fatal(err)
	}
	var answer struct{ Handle string }
	var got judgePrompts
	run := func(into any, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bin, append(args, "--data", data, "--json")...)
		var diagnosis bytes.Buffer
		cmd.Stderr = &diagnosis
		text, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%v: %v: %s%s", args, err, text, diagnosis.Bytes())
		}
	}
	run(&answer, "submit", "--wait", "--evaluator", "judge", "What is six times seven?")
	run(&got, "context", "--execution", answer.Handle, "--judge")
	if !strings.HasPrefix(got.Judge, "judge/strict/") || got.Score != 1 || len(got.Prompts) != 1 || len(got.Prompts[0]) != 2 {
		t.Errorf("got %+v, want one prompt of the judge strict", got)
	}
	for _, p := range got.Prompts {
		for _, m := range p {
			if _, ok := asked.Load(m.Content); !ok {
				t.Errorf("the judge did not receive this message: %s", m.Content)
			}
		}
	}
	other := exec.CommandContext(t.Context(), bin, "context", "--execution", answer.Handle, "--judge", "--judge-rubric", rubric, "--data", data)
	if text, err := other.CombinedOutput(); err == nil || !strings.Contains(string(text), "had another rubric") {
		t.Errorf("with another rubric: got %v: %s", err, text)
	}
	if judged.Load() != 1 {
		t.Errorf("the judge was asked %d times, want once: the task has no target", judged.Load())
	}
	r, err := http.Get("http://" + health + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`debrief_model_calls_total{kind="chat",result="ok",role="judge"} 1`,
		`debrief_model_tokens_total{direction="input",kind="chat",role="judge"} 100`,
		`debrief_model_tokens_total{direction="output",kind="chat",role="judge"} 7`,
		`debrief_model_calls_total{kind="chat",result="ok",role="generator"} 1`,
	} {
		if !strings.Contains(string(page), want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
