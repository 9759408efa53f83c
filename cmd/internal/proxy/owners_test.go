package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/client"
	"debrief/events/service"
	"debrief/playbook"
)

// secretText is in each text of the owner whose data the other tokens ask for.
const secretText = "ALPHA-7731"

// results of a cell.
const (
	seen      = "SEEN"    // the reply has a text of the owner
	changed   = "CHANGED" // the request was applied to a run of the owner
	hidden    = "hidden"  // 404, or a reply without the owner's data
	forbidden = "403"
)

// victim is the data of an owner.
type victim struct {
	owner, context       string
	handle               string // of a reported run in the session s-1
	response, run, trace string // of a run in the session s-2 of the gateway
}

// column is a caller in the table.
type column struct {
	name  string
	token tokens.Token // scopes and books to create it with
	may   string       // "own": the owner itself, "read", "rate", "all": both, "": nothing
}

// TestOwnersAreApart asks with each token for each kind of data of another owner. Data of another owner is seen only with read, review
// or operate on its playbook, and changed only with review. The row of the owner is the positive control. With -v it prints the table.
func TestOwnersAreApart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	columns := []column{
		{name: "context", token: tokens.Token{Scopes: []tokens.Scope{tokens.Context}}},
		{name: "report", token: tokens.Token{Scopes: []tokens.Scope{tokens.Report}}},
		{name: "agent", token: tokens.Token{Scopes: []tokens.Scope{tokens.Context, tokens.Report}}},
		{name: "elsewhere", token: tokens.Token{Scopes: tokens.Scopes, Books: []playbook.Book{"sales"}}},
		{name: "reader", token: tokens.Token{Scopes: []tokens.Scope{tokens.Context, tokens.Report, tokens.Read}}, may: "read"},
		{name: "reviewer", token: tokens.Token{Scopes: []tokens.Scope{tokens.Review}}, may: "all"},
		{name: "owner", token: tokens.Token{Scopes: []tokens.Scope{tokens.Context, tokens.Report}}, may: "own"},
	}
	var grants []apitest.Grant
	for _, c := range columns {
		grants = append(grants, apitest.Grant{Name: c.name, Scopes: c.token.Scopes, Books: c.token.Books})
	}
	path, secrets := apitest.Write(t, t.TempDir(), grants...)
	h := openTokens(t, "observe", path, func(*simulated.Request) simulated.Answer {
		return simulated.Answer{Text: "It is " + secretText + "."}
	})
	v := h.victim(path, secrets["owner"])
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "\n")
	for _, c := range columns {
		_, _ = fmt.Fprint(w, "\t", c.name)
	}
	rated := 0
	for _, r := range ownerRows {
		_, _ = fmt.Fprint(w, "\n", r.name)
		for _, c := range columns {
			got := r.try(&asker{h, secrets[c.name], c.name}, v)
			_, _ = fmt.Fprint(w, "\t", got)
			if ok := r.permits(c.may); ok != (got == r.positive) || !ok && got != hidden && got != forbidden {
				t.Errorf("%s, token %s: got %s", r.name, c.name, got)
			}
			if r.positive == changed && got == changed {
				rated++
			}
		}
	}
	_ = w.Flush()
	t.Log(table.String())
	if got := h.feedbackOf(v.owner); got > rated {
		t.Errorf("%d times feedback is stored, %d requests were accepted", got, rated)
	}
}

// ownerRow is a row of the table.
type ownerRow struct {
	name     string
	positive string // the result for a caller who may
	private  bool   // for the owner alone
	try      func(*asker, *victim) string
}

// permits reports whether a caller may see or change the data of a row.
func (r *ownerRow) permits(may string) bool {
	switch may {
	case "own":
		return true
	case "read":
		return r.positive == seen && !r.private
	case "all":
		return !r.private
	}
	return false
}

var ownerRows = []ownerRow{
	{"list of sessions", seen, false, asksFor("/books/default/sessions")},
	{"turns of a session", seen, false, func(a *asker, v *victim) string {
		return a.get("/books/default/sessions/s-1?owner=" + v.owner)
	}},
	{"turns of the session's name", seen, true, asksFor("/books/default/sessions/s-1")},
	{"list of runs", seen, false, asksFor("/books/default/executions?session=s-1")},
	{"list of runs of the owner", seen, false, func(a *asker, v *victim) string {
		return a.get("/books/default/executions?owner=" + v.owner)
	}},
	{"run", seen, false, func(a *asker, v *victim) string { return a.get("/books/default/executions/" + v.handle) }},
	{"context of a run", seen, false, func(a *asker, v *victim) string {
		return a.get("/books/default/executions/" + v.handle + "/context")
	}},
	{"context with the session", seen, true, func(a *asker, _ *victim) string {
		return a.post("/contexts", map[string]any{"session": "s-1", "query": "What did we say before?"}, false)
	}},
	{"report with the context", seen, true, func(a *asker, v *victim) string {
		reply := a.post("/executions", map[string]any{"context_id": v.context, "run_id": "of " + a.name, "question": "?", "answer": "!"}, true)
		if strings.HasPrefix(reply, "{") && !strings.Contains(reply, "not found") {
			return seen // the shown bullets are those of the owner's context
		}
		return refusedAs(reply)
	}},
	{"feedback by handle", changed, false, func(a *asker, v *victim) string { return a.rate(v.handle) }},
	{"feedback by response", changed, false, func(a *asker, v *victim) string { return a.rate(v.response) }},
	{"feedback by run", changed, false, func(a *asker, v *victim) string { return a.rate(v.run) }},
	{"feedback by session", changed, false, func(a *asker, _ *victim) string { return a.rate("s-2") }},
	{"feedback by turn", changed, false, func(a *asker, _ *victim) string { return a.rate("s-2/1") }},
	{"feedback by trace", changed, false, func(a *asker, v *victim) string { return a.rate(v.trace) }},
}

// asker sends requests with a token.
type asker struct {
	*house
	secret, name string
}

// send sends a request to the API.
func (a *asker) send(method, path string, body any) (int, string) {
	a.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		a.Fatal(err)
	}
	r, err := http.NewRequestWithContext(a.Context(), method, a.front.URL()+"/api/v1"+path, bytes.NewReader(data))
	if err != nil {
		a.Fatal(err)
	}
	if body == nil {
		r.Body, r.ContentLength = nil, 0
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+a.secret)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		a.Fatal(err)
	}
	return resp.StatusCode, string(reply)
}

// asksFor returns a cell that reads a path.
func asksFor(path string) func(*asker, *victim) string {
	return func(a *asker, _ *victim) string { return a.get(path) }
}

// get returns the result of a cell that reads a path.
func (a *asker) get(path string) string { return refusedAs(a.text("GET", path, nil)) }

// post sends a body. It returns the reply if raw, else the result of the cell.
func (a *asker) post(path string, body any, raw bool) string {
	text := a.text("POST", path, body)
	if raw {
		return text
	}
	return refusedAs(text)
}

// text returns the body of a success, else the status.
func (a *asker) text(method, path string, body any) string {
	status, reply := a.send(method, path, body)
	if status/100 != 2 {
		return fmt.Sprint(status)
	}
	return reply
}

// refusedAs returns the result for a reply or a status.
func refusedAs(reply string) string {
	switch {
	case reply == "403":
		return forbidden
	case strings.Contains(reply, secretText):
		return seen
	case reply == "404", strings.HasPrefix(reply, "{"):
		return hidden
	}
	return "status " + reply
}

// rate gives feedback on a run.
func (a *asker) rate(id string) string {
	switch status, reply := a.send("POST", "/feedback", map[string]any{"execution": id, "outcome": true}); status {
	case http.StatusOK, http.StatusCreated:
		return changed
	case http.StatusNotFound:
		return hidden
	case http.StatusForbidden:
		return forbidden
	default:
		return fmt.Sprint(status, " ", reply)
	}
}

// victim makes the data of an owner: a run that is reported with a context, and one through the gateway.
func (h *house) victim(path, secret string) *victim {
	h.Helper()
	set, err := tokens.Load(path, nil)
	if err != nil {
		h.Fatal(err)
	}
	token, _ := set.Find(secret)
	a, v := &asker{h, secret, "owner"}, &victim{owner: token.Owner, trace: "4bf92f3577b34da6a3ce929d0e0e4736"}
	var served struct {
		ID string `json:"context_id"`
	}
	var stored events.StoredReply
	read := func(text string, into any) {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			h.Fatalf("got %s (%v)", text, err)
		}
	}
	for range 2 { // the context of the second run has the first one
		read(a.post("/contexts", map[string]any{"session": "s-1", "query": "Where is " + secretText + "?"}, true), &served)
		read(a.post("/executions", map[string]any{"context_id": served.ID, "answer": secretText}, true), &stored)
	}
	v.context, v.handle = served.ID, string(stored.Handle)
	header, id, _ := h.chat([]message{user("Where is the globe, and where is " + secretText + "?")},
		"X-Debrief-Token", secret, "X-Debrief-Session", "s-2", "traceparent", "00-"+v.trace+"-00f067aa0ba902b7-01")
	v.response, v.run = id, header.Get("X-Debrief-Run")
	return v
}

// feedbackOf returns how often feedback on runs of an owner is stored.
func (h *house) feedbackOf(owner string) (n int) {
	h.Helper()
	err := h.conn.Events.Scan(h.Context(), events.StreamExecutions, events.KindFeedback.Subject(""), 1, func(s bus.Stored) error {
		f, ok := s.Event.(*events.Feedback)
		if !ok {
			return s.Err
		}
		seq, is, err := f.Execution.Parse()
		if err != nil {
			return err
		}
		found, err := h.conn.Events.Find(h.Context(), events.StreamExecutions, seq, is)
		if e, ok := found.(*events.Execution); ok && e.Owner == owner {
			n++
		}
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return n
}

// TestAgentsOnNATSAreApart sends requests on the subjects of agents, also with the headers of a token, for the data of an owner.
func TestAgentsOnNATSAreApart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	secret, err := tokens.Add(path, "owner", []tokens.Scope{tokens.Context, tokens.Report}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := openTokens(t, "observe", path, func(*simulated.Request) simulated.Answer { return simulated.Answer{Text: "x"} })
	v := h.victim(path, secret)
	stop, err := service.Serve(h.conn.NATS(), h.backend, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c := client.NATS(h.conn.NATS())
	reply, err := c.Context(t.Context(), &events.ContextRequest{Session: "s-1", Query: "What did we say before?"})
	if err != nil || strings.Contains(fmt.Sprint(reply.Messages), secretText) {
		t.Errorf("got context %+v, %v", reply, err)
	}
	stored, err := c.Report(t.Context(), &events.Report{ContextID: events.ID(v.context), RunID: v.context, Question: "?", Answer: "!", Session: "s-1"})
	if err != nil || stored.Duplicate || !strings.Contains(fmt.Sprint(stored.Warnings), "not found") {
		t.Errorf("a report with the context and the run id of the owner: got %+v, %v", stored, err)
	}
	good := events.Outcome{Label: events.Success}
	var refused *client.Error
	if got, err := c.Feedback(t.Context(), &events.FeedbackRequest{Execution: events.Handle(v.handle), Outcome: good}); !errors.As(err, &refused) || !refused.NotFound() {
		t.Errorf("feedback on a run of the owner: got %+v, %v", got, err)
	}
	if _, err := c.Feedback(t.Context(), &events.FeedbackRequest{Execution: stored.Handle, Outcome: good}); err != nil {
		t.Errorf("feedback on an own run: %v", err)
	}
	// The gateway's user is trusted with owners, by its subject.
	if _, err := c.Feedback(t.Context(), &events.FeedbackRequest{Caller: events.Caller{Owner: v.owner}, Execution: events.Handle(v.handle), Outcome: good}); err != nil {
		t.Errorf("feedback of the owner: %v", err)
	}
	// The owner's session has only its own turns.
	if turns := (&asker{h, secret, "owner"}).text("GET", "/books/default/sessions/s-1", nil); strings.Contains(turns, `"answer":"!"`) || !strings.Contains(turns, secretText) {
		t.Errorf("got session %s", turns)
	}
}

// TestTaskIsALabel makes three runs with one label in the gateway, and two reports with one label: each is an execution.
func TestTaskIsALabel(t *testing.T) {
	t.Parallel()
	h := openFront(t, "observe", func(*simulated.Request) simulated.Answer { return simulated.Answer{Text: "Shelf 7."} })
	for i := range 3 {
		h.chat([]message{user(fmt.Sprintf("On which shelf is globe number %d?", i))},
			"X-Debrief-Task", "globes", "X-Debrief-User", "ann", "X-Debrief-Label", "success")
	}
	for range 2 {
		if _, status, data := h.post("/api/v1/executions", []byte(`{"task": "globes", "user": "ann", "question": "?", "answer": "!", "outcome": true}`)); status != http.StatusCreated {
			t.Errorf("got %d %s", status, data)
		}
	}
	for _, e := range h.executions(5) {
		if e.Origin.Task != "globes" || e.User != "ann" || e.Owner != "" || e.Origin.Source != events.SourceAgent || e.Outcome.Label != events.Success {
			t.Errorf("got %+v", e)
		}
	}
}

// TestOutcomeHeadersNeedReport sends the header of an outcome with two tokens. The run of the token without the scope report stays
// open.
func TestOutcomeHeadersNeedReport(t *testing.T) {
	t.Parallel()
	path, secrets := filepath.Join(t.TempDir(), "tokens.yaml"), map[string]string{}
	for name, scopes := range map[string][]tokens.Scope{"caller": {tokens.Context}, "reporter": {tokens.Context, tokens.Report}} {
		var err error
		if secrets[name], err = tokens.Add(path, name, scopes, nil); err != nil {
			t.Fatal(err)
		}
	}
	h := openTokens(t, "observe", path, func(*simulated.Request) simulated.Answer { return simulated.Answer{Text: "Shelf 7."} })
	for _, name := range []string{"caller", "reporter"} {
		h.chat([]message{user("On which shelf is the globe, " + name + "?")}, "X-Debrief-Token", secrets[name], "X-Debrief-Label", "failure")
	}
	e := h.executions(1)[0]
	if e.Origin.Source != "agent/reporter" || e.Owner == "" || e.Outcome.Label != events.Failure || !strings.Contains(e.Question, "reporter") {
		t.Errorf("got %+v", e)
	}
}
