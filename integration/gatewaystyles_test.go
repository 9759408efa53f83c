package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

	"debrief/events"
)

// oneRun is the guarantee of the gateway for conversations.
const oneRun = "one question is one execution, and each of its calls has the advice"

// styleAdvice is the bullet that each call must have, once for each question.
const styleAdvice = "A globe is on the shelf that is seven after its number."

// styles are the ways in which clients write their conversations.
var styles = []string{"plain", "clock", "cleared", "counted", "forks", "subagents"}

// TestConversationsOfAllStyles plays conversations of each style through two gateways, which are killed in mid-stream. Each question
// must be one execution with all its steps, and each call that the provider gets must have the advice of all questions so far. The
// audit shares no code with the product. The long form has 300 conversations:
//
//	DEBRIEF_LONG=1 go test ./integration -run TestConversationsOfAllStyles -v -timeout 20m
func TestConversationsOfAllStyles(t *testing.T) {
	conversations, kills := 30, 3
	if os.Getenv(longEnv) != "" {
		conversations, kills = 300, 30
	} else {
		t.Parallel()
	}
	rng := rand.New(rand.NewPCG(chooseSeed(t), 0))
	_, url := startServer(t)
	p := startStyleProvider(t)
	startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0))
	startWorker(t, "curator", events.RoleCurator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0))
	conn := connect(t, url)
	addBullet(t, conn)
	var replicas []*replica
	for i := range 2 { // the time limits are long: every call is captured, also on a slow machine
		replicas = append(replicas, startReplica(t, fmt.Sprint("gateway", i+1), url, p.url, "--run-idle", "3s", "--advice-timeout", "20s"))
	}
	a := &styleAgents{gatewayAgents: newGatewayAgents(t, replicas...)}
	a.awaitAdvice(p)
	f := &fault{name: "SIGKILL of a gateway under conversations of all styles", promise: oneRun}
	work := make(chan int, conversations)
	for n := range conversations {
		work <- n
	}
	close(work)
	var all sync.WaitGroup
	for range 8 {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		all.Go(func() {
			for n := range work {
				a.converse(own, styles[n%len(styles)])
			}
		})
	}
	a.killInTurns(t, rng, replicas, kills, f)
	all.Wait()
	report := a.await(t, conn, 3*time.Minute)
	bare := p.unadvised()
	t.Logf("%d conversations, %d questions, %d calls answered, %d after a repetition, %d without advice", conversations, len(a.runs), a.answered, a.repeated, len(bare))
	for _, b := range bare[:min(len(bare), 5)] {
		t.Error("without advice: ", b)
	}
	if a.passed > 0 {
		t.Errorf("%d calls were not captured", a.passed)
	}
	f.lost = len(report.Lost) + len(report.Twice) + len(report.Wrong) + len(bare)
	f.report(t)
}

// killInTurns kills gateways in mid-stream.
func (a *styleAgents) killInTurns(t *testing.T, rng *rand.Rand, replicas []*replica, kills int, f *fault) {
	t.Helper()
	for i := range kills {
		r := replicas[i%len(replicas)]
		pause(t.Context(), time.Duration(200+rng.IntN(200))*time.Millisecond)
		for wait := 0; r.streams.Load() == 0 && wait < 100; wait++ { // at the end there may be none
			pause(t.Context(), 10*time.Millisecond)
		}
		r.kill()
		r.away.Store(true)
		f.hit()
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		r.awaitConnected()
		r.away.Store(false)
	}
}

// styleAgents make conversations.
type styleAgents struct {
	*gatewayAgents
	keys atomic.Int64
}

// awaitAdvice makes calls until the gateways have the bullet.
func (a *styleAgents) awaitAdvice(p *styleProvider) {
	a.t.Helper()
	eventually(a.t, time.Minute, "advice in a call", func() error {
		run := &styleRun{a: a, style: "plain", rng: rand.New(rand.NewPCG(1, 1)), system: "Warm up."}
		run.ask()
		if n := len(p.take()); n > 0 {
			return fmt.Errorf("%d calls without advice", n)
		}
		return nil
	})
}

// converse plays a conversation.
func (a *styleAgents) converse(rng *rand.Rand, style string) {
	c := &styleRun{a: a, style: style, rng: rng, system: "You are a librarian."}
	switch style {
	case "forks":
		c.ask()
		var all sync.WaitGroup
		c.forked = func(history []map[string]any) { // in the middle of the second turn
			for range 2 {
				fork := &styleRun{a: a, style: "fork", rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), system: c.system, messages: history}
				all.Go(func() { fork.ask() })
			}
		}
		c.ask()
		all.Wait()
	case "subagents":
		var all sync.WaitGroup
		for range 3 {
			part := &styleRun{a: a, style: style, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), system: "You are a helper of a librarian."}
			all.Go(func() { part.ask() })
		}
		c.ask()
		all.Wait()
	default:
		for range 2 + rng.IntN(2) {
			c.ask()
		}
	}
}

// styleRun is one conversation.
type styleRun struct {
	a        *styleAgents
	style    string
	rng      *rand.Rand
	system   string
	messages []map[string]any
	forked   func(history []map[string]any) // called once after the first call of a turn with tools
}

const styleReminder = "<system-reminder>The list of tasks is empty.</system-reminder>"

// ask asks the next question, and works until its answer.
func (c *styleRun) ask() {
	r := &agentRun{number: int(c.a.next.Add(1)), began: time.Now(), captured: true}
	c.messages = append(slices.Clone(c.messages), map[string]any{"role": "user", "content": questionOf(r.number)})
	turn := len(c.messages) - 1
	for step := 0; ; step++ {
		reply, ok := c.a.call(c.rng, r, c.written(turn, step), c.header())
		if !ok {
			return
		}
		c.messages = append(c.messages, reply)
		calls, _ := reply["tool_calls"].([]map[string]any)
		if r.answer, _ = reply["content"].(string); len(calls) == 0 {
			break
		}
		c.messages = append(c.messages, map[string]any{"role": "tool", "tool_call_id": calls[0]["id"], "content": fmt.Sprintf("shelf %d has the globe %d", r.number+7, r.number)})
		if c.forked != nil {
			c.forked(slices.Clone(c.messages))
			c.forked = nil
		}
	}
	r.ended = time.Now()
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.a.runs = append(c.a.runs, r)
}

// header returns the headers of a call: the key of a sub-agent is renewed for each call.
func (c *styleRun) header() http.Header {
	h := http.Header{"X-Style": {c.style}}
	if c.style == "subagents" {
		h.Set("X-Api-Key", fmt.Sprint("key-", c.a.keys.Add(1)))
	}
	return h
}

// written returns the messages as the client writes them in a call.
func (c *styleRun) written(turn, step int) []map[string]any {
	system := c.system
	if c.style == "clock" {
		system += " It is " + time.Now().Format(time.RFC3339Nano) + "."
	}
	all := append([]map[string]any{{"role": "system", "content": system}}, c.messages...)
	if c.style != "cleared" {
		return all
	}
	for i, m := range all[:turn+1] {
		if m["role"] == "tool" {
			all[i] = map[string]any{"role": "tool", "tool_call_id": m["tool_call_id"], "content": "[cleared]"}
		}
	}
	if step > 0 {
		return append(all, map[string]any{"role": "user", "content": styleReminder})
	}
	all[turn+1] = map[string]any{"role": "user", "content": all[turn+1]["content"].(string) + "\n" + styleReminder}
	return all
}

// styleProvider is a fake provider of chat completions.
type styleProvider struct {
	url string
	ids atomic.Int64

	mu   sync.Mutex
	bare []string // calls in which a question has no advice
}

// unadvised returns the calls in which a question had no advice.
func (p *styleProvider) unadvised() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bare
}

// take returns and forgets them.
func (p *styleProvider) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	bare := p.bare
	p.bare = nil
	return bare
}

func startStyleProvider(t *testing.T) *styleProvider {
	t.Helper()
	p := new(styleProvider)
	s := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// globeNumber matches the number in a question.
var globeNumber = regexp.MustCompile(`globe number (\d+),`)

// serve answers like startProvider. Its ids of tool calls count in each turn if the style is "counted".
func (p *styleProvider) serve(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return // the gateway has ended
	}
	n, done := 0, 0
	for i, m := range request.Messages {
		if found := globeNumber.FindStringSubmatch(m.Content); m.Role == "user" && found != nil {
			done = 0
			_, _ = fmt.Sscan(found[1], &n)
			if strings.Count(m.Content, styleAdvice) != 1 {
				p.mu.Lock()
				p.bare = append(p.bare, fmt.Sprintf("%s: message %d of %d: %q", r.Header.Get("X-Style"), i, len(request.Messages), m.Content))
				p.mu.Unlock()
			}
		}
		if m.Role == "tool" {
			done++
		}
	}
	id, call := p.ids.Add(1), ""
	message, finish := map[string]any{"role": "assistant", "content": ""}, "stop"
	if done < steps(n) {
		if call = fmt.Sprintf("call_%08dabcd", id); r.Header.Get("X-Style") == "counted" {
			call = fmt.Sprintf("functions.look:%d", done)
		}
		finish = "tool_calls"
		message["tool_calls"] = []any{map[string]any{"index": 0, "id": call, "type": "function", "function": map[string]any{"name": "look", "arguments": "{}"}}}
	} else {
		message["content"] = answerTo(n)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{{"index": 0, "delta": message, "finish_reason": nil}, {"index": 0, "delta": map[string]any{}, "finish_reason": finish}} {
		data, _ := json.Marshal(map[string]any{"id": fmt.Sprint("chatcmpl-", id), "model": "fake", "choices": []any{choice}})
		_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		_ = http.NewResponseController(w).Flush()
		pause(r.Context(), 40*time.Millisecond)
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}
