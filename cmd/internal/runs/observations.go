package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
)

// Names of the sources, for outcomes and task ids.
const (
	sourceLangfuse  = "langfuse"
	sourceLangSmith = "langsmith"
	sourceOTel      = "otel"
)

// observation is a span of a trace, as observability tools record it: a call of a model, a call of a tool, or another step.
type observation struct {
	id, parent string
	kind       observationKind
	start, end time.Time
	failed     bool
	session    string
	user       string // the person that the agent works for
	verdict

	// These fields are set for a model call. A span of an agent has the question as input and the answer as output.
	input  []modelapi.Item // the whole prompt
	output []modelapi.Item
	model  string
	usage  chat.Usage

	// These fields are set for a tool call.
	tool   modelapi.ToolCall
	result string
}

// verdict collects the scores of a trace or of a span.
type verdict struct {
	outcome events.Outcome
	named   []events.NamedScore // all readable scores
	problem error               // the reason why a score that counts is unreadable, or nil
}

// score is a named score of an observability tool.
type score struct {
	name         string
	value        modelapi.Value
	comment      string
	source       string
	leadingScore string // name of the score that counts, see outcome.Leads
}

// addScore adds a score. The first readable one that leads is the outcome.
func (v *verdict) addScore(s *score) {
	v.setOutcome(s)
	v.named = outcome.AddScore(v.named, s.name, string(s.value.Raw()))
	hasOthers := len(v.named) > 1 // a single score is the outcome itself
	if hasOthers && v.outcome.Known() {
		v.outcome.Scores = v.named
	}
}

// setOutcome sets the outcome from a score if it leads and none did before. If such a score is unreadable, it sets the problem, and End refuses
// the trace: an unknown outcome would go unnoticed.
func (v *verdict) setOutcome(s *score) {
	if !outcome.Leads(s.name, s.leadingScore) || v.outcome.Known() || !s.value.IsSet() {
		return
	}
	o, err := outcome.Parse(string(s.value.Raw()))
	switch {
	case err != nil:
		v.problem = fmt.Errorf("score %.40q: %w", s.name, err)
	case o.Known():
		o.By, o.Feedback = s.source+":"+s.name, s.comment
		v.outcome = o
	}
}

// observationKind is the kind of an observation.
type observationKind int

const (
	otherSpan observationKind = iota
	modelCall
	toolSpan
	agentSpan // the model and tool calls inside it are a separate run
)

// kinds maps the names of kinds in all tools, in lower case, to kinds. An unknown name is an otherSpan.
var kinds = map[string]observationKind{
	"chat": modelCall, "text_completion": modelCall, "generate_content": modelCall, "completion": modelCall,
	"llm": modelCall, "generation": modelCall,
	"execute_tool": toolSpan, "tool": toolSpan,
	"invoke_agent": agentSpan, "create_agent": agentSpan, "agent": agentSpan,
}

// recordedTrace holds the observations of one trace.
type recordedTrace struct {
	name     string // the id of the trace
	question string // used if no model call has a user message
	answer   string // used if no model call has an answer
	session  string
	user     string
	verdict
	all []observation
}

// End converts a trace to runs, one for each agent. The main run is that of the agent that called a model or a tool first. Another agent has no
// run if its model calls have no reply.
func (t *recordedTrace) End() ([]*steps.Run, error) {
	for i := range t.all {
		t.problem = cmp.Or(t.problem, t.all[i].problem)
	}
	if t.problem != nil {
		return nil, t.problem
	}
	slices.SortStableFunc(t.all, func(a, b observation) int { return a.start.Compare(b.start) })
	tree := newTree(t.all)
	builders := map[string]*traceBuilder{} // by agent
	var order []string                     // the agents, in the order of their first calls
	for i := range t.all {
		o := &t.all[i]
		isModelCall := o.kind == modelCall && !tree.containsModelCall[o.id] // a model call around another one is a wrapper of it
		if !isModelCall && o.kind != toolSpan {
			t.addOuterSpan(o, tree)
			continue
		}
		agent := tree.agent(o)
		b := builders[agent]
		if b == nil {
			b = newTraceBuilder()
			builders[agent] = b
			order = append(order, agent)
		}
		b.add(o)
	}
	if len(order) == 0 && t.question == "" && t.answer == "" {
		return nil, &NothingError{Reason: "no call of a model or a tool"}
	}
	if len(order) == 0 { // the trace has only a question and an answer
		order = []string{""}
		builders[""] = newTraceBuilder()
	}
	var runs []*steps.Run
	for i, agent := range order {
		isMain := i == 0
		name := source.Printable(t.name)
		if isMain {
			t.completeMain(builders[agent])
		} else {
			name += "/" + source.Printable(agent)
		}
		r, err := t.finish(builders[agent], name)
		if !isMain && errors.Is(err, steps.ErrNoTurn) {
			continue
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, r...)
	}
	return runs, nil
}

// addOuterSpan adds the fields of a span around calls, such as an agent or the root, to the trace: session, user and outcome, and question and
// answer, which are used if the model calls have none. It ignores a span inside an agent, because that one has another task.
func (t *recordedTrace) addOuterSpan(o *observation, tr *tree) {
	if tr.agent(o) != "" {
		return
	}
	t.session, t.user = cmp.Or(t.session, o.session), cmp.Or(t.user, o.user)
	t.question = cmp.Or(t.question, lastText(o.input, modelapi.RoleUser))
	t.answer = cmp.Or(t.answer, lastText(o.output, modelapi.RoleAssistant))
	if !t.outcome.Known() {
		t.outcome = o.outcome
	}
}

// Verdict returns the outcome of a trace that has no run, only evaluations of the run of an earlier trace. It is zero without an outcome.
func (t *recordedTrace) Verdict() events.Outcome {
	found := t.outcome
	for i := range t.all {
		if !found.Known() {
			found = t.all[i].outcome
		}
	}
	return found
}

// NothingError is returned for a valid part of a recording that has no run, such as a trace of a web server.
type NothingError struct {
	Reason    string
	ofHarness bool // the part is a run that a harness made for itself
}

func (e *NothingError) Error() string { return e.Reason }

// finish returns the run of an agent under a name.
func (t *recordedTrace) finish(b *traceBuilder, name string) ([]*steps.Run, error) {
	b.Session, b.Execution.User = cmp.Or(b.Session, t.session), cmp.Or(b.Execution.User, t.user)
	runs, err := b.End()
	for _, r := range runs {
		setQuestion(r)
		r.Name = name // instead of the name that End derives from the session
	}
	return runs, err
}

// setQuestion sets the question of a run whose agent called a tool before the model: there the user's message is a step.
func setQuestion(r *steps.Run) {
	i := slices.IndexFunc(r.Steps, func(s events.Step) bool { return s.Speaker == chat.User && s.Text != "" })
	if r.Question != "" || i < 0 {
		return
	}
	r.Question = r.Steps[i].Text
	r.Steps = slices.Delete(r.Steps, i, i+1)
	if r.IDs != nil {
		r.IDs = slices.Delete(r.IDs, i, i+1)
	}
}

// completeMain adds the question, the answer and the outcome of the trace to the main run.
func (t *recordedTrace) completeMain(b *traceBuilder) {
	b.Question = cmp.Or(b.Question, t.question)
	if len(b.Steps) == 0 && t.answer != "" {
		b.Steps = []events.Step{{Speaker: "assistant", Text: t.answer}}
	}
	b.Answer = cmp.Or(b.Answer, t.answer)
	if t.outcome.Known() {
		b.Outcome = t.outcome
	}
}

// tree finds the ancestors of observations.
type tree struct {
	byID              map[string]*observation
	containsModelCall map[string]bool // ids of the spans with a model call inside
}

// newTree returns the tree of observations.
func newTree(all []observation) *tree {
	t := &tree{byID: map[string]*observation{}, containsModelCall: map[string]bool{}}
	for i := range all {
		t.byID[all[i].id] = &all[i]
	}
	for i := range all {
		if all[i].kind != modelCall {
			continue
		}
		t.ancestors(&all[i], func(o *observation) bool {
			t.containsModelCall[o.id] = true
			return true
		})
	}
	return t
}

// ancestors calls visit for each ancestor, the closest first, until visit returns false. It visits at most maxAncestors, also in a cycle.
func (t *tree) ancestors(o *observation, visit func(*observation) bool) {
	const maxAncestors = 100
	for range maxAncestors {
		o = t.byID[o.parent]
		if o == nil || !visit(o) {
			return
		}
	}
}

// agent returns the id of the closest agent around an observation, or "" without one.
func (t *tree) agent(o *observation) (id string) {
	t.ancestors(o, func(a *observation) bool {
		if a.kind == agentSpan {
			id = a.id
		}
		return id == ""
	})
	return id
}

// traceBuilder builds a run from the model and tool calls of an agent. Each model call records the whole prompt, so most of its messages
// are in the run already. A tool call is recorded in the output of a model call. Its result is recorded up to two times, in any order: in a
// span of the tool, and in a message of the prompt of the next model call.
type traceBuilder struct {
	steps.Conversation
	seen      map[string]int    // number of equal messages in the run, by messageKey
	bySpan    []steps.OpenCall  // calls with a result from a span, whose message may follow
	byMessage []steps.OpenCall  // calls with a result from a message, whose span may follow
	spans     map[string]bool   // calls that have a span, by id, name and arguments
	forms     map[string]string // canonical forms of arguments: each span is compared with each call that waits
}

// newTraceBuilder returns a builder without calls.
func newTraceBuilder() *traceBuilder {
	return &traceBuilder{seen: map[string]int{}, spans: map[string]bool{}, forms: map[string]string{}}
}

// form returns the canonical form of the arguments of a call.
func (b *traceBuilder) form(arguments string) string {
	form, ok := b.forms[arguments]
	if !ok {
		form = modelapi.Canonical([]byte(arguments))
		b.forms[arguments] = form
	}
	return form
}

// add adds a model call or a tool call.
func (b *traceBuilder) add(o *observation) {
	if b.Started.IsZero() {
		b.Started = o.start
	}
	b.Duration = max(b.Duration, steps.ValidDuration(o.end.Sub(b.Started).Seconds()))
	b.Session, b.Execution.User = cmp.Or(b.Session, o.session), cmp.Or(b.Execution.User, o.user)
	if b.Outcome.Label == "" {
		b.Outcome = o.outcome
	}
	if o.kind == toolSpan {
		b.addToolSpan(o)
		return
	}
	b.Model = cmp.Or(b.Model, o.model)
	b.Usage = b.Usage.Add(o.usage)
	inCall := map[string]int{} // number of equal messages in this call so far, by messageKey
	for i := range o.input {
		b.addMessage(&o.input[i], inCall, time.Time{})
	}
	for i := range o.output {
		b.addMessage(&o.output[i], inCall, o.end)
	}
}

// addMessage adds a message of a model call if it is new. The n-th equal message of the call is new if the run has fewer than n of them.
func (b *traceBuilder) addMessage(t *modelapi.Item, inCall map[string]int, at time.Time) {
	key := messageKey(t)
	inCall[key]++
	if inCall[key] <= b.seen[key] {
		return
	}
	b.seen[key]++
	for i := range t.Results {
		r := &t.Results[i]
		if !b.replaceSpanResult(r) {
			b.byMessage = remember(b.byMessage, b.AddResult(r))
		}
	}
	rest := *t
	rest.Results = nil
	b.AddItem(&rest, at)
}

// remember appends a call. A full list loses its first call, so that a search in the list takes bounded time.
func remember(calls []steps.OpenCall, c steps.OpenCall) []steps.OpenCall {
	const limit = 200
	if len(calls) == limit {
		calls = slices.Delete(calls, 0, 1)
	}
	return append(calls, c)
}

// messageKey identifies the content of a message.
func messageKey(t *modelapi.Item) string {
	raw, _ := json.Marshal([]any{t.Role, t.Text, len(t.Calls), len(t.Results)})
	for _, c := range t.Calls {
		raw = append(append(append(raw, c.Name...), 0), modelapi.Canonical([]byte(c.Arguments))...)
	}
	for _, r := range t.Results {
		raw = append(append(append(raw, r.CallID...), 0), r.Output...)
	}
	return string(source.Digest(raw))
}

// addToolSpan adds the span of a tool call to its call:
//
//   - a call that waits for its result gets the result of the span;
//   - a second span of a call, of another instrumentation, adds nothing;
//   - a call whose message with the result came first, because the clocks differ, gets only the duration and the failure;
//   - without a call it adds one: the agent called the tool without a request of the model, or the model call was not recorded.
func (b *traceBuilder) addToolSpan(o *observation) {
	open := b.findCall(b.Open, o)
	if open < 0 && b.spans[b.spanKey(o)] {
		return
	}
	if o.tool.ID != "" {
		b.spans[b.spanKey(o)] = true
	}
	if open < 0 {
		if i := b.findCall(b.byMessage, o); i >= 0 {
			place := b.byMessage[i]
			b.byMessage = slices.Delete(b.byMessage, i, i+1)
			b.setSpan(&b.Steps[place.Step].Calls[place.Call], o)
			return
		}
		b.AddTurn(steps.Turn{At: o.end, Calls: []modelapi.ToolCall{o.tool}})
		open = len(b.Open) - 1
	}
	b.bySpan = remember(b.bySpan, b.Open[open])
	call := b.TakeCall(open)
	b.SetOutput(call, o.result, events.Unknown)
	b.setSpan(call, o)
}

// spanKey identifies the call of a tool span that has an id. Clients use an id again for another call.
func (b *traceBuilder) spanKey(o *observation) string {
	return o.tool.ID + "\x00" + o.tool.Name + "\x00" + b.form(o.tool.Arguments)
}

// setSpan sets the duration and the outcome of a call from its span.
func (b *traceBuilder) setSpan(call *events.ToolCall, o *observation) {
	var signs outcome.Signs
	if o.failed { // a span without the mark may have failed too: many instrumentations never set it
		signs.Error = new(true)
	}
	call.Outcome = outcome.OfTool(call, o.result, signs)
	call.Duration = steps.ValidDuration(o.end.Sub(o.start).Seconds())
}

// findCall returns the index of the call of a span: the one with its id, else one of its tool with equal arguments, else one
// of its tool with any arguments, because a framework may add some. It returns -1 if there is none.
func (b *traceBuilder) findCall(calls []steps.OpenCall, o *observation) int {
	equal := -1 // the first call with equal arguments
	other := -1 // the first call with other arguments
	want := b.form(o.tool.Arguments)
	for i, place := range calls {
		call := &b.Steps[place.Step].Calls[place.Call]
		hasOtherID := o.tool.ID != "" && place.ID != "" && place.ID != o.tool.ID
		switch {
		case o.tool.ID != "" && place.ID == o.tool.ID:
			return i
		case hasOtherID, call.Tool != o.tool.Name:
			continue
		case equal < 0 && (call.Arguments == o.tool.Arguments || b.form(call.Arguments) == want):
			equal = i
		case other < 0:
			other = i
		}
	}
	if equal >= 0 {
		return equal
	}
	return other
}

// replaceSpanResult finds the call of a message's result among those that have a result from a span. It replaces the output of the span by that
// of the message, which the model saw. It returns false if there is no such call.
func (b *traceBuilder) replaceSpanResult(r *modelapi.ToolResult) bool {
	for i, place := range b.bySpan {
		call := &b.Steps[place.Step].Calls[place.Call]
		isCall := place.ID == r.CallID
		if r.CallID == "" {
			isCall = r.Name == "" || call.Tool == r.Name
		}
		if !isCall {
			continue
		}
		if r.Output != "" {
			label := call.Outcome
			if label == events.Unknown {
				label = outcome.OfTool(call, r.Output, r.Signs)
			}
			b.SetOutput(call, r.Output, label)
		}
		b.bySpan = slices.Delete(b.bySpan, i, i+1)
		return true
	}
	return false
}
