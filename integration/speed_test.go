package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// TestSpeedOfSeparateWorkers prints the samples per second of one worker of each role, from task to delta, with a model that
// answers at once. It measures a server without users and one with the configuration of deploy/nats. It asserts no time:
//
//	DEBRIEF_LONG=1 go test ./integration -run TestSpeedOfSeparateWorkers -v -timeout 30m | grep SPEED
func TestSpeedOfSeparateWorkers(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("set DEBRIEF_LONG=1 to run")
	}
	const samples, runs = 2000, 3
	for _, sync := range []string{"always", "100ms"} {
		for _, server := range []string{"no users", "accounts"} {
			var rates []float64
			for range runs {
				t.Run(sync+", "+server, func(t *testing.T) { rates = append(rates, separateRate(t, sync, server == "accounts", samples)) })
			}
			slices.Sort(rates)
			t.Logf("SPEED | sync %s | %s | %.0f samples/s (%.0f to %.0f) |", sync, server, rates[len(rates)/2], rates[0], rates[len(rates)-1])
		}
	}
}

func separateRate(t *testing.T, sync string, accounts bool, samples int) float64 {
	t.Helper()
	var conn *bus.Conn
	var flags func(role string) []string
	if accounts {
		s := newTLSServer(t, []string{"acme"})
		s.file("limits.conf", "limits.conf")
		s.serve("sync_interval: always", "sync_interval: "+sync)
		conn = s.setUp("acme")
		flags = func(role string) []string { return s.flags("acme", role) }
	} else {
		_, url := startServerIn(t, t.TempDir(), sync)
		conn = connect(t, url)
		flags = func(string) []string { return []string{"--nats", url} }
	}
	answer := map[string]string{
		events.RoleGenerator: `{"reasoning":"Six times seven is forty-two.","bullet_ids":[],"final_answer":"42"}`,
		events.RoleReflector: `{"reasoning":"Right.","error_identification":"","root_cause_analysis":"","correct_approach":"","key_insight":"Check the product.","section":"others","bullet_tags":[]}`,
	}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		args := flags(role)
		if text := answer[role]; text != "" {
			args = append(args, "--model", "canned", "--base-url", cannedModel(t, text), fmt.Sprintf("--%s-slots=32", role))
		}
		startWorker(t, role, role, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	began := time.Now()
	for i := range samples {
		task := &events.Task{Book: desk, ID: fmt.Sprint("t", i), Question: "What is six times seven?", Target: "42", Evaluator: "exact", Created: time.Now().UTC()}
		if _, err := conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitSettled(t, ctx, conn)
	return float64(samples) / time.Since(began).Seconds()
}

// cannedModel serves the OpenAI API with a fixed answer and returns its base URL.
func cannedModel(t *testing.T, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"id": "1", "object": "chat.completion", "model": "canned",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}},
		"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}
