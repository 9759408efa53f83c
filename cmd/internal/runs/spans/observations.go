// Package spans reads the traces of observability tools: Langfuse, LangSmith and OpenTelemetry. It converts the spans of a
// trace to the runs of its agents.
package spans

import (
	"cmp"
	"encoding/json"
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
	SourceLangfuse  = "langfuse"
	SourceLangSmith = "langsmith"
	SourceOTel      = "otel"
)

// observation is a span of a trace, as observability tools record it: a call of a model, a call of a tool, or another step.
type observation struct {
	id, parent string
	kind       observationKind
	start, end time.Time
	failed     bool
	input      []modelapi.Item // of a model call: the whole prompt
	output     []modelapi.Item
	tool       modelapi.ToolCall // of a tool call
	result     string
	session    string
	model      string
	usage      chat.Usage
	verdict
}

// verdict collects the scores of a trace or of a span.
type verdict struct {
	outcome events.Outcome
	others  int   // other scores
	problem error // a score that leads and cannot be read
}

// score is a named score of an observability tool.
type score struct {
	name    string
	value   modelapi.Value
	comment string
	source  string
	leading string // name of the score that counts, see outcome.Leads
}

// addScore sets the outcome from the first score that measures whether the run succeeded, and counts the others. A trace with such
// an unreadable score is refused: an unknown outcome in its place would go unnoticed.
func (v *verdict) addScore(s *score) {
	if !outcome.Leads(s.name, s.leading) || v.outcome.Known() || !s.value.IsSet() {
		v.others++
		return
	}
	o, err := outcome.Parse(string(s.value.Raw()))
	switch {
	case err != nil:
		v.problem = fmt.Errorf("score %.40q: %w", s.name, err)
	case !o.Known():
		v.others++
	default:
		o.By, o.Feedback = s.source+":"+s.name, s.comment
		v.outcome = o
	}
}

type observationKind int

const (
	otherSpan observationKind = iota
	modelCall
	toolSpan
	agentSpan // the model and tool calls inside it are a separate run
)

// kinds maps the names of kinds in all tools, in lower case. The others are of otherSpan.
var kinds = map[string]observationKind{
	"chat": modelCall, "text_completion": modelCall, "generate_content": modelCall, "completion": modelCall, "llm": modelCall, "generation": modelCall,
	"execute_tool": toolSpan, "tool": toolSpan,
	"invoke_agent": agentSpan, "create_agent": agentSpan, "agent": agentSpan,
}

// recordedTrace holds the observations of one trace.
type recordedTrace struct {
	name     string // id
	question string // used if no model call has a user message
	answer   string // used if no model call has an answer
	session  string
	verdict
	all []observation
}

// End converts a trace to runs: one of the agent that started first, and one of each other agent. Model calls record the
// whole prompt, so messages that are already part of the run are not added again.
func (t *recordedTrace) End() ([]*steps.Run, error) {
	for i := range t.all {
		t.problem = cmp.Or(t.problem, t.all[i].problem)
	}
	if t.problem != nil {
		return nil, t.problem
	}
	slices.SortStableFunc(t.all, func(a, b observation) int { return a.start.Compare(b.start) })
	tree := newTree(t.all)
	builders := map[string]*traceBuilder{}
	var order []string
	for i := range t.all {
		o := &t.all[i]
		if o.kind != modelCall && o.kind != toolSpan || o.kind == modelCall && tree.containsModelCall[o.id] {
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
	if len(order) == 0 && t.question+t.answer == "" {
		return nil, &NothingError{source.OtherSpans, len(t.all)}
	}
	if len(order) == 0 {
		order, builders[""] = []string{""}, newTraceBuilder()
	}
	var runs []*steps.Run
	for i, agent := range order {
		if i > 0 && len(builders[agent].Steps) == 0 {
			continue
		}
		r, err := t.finish(builders[agent], agent, i == 0)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r...)
	}
	return runs, nil
}

// NothingError is returned for a valid part of a recording that has no run, such as a trace of a web server.
type NothingError struct {
	Kind  source.Omission
	Count int
}

func (e *NothingError) Error() string { return fmt.Sprintf("%d %s", e.Count, e.Kind) }

// finish returns the run of an agent. The main run has the question, the answer and the outcome of the trace.
func (t *recordedTrace) finish(b *traceBuilder, agent string, main bool) ([]*steps.Run, error) {
	if main {
		b.Question = cmp.Or(b.Question, t.question)
		if len(b.Steps) == 0 && t.answer != "" {
			b.Steps = []events.Step{{Speaker: "assistant", Text: t.answer}}
		}
		b.Answer = cmp.Or(b.Answer, t.answer)
	}
	b.Session = source.Shorten(cmp.Or(b.Session, t.session), 256)
	if main && t.outcome.Known() {
		b.Outcome = t.outcome
	}
	if main {
		b.Omit(source.OtherScores, t.others)
		for i := range t.all {
			b.Omit(source.OtherScores, t.all[i].others)
			if t.all[i].kind == otherSpan {
				b.Omit(source.OtherSpans, 1)
			}
		}
	}
	runs, err := b.End()
	if b.Name = source.Printable(t.name); !main {
		b.Name += "/" + source.Printable(agent)
	}
	return runs, err
}

// tree finds the ancestors of observations.
type tree struct {
	byID              map[string]*observation
	containsModelCall map[string]bool // model calls that contain others: a wrapper records the same call again
}

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

// ancestors calls visit for each ancestor until it returns false. A cycle ends after maxAncestors.
func (t *tree) ancestors(o *observation, visit func(*observation) bool) {
	const maxAncestors = 100
	for range maxAncestors {
		if o = t.byID[o.parent]; o == nil || !visit(o) {
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

// traceBuilder builds a run from the model and tool calls of an agent.
type traceBuilder struct {
	steps.Conversation
	seen      map[string]int            // messages in the run, by their content
	bySpan    []steps.OpenCall          // calls with a result from a span, whose message may follow
	byMessage []steps.OpenCall          // calls with a result from a message, whose span may follow
	spans     map[string]bool           // calls that have a span, by id, name and arguments
	arguments map[steps.OpenCall]string // of calls, without white space and in the order of their keys
}

func newTraceBuilder() *traceBuilder {
	return &traceBuilder{seen: map[string]int{}, spans: map[string]bool{}, arguments: map[steps.OpenCall]string{}}
}

func (b *traceBuilder) add(o *observation) {
	if b.Started.IsZero() {
		b.Started = o.start
	}
	b.Duration = max(b.Duration, steps.ValidDuration(o.end.Sub(b.Started).Seconds()))
	b.Session, b.Outcome = cmp.Or(b.Session, o.session), cmp.Or(b.Outcome, o.outcome)
	if o.kind == toolSpan {
		b.addToolSpan(o)
		return
	}
	b.Model = cmp.Or(b.Model, o.model)
	b.Usage = b.Usage.Add(o.usage)
	now := map[string]int{}
	for i := range o.input {
		b.addMessage(&o.input[i], now, events.Step{})
	}
	for i := range o.output {
		b.addMessage(&o.output[i], now, events.Step{At: o.end})
	}
}

// addMessage adds a message unless the run has as many equal messages as this model call up to the message.
func (b *traceBuilder) addMessage(t *modelapi.Item, now map[string]int, about events.Step) {
	key := messageKey(t)
	if now[key]++; now[key] <= b.seen[key] {
		return
	}
	b.seen[key]++
	for i := range t.Results {
		if r := &t.Results[i]; !b.answeredBySpan(r) {
			b.byMessage = remember(b.byMessage, b.AddResult(r))
		}
	}
	rest := *t
	rest.Results = nil
	b.AddItem(&rest, about)
}

// remember appends a call. It forgets the first one of many, so that a search in the list takes bounded time.
func remember(calls []steps.OpenCall, c steps.OpenCall) []steps.OpenCall {
	const most = 200
	if len(calls) == most {
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

// addToolSpan adds the result of a tool call to the call of the model. Without one, it adds a call: the agent
// called the tool without a request of the model, or the model call was not recorded. A second span of a call, of another
// instrumentation, adds nothing.
func (b *traceBuilder) addToolSpan(o *observation) {
	if o.tool.ID != "" {
		key := o.tool.ID + "\x00" + o.tool.Name + "\x00" + modelapi.Canonical([]byte(o.tool.Arguments))
		if b.spans[key] && b.findCall(b.Open, o) < 0 {
			return
		}
		b.spans[key] = true
	}
	at := b.findCall(b.Open, o)
	if at < 0 {
		if i := b.findCall(b.byMessage, o); i >= 0 { // its message came first: the clocks differ
			open := b.byMessage[i]
			b.byMessage = slices.Delete(b.byMessage, i, i+1)
			b.setSpan(&b.Steps[open.Step].Calls[open.Call], o)
			return
		}
		b.AddTurn(false, events.Step{At: o.end}, []modelapi.ToolCall{o.tool})
		at = len(b.Open) - 1
	}
	b.bySpan = remember(b.bySpan, b.Open[at])
	call := b.TakeCall(at)
	b.SetOutput(call, o.result, events.Unknown)
	b.setSpan(call, o)
}

// setSpan sets the duration and the failure of a call.
func (b *traceBuilder) setSpan(call *events.ToolCall, o *observation) {
	var signs outcome.Signs
	if o.failed { // many instrumentations never mark a failure, so that no mark says nothing
		signs.Error = new(true)
	}
	call.Outcome = outcome.OfTool(call, o.result, signs)
	call.Duration = steps.ValidDuration(o.end.Sub(o.start).Seconds())
}

// findCall returns the index of the call of a span: the one with its id, else one of its tool with equal arguments, else one
// of its tool, because a framework may add arguments. It returns -1 without one.
func (b *traceBuilder) findCall(calls []steps.OpenCall, o *observation) int {
	equal, other, want := -1, -1, modelapi.Canonical([]byte(o.tool.Arguments))
	for i, open := range calls {
		call := &b.Steps[open.Step].Calls[open.Call]
		switch {
		case o.tool.ID != "" && open.ID == o.tool.ID:
			return i
		case call.Tool != o.tool.Name || o.tool.ID != "" && open.ID != "":
		case equal < 0 && (call.Arguments == o.tool.Arguments || b.compactArguments(open) == want):
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

// compactArguments returns the arguments of a call for a comparison.
func (b *traceBuilder) compactArguments(open steps.OpenCall) string {
	text, ok := b.arguments[open]
	if !ok {
		text = modelapi.Canonical([]byte(b.Steps[open.Step].Calls[open.Call].Arguments))
		b.arguments[open] = text
	}
	return text
}

// answeredBySpan reports whether a span had the result of a message. The message has the output that the model saw.
func (b *traceBuilder) answeredBySpan(r *modelapi.ToolResult) bool {
	for i, open := range b.bySpan {
		call := &b.Steps[open.Step].Calls[open.Call]
		if r.CallID != "" && open.ID != r.CallID || r.CallID == "" && r.Name != "" && call.Tool != r.Name {
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
