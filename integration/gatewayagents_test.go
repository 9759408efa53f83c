package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"debrief/integration/auditor"
)

// replica is a gateway process.
type replica struct {
	*process
	url     string
	streams atomic.Int32 // responses that have begun and not ended
	away    atomic.Bool  // a load balancer sends no calls
}

// startReplica starts a gateway in front of a provider, and waits until it is connected to NATS.
func startReplica(t *testing.T, name, nats, provider string, args ...string) *replica {
	t.Helper()
	bin, address := program(t, "gateway"), freeAddress(t)
	r := &replica{url: "http://" + address}
	r.process = start(t, name, func() *exec.Cmd {
		return exec.Command(bin, append([]string{"--nats", nats, "--http", address, "--upstream-openai", provider, "--log-level", "info"}, args...)...)
	})
	r.awaitConnected()
	return r
}

// awaitConnected waits until the gateway captures calls.
func (r *replica) awaitConnected() {
	r.t.Helper()
	for !strings.HasPrefix(r.line(), "gateway is connected") {
	}
}

// startProvider starts a fake model provider with the streams of chat completions. Its model calls 0, 1 or 2 tools, by the number
// in the question, and then answers. A stream takes 100 to 300 ms.
func startProvider(t *testing.T) string {
	t.Helper()
	var ids atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return // the gateway has ended
		}
		n, done := 0, 0
		for _, m := range request.Messages {
			switch m.Role {
			case "user":
				n, done = globe(m.Content), 0
			case "tool":
				done++
			}
		}
		id := ids.Add(1)
		deltas, finish := []map[string]any{{"role": "assistant", "content": ""}}, "stop"
		if done < steps(n) {
			call := map[string]any{"index": 0, "id": fmt.Sprint("call_", id), "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}
			deltas, finish = append(deltas, map[string]any{"tool_calls": []any{call}}), "tool_calls"
		} else {
			answer := answerTo(n) + citation.FindString(request.Messages[len(request.Messages)-1-2*done].Content)
			for _, word := range strings.SplitAfter(answer, " ") {
				deltas = append(deltas, map[string]any{"content": word})
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range len(deltas) + 1 {
			choice := map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}
			if i < len(deltas) {
				choice["delta"], choice["finish_reason"] = deltas[i], nil
			}
			data, _ := json.Marshal(map[string]any{"id": fmt.Sprint("chatcmpl-", id), "model": "fake", "choices": []any{choice}})
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
			_ = http.NewResponseController(w).Flush()
			pause(r.Context(), 15*time.Millisecond)
		}
		_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// citation matches the id of a bullet in advice. The model cites the first one, so that the outcome of the run counts for it.
var citation = regexp.MustCompile(`\[[a-z]+-[0-9]+\]`)

func questionOf(n int) string {
	return fmt.Sprintf("Where is the globe number %d, and on which shelf?", n)
}

func answerTo(n int) string {
	return fmt.Sprintf("The globe with the number %d is on the shelf %d, in the second room of the archive.", n, n+7)
}

// globe returns the number in a question, which advice may follow.
func globe(question string) (n int) {
	_, _ = fmt.Sscanf(question, "Where is the globe number %d,", &n)
	return n
}

// steps is the number of tool calls before the answer.
func steps(n int) int { return n % 3 }

// agentRun is a run of an agent with an answer.
type agentRun struct {
	number       int
	id           string // from the header of the last call
	began, ended time.Time
	captured     bool // each call, according to the headers
	answer       string
	labelled     bool // with an outcome
}

// gatewayAgents make runs through gateways, as programs with the SDK of a provider do: a call that fails is repeated at another gateway,
// with the header of the SDKs.
type gatewayAgents struct {
	t        *testing.T
	gateways []*replica
	http     *http.Client
	next     atomic.Int64         // number of the next question
	labels   bool                 // every fourth run ends with an outcome
	turns    int                  // maximum number of turns of a session
	required func(*agentRun) bool // whether the audit requires a run

	mu       sync.Mutex
	runs     []*agentRun
	answered int
	repeated int
	passed   int              // answered and not captured
	failures map[*replica]int // calls that failed
}

func newGatewayAgents(t *testing.T, gateways ...*replica) *gatewayAgents {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &gatewayAgents{
		t: t, gateways: gateways, http: &http.Client{Transport: transport, Timeout: 30 * time.Second}, failures: map[*replica]int{},
		turns:    1,
		required: func(*agentRun) bool { return true },
	}
}

// work makes sessions until ctx ends or enough calls are answered.
func (a *gatewayAgents) work(ctx context.Context, rng *rand.Rand, calls int) {
	for ctx.Err() == nil && a.calls() < calls {
		messages := []map[string]any{{"role": "system", "content": "You are a librarian."}}
		for range 1 + rng.IntN(a.turns) {
			messages = a.run(rng, messages)
			pause(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		}
	}
}

func (a *gatewayAgents) calls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answered
}

// run makes one run, and returns the conversation after it.
func (a *gatewayAgents) run(rng *rand.Rand, messages []map[string]any) []map[string]any {
	r := &agentRun{number: int(a.next.Add(1)), began: time.Now(), captured: true}
	n := r.number
	messages = append(slices.Clone(messages), map[string]any{"role": "user", "content": questionOf(n)})
	for step := 0; ; step++ {
		header := http.Header{}
		if r.labelled = a.labels && n%4 == 0; r.labelled && step == steps(n) {
			header.Set("X-Debrief-Label", []string{"success", "failure"}[rng.IntN(2)])
		}
		reply, ok := a.call(rng, r, messages, header)
		if !ok {
			return messages
		}
		messages = append(messages, reply)
		calls, _ := reply["tool_calls"].([]map[string]any)
		if r.answer, _ = reply["content"].(string); len(calls) == 0 {
			break
		}
		messages = append(messages, map[string]any{"role": "tool", "tool_call_id": calls[0]["id"], "content": fmt.Sprintf("shelf %d has the globe %d", n+7, n)})
	}
	r.ended = time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = append(a.runs, r)
	return messages
}

// audited returns the runs for the audit.
func (a *gatewayAgents) audited() (runs []auditor.AgentRun) {
	for _, r := range a.runs {
		runs = append(runs, auditor.AgentRun{Question: questionOf(r.number), Answer: r.answer, Steps: steps(r.number), Required: a.required(r)})
	}
	return runs
}

// call makes a call of a run until a gateway answers it completely.
func (a *gatewayAgents) call(rng *rand.Rand, r *agentRun, messages []map[string]any, header http.Header) (reply map[string]any, ok bool) {
	body, err := json.Marshal(map[string]any{"model": "fake", "stream": true, "messages": messages})
	if err != nil {
		a.t.Error(err)
		return nil, false
	}
	at, id, failed := rng.IntN(len(a.gateways)), "", 0
	for try := range maxTries {
		g := a.gateways[(at+try)%len(a.gateways)]
		if g.away.Load() {
			continue
		}
		header.Set("X-Stainless-Retry-Count", fmt.Sprint(failed))
		if reply, id, err = a.attempt(g, body, header); err == nil {
			r.id, r.captured = id, r.captured && id != ""
			a.count(failed > 0, id != "")
			return reply, true
		}
		a.mu.Lock()
		a.failures[g]++
		a.mu.Unlock()
		failed++
		time.Sleep(10 * time.Millisecond)
	}
	a.t.Errorf("lost: a call failed %d times, the last time with %v", maxTries, err)
	return nil, false
}

// maxTries is the number of times that agents try a call.
const maxTries = 20

// count counts an answered call.
func (a *gatewayAgents) count(repeated, captured bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered++
	if repeated {
		a.repeated++
	}
	if !captured {
		a.passed++
	}
}

// attempt makes one attempt at a call, and reads its stream. It returns the run that the gateway names, or "".
func (a *gatewayAgents) attempt(g *replica, body []byte, header http.Header) (reply map[string]any, run string, err error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer key-of-the-agent")
	resp, err := a.http.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return nil, "", fmt.Errorf("%s %s", resp.Status, text)
	}
	g.streams.Add(1)
	defer g.streams.Add(-1)
	reply, err = readStream(resp.Body)
	return reply, resp.Header.Get("X-Debrief-Run"), err
}

// chunk is an event of a stream of chat completions.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
			Calls   []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
}

// readStream returns the message of a stream, which must have its end marker.
func readStream(body io.Reader) (map[string]any, error) {
	var text, id, name, arguments string
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			reply := map[string]any{"role": "assistant", "content": text}
			if id != "" {
				reply["tool_calls"] = []map[string]any{{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}}
			}
			return reply, nil
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return nil, err
		}
		for _, choice := range c.Choices {
			text += choice.Delta.Content
			for _, call := range choice.Delta.Calls {
				id, name, arguments = id+call.ID, name+call.Function.Name, arguments+call.Function.Arguments
			}
		}
	}
	return nil, errors.Join(lines.Err(), errors.New("stream has no end"))
}
