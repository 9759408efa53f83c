package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
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
	run("--name", name, "--save")
	state, err := api.Get[struct {
		Judge playbook.Judge `json:"judge"`
	}](t.Context(), client, api.Path("books", "desk", "gate"), nil)
	if err != nil || state.Judge != want {
		t.Errorf("the gate has %+v, %v; want %+v", state.Judge, err, want)
	}
}

// TestCallsOfAJudgeAreCounted submits a task that a judge with a model of its own rates. The metrics count its calls and tokens apart.
func TestCallsOfAJudgeAreCounted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	var judged atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model string
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		text := `{"reasoning": "r", "bullet_ids": [], "final_answer": "42"}`
		if in.Model == "strict" {
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
	var answer struct{ Handle string }
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
