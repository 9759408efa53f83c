package traces

import (
	"encoding/json"
	"errors"
)

// Values of Origin.Source and Report.Source.
const (
	sourceTauBench          = "tau-bench"
	sourceSWEAgent          = "swe-agent"
	sourceClaudeCode        = "claude-code"
	sourceOpenClaw          = "openclaw"
	sourceOpenAIChat        = "openai-chat"
	sourceDynamicCheatsheet = "dynamic-cheatsheet"
	sourceExecutions        = "debrief"
)

// ErrFormat is returned if no object of the file has a known format.
var ErrFormat = errors.New("want tau-bench results, SWE-agent .traj, Claude Code stream-json, OpenClaw session, OpenAI chat, " +
	"Dynamic Cheatsheet results or executions")

// Formats lists the known formats, for help texts. It has line breaks and no full stop.
const Formats = `tau-bench results, SWE-agent trajectories (.traj), Claude Code (the output of
'claude -p --output-format stream-json', and transcripts), OpenClaw sessions, OpenAI chat ({"messages": […]}, a list of
messages, fine-tuning files, request logs), Dynamic Cheatsheet results, and executions in the form of 'debrief submit
--wait --json': {"task_id", "question", "answer", "steps", "outcome"}, one per line`

// format describes one of the known formats. Exactly one of parse and newBuilder is set.
type format struct {
	source  string
	matches func(*shape) bool
	byFile  bool // the file name is part of the task ids
	// parse returns the run of an object that is a whole run. newBuilder is for formats whose objects are parts of runs.
	parse      func(raw []byte) (*run, error)
	newBuilder func() runBuilder
	// session returns the id of the run to which a part belongs.
	session func(*shape) string
	// firstType and lastType are the values of the field type of the first and last part of a run; empty if the format has
	// no such part.
	firstType, lastType string
}

// runBuilder builds a run from its parts.
type runBuilder interface {
	add(*shape, []byte) error // an error skips only this part
	end() (*run, error)
}

// formats lists the formats; the first one that matches an object is used.
var formats = []*format{
	{
		source: sourceTauBench, byFile: true,
		matches: func(s *shape) bool {
			return bool(s.Traj) || bool(s.TaskID && s.Reward && !s.Messages && !s.Question && !s.Steps && !s.Answer)
		},
		parse: tauBench,
	},
	{
		source: sourceSWEAgent, byFile: true,
		matches: func(s *shape) bool { return bool(s.Trajectory || s.History) },
		parse:   sweAgent,
	},
	{
		source:     sourceClaudeCode,
		matches:    func(s *shape) bool { return s.Type != "" && (s.SessionID != "" || s.SessionIDOfFile != "") },
		newBuilder: func() runBuilder { return &claudeSession{} },
		session:    func(s *shape) string { return string(s.SessionID + s.SessionIDOfFile) },
		lastType:   "result",
	},
	{
		source: sourceOpenClaw,
		matches: func(s *shape) bool {
			return s.Type == "session" && s.ID != "" || s.Type == "message" && bool(s.Message)
		},
		newBuilder: func() runBuilder { return &clawSession{} },
		session:    func(*shape) string { return "" }, // messages have no session id: they belong to the last session event
		firstType:  "session",
	},
	{
		source:  sourceOpenAIChat,
		matches: func(s *shape) bool { return bool(s.Messages || s.Request) },
		parse:   chatObject,
	},
	{
		source:     sourceOpenAIChat,
		matches:    func(s *shape) bool { return s.Role != "" },
		newBuilder: func() runBuilder { return &chatMessages{conversation{failed: toolFailed}} },
		session:    func(*shape) string { return "" },
	},
	{
		source:  sourceDynamicCheatsheet,
		matches: func(s *shape) bool { return bool(s.Input && (s.FinalAnswer || s.FinalOutput)) },
		parse:   cheatsheet,
	},
	{
		source:  sourceExecutions,
		matches: func(s *shape) bool { return bool((s.TaskID || s.Question) && (s.Steps || s.Answer || s.Outcome)) },
		parse:   execution,
	},
}

// shape holds the fields of an object that identify its format: which fields are set, and the text of some.
type shape struct {
	Type            fieldText `json:"type"`
	Role            fieldText `json:"role"`
	ID              fieldText `json:"id"`
	SessionID       fieldText `json:"session_id"`
	SessionIDOfFile fieldText `json:"sessionId"` // in transcripts

	Traj        present `json:"traj"`
	TaskID      present `json:"task_id"`
	Reward      present `json:"reward"`
	Trajectory  present `json:"trajectory"`
	History     present `json:"history"`
	Message     present `json:"message"`
	Messages    present `json:"messages"`
	Request     present `json:"request"`
	Input       present `json:"input"`
	FinalAnswer present `json:"final_answer"`
	FinalOutput present `json:"final_output"`
	Question    present `json:"question"`
	Steps       present `json:"steps"`
	Answer      present `json:"answer"`
	Outcome     present `json:"outcome"`
}

// present is true if a JSON field has a value other than null. It does not keep the value.
type present bool

func (t *present) UnmarshalJSON(raw []byte) error { *t = string(raw) != "null"; return nil }

// fieldText is the value of a field if it is a JSON string, else "".
type fieldText string

func (w *fieldText) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(w))
	}
	return nil
}

// detectFormat returns the format and the shape of an object. The format is nil for an event that is not a turn.
func detectFormat(raw []byte) (*format, *shape, error) {
	s := new(shape)
	if err := decode(raw, s); err != nil {
		return nil, nil, err
	}
	for _, f := range formats {
		if f.matches(s) {
			return f, s, nil
		}
	}
	if s.Type != "" {
		return nil, s, nil
	}
	return nil, nil, errors.New("unknown format: the fields match no supported recording")
}
