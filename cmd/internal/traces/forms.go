package traces

import (
	"encoding/json"
	"errors"
)

// form is one of the formats.
type form struct {
	source string
	is     func(*shape) bool
	byFile bool // the file's name is part of the task ids
	// whole is the run in an object; where objects are parts of runs, open begins one.
	whole func(raw []byte) (*run, error)
	open  func() parts
	// session tells apart the runs that a part may belong to; first and last are the parts that a run begins and ends with.
	session     func(*shape) string
	first, last string // values of type, where there are such parts
}

// parts is a run that comes in parts.
type parts interface {
	add(*shape, []byte) error // what is wrong with a part leaves out that part
	end() (*run, error)
}

// forms is in the order in which an object is held against them.
var forms = []*form{
	{
		source: TauBench, byFile: true,
		is: func(s *shape) bool {
			return bool(s.Traj) || bool(s.TaskID && s.Reward && !s.Messages && !s.Question && !s.Steps && !s.Answer)
		},
		whole: tauBench,
	},
	{
		source: SWEAgent, byFile: true,
		is:    func(s *shape) bool { return bool(s.Trajectory || s.History) },
		whole: sweAgent,
	},
	{
		source:  ClaudeCode,
		is:      func(s *shape) bool { return s.Type != "" && (s.SessionID != "" || s.SessionIDOfFile != "") },
		open:    func() parts { return &claudeSession{} },
		session: func(s *shape) string { return string(s.SessionID + s.SessionIDOfFile) },
		last:    "result",
	},
	{
		source: OpenClaw,
		is: func(s *shape) bool {
			return s.Type == "session" && s.ID != "" || s.Type == "message" && bool(s.Message)
		},
		open:    func() parts { return &clawSession{} },
		session: func(*shape) string { return "" }, // messages name none: they belong to the session event before them
		first:   "session",
	},
	{
		source: OpenAIChat,
		is:     func(s *shape) bool { return bool(s.Messages || s.Request) },
		whole:  chatObject,
	},
	{
		source:  OpenAIChat,
		is:      func(s *shape) bool { return s.Role != "" },
		open:    func() parts { return &chatMessages{conversation{failed: toolFailed}} },
		session: func(*shape) string { return "" },
	},
	{
		source: DynamicCheatsheet,
		is:     func(s *shape) bool { return bool(s.Input && (s.FinalAnswer || s.FinalOutput)) },
		whole:  cheatsheet,
	},
	{
		source: Executions,
		is:     func(s *shape) bool { return bool((s.TaskID || s.Question) && (s.Steps || s.Answer || s.Outcome)) },
		whole:  execution,
	},
}

// shape is what tells the formats apart: which fields an object has, and the text of some.
type shape struct {
	Type            fieldText `json:"type"`
	Role            fieldText `json:"role"`
	ID              fieldText `json:"id"`
	SessionID       fieldText `json:"session_id"`
	SessionIDOfFile fieldText `json:"sessionId"` // in transcripts

	Traj        there `json:"traj"`
	TaskID      there `json:"task_id"`
	Reward      there `json:"reward"`
	Trajectory  there `json:"trajectory"`
	History     there `json:"history"`
	Message     there `json:"message"`
	Messages    there `json:"messages"`
	Request     there `json:"request"`
	Input       there `json:"input"`
	FinalAnswer there `json:"final_answer"`
	FinalOutput there `json:"final_output"`
	Question    there `json:"question"`
	Steps       there `json:"steps"`
	Answer      there `json:"answer"`
	Outcome     there `json:"outcome"`
}

// there says that a field has a value, and keeps nothing of it.
type there bool

func (t *there) UnmarshalJSON(raw []byte) error { *t = string(raw) != "null"; return nil }

// fieldText is a field's text where it has one.
type fieldText string

func (w *fieldText) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(w))
	}
	return nil
}

// formOf is the format of an object: nil for an event of a log that is no turn.
func formOf(raw []byte) (*form, *shape, error) {
	s := new(shape)
	if err := decode(raw, s); err != nil {
		return nil, nil, err
	}
	for _, f := range forms {
		if f.is(s) {
			return f, s, nil
		}
	}
	if s.Type != "" {
		return nil, s, nil
	}
	return nil, nil, errors.New("its fields are those of no recording that is read here")
}
