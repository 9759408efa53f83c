package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"debrief/cmd/internal/tokens"
	"debrief/events"
	"debrief/playbook"
)

func TestParseOutcome(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]events.Outcome{
		`true`: {Score: 1, Label: events.Success}, `false`: {Label: events.Failure}, `0.7`: {Score: 0.7, Label: events.Partial}, `1`: {Score: 1, Label: events.Success},
		`"success"`: {Score: 1, Label: events.Success}, `"FAILURE"`: {Label: events.Failure}, `"0.5"`: {Score: 0.5, Label: events.Partial}, `"unknown"`: {Label: events.Unknown},
		`"👍"`: {Score: 1, Label: events.Success}, `"👎"`: {Label: events.Failure}, `"👍🏽"`: {Score: 1, Label: events.Success}, `" 👎️ "`: {Label: events.Failure}, `"up"`: {Score: 1, Label: events.Success},
		``: {}, `null`: {}, `""`: {Label: events.Unknown},
	} {
		if got, err := parseOutcome(json.RawMessage(raw)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", raw, got, err, want)
		}
	}
	for _, raw := range []string{`2`, `-0.1`, `"great"`, `[]`, `[true]`, `"{\"label\":\"success\"}"`, `"1.5"`} {
		var invalid *statusError
		if got, err := parseOutcome(json.RawMessage(raw)); !errors.As(err, &invalid) || invalid.field != "outcome" || invalid.status != http.StatusBadRequest {
			t.Errorf("%s: got %+v, %v", raw, got, err)
		}
	}
}

// FuzzParseOutcome parses any JSON value. The outcome has a known label, and a score from 0 to 1.
func FuzzParseOutcome(f *testing.F) {
	for _, seed := range []string{`true`, `0.7`, `"👍"`, `"1e-1"`, `"nan"`, `"-0"`, `1e400`, `"\ud83d"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		o, err := parseOutcome(json.RawMessage(raw))
		if err == nil && !(o.Score >= 0 && o.Score <= 1) {
			t.Errorf("%q: got %+v", raw, o)
		}
	})
}

// TestReportOfMessages converts the messages of both APIs to the same run.
func TestReportOfMessages(t *testing.T) {
	t.Parallel()
	var got events.Report
	s, c := open(t, desk{report: func(_ context.Context, r *events.Report) (*events.StoredReply, error) {
		got = *r
		return &events.StoredReply{Handle: "17-ab12cd34"}, nil
	}}, Options{}, defaultLimits)
	for name, messages := range map[string]string{
		"OpenAI": `[{"role":"system","content":"s"},{"role":"user","content":"q"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"look","arguments":"{\"x\":1}"}}]},
			{"role":"tool","tool_call_id":"1","content":"seven"},{"role":"assistant","content":"a"}]`,
		"Anthropic": `[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"look","input":{"x":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"seven"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]}]`,
	} {
		code, header, body := do(t, c, "POST", s.URL()+"/api/v1/executions", `{"messages":`+messages+`,"outcome":"👎"}`, set("Idempotency-Key", "k"))
		if code != 201 || header.Get("Location") != "/api/v1/books/default/executions/17-ab12cd34" {
			t.Errorf("%s: got %d, %s, %s", name, code, header.Get("Location"), body)
		}
		if len(got.Steps) != 2 || len(got.Steps[0].Calls) != 1 {
			t.Fatalf("%s: got steps %+v", name, got.Steps)
		}
		call := got.Steps[0].Calls[0]
		if got.Question != "q" || got.Answer != "a" || got.RunID != "k" || got.Outcome.Label != events.Failure ||
			call.Tool != "look" || strings.ReplaceAll(call.Arguments, " ", "") != `{"x":1}` || call.Output != "seven" || call.Outcome != events.Success {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for body, field := range map[string]string{`{"outcome":{"labl":"x"}}`: "outcome.labl", `{"answer":"a","labl":1}`: "labl"} {
		code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/executions?strict=true", body)
		if code != 400 || !strings.Contains(reply, `"field":"`+field+`"`) {
			t.Errorf("%s: got %d %s", body, code, reply)
		}
		if code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/executions", body); code != 201 || !strings.Contains(reply, `"warnings":["unknown field \"`+field) {
			t.Errorf("%s: got %d %s", body, code, reply)
		}
	}
}

func TestIdempotencyOfFeedback(t *testing.T) {
	t.Parallel()
	ann := &tokens.Token{Owner: "a"}
	bob := &tokens.Token{Owner: "b"}
	id := func(token *tokens.Token, book playbook.Book, key string) events.ID {
		return (&call{token: token}).eventID("feedback", string(book), key)
	}
	first, again := id(ann, "b", "k"), id(ann, "b", "k")
	if first != again {
		t.Error("the same key has two ids")
	}
	seen := map[events.ID]bool{}
	for _, i := range []events.ID{first, id(bob, "b", "k"), id(ann, "c", "k"), id(ann, "b", "l"), id(ann, "b", ""), id(ann, "b", "")} {
		if seen[i] {
			t.Errorf("%s is there twice", i)
		}
		seen[i] = true
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s, c := open(t, desk{}, Options{}, defaultLimits)
	for _, test := range []struct {
		id   string
		same bool
	}{{"trace-17", true}, {"", false}, {"a b", false}, {strings.Repeat("x", 129), false}} {
		_, header, body := do(t, c, "GET", s.URL()+"/api/v1/nothing", "", set("X-Request-Id", test.id))
		got := header.Get("X-Request-Id")
		if (got == test.id) != test.same || got == "" || !strings.Contains(body, `"request_id":"`+got+`"`) {
			t.Errorf("%q: got %q, %s", test.id, got, body)
		}
	}
}
