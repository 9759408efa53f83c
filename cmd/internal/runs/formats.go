package runs

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
)

// Values of Origin.Source and Report.Source.
const (
	sourceTauBench     = "tau-bench"
	sourceSWEAgent     = "swe-agent"
	sourceClaudeCode   = "claude-code"
	sourceOpenAIChat   = "openai-chat"
	sourceQA           = "qa"
	sourceTau2         = "tau2"
	sourceCodex        = "codex"
	sourceGemini       = "gemini-cli"
	sourceOpenHands    = "openhands"
	sourceMiniSWEAgent = "mini-swe-agent"
	sourceResponses    = "openai-responses"
	sourceExecutions   = "debrief"
	sourceATIF         = "atif"
	sourceInspect      = "inspect"
)

// ErrFormat is returned if no object of the file has a known format.
var ErrFormat = errors.New(`want a format of 'debrief learn --help'; the smallest line that works is {"question": "2+2?", "answer": "4", "score": 1}`)

// Formats returns the titles of the known formats, for help texts.
func Formats() string {
	var titles []string
	for _, f := range formats {
		if f.title != "" {
			titles = append(titles, f.title)
		}
	}
	return strings.Join(titles, ", ")
}

// record is an object of a file.
type record struct {
	modelapi.Value
	header       modelapi.Value // the members of its container in front of the list
	leadingScore string         // see Reader.LeadingScore
}

// fileFormat describes one of the known formats. Exactly one of parse, newBuilder and split is set.
type fileFormat struct {
	source  string
	title   string // for help texts; empty for another form of the format before it
	matches func(modelapi.Value) bool
	byFile  bool // each file has one run; in a file of outcomes, the name of that file can be its id

	// parse is for objects that have whole runs. It returns the valid runs, and an error for the others. For a damaged object, it calls Value.Note with the problem.
	parse func(*record) ([]*steps.Run, error)
	// newBuilder is for objects that are parts of runs.
	newBuilder func() runBuilder
	// split is for objects that contain objects of other formats. It returns these.
	split func(modelapi.Value) ([][]byte, error)

	// The other fields are for formats with newBuilder.

	// check calls Value.Note with the problem of a damaged part, which is then skipped. Nil accepts all parts.
	check func(modelapi.Value)
	// session returns the id of the run to which a part belongs. If it is nil, a part belongs to the only open run of the format.
	session func(modelapi.Value, agentChains) string
	// isFirst and isLast report whether a part is the first or last one of a run; nil if the format has no such part.
	isFirst, isLast func(modelapi.Value) bool
}

// runBuilder builds a run, or several related ones, from parts. A builder may have the method IsEmpty, see openRun.isEmpty.
type runBuilder interface {
	// Add adds a part without problems. leadingScore is the name of the score that counts, see outcome.Leads.
	Add(v modelapi.Value, leadingScore string)
	// End returns the runs after the last part.
	End() ([]*steps.Run, error)
}

// hasType returns a function that reports whether an object has the type given.
func hasType(name string) func(modelapi.Value) bool {
	return func(v modelapi.Value) bool { return v.Text("type") == name }
}

// formats lists the formats; the first one that matches an object is used.
var formats = []*fileFormat{
	{
		source: sourceTau2, title: "tau2-bench results",
		matches: func(v modelapi.Value) bool {
			return v.HasAll("task_id", "messages") && v.HasAny("reward_info", "termination_reason")
		},
		parse: tau2,
	},
	{
		source: sourceTauBench, title: "tau-bench results", byFile: true,
		matches: func(v modelapi.Value) bool {
			return v.HasAll("traj") || v.HasAll("task_id", "reward") && !v.HasAny("messages", "question", "steps", "answer")
		},
		parse: tauBench,
	},
	{
		source: sourceATIF, title: "ATIF trajectories (Harbor, Terminal-Bench)",
		matches: func(v modelapi.Value) bool {
			isExecution := v.HasAll("question") // see sourceExecutions
			return v.Kind("steps") == '[' && (strings.HasPrefix(v.Text("schema_version"), "ATIF") || v.Kind("agent") == '{' && !isExecution)
		},
		parse: atif,
	},
	{
		source: sourceInspect, title: "Inspect logs (.eval, .json)",
		matches: func(v modelapi.Value) bool {
			return v.HasAll("id", "epoch") && v.HasAny("messages", "scores", "output")
		},
		parse: inspectSample,
	},
	{
		source: sourceOpenHands, title: "OpenHands trajectories and outputs of its evaluation",
		matches: func(v modelapi.Value) bool {
			return v.Kind("history") == '[' && v.HasAny("instruction", "git_patch", "test_result", "metrics")
		},
		parse: handsOutput,
	},
	{
		source: sourceOpenHands, byFile: true,
		matches: func(v modelapi.Value) bool {
			return v.HasAll("source") && v.HasAny("action", "observation") && v.HasAny("id", "timestamp") && !v.HasAll("kind")
		},
		newBuilder: func() runBuilder { return &handsSession{} },
		check:      checkHands,
	},
	{
		source: sourceOpenHands, byFile: true,
		matches: func(v modelapi.Value) bool {
			return v.HasAll("source", "kind") && v.HasAny("llm_message", "tool_call_id", "system_prompt", "timestamp")
		},
		newBuilder: func() runBuilder { return &handsSDKSession{} },
		check:      checkHandsSDK,
	},
	{
		source: sourceSWEAgent, title: "SWE-agent trajectories (.traj)", byFile: true,
		matches: func(v modelapi.Value) bool { return v.HasAny("trajectory", "history") },
		parse:   sweAgent,
	},
	{
		source: sourceCodex, title: "Codex CLI rollouts and the output of 'codex exec --json'",
		matches:    func(v modelapi.Value) bool { return v.HasAll("payload", "timestamp") && v.Text("type") != "" },
		newBuilder: func() runBuilder { return &codexSession{} },
		check:      checkCodex,
		isFirst:    hasType("session_meta"),
	},
	{
		source:     sourceCodex,
		matches:    isCodexEvent,
		newBuilder: func() runBuilder { return &codexExec{} },
		check:      func(v modelapi.Value) { v.Want('{', "item") },
		isFirst:    hasType("thread.started"),
	},
	{
		source: sourceGemini, title: "Gemini CLI sessions and the output of 'gemini --output-format stream-json'",
		matches:    isGeminiRecord,
		newBuilder: func() runBuilder { return &geminiSession{} },
		check:      checkGemini,
		isFirst:    isGeminiHead,
	},
	{
		source:     sourceGemini,
		matches:    isGeminiEvent,
		newBuilder: func() runBuilder { return &geminiStream{} },
		isFirst:    hasType("init"),
	},
	{
		source: sourceLangSmith, title: "LangSmith runs",
		matches:    func(v modelapi.Value) bool { return v.Text("run_type") != "" && v.HasAll("id") },
		newBuilder: func() runBuilder { return &langSmithTrace{} },
		session:    func(v modelapi.Value, _ agentChains) string { return cmp.Or(v.Text("trace_id"), v.Text("id")) },
	},
	{
		source: sourceOTel, title: "OpenTelemetry spans (OTLP in JSON, SDK exporters; GenAI, OpenInference, Vercel AI SDK)",
		matches: isOTLP,
		split:   splitOTLP,
	},
	{
		source:     sourceOTel,
		matches:    func(v modelapi.Value) bool { return otelTraceID(v) != "" },
		newBuilder: func() runBuilder { return &OTelTrace{} },
		session:    func(v modelapi.Value, _ agentChains) string { return otelTraceID(v) },
	},
	{
		source:  sourceOTel,
		matches: isAttributes,
		parse:   otelAttributes,
	},
	{
		source: sourceClaudeCode, title: "Claude Code (the output of 'claude -p --output-format stream-json', and transcripts)",
		matches: func(v modelapi.Value) bool {
			return v.Text("type") != "" && v.Text("session_id")+v.Text("sessionId") != ""
		},
		newBuilder: func() runBuilder { return &claudeSession{} },
		check:      func(v modelapi.Value) { v.Want('{', "message").WantContent("content") },
		session:    claudeSessionOf,
		isLast:     hasType("result"),
	},
	{
		source: sourceLangfuse, title: "Langfuse traces and observations",
		matches: func(v modelapi.Value) bool { return v.Kind("observations") == '[' },
		parse:   langfuseTrace,
	},
	{
		source: sourceLangfuse,
		matches: func(v modelapi.Value) bool {
			return v.HasAll("traceId", "type", "startTime") && v.HasAny("input", "output")
		},
		newBuilder: func() runBuilder { return &langfuseSpans{} },
		session:    func(v modelapi.Value, _ agentChains) string { return v.Text("traceId") },
	},
	{
		source: sourceResponses, title: "OpenAI Responses (request logs)",
		matches: isResponsesLog,
		parse:   responsesLog,
	},
	{
		source: sourceMiniSWEAgent, title: "mini-SWE-agent trajectories, and other agents whose actions stand in their text", byFile: true,
		matches: func(v modelapi.Value) bool { return v.Kind("messages") == '[' && v.Kind("info") == '{' },
		parse:   miniSWEAgent,
	},
	{
		source: sourceOpenAIChat, title: `OpenAI chat and Anthropic messages ({"messages": […], "task_id", "score"}, a list of messages or items, fine-tuning files, request logs)`,
		matches: func(v modelapi.Value) bool { return v.HasAny("messages", "request") },
		parse:   chatLog,
	},
	{
		source:     sourceOpenAIChat,
		matches:    func(v modelapi.Value) bool { return v.Text("role") != "" || v.IsItem() },
		newBuilder: func() runBuilder { return &chatMessages{} },
		check:      modelapi.Value.WantMessage,
	},
	{
		source: sourceExecutions, title: `executions in the form of 'debrief submit --wait --json', one per line: {"task_id", "question", "answer", "steps", "outcome"}`,
		matches: func(v modelapi.Value) bool {
			return v.HasAny("task_id", "question") && v.HasAny("steps", "answer", "outcome") && !isAnswerLog(v)
		},
		parse: execution,
	},
	answerFormat,
}

var answerFormat = &fileFormat{
	source: sourceQA, title: "tables and lines of question, answer and score (CSV, JSON Lines)",
	matches: isAnswer, parse: answer,
}

// matchFormat returns the format of an object, or nil.
func matchFormat(v modelapi.Value) *fileFormat {
	for _, f := range formats {
		if f.matches(v) {
			return f
		}
	}
	return nil
}

// findFormat returns the format of an object. It is nil for an event that is not a turn.
func findFormat(v modelapi.Value) (*fileFormat, error) {
	f := matchFormat(v)
	switch kind := v.Kind(); {
	case f != nil:
		return f, nil
	case v.Text("type") != "": // an event that is not a turn
		return nil, nil
	case kind != '{' && kind != 'n': // 'n' is null
		v.WantObject()
		return nil, v.Problem()
	case v.Names() == "":
		return nil, errors.New("unknown format: the object has no fields")
	}
	return nil, fmt.Errorf("unknown format: no supported recording has the fields %s", v.Names())
}
