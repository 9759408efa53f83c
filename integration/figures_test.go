package integration

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// figuresEnv is the number of minutes of the long form of TestFiguresEqualAnIndependentCount.
const figuresEnv = "DEBRIEF_TEST_FIGURES_MINUTES"

// figuresPrices are dollars per million tokens: input, cached input, output. The model "gamma" has no price.
var figuresPrices = map[string][3]float64{"alpha": {2, 0.5, 8}, "beta": {0.25, 0.025, 3}, figuresReflector: {1, 0.1, 4}}

// figuresReflector is the model of the reflector.
const figuresReflector = "delta"

// figureCount counts by the name of a metric and its labels, as "metric|playbook|…".
type figureCount struct {
	mu sync.Mutex
	n  map[string]float64
}

func (c *figureCount) add(n float64, parts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n != 0 {
		c.n[strings.Join(parts, "|")] += n
	}
}

// figuresUpstream is a provider that counts what it answers: the text of a call names the team. It fails for a text with "refuse" or "break".
func figuresUpstream(t *testing.T, seen *figureCount) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			in, _ = gzip.NewReader(r.Body)
		}
		var request struct {
			Model    string
			Input    string
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(in).Decode(&request); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		text, role := request.Input, "generator"
		for _, m := range request.Messages {
			if m.Role == "user" {
				text = m.Content
			}
		}
		if request.Model == figuresReflector { // its prompt quotes the question
			role = "reflector"
			_, text, _ = strings.Cut(text, "report ")
		}
		_, after, _ := strings.Cut(text, "of ")
		team, _, _ := strings.Cut(after, ":")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(text, "refuse"):
			w.WriteHeader(http.StatusTooManyRequests)
		case strings.Contains(text, "break"):
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path != "/v1/chat/completions":
			seen.add(1, "calls", team, path.Base(r.URL.Path))
		case r.Header.Get("Content-Encoding") != "":
			seen.add(1, "calls", team, "encoding")
		default:
			input, cached, output := 100+rand.IntN(1000), rand.IntN(100), 1+rand.IntN(200)
			model, content := request.Model, "Shelf "+strconv.Itoa(output)+"."
			if price, ok := figuresPrices[model]; ok {
				seen.add((float64(input-cached)*price[0]+float64(cached)*price[1]+float64(output)*price[2])/1e6, "debrief_playbook_cost_dollars_total", team, role, model)
			} else {
				model = "other"
			}
			if role == "reflector" {
				seen.add(1, "debrief_model_calls_total", role)
				content = `{"reasoning": "r", "key_insight": "Ask for the shelf before you look for the globe."}`
			} else {
				seen.add(1, "calls", team, "captured")
			}
			for direction, n := range map[string]int{"input": input, "cached": cached, "output": output} {
				seen.add(float64(n), "debrief_playbook_tokens_total", team, role, model, direction)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{
				"id": fmt.Sprint("c-", rand.Int64()), "object": "chat.completion", "model": request.Model,
				"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": content}}},
				"usage": map[string]any{
					"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output, "prompt_tokens_details": map[string]any{"cached_tokens": cached},
				},
			})
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// team is a team with a token and a playbook of its own.
type team struct {
	name, token string
	gateway     *replica
	seen        *figureCount
	handles     []string // of reported runs without feedback
	next        int
}

// send sends a body to the gateway and returns the status and the header of the response.
func (c *team) send(t *testing.T, to string, body any, header ...string) (int, http.Header) {
	data, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Content-Encoding" {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(data)
			_ = w.Close()
			data = packed.Bytes()
		}
	}
	r, err := http.NewRequest(http.MethodPost, c.gateway.url+to, bytes.NewReader(data))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Debrief-Token": c.token, "X-Debrief-Book": c.name} {
		r.Header.Set(name, value)
	}
	if strings.HasPrefix(to, "/api/") {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if (resp.StatusCode >= 500 || resp.StatusCode == http.StatusUnauthorized && header == nil) && !bytes.Contains(data, []byte("break")) {
		t.Errorf("%s: got %s: %s", to, resp.Status, text)
	}
	return resp.StatusCode, resp.Header
}

// act does one thing at random: a call that is captured, one that fails, one that the gateway cannot read, a report, or late feedback.
func (c *team) act(t *testing.T, rng *rand.Rand) {
	c.next++
	say := func(what string) map[string]any {
		question := fmt.Sprintf("%s of %s: where is the globe number %d-%d?", what, c.name, c.next, rng.IntN(1e9))
		return map[string]any{"model": []string{"alpha", "beta", "gamma"}[rng.IntN(3)], "messages": []any{map[string]any{"role": "user", "content": question}}}
	}
	expect := func(status int, want int) {
		if status != want {
			t.Errorf("%s, step %d: got status %d, want %d", c.name, c.next, status, want)
		}
	}
	const chat = "/v1/chat/completions"
	switch rng.IntN(10) {
	case 0:
		status, _ := c.send(t, chat, say("refuse"))
		expect(status, http.StatusTooManyRequests)
	case 1:
		status, _ := c.send(t, chat, say("break"))
		expect(status, http.StatusInternalServerError)
	case 2:
		status, _ := c.send(t, chat, say("stranger"), "X-Debrief-Token", "unknown")
		expect(status, http.StatusUnauthorized)
	case 3:
		status, _ := c.send(t, chat, say("gzip"), "Content-Encoding", "gzip")
		expect(status, http.StatusOK)
	case 4:
		status, _ := c.send(t, "/v1/audio/speech", map[string]any{"model": "alpha", "input": "speech of " + c.name + ":"})
		expect(status, http.StatusOK)
	case 5, 6:
		label, question := []string{"success", "failure"}[rng.IntN(2)], fmt.Sprintf("report of %s: where is the globe number %d?", c.name, c.next)
		status, header := c.send(t, "/api/v1/executions", fields{
			"book": c.name, "run_id": fmt.Sprint(c.name, "-", c.next), "question": question, "answer": "x", "outcome": fields{"label": label},
		})
		expect(status, http.StatusCreated)
		if status == http.StatusCreated {
			c.seen.add(1, "debrief_playbook_executions_total", c.name, label)
			c.handles = append(c.handles, path.Base(header.Get("Location")))
		}
	case 7:
		if len(c.handles) < 3 {
			return
		}
		handle := c.handles[0]
		c.handles = c.handles[1:]
		status, _ := c.send(t, "/api/v1/feedback", fields{"book": c.name, "execution": handle, "outcome": fields{"label": "failure", "feedback": "late"}})
		expect(status, http.StatusCreated)
		c.seen.add(1, "debrief_playbook_feedback_total", c.name, "failure")
	default:
		status, _ := c.send(t, chat, say("call"))
		expect(status, http.StatusOK)
	}
}

// figuresOf returns what a process has counted for the playbooks, in the form of a figureCount. Executions of captured runs are "captured": each call
// of the test is a run, whose outcome is unknown.
func figuresOf(t *testing.T, url string) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for _, r := range scrape(t, url) {
		name, book := r.labels.Get(labels.MetricName), r.labels.Get("playbook")
		key := name + "|" + book
		switch name {
		case "debrief_playbook_executions_total", "debrief_playbook_feedback_total":
			key += "|" + r.labels.Get("outcome")
		case "debrief_playbook_gateway_calls_total":
			key = "calls|" + book + "|" + r.labels.Get("reason")
		case "debrief_playbook_tokens_total":
			key += "|" + r.labels.Get("role") + "|" + r.labels.Get("model") + "|" + r.labels.Get("direction")
		case "debrief_playbook_cost_dollars_total":
			key += "|" + r.labels.Get("role") + "|" + r.labels.Get("model")
		case "debrief_model_calls_total":
			key = name + "|" + r.labels.Get("role")
		default:
			continue
		}
		if r.value != 0 {
			got[key] += r.value
		}
	}
	return got
}

// TestFiguresEqualAnIndependentCount lets five teams and one without figures of its own work through a gateway, and compares the figures of each
// playbook with the count of the provider and the clients of the test: calls, runs, and tokens and cost of the runs and of a reflector. The gateway is killed once in the middle. A counter is that of a process: what
// it counted after the last read is lost, so the test reads it before the kill, while the teams pause. Calls that were refused by the gateway
// or failed at the provider are no calls of a playbook. The long form, of 20 minutes or the given number:
//
//	DEBRIEF_LONG=1 DEBRIEF_TEST_FIGURES_MINUTES=3 go test ./integration -run TestFiguresEqualAnIndependentCount -v -timeout 60m
func TestFiguresEqualAnIndependentCount(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	length, rest := 2*time.Second, 5*time.Millisecond
	if os.Getenv(longEnv) != "" {
		minutes := 20
		if text := os.Getenv(figuresEnv); text != "" {
			var err error
			if minutes, err = strconv.Atoi(text); err != nil {
				t.Fatalf("%s: %v", figuresEnv, err)
			}
		}
		length, rest = time.Duration(minutes)*time.Minute/2, 100*time.Millisecond
	} else {
		t.Parallel()
	}
	seed := chooseSeed(t)
	_, nats := startServer(t)
	dir := t.TempDir()
	file, prices := filepath.Join(dir, "tokens"), filepath.Join(dir, "prices.yaml")
	table := "date: 2026-04-01\nmodels:\n"
	for model, p := range figuresPrices {
		table += fmt.Sprintf("  %s: {input: %v, cached: %v, output: %v}\n", model, p[0], p[1], p[2])
	}
	if err := os.WriteFile(prices, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"team-0", "team-1", "team-2", "team-3", "team-4", "unnamed"}
	tokens := map[string]string{}
	for _, name := range names {
		cmd := exec.CommandContext(t.Context(), program(t, "debrief"), "token", "new", name, "--file", file, "--scope", "context,report")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = strings.TrimSpace(string(out))
	}
	seen := &figureCount{n: map[string]float64{}}
	health := freeAddress(t)
	upstream := figuresUpstream(t, seen)
	gateway := startReplica(t, "gateway", nats, upstream, "--tokens", file, "--health", health, "--run-idle", "1s", "--advice-timeout", "20s",
		"--metrics-playbooks", strings.Join(names[:5], ","), "--metrics-prices", prices)
	// A generator stores the runs, also those of the gateway, and so it counts them.
	worker, reflector := freeAddress(t), freeAddress(t)
	startWorkerAt(t, worker, "generator", "generator", "--nats", nats, "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0), "--metrics-playbooks", strings.Join(names[:5], ","),
		"--metrics-prices", prices)
	startWorkerAt(t, reflector, "reflector", "reflector", "--nats", nats, "--model", figuresReflector, "--base-url", upstream+"/v1", "--metrics-playbooks", strings.Join(names[:5], ","),
		"--metrics-prices", prices)
	var teams []*team
	for _, name := range names {
		teams = append(teams, &team{name: name, token: tokens[name], gateway: gateway, seen: seen})
	}
	killed, total := map[string]float64{}, map[string]float64{} // what the killed gateway has counted, and all
	for life := range uint64(2) {
		var all sync.WaitGroup
		until := time.Now().Add(length)
		for i, c := range teams {
			rng := rand.New(rand.NewPCG(seed, life*10+uint64(i)))
			all.Go(func() {
				for time.Now().Before(until) && !t.Failed() {
					c.act(t, rng)
					pause(t.Context(), time.Duration(rng.Int64N(int64(2*rest))))
				}
			})
		}
		all.Wait()
		var got map[string]float64
		eventually(t, time.Minute, "the figures of the playbooks", func() error {
			got = maps.Clone(killed)
			for _, address := range []string{health, worker, reflector} {
				for key, n := range figuresOf(t, "http://"+address+"/metrics") {
					got[key] += n
				}
			}
			return differences(got, expectedFigures(seen)) // the reflector still works
		})
		total = got
		if life == 0 {
			killed = figuresOf(t, "http://"+health+"/metrics")
			gateway.kill()
			if err := gateway.start(); err != nil {
				t.Fatal(err)
			}
			gateway.awaitConnected()
		}
	}
	calls, reflections := 0.0, total["debrief_model_calls_total|reflector"]
	for key, n := range total {
		if strings.HasPrefix(key, "calls|") {
			calls += n
		}
	}
	t.Logf("FIGURES %d series of %d playbooks equal the count, with %.0f answered calls and %.0f calls of a reflector in %s and one kill", len(total), len(names), calls, reflections, 2*length)
}

// expectedFigures returns the count with the label of the playbook without figures of its own, and an execution for each captured call.
func expectedFigures(seen *figureCount) map[string]float64 {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	want := map[string]float64{}
	for key, n := range seen.n {
		key = strings.Replace(key, "|unnamed", "|other", 1)
		key = strings.Replace(key, "|speech", "|path", 1)
		want[key] += n
		if book, ok := strings.CutSuffix(key, "|captured"); ok {
			want["debrief_playbook_executions_total"+strings.TrimPrefix(book, "calls")+"|unknown"] += n
		}
	}
	return want
}

// differences returns an error that names the values that differ.
func differences(got, want map[string]float64) error {
	var all []string
	for key := range maps.Keys(want) {
		if math.Abs(got[key]-want[key]) > 1e-9*max(1, want[key]) {
			all = append(all, fmt.Sprintf("%s: got %v, want %v", key, got[key], want[key]))
		}
	}
	for key, n := range got {
		if _, ok := want[key]; !ok {
			all = append(all, fmt.Sprintf("%s: got %v, want none", key, n))
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("%d differences: %s", len(all), strings.Join(all, "; "))
	}
	return nil
}
