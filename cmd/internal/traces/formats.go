package traces

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/spans"
	"debrief/cmd/internal/traces/steps"
)

// Values of Origin.Source and Report.Source.
const (
	sourceTauBench          = "tau-bench"
	sourceSWEAgent          = "swe-agent"
	sourceClaudeCode        = "claude-code"
	sourceOpenClaw          = "openclaw"
	sourceOpenAIChat        = "openai-chat"
	sourceDynamicCheatsheet = "dynamic-cheatsheet"
	sourceQA                = "qa"
	sourceTau2              = "tau2"
	sourceCodex             = "codex"
	sourceGemini            = "gemini-cli"
	sourceOpenHands         = "openhands"
	sourceMiniSWEAgent      = "mini-swe-agent"
	sourceResponses         = "openai-responses"
	sourceExecutions        = "debrief"
)

// smallestLine is the smallest line that can be read.
const smallestLine = `{"question": "2+2?", "answer": "4", "score": 1}`

// ErrFormat is returned if no object of the file has a known format.
var ErrFormat = errors.New("want a format of 'debrief learn --help'; the smallest line that works is " + smallestLine)

// Formats returns the known formats, for help texts. It has line breaks and no full stop.
func Formats() string {
	var text strings.Builder
	width := 0
	for i, f := range formats {
		if f.title == "" {
			continue
		}
		for _, word := range strings.Fields(f.title) {
			if width+len(word) > 100 {
				text.WriteByte('\n')
				width = 0
			} else if width > 0 {
				text.WriteByte(' ')
			}
			n, _ := text.WriteString(word)
			width += n + 1
		}
		if i < len(formats)-1 {
			text.WriteByte(',')
		}
	}
	return text.String()
}

// format describes one of the known formats. Exactly one of parse, newBuilder and split is set.
type format struct {
	source  string
	title   string // for help texts; empty for another form of the format before it
	matches func(*source.Object) bool
	byFile  bool // outcomes of a separate file name the runs by their file
	lazy    bool // the reader decodes only some fields, so the object is checked first
	// parse returns the runs of an object that has whole runs. newBuilder is for formats whose objects are parts of runs.
	// split returns the objects inside an object.
	parse      func(*source.Object) ([]*steps.Run, error)
	newBuilder func() runBuilder
	split      func(*source.Object) ([][]byte, error)
	// session returns the id of the run to which a part belongs. sessions returns such a function for one file, for formats
	// where it depends on the parts before.
	session  func(*source.Object) string
	sessions func() func(*source.Object) string
	// firstType and lastType are the values of the field type of the first and last part of a run; empty if the format has
	// no such part.
	firstType, lastType string
}

// runBuilder builds runs from their parts.
type runBuilder interface {
	Add(*source.Object) error // an error skips only this part
	End() ([]*steps.Run, error)
}

// oneRun adapts a function that parses one run.
func oneRun(parse func(raw []byte) (*steps.Run, error)) func(*source.Object) ([]*steps.Run, error) {
	return func(o *source.Object) ([]*steps.Run, error) { return asRuns(parse(o.Raw)) }
}

// noSession is the session of parts that belong to the last run that started.
func noSession(*source.Object) string { return "" }

// formats lists the formats; the first one that matches an object is used.
var formats = []*format{
	{
		source: sourceTau2, title: "tau2-bench results",
		matches: func(o *source.Object) bool {
			return o.Has("task_id", "messages") && o.HasAny("reward_info", "termination_reason")
		},
		parse: tau2,
	},
	{
		source: sourceTauBench, title: "tau-bench results", byFile: true,
		matches: func(o *source.Object) bool {
			return o.Has("traj") || o.Has("task_id", "reward") && !o.HasAny("messages", "question", "steps", "answer")
		},
		parse: oneRun(tauBench),
	},
	{
		source: sourceOpenHands, title: "OpenHands trajectories and outputs of its evaluation",
		matches: func(o *source.Object) bool {
			return o.Kind("history") == '[' && o.HasAny("instruction", "git_patch", "test_result", "metrics")
		},
		parse: handsOutput,
	},
	{
		source: sourceOpenHands, byFile: true,
		matches: func(o *source.Object) bool {
			return o.Has("source") && o.HasAny("action", "observation") && o.HasAny("id", "timestamp") && !o.Has("kind")
		},
		newBuilder: func() runBuilder { return &handsSession{} },
		session:    noSession,
	},
	{
		source: sourceOpenHands, byFile: true, lazy: true,
		matches:    isHandsSDK,
		newBuilder: func() runBuilder { return &handsSDKSession{} },
		session:    noSession,
	},
	{
		source: sourceSWEAgent, title: "SWE-agent trajectories (.traj)", byFile: true,
		matches: func(o *source.Object) bool { return o.HasAny("trajectory", "history") },
		parse:   oneRun(sweAgent),
	},
	{
		source: sourceCodex, title: "Codex CLI rollouts",
		matches:    func(o *source.Object) bool { return o.Has("payload", "timestamp") && o.Text("type") != "" },
		newBuilder: func() runBuilder { return &codexSession{} },
		lazy:       true,
		session:    noSession,
		firstType:  "session_meta",
	},
	{
		source: sourceGemini, title: "Gemini CLI sessions",
		matches: func(o *source.Object) bool { return o.Kind("messages") == '[' && o.Text("sessionId") != "" },
		parse:   geminiSession,
		lazy:    true,
	},
	{
		source: spans.SourceLangSmith, title: "LangSmith runs",
		matches:    func(o *source.Object) bool { return o.Text("run_type") != "" && o.Has("id") },
		newBuilder: func() runBuilder { return &spans.LangSmithTrace{} },
		lazy:       true,
		session:    func(o *source.Object) string { return cmp.Or(o.Text("trace_id"), o.Text("id")) },
	},
	{
		source: spans.SourceOTel, title: "OpenTelemetry spans (OTLP in JSON, SDK exporters; GenAI, OpenInference, Vercel AI SDK)",
		matches: spans.IsOTLP,
		split:   spans.SplitOTLP,
		lazy:    true,
	},
	{
		source:     spans.SourceOTel,
		matches:    func(o *source.Object) bool { return spans.OTelTraceID(o) != "" },
		newBuilder: func() runBuilder { return &spans.OTelTrace{} },
		lazy:       true,
		session:    spans.OTelTraceID,
	},
	{
		source:  spans.SourceOTel,
		matches: spans.IsAttributes,
		parse:   spans.OTelAttributes,
		lazy:    true,
	},
	{
		source: sourceClaudeCode, title: "Claude Code (the output of 'claude -p --output-format stream-json', and transcripts)",
		matches: func(o *source.Object) bool {
			return o.Text("type") != "" && o.Text("session_id")+o.Text("sessionId") != ""
		},
		newBuilder: func() runBuilder { return &claudeSession{} },
		sessions:   claudeSessions,
		lastType:   "result",
	},
	{
		source: sourceOpenClaw, title: "OpenClaw sessions",
		matches: func(o *source.Object) bool {
			return o.Text("type") == "session" && o.Text("id") != "" || o.Text("type") == "message" && o.Has("message")
		},
		newBuilder: func() runBuilder { return &clawSession{} },
		session:    noSession, // messages have no session id
		firstType:  "session",
	},
	{
		source: spans.SourceLangfuse, title: "Langfuse traces and observations",
		matches: func(o *source.Object) bool { return o.Kind("observations") == '[' },
		parse:   spans.LangfuseTrace,
		lazy:    true,
	},
	{
		source: spans.SourceLangfuse,
		matches: func(o *source.Object) bool {
			return o.Has("traceId", "type", "startTime") && o.HasAny("input", "output")
		},
		newBuilder: func() runBuilder { return &spans.LangfuseSpans{} },
		lazy:       true,
		session:    func(o *source.Object) string { return o.Text("traceId") },
	},
	{
		source: sourceResponses, title: "OpenAI Responses (request logs)",
		matches: isResponsesLog,
		parse:   responsesLog,
		lazy:    true,
	},
	{
		source: sourceMiniSWEAgent, title: "mini-SWE-agent trajectories, and other agents whose actions stand in their text", byFile: true,
		matches: func(o *source.Object) bool { return o.Kind("messages") == '[' && o.Kind("info") == '{' },
		parse:   miniSWEAgent,
	},
	{
		source: sourceOpenAIChat, title: `OpenAI chat and Anthropic messages ({"messages": […]}, a list of messages or items, fine-tuning files, request logs)`,
		matches: func(o *source.Object) bool { return o.HasAny("messages", "request") },
		parse:   func(o *source.Object) ([]*steps.Run, error) { return asRuns(chatObject(o)) },
	},
	{
		source:     sourceOpenAIChat,
		matches:    isChatMessage,
		newBuilder: func() runBuilder { return &chatMessages{steps.Conversation{}} },
		session:    noSession,
	},
	{
		source: sourceDynamicCheatsheet, title: "Dynamic Cheatsheet results",
		matches: func(o *source.Object) bool { return o.Has("input") && o.HasAny("final_answer", "final_output") },
		parse:   oneRun(cheatsheet),
	},
	{
		source: sourceExecutions, title: `executions in the form of 'debrief submit --wait --json', one per line: {"task_id", "question", "answer", "steps", "outcome"}`,
		matches: func(o *source.Object) bool {
			return o.HasAny("task_id", "question") && o.HasAny("steps", "answer", "outcome") && !isAnswerLog(o)
		},
		parse: oneRun(execution),
	},
	{
		source: sourceQA, title: "tables and lines of question, answer and score (CSV, JSON Lines)",
		matches: qaMatches, parse: qaObject, lazy: true,
	},
}

// matchFormat returns the format of an object, or nil.
func matchFormat(o *source.Object) *format {
	for _, f := range formats {
		if f.matches(o) {
			return f
		}
	}
	return nil
}

// detectFormat splits an object and returns its format. The format is nil for an event that is not a turn.
func detectFormat(raw []byte) (*source.Object, *format, error) {
	o, err := source.NewObject(raw)
	if err != nil {
		return nil, nil, err
	}
	if f := matchFormat(o); f != nil {
		return o, f, nil
	}
	if err := source.Decode(raw, &struct{}{}); err != nil { // NewObject checks less
		return nil, nil, err
	}
	switch {
	case o.Text("type") != "":
		return o, nil, nil
	case len(o.Fields) == 0:
		return nil, nil, errors.New("unknown format: the object has no fields")
	}
	return nil, nil, fmt.Errorf("unknown format: no supported recording has the fields %s", o.Names())
}

// asRuns returns one run as a list.
func asRuns(r *steps.Run, err error) ([]*steps.Run, error) {
	if err != nil {
		return nil, err
	}
	return []*steps.Run{r}, nil
}
