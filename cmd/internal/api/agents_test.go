package api

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/playbook"
)

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
		tools := map[string]string{"OpenAI": `[{"type":"function","function":{"name":"look","description":"Looks."}}]`, "Anthropic": `[{"name":"look","description":"Looks.","input_schema":{}}]`}[name]
		agent := map[string]string{"Anthropic": `,"agent":{"system_prompt":"s"}`}[name]
		code, header, body := do(t, c, "POST", s.URL()+"/api/v1/executions", `{"messages":`+messages+`,"tools":`+tools+agent+`,"outcome":"👎"}`, set("Idempotency-Key", "k"))
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
		if want := (events.Agent{SystemPrompt: "s", Tools: []events.Tool{{Name: "look", Description: "Looks."}}}); got.Agent == nil || !reflect.DeepEqual(*got.Agent, want) {
			t.Errorf("%s: got the agent %+v, want %+v", name, got.Agent, want)
		}
	}
	for body, field := range map[string]string{`{"outcome":{"score":1,"labl":"x"}}`: "outcome.labl", `{"answer":"a","labl":1}`: "labl"} {
		code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/executions?strict=true", body)
		if code != 400 || !strings.Contains(reply, `"field":"`+field+`"`) {
			t.Errorf("%s: got %d %s", body, code, reply)
		}
		if code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/executions", body); code != 201 || !strings.Contains(reply, `"warnings":["unknown field \"`+field) {
			t.Errorf("%s: got %d %s", body, code, reply)
		}
	}
}

// TestAgentOfReport checks that a report cannot name a stored description, which another token may have stored, and that tools in an unknown
// form are an error.
func TestAgentOfReport(t *testing.T) {
	t.Parallel()
	var got *events.Agent
	s, c := open(t, desk{report: func(_ context.Context, r *events.Report) (*events.StoredReply, error) {
		got = r.Agent
		return &events.StoredReply{Handle: "17-ab12cd34"}, nil
	}}, Options{}, defaultLimits)
	body := `{"answer":"x","tools":[],"agent":{"ref":"` + strings.Repeat("ab", 32) + `","system_prompt":"s"}}`
	code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/executions", body)
	if want := (events.Agent{SystemPrompt: "s"}); code/100 != 2 || !strings.Contains(reply, "agent.ref") || got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("with a name: got %d %s and the agent %+v, want %+v", code, reply, got, want)
	}
	for _, tools := range []string{`{"look":1}`, `"look"`, `[3]`} {
		code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/executions", `{"answer":"x","tools":`+tools+`}`)
		if code != 400 || !strings.Contains(reply, `"field":"tools"`) {
			t.Errorf("tools %s: got %d %s, want an error of tools", tools, code, reply)
		}
	}
}

// TestReviewOfOutcomes reports violations, and outcomes in the name of a judge, with tokens, in the forms that a body has for an outcome.
func TestReviewOfOutcomes(t *testing.T) {
	t.Parallel()
	var got []events.Outcome
	backend := desk{
		report: func(_ context.Context, r *events.Report) (*events.StoredReply, error) {
			got = append(got, r.Outcome)
			return &events.StoredReply{Handle: "17-ab12cd34"}, nil
		},
		feedback: func(_ context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
			got = append(got, r.Outcome)
			return &events.StoredReply{Handle: "17-ab12cd34"}, nil
		},
	}
	list, secrets := apitest.Load(t, t.TempDir(), apitest.Grant{Name: "agent", Scopes: []tokens.Scope{tokens.Context, tokens.Report, tokens.Read}},
		apitest.Grant{Name: "ann", Scopes: []tokens.Scope{tokens.Report, tokens.Review}})
	agent, ann := secrets["agent"], secrets["ann"]
	s, c := open(t, backend, Options{Tokens: list}, defaultLimits)
	violation := events.Outcome{Label: events.Failure, Violation: true}
	judged := events.Outcome{Score: 1, Label: events.Success, By: "judge/m/1"}
	for _, test := range []struct {
		name, path, body, field string
		want                    events.Outcome
	}{
		{"a report", "/executions", `{"answer":"x","outcome":{"violation":true,"score":1}}`, "violation", violation},
		{"a report with its own fields", "/executions", `{"answer":"x","violation":true}`, "violation", violation},
		{"feedback", "/feedback", `{"execution":"17-ab12cd34","outcome":{"violation":true}}`, "violation", violation},
		{"feedback with its own fields", "/feedback", `{"execution":"17-ab12cd34","score":1,"violation":true}`, "violation", violation},
		{"feedback in both forms", "/feedback", `{"execution":"17-ab12cd34","outcome":true,"violation":true}`, "violation", violation},
		{"a report of a judge", "/executions", `{"answer":"x","outcome":{"score":1,"by":"judge/m/1"}}`, "outcome.by", judged},
		{"feedback of a judge", "/feedback", `{"execution":"17-ab12cd34","outcome":{"score":1,"evaluator":"judge/m/1"}}`, "outcome.by", judged},
	} {
		t.Run(test.name, func(t *testing.T) {
			got = nil
			code, _, reply := do(t, c, "POST", s.URL()+"/api/v1"+test.path, test.body, set("Authorization", "Bearer "+agent))
			if code != 403 || len(got) > 0 || !strings.Contains(reply, test.field) || !strings.Contains(reply, string(CodeScope)) {
				t.Errorf("an agent: got %d %s, and outcomes %v", code, reply, got)
			}
			code, _, reply = do(t, c, "POST", s.URL()+"/api/v1"+test.path, test.body, set("Authorization", "Bearer "+ann))
			if code/100 != 2 || len(got) != 1 || !reflect.DeepEqual(got[0], test.want) {
				t.Errorf("a person with review: got %d %s, and outcomes %+v", code, reply, got)
			}
		})
	}
}

// TestFeedbackNamesAnExecution: feedback without an execution is refused with the ids that it can name.
func TestFeedbackNamesAnExecution(t *testing.T) {
	t.Parallel()
	s, c := open(t, desk{feedback: func(context.Context, *events.FeedbackRequest) (*events.StoredReply, error) {
		return &events.StoredReply{Handle: "17-ab12cd34"}, nil
	}}, Options{}, defaultLimits)
	code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/feedback", `{"outcome":true}`)
	if code != 400 || !strings.Contains(reply, `"field":"execution"`) || !strings.Contains(reply, "the id of a response") {
		t.Errorf("got %d %s, want 400 that names the field and the ids", code, reply)
	}
}

// TestUnknownRunOfFeedbackWithoutPlaybook checks that a client that forgot to name the playbook of its run learns this from the error.
func TestUnknownRunOfFeedbackWithoutPlaybook(t *testing.T) {
	t.Parallel()
	s, c := open(t, desk{feedback: func(context.Context, *events.FeedbackRequest) (*events.StoredReply, error) {
		return nil, lost{}
	}}, Options{}, defaultLimits)
	const advice = `the request names no playbook`
	for body, want := range map[string]bool{
		`{"execution":"chatcmpl-7","outcome":true}`:                  true,
		`{"execution":"chatcmpl-7","outcome":true,"book":"default"}`: false,
		`{"execution":"7-ab12cd34","outcome":true}`:                  false, // a handle needs no playbook
	} {
		code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/feedback", body)
		if code != 404 || strings.Contains(reply, advice) != want {
			t.Errorf("%s: got %d %s, want 404, and %q: %v", body, code, reply, advice, want)
		}
	}
}

// TestOutcomesOfBodies sends outcomes in the forms of clients. What the backend receives is decided, or the reply names the
// accepted forms.
func TestOutcomesOfBodies(t *testing.T) {
	t.Parallel()
	var got events.Outcome
	s, c := open(t, desk{
		report: func(_ context.Context, r *events.Report) (*events.StoredReply, error) {
			got = r.Outcome
			return &events.StoredReply{Handle: "17-ab12cd34"}, nil
		},
		feedback: func(_ context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
			got = r.Outcome
			return &events.StoredReply{Handle: "17-ab12cd34"}, nil
		},
	}, Options{}, defaultLimits)
	for fields, want := range map[string]events.Outcome{
		`"outcome":{"score":1}`:                                   {Score: 1, Label: events.Success},
		`"outcome":{"score":0}`:                                   {Label: events.Failure},
		`"outcome":{"label":"success"}`:                           {Score: 1, Label: events.Success},
		`"outcome":{"score":7,"range":[-10,10]}`:                  {Score: 0.85, Label: events.Partial},
		`"outcome":{"scores":{"accuracy":1,"tone":0}}`:            {Score: 1, Label: events.Success, Scores: []events.NamedScore{{Name: "accuracy", Score: 1}, {Name: "tone"}}},
		`"outcome":"POSITIVE"`:                                    {Score: 1, Label: events.Success},
		`"outcome":-1`:                                            {Label: events.Failure},
		`"score":1`:                                               {Score: 1, Label: events.Success},
		`"label":"bad","text":"It is shelf 9."`:                   {Label: events.Failure, Feedback: "It is shelf 9."},
		`"outcome":false,"comment":"It is shelf 9."`:              {Label: events.Failure, Feedback: "It is shelf 9."},
		`"text":"It is shelf 9."`:                                 {Feedback: "It is shelf 9."},
		`"outcome":{"label":"success","inferred":true}`:           {Score: 1, Label: events.Success, Inferred: true},
		`"outcome":{"label":"failure","feedback":"a"},"text":"b"`: {Label: events.Failure, Feedback: "a"},
	} {
		for path, body := range map[string]string{"executions": `{"answer":"a",` + fields + `}`, "feedback": `{"execution":"17-ab12cd34",` + fields + `}`} {
			got = events.Outcome{}
			if code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/"+path, body); code != 201 || !reflect.DeepEqual(got, want) || strings.Contains(reply, "warnings") {
				t.Errorf("%s %s: got %d %s, %+v, want %+v", path, body, code, reply, got, want)
			}
		}
	}
	for _, fields := range []string{`"outcome":7`, `"outcome":"purple"`, `"outcome":{"labl":"x"}`, `"outcome":{}`, `"outcome":true,"score":0`, `"outcome":{"score":1,"label":"failure"}`, `"score":9`} {
		for path, body := range map[string]string{"executions": `{"answer":"a",` + fields + `}`, "feedback": `{"execution":"17-ab12cd34",` + fields + `}`} {
			if code, _, reply := do(t, c, "POST", s.URL()+"/api/v1/"+path, body); code != 400 || !strings.Contains(reply, `"field":"outcome"`) {
				t.Errorf("%s %s: got %d %s, want 400", path, body, code, reply)
			}
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

// severalRuns is the error for an id that fits several runs.
type severalRuns struct{}

func (severalRuns) Error() string   { return "execution \"chatcmpl-1\": several runs have this id" }
func (severalRuns) Names() []string { return []string{"17-ab12cd34", "18-ab12cd34"} }

func TestAmbiguousIDNamesTheRuns(t *testing.T) {
	t.Parallel()
	p, _ := newProblem(fmt.Errorf("feedback: %w", severalRuns{}))
	if p.Status != 409 || p.Code != CodeConflict || !slices.Equal(p.Runs, severalRuns{}.Names()) || !strings.Contains(p.Detail, "chatcmpl-1") {
		t.Errorf("got %+v", p)
	}
}
