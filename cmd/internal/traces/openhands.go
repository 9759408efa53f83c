package traces

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
)

// handsSession builds a run from the events of OpenHands: actions of the agent and observations, which are their results.
type handsSession struct {
	steps.Conversation
	run      events.Execution
	requests map[string]bool // ids of the model's responses; each of their events repeats the usage
	last     steps.OpenCall  // the last call, for observations without an id
}

// handsEvent is an event of a trajectory, or of the history in an output of the evaluation.
type handsEvent struct {
	ID          json.RawMessage `json:"id"`
	Source      string          `json:"source"`
	Timestamp   json.RawMessage `json:"timestamp"`
	Action      string          `json:"action"`
	Observation string          `json:"observation"`
	Content     json.RawMessage `json:"content"`
	Message     json.RawMessage `json:"message"`
	Thought     string          `json:"thought"`
	Args        json.RawMessage `json:"args"`
	ExitCode    *float64        `json:"exit_code"`
	Extras      struct {
		ExitCode *float64 `json:"exit_code"`
		Metadata struct {
			ExitCode *float64 `json:"exit_code"`
		} `json:"metadata"`
	} `json:"extras"`
	Call struct {
		Function string          `json:"function_name"`
		ID       string          `json:"tool_call_id"`
		Response json.RawMessage `json:"model_response"`
	} `json:"tool_call_metadata"`
}

// handsTools maps actions to the names of the agent's tools, for events that do not name them.
var handsTools = map[string]string{
	"run": "execute_bash", "run_ipython": "execute_ipython_cell", "edit": "str_replace_editor", "read": "str_replace_editor", "write": "write",
	"browse": "browse", "browse_interactive": "browser", "call_tool_mcp": "mcp", "delegate": "delegate",
}

func (h *handsSession) Add(o *source.Object) error {
	var e handsEvent
	if err := source.Decode(o.Raw, &e); err != nil {
		return err
	}
	switch {
	case e.Observation != "":
		h.addObservation(&e)
	case e.Action == "message" && e.Source == "user", e.Action == "message" && e.Source == "" && h.Question == "":
		h.User(handsText(o, &e))
	case e.Action == "message", e.Action == "finish", e.Action == "reject":
		h.addUsage(&e)
		h.AddTurn(false, events.Step{Text: handsText(o, &e), At: steps.ParseTime(e.Timestamp)}, nil)
		h.identify(&e)
	case e.Action == "think":
		h.Omit(source.ThinkingBlocks, 1)
	case handsTools[e.Action] != "":
		h.addAction(o, &e)
	default: // of the harness, such as change_agent_state, recall and system
		h.Omit(source.HarnessMessages, 1)
	}
	return nil
}

// identify adds the id of an event. A trajectory numbers its events, so its time is part of the id.
func (h *handsSession) identify(e *handsEvent) {
	if len(e.ID) > 0 && len(e.Timestamp) > 0 {
		h.Identify(string(e.ID) + " " + string(e.Timestamp))
	}
}

// handsText returns the text of a message: of the event, or of its arguments.
func handsText(o *source.Object, e *handsEvent) string {
	args := cmp.Or(o.Child("args"), o)
	return cmp.Or(args.Text("content"), args.Text("final_thought"), args.Text("thought"), modelapi.OutputText(e.Content), modelapi.OutputText(e.Message), e.Thought)
}

// addAction adds a tool call. The model's response has its arguments; without one they are the fields of the action.
func (h *handsSession) addAction(o *source.Object, e *handsEvent) {
	h.addUsage(e)
	args := cmp.Or(o.Child("args"), o)
	tool, arguments := cmp.Or(e.Call.Function, handsTools[e.Action]), ""
	for _, t := range modelapi.Find(e.Call.Response, "assistant") {
		for _, call := range t.Calls {
			if call.ID == e.Call.ID {
				tool, arguments = call.Name, call.Arguments
			}
		}
	}
	if arguments == "" {
		arguments = handsArguments(args)
	}
	step := events.Step{Text: args.Text("thought"), At: steps.ParseTime(e.Timestamp)}
	h.AddTurn(false, step, []modelapi.ToolCall{{ID: cmp.Or(e.Call.ID, string(e.ID)), Name: tool, Arguments: arguments}})
	h.identify(e)
	h.last = h.Open[len(h.Open)-1]
}

// handsArguments returns the fields of an action that the agent chose.
func handsArguments(args *source.Object) string {
	chosen := map[string]json.RawMessage{}
	for _, name := range []string{"command", "code", "path", "content", "url", "browser_actions", "name", "arguments", "inputs", "agent", "start", "end", "is_input"} {
		if v := args.Get(name); v != nil && string(v) != `""` && string(v) != "false" {
			chosen[name] = v
		}
	}
	raw, _ := json.Marshal(chosen)
	return string(raw)
}

// addObservation adds the result of the call with the same id, or of the last call.
func (h *handsSession) addObservation(e *handsEvent) {
	at := -1
	for i, c := range h.Open {
		if c.ID != "" && c.ID == e.Call.ID || e.Call.ID == "" && c == h.last {
			at = i
		}
	}
	if at < 0 {
		h.Omit(source.HarnessMessages, 1) // such as a change of the agent's state
		return
	}
	outcome := events.Success
	for _, code := range []*float64{e.ExitCode, e.Extras.ExitCode, e.Extras.Metadata.ExitCode} {
		if code != nil && *code != 0 && *code != -1 { // -1: the command still runs
			outcome = events.Failure
		}
	}
	output := modelapi.OutputText(e.Content)
	if e.Observation == "error" || len(output) > 6 && (output[:6] == "ERROR:" || output[:6] == "[Error") {
		outcome = events.Failure
	}
	h.SetOutput(h.TakeCall(at), output, outcome)
}

// addUsage adds the tokens of the model's response once.
func (h *handsSession) addUsage(e *handsEvent) {
	var r struct {
		ID    string         `json:"id"`
		Model string         `json:"model"`
		Usage modelapi.Usage `json:"usage"`
	}
	if len(e.Call.Response) == 0 || json.Unmarshal(e.Call.Response, &r) != nil || h.requests[r.ID] {
		return
	}
	if h.requests == nil {
		h.requests = map[string]bool{}
	}
	h.requests[r.ID] = true
	h.run.Model = cmp.Or(h.run.Model, r.Model)
	h.run.Usage = h.run.Usage.Add(chat.Usage{Calls: 1, InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens})
}

func (h *handsSession) End() ([]*steps.Run, error) {
	r, err := h.Run()
	if err != nil {
		return nil, err
	}
	r.Usage, r.Model = h.run.Usage, h.run.Model
	return []*steps.Run{r}, nil
}

// handsEvaluation is a line of an output of the evaluation or of the resolver.
type handsEvaluation struct {
	ID          json.RawMessage   `json:"instance_id"`
	Instruction string            `json:"instruction"`
	History     []json.RawMessage `json:"history"`
	Success     *bool             `json:"success"`
	Explanation json.RawMessage   `json:"result_explanation"`
	Error       json.RawMessage   `json:"error"`
	TestResult  json.RawMessage   `json:"test_result"`
	Metrics     struct {
		Cost   float64 `json:"accumulated_cost"`
		Costs  []any   `json:"costs"`
		Tokens struct {
			Prompt     float64 `json:"prompt_tokens"`
			Completion float64 `json:"completion_tokens"`
		} `json:"accumulated_token_usage"`
	} `json:"metrics"`
}

// handsOutput parses a line of an output. An outcome is in the fields success or test_result.report.resolved.
func handsOutput(o *source.Object) ([]*steps.Run, error) {
	var v handsEvaluation
	if err := source.Decode(o.Raw, &v); err != nil {
		return nil, err
	}
	h := &handsSession{}
	for i, raw := range v.History {
		pair := source.AsList(raw) // in older outputs an action with its observation
		if pair == nil {
			pair = []json.RawMessage{raw}
		}
		for _, raw := range pair {
			e := source.AsObject(raw)
			if e == nil {
				return nil, fmt.Errorf("history[%d]: want an object", i)
			}
			if err := h.Add(e); err != nil {
				return nil, fmt.Errorf("history[%d]: %w", i, err)
			}
		}
	}
	if len(v.History) == 0 {
		return nil, errors.New("field history: is empty")
	}
	runs, err := h.End()
	if err != nil {
		return nil, err
	}
	r := runs[0]
	r.IDs = nil // the run of an instance is whole
	r.Question = cmp.Or(r.Question, v.Instruction)
	r.Outcome = v.outcome()
	if r.Usage == (chat.Usage{}) {
		r.Usage = chat.Usage{Calls: len(v.Metrics.Costs), InputTokens: steps.ValidCount(v.Metrics.Tokens.Prompt), OutputTokens: steps.ValidCount(v.Metrics.Tokens.Completion)}
	}
	r.Usage.Cost = steps.ValidCost(v.Metrics.Cost)
	if id, err := source.ParseID("instance_id", v.ID); err == nil {
		r.Name, r.Task = id, id
	}
	return runs, nil
}

func (v *handsEvaluation) outcome() events.Outcome {
	var report struct {
		Report struct {
			Resolved *bool `json:"resolved"`
		} `json:"report"`
	}
	_ = json.Unmarshal(v.TestResult, &report) // its form depends on the benchmark
	verdict := cmp.Or(v.Success, report.Report.Resolved)
	if verdict == nil {
		return events.Outcome{Label: events.Unknown, Feedback: modelapi.OutputText(v.Error)}
	}
	out := events.Outcome{Label: events.Failure, By: sourceOpenHands, Feedback: cmp.Or(modelapi.OutputText(v.Explanation), modelapi.OutputText(v.Error))}
	if *verdict {
		out.Label = events.Success
	}
	return out.Complete()
}
