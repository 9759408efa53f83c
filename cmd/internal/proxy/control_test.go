package proxy

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// control sets the control share of the default playbook, and waits until the Generator has it.
func (h *house) control(share playbook.Share) {
	h.Helper()
	w, err := deltalog.New(h.conn.JetStream()).Writer(h.Context(), events.DefaultBook)
	if err != nil {
		h.Fatal(err)
	}
	if _, err = w.Commit(h.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Control: share, ControlSalt: []byte("salt")}}, nil
	}); err == nil {
		err = w.Flush(h.Context())
	}
	if err != nil {
		h.Fatal(err)
	}
	version := w.State().Playbook().Version()
	for end := time.Now().Add(patience); ; {
		reply, err := h.backend.Context(h.Context(), &events.ContextRequest{Book: events.DefaultBook, Query: "x", MinVersion: version, DryRun: true})
		if err == nil && !reply.Stale {
			return
		}
		if time.Now().After(end) {
			h.Fatalf("version %d: got %v", version, err)
		}
	}
}

// TestControlAtTheProvider: all calls of a session have advice, or none has: of each API, in each turn and each call of a tool loop, and of a
// sub-agent that names the session. The executions have the arm, also those of turns that got no context of their own.
func TestControlAtTheProvider(t *testing.T) {
	t.Parallel()
	const text = "Globes stand in the map room."
	const shelf = "Where is the globe number %d, and on which shelf?"
	for _, mode := range []string{"tail", "system"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := openFront(t, mode, loop(1), text)
			h.control("50%")
			sessions := 12
			if testing.Short() {
				sessions = 6
			}
			held, groups := map[string]bool{}, map[bool]int{}
			for n := range sessions {
				before := len(h.received())
				named := []string{headerSession, fmt.Sprint("s\u202e*.>", n)}
				if n%2 == 0 {
					named = nil // the session begins with its first run
				}
				var reasons []string
				turn := func(messages []message, text string) []message {
					messages = append(messages, user(text))
					var id string
					for range 2 {
						var header http.Header
						var reply message
						header, id, reply = h.chat(messages, named...)
						reasons = append(reasons, header.Get(headerDegraded))
						messages = append(messages, reply)
						if calls, _ := reply["tool_calls"].([]any); len(calls) > 0 {
							messages = append(messages, message{"role": "tool", "tool_call_id": calls[0].(map[string]any)["id"], "content": "full of books"})
						}
					}
					if _, status, data := h.post("/api/v1/feedback", fmt.Appendf(nil, `{"execution": %q, "outcome": true}`, id)); status/100 != 2 { // ends the run
						t.Fatalf("feedback: got %d %s", status, data)
					}
					return messages
				}
				messages := turn(nil, fmt.Sprintf(shelf, 2*n))
				turn(messages, fmt.Sprintf(shelf, 2*n+1))
				if named != nil {
					for path, body := range map[string]any{ // sub-agents
						"chat/completions": map[string]any{"model": "m", "messages": []message{{"role": "system", "content": "You search."}, user("Search for the map.")}},
						"responses":        map[string]any{"model": "m", "input": "Search for the map of the moon."},
						"messages":         map[string]any{"model": "m", "max_tokens": 9, "metadata": message{"user_id": named[1]}, "messages": []message{user("Search for the map of Mars.")}},
					} {
						header := named
						if path == "messages" { // the body names the session
							header = nil
						}
						data, err := json.Marshal(body)
						if err != nil {
							t.Fatal(err)
						}
						reply, _, _ := h.post("/v1/"+path, data, header...)
						reasons = append(reasons, reply.Get(headerDegraded))
					}
				}
				advised := 0
				for i, r := range h.received()[before:] {
					if strings.Contains(string(r.Body), text) {
						advised++
					}
					if strings.Contains(string(r.Body), text) == (reasons[i] == inControl) {
						t.Errorf("session %d, call %d: the response says %q, the provider got %s", n, i, reasons[i], r.Body)
					}
				}
				if advised > 0 && advised < len(reasons) {
					t.Errorf("session %d: advice in %d of %d calls", n, advised, len(reasons))
				}
				held[fmt.Sprintf(shelf, 2*n)], held[fmt.Sprintf(shelf, 2*n+1)] = advised == 0, advised == 0
				groups[advised == 0]++
			}
			if len(groups) != 2 {
				t.Fatalf("got sessions by group %v, want both groups", groups)
			}
			for _, e := range h.executions(2 * sessions) {
				if e.Control == nil || e.Control.Held != held[e.Question] || e.Control.Share != 500 || e.Control.Held && len(e.Shown)+len(e.Exposures()) > 0 {
					t.Errorf("%q, in control %t: got arm %+v with %d bullets", e.Question, held[e.Question], e.Control, len(e.Shown))
				}
			}
		})
	}
}

// TestControlLeavesOutEarlierAdvice: a conversation that had advice before the share was switched on has none from its first turn in the
// control group on, not even that of its earlier turns.
func TestControlLeavesOutEarlierAdvice(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const text = "Globes stand in the map room."
	h := openFront(t, "tail", loop(0), text)
	begun := map[string][]message{}
	for n := range 16 {
		name := fmt.Sprint("s", n)
		_, _, reply := h.chat([]message{user(question)}, headerSession, name)
		begun[name] = []message{user(question), reply}
	}
	h.control("50%")
	groups := map[bool]int{}
	for name, messages := range begun {
		var inGroup bool
		for _, next := range []string{"And where is the atlas of the moon?", "And where is the map of Mars, please?", "go on"} {
			messages = append(messages, user(next))
			header, _, reply := h.chat(messages, headerSession, name)
			messages = append(messages, reply)
			received := h.received()
			if header.Get(headerDegraded) != nothingSaid {
				inGroup = header.Get(headerDegraded) == inControl
			}
			groups[inGroup]++
			if body := string(received[len(received)-1].Body); strings.Contains(body, text) == inGroup {
				t.Errorf("in control %t: the provider got %s", inGroup, body)
			}
		}
	}
	if len(groups) != 2 {
		t.Errorf("got turns by group %v, want both groups", groups)
	}
}

// TestControlOfRepeatedAdvice: a turn that only repeats the advice of earlier turns has none in the control group of its session, which
// another conversation has joined. A run that began before that is in no group, because its prompts had advice.
func TestControlOfRepeatedAdvice(t *testing.T) {
	t.Parallel()
	const text = "Globes stand in the map room."
	for _, mode := range []string{"tail", "system"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := openFront(t, mode, loop(0), text)
			const sessions = 10
			begun, before := map[string][]message{}, map[string]string{}
			next := func(name, words string) (header http.Header, id string, advised bool) {
				messages := append(begun[name], user(words))
				header, id, reply := h.chat(messages, headerSession, name)
				begun[name] = append(messages, reply)
				received := h.received()
				return header, id, strings.Contains(string(received[len(received)-1].Body), text)
			}
			rate := func(id string) {
				if _, status, data := h.post("/api/v1/feedback", fmt.Appendf(nil, `{"execution": %q, "outcome": true}`, id)); status/100 != 2 { // ends the run
					t.Fatalf("feedback: got %d %s", status, data)
				}
			}
			for n := range sessions {
				name := fmt.Sprint("s", n)
				next(name, question)
				var advised bool
				if _, before[name], advised = next(name, "go on"); !advised {
					t.Fatal("without a share, the advice is not repeated")
				}
			}
			h.control("50%")
			groups, held := map[bool]int{}, map[string]bool{}
			for name := range begun {
				header, _, _ := h.chat([]message{user("Search for the map of the moon.")}, headerSession, name)
				held[name] = header.Get(headerDegraded) == inControl
				groups[held[name]]++
				rate(before[name])
				_, id, advised := next(name, "continue")
				if advised == held[name] {
					t.Errorf("in control %t: the advice is repeated: %t", held[name], advised)
				}
				rate(id)
			}
			if len(groups) != 2 {
				t.Fatalf("got sessions by group %v, want both groups", groups)
			}
			for _, e := range h.executions(3 * sessions) { // the first turns, and those of words
				switch {
				case e.Question == "continue" && (e.Control == nil || e.Control.Held != held[e.Session]):
					t.Errorf("in control %t: got arm %+v", held[e.Session], e.Control)
				case e.Question == "go on" && e.Control != nil:
					t.Errorf("a run with advice from before the share: got arm %+v", e.Control)
				}
			}
		})
	}
}

// TestControlOfManySessions: of 500 sessions the share is in the control group, read at the provider, within 4 standard deviations. The
// second turn of each session is at another gateway with another Generator, after the share has changed: no session changes its group.
func TestControlOfManySessions(t *testing.T) {
	t.Parallel()
	const text = "Globes stand in the map room."
	h := openFront(t, "tail", loop(0), text)
	h.control("20%")
	sessions := 500
	if testing.Short() {
		sessions = 100
	}
	begun := make([][]message, sessions)
	turn := func(words string) {
		var calls sync.WaitGroup
		for worker := range 8 {
			calls.Go(func() {
				for n := worker; n < sessions; n += 8 {
					var named []string
					if n%2 == 0 {
						named = []string{headerSession, fmt.Sprint("s", n)}
					}
					messages := append(begun[n], user(fmt.Sprintf(words, n)))
					_, _, reply := h.chat(messages, named...)
					begun[n] = append(messages, reply)
				}
			})
		}
		calls.Wait()
	}
	turn("Where is the globe of the house with the number %d?")
	h.serve("tail", "")
	h.control("50%")
	turn("And where is the atlas of the moon, in number %d?")
	number := regexp.MustCompile(`number (\d+)`)
	groups, held := map[string]bool{}, 0
	for _, r := range h.received() {
		inGroup := !strings.Contains(string(r.Body), text)
		session := number.FindStringSubmatch(string(r.Body))[1]
		before, known := groups[session]
		if groups[session] = inGroup; known && inGroup != before {
			t.Errorf("session %s was in control %t, and is now %t", session, before, inGroup)
		}
		if inGroup && !known {
			held++
		}
	}
	const p = 0.2
	n := float64(sessions)
	if bound := 4 * math.Sqrt(n*p*(1-p)); len(groups) != sessions || math.Abs(float64(held)-n*p) > bound {
		t.Errorf("%d of %d sessions in the control group, want %.0f ± %.0f", held, len(groups), n*p, bound)
	}
	t.Logf("%d of %d sessions in the control group", held, sessions)
}

// TestControlOfSubAgents: a sub-agent that names the session of a conversation without a name has the group of the conversation, in each of
// its turns. The response has the name of the session.
func TestControlOfSubAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const text = "Globes stand in the map room."
	h := openFront(t, "tail", loop(0), text)
	h.control("50%")
	groups := map[bool]int{}
	for n := range 12 {
		header, _, reply := h.chat([]message{user(fmt.Sprint(question, n))})
		session, inGroup := header.Get(headerSession), header.Get(headerDegraded) == inControl
		groups[inGroup]++
		if second, _, _ := h.chat([]message{user(fmt.Sprint(question, n)), reply, user("And where is the atlas of the moon?")}); second.Get(headerSession) != session {
			t.Errorf("the second turn is of session %q, want %q", second.Get(headerSession), session)
		}
		for range 3 {
			before := len(h.received())
			header, _, _ := h.chat([]message{{"role": "system", "content": "You search."}, user(fmt.Sprint("Search for the map ", n))}, headerSession, session)
			if advised := strings.Contains(string(h.received()[before].Body), text); advised == inGroup || header.Get(headerSession) != "" {
				t.Errorf("sub-agent of a conversation in control %t: advised %t", inGroup, advised)
			}
		}
	}
	if len(groups) != 2 {
		t.Errorf("got conversations by group %v, want both groups", groups)
	}
}

// TestLeaveControl: only a token with the scope operate may leave calls and contexts out of the control group. They have advice and no arm.
func TestLeaveControl(t *testing.T) {
	t.Parallel()
	const text = "Globes stand in the map room."
	path, secrets := apitest.Write(t, t.TempDir(), apitest.Grant{Name: "operator", Scopes: tokens.Scopes},
		apitest.Grant{Name: "agent", Scopes: []tokens.Scope{tokens.Context, tokens.Report, tokens.Read, tokens.Review}})
	script := func(*simulated.Request) simulated.Answer { return simulated.Answer{Text: "Shelf 1."} }
	for name, h := range map[string]*house{"with tokens": openTokens(t, "tail", path, script, text), "without tokens": openFront(t, "tail", script, text)} {
		h.control("50%")
		for _, test := range []struct {
			token, value string
			status       int
			want         string
		}{
			{"operator", "off", 200, text},
			{"operator", "on", 400, events.HeaderControl + ": must be off"},
			{"agent", "off", 403, "scope operate"},
			{"agent", "OFF ", 400, "must be off"},
			{"", "off", 403, "scope operate"},
		} {
			if (test.token == "") != (name == "without tokens") {
				continue
			}
			for n := range 8 {
				body, err := json.Marshal(map[string]any{"model": "m", "messages": []message{user(fmt.Sprint(question, n))}})
				if err != nil {
					t.Fatal(err)
				}
				header := []string{headerToken, secrets[test.token], events.HeaderControl, test.value, headerSession, fmt.Sprint(n)}
				before := len(h.received())
				_, status, reply := h.post("/v1/chat/completions", body, header...)
				if status == 200 {
					reply = h.received()[before].Body
				}
				if status != test.status || !strings.Contains(string(reply), test.want) {
					t.Errorf("%s, call of %s with %q: got %d %s", name, test.token, test.value, status, reply)
				}
				header[0], header[1] = "Authorization", "Bearer "+secrets[test.token]
				_, status, reply = h.post("/api/v1/contexts", fmt.Appendf(nil, `{"query": "globe", "session": "%d"}`, n), header...)
				isLeft := strings.Contains(string(reply), text) && !strings.Contains(string(reply), `"control":`)
				if status != test.status || status == 200 && !isLeft || status != 200 && !strings.Contains(string(reply), "X-Debrief-Control") {
					t.Errorf("%s, context of %s with %q: got %d %s", name, test.token, test.value, status, reply)
				}
			}
		}
	}
}
