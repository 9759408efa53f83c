package events

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

// ContextRequest requests the messages for a model call. In JSON it is the body of POST /api/v1/contexts, and of a
// request on the subject of VerbContext.
type ContextRequest struct {
	Caller  Caller        `json:"-" redact:"-"`
	Book    playbook.Book `json:"book,omitempty"`             // over NATS from the subject; over HTTP the default is DefaultBook
	User    string        `json:"user,omitempty" redact:"id"` // see Task.User
	Session string        `json:"session,omitempty" redact:"id"`
	// RunID is the agent's id of the run. Without a session, all contexts with the same RunID are in the same arm of the control share.
	RunID   string `json:"run_id,omitempty" redact:"id"`
	Query   string `json:"query"`
	Context string `json:"context,omitempty"` // background of the query
	// System contains the agent's instructions. If it is empty, the system message explains only how to use
	// bullets.
	System string `json:"system,omitempty"`
	// Steps are the steps of the current turn, if the agent has already called tools. A step by a user begins a new
	// turn.
	Steps []Step `json:"steps,omitempty"`

	Playbook   *uint64 `json:"playbook,omitempty"`    // version to use; nil is the newest
	MinVersion uint64  `json:"min_version,omitempty"` // oldest acceptable version
	Limit      int     `json:"limit,omitempty"`       // tokens; 0 is the default of the service
	// Window is the number of earlier user turns in the context: 1 to 20, "none" for no limit, or "adaptive". Empty is the default of the service.
	Window  Turns  `json:"window,omitempty"`
	Task    string `json:"task,omitempty"`    // kind of the task: general, research, coding, debugging or analysis; empty: detected
	Explain bool   `json:"explain,omitempty"` // include the components of every score
	DryRun  bool   `json:"dry_run,omitempty"` // do not store the context; it cannot be reported on

	// Unstored asks the service not to store the context, because the caller stores it (see NewServedContext): the gateway does so while
	// its model works. If nobody stores it, the shown bullets of the report are unknown.
	Unstored bool `json:"unstored,omitempty"`

	// Advice requests one message with bullets and reflections, or none if there are none. The agent adds its text to the
	// user's message, and keeps its own instructions and history: Context, System, Steps and Window must be empty.
	Advice bool `json:"advice,omitempty"`
}

// Turns is a number of user turns, or a word in place of it. In JSON it is a number or a string.
type Turns string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Turns) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && (data[0] == '"' || data[0] == 'n') { // a string or null
		return json.Unmarshal(data, (*string)(t))
	}
	if _, err := strconv.Atoi(string(data)); err != nil {
		return fmt.Errorf("want a whole number of user turns, none or adaptive, got %s", text.Clip(string(data), 40))
	}
	*t = Turns(data)
	return nil
}

// Validate returns an error for each invalid field.
func (r *ContextRequest) Validate() error {
	errs := []error{names{session: r.Session, user: r.User}.validate(), validateName("run_id", r.RunID, MaxName)}
	if strings.TrimSpace(r.Query) == "" {
		errs = append(errs, errors.New("query: is empty"))
	}
	if r.Limit < 0 {
		errs = append(errs, fmt.Errorf("limit: must be positive, got %d", r.Limit))
	}
	if r.Advice {
		for _, field := range []struct {
			name  string
			empty bool
		}{
			{"context", r.Context == ""}, {"system", r.System == ""}, {"steps", len(r.Steps) == 0}, {"window", r.Window == ""},
		} {
			if !field.empty {
				errs = append(errs, fmt.Errorf("%s: must be empty with advice", field.name))
			}
		}
	}
	return errors.Join(append(errs, r.Book.Validate())...)
}

// ContextReply is a context, ready for a model call.
type ContextReply struct {
	ID       ID             `json:"context_id,omitempty"` // for the report of the execution
	Book     playbook.Book  `json:"book"`
	Session  string         `json:"session,omitempty"`
	Turn     int            `json:"turn,omitempty"`
	Version  uint64         `json:"playbook_version"`
	Stale    bool           `json:"stale,omitempty"` // older than the requested version
	Messages []chat.Message `json:"messages"`
	Shown    []ShownBullet  `json:"shown"`
	Manifest Manifest       `json:"manifest"`
	Control  *Control       `json:"control,omitempty"` // arm of the session while the playbook has a control share
	SHA256   string         `json:"sha256"`            // of the messages
	Scores   []BulletScore  `json:"scores,omitempty"`
	// WindowScores are the scores of the messages and tool steps in the window, in time order.
	WindowScores []WindowScore `json:"window_scores,omitempty"`
	// Lines are the learned texts in the message of advice, in order.
	Lines []AdviceLine `json:"lines,omitempty"`
}

// NewServedContext returns the context of a reply in the form that is stored. It shares the reply's slices. It returns an error if the
// hash in the reply is invalid.
func NewServedContext(r *ContextRequest, reply *ContextReply) (*ServedContext, error) {
	sum, err := hex.DecodeString(reply.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sha256 of context %.80q: %w", string(reply.ID), err)
	}
	return &ServedContext{
		ID: reply.ID, Book: r.Book, Owner: r.Caller.Owner, User: r.User, Session: r.Session, Query: r.Query, Context: r.Context, Turn: reply.Turn, Version: reply.Version,
		Shown: reply.Shown, Manifest: reply.Manifest, Control: reply.Control, SHA256: sum, Created: reply.Manifest.At,
	}, nil
}

// ServedContext is a context that an outside agent received. It is stored until the agent reports the execution.
type ServedContext struct {
	ID       ID            `msgpack:"i" json:"context_id"`
	Book     playbook.Book `msgpack:"b" json:"book"`
	Owner    string        `msgpack:"w,omitempty" json:"owner,omitempty" redact:"id"`
	User     string        `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`
	Session  string        `msgpack:"s,omitempty" json:"session,omitempty" redact:"id"`
	Query    string        `msgpack:"q,omitempty" json:"query,omitempty"`
	Context  string        `msgpack:"c,omitempty" json:"context,omitempty"`
	Turn     int           `msgpack:"n,omitempty" json:"turn,omitempty"`
	Version  uint64        `msgpack:"v" json:"playbook_version"`
	Shown    []ShownBullet `msgpack:"sh,omitempty" json:"shown,omitempty"`
	Manifest Manifest      `msgpack:"m" json:"manifest"`
	Control  *Control      `msgpack:"ctl,omitempty" json:"control,omitempty"`
	SHA256   []byte        `msgpack:"h" json:"sha256"` // of the messages
	Created  time.Time     `msgpack:"t" json:"created"`
}

// AdviceLine is a learned text in the message of advice: a bullet, or a text of a reflection. A program that repeats
// the advice in later calls of a conversation leaves out the lines that may not be shown by then.
type AdviceLine struct {
	Start int `json:"start"` // in the message, in bytes
	End   int `json:"end"`   // after the line feed
	// Bullet is the bullet of the line, empty for a reflection.
	Bullet playbook.BulletID `json:"bullet,omitempty"`
	// Wording is WordingOf the bullet's text, 0 for a reflection.
	Wording uint32 `json:"wording,omitempty"`
	// Reflection is the reflection of the line.
	Reflection Handle `json:"reflection,omitempty"`
	// Field names the text of the reflection. It is empty for the heading before the texts of a reflection.
	Field string `json:"field,omitempty"`
}

// KeepAdvice returns a message of advice without the lines for which keep returns false, and the lines that stay, with their offsets in
// rest. A line is a bullet, a field of a reflection, or the heading of the reflection whose fields follow. A heading stays
// if one of its fields does. If no line stays, rest is empty.
func KeepAdvice(text string, lines []AdviceLine, keep func(l *AdviceLine, text string) bool) (rest string, kept []AdviceLine) {
	keeps := make([]bool, len(lines))
	heading := 0 // index of the last heading
	for i := range lines {
		l := &lines[i]
		if l.Bullet == "" && l.Field == "" {
			heading = i
			continue
		}
		keeps[i] = keep(l, text[l.Start:l.End])
		if keeps[i] && l.Field != "" {
			keeps[heading] = true
		}
	}
	if !slices.Contains(keeps, true) {
		return "", nil
	}
	end := 0     // of the last line that was left out
	removed := 0 // bytes left out so far
	for i, l := range lines {
		if keeps[i] {
			l.Start -= removed
			l.End -= removed
			kept = append(kept, l)
			continue
		}
		rest += text[end:l.Start]
		removed += l.End - l.Start
		end = l.End
	}
	return rest + text[end:], kept
}

// BulletScore explains the rank of a bullet by components between 0 and 1. Relevance is the best score of any method:
// past tasks, words or embeddings. Total is the reciprocal of the best rank by any method, or the weighted sum of the
// components if weights are set. It is 0 if no method found the bullet.
type BulletScore struct {
	ID            playbook.BulletID `json:"id"`
	Effectiveness float64           `json:"effectiveness"`
	Recency       float64           `json:"recency"`
	Relevance     float64           `json:"relevance"`
	Total         float64           `json:"total"`
	Tokens        int               `json:"tokens"`
	Shown         bool              `json:"shown"`
	Why           string            `json:"why,omitempty"`
}

// WindowScore explains the place of an item in the window of a session: a message or a step with tool calls. Total is the
// sum of Recency (at most 0.3), Flags (at most 1.02), Semantic (at most 0.4) and Source (at most 0.4). Priority orders the items: 0.6 ×
// Total / 2.12 + 0.4 × its position in time, from 0 to 1. Newest, pinned and starred items come first whatever their score.
type WindowScore struct {
	Kind     PartKind `json:"kind"`
	Ref      string   `json:"ref"`
	Recency  float64  `json:"recency"`
	Flags    float64  `json:"flags"`
	Semantic float64  `json:"semantic"`
	Source   float64  `json:"source"`
	Total    float64  `json:"total"`
	Priority float64  `json:"priority"`
	Tokens   int      `json:"tokens"`
	Shown    bool     `json:"shown"`
	Why      string   `json:"why,omitempty"` // such as "pinned", or the reason why the item is not shown
}
