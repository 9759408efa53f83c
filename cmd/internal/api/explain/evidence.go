package explain

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/text"
)

// Evidence reads the executions and reflections that a log refers to. The methods return nil without an error for one that has expired.
type Evidence interface {
	Execution(ctx context.Context, handle string) (*events.Execution, error)
	Reflection(ctx context.Context, c playbook.Cover) (*events.Reflection, error)
}

// Stored is the evidence on a server. It caches executions, and is not safe for concurrent use.
type Stored struct {
	conn       *bus.Conn
	mayRead    func(*events.Execution) bool
	executions map[string]*events.Execution // by handle; nil if not stored
}

// NewStored returns the evidence on a server. An execution that mayRead does not permit is like one that has expired. A log may name an
// execution of another playbook: a run of train can learn from it, and in a log of another system the handle means another execution here.
// A nil mayRead permits all.
func NewStored(conn *bus.Conn, mayRead func(*events.Execution) bool) *Stored {
	return &Stored{conn, mayRead, map[string]*events.Execution{}}
}

// Execution implements Evidence.
func (s *Stored) Execution(ctx context.Context, handle string) (*events.Execution, error) {
	e, err := s.find(ctx, handle)
	if err != nil || e == nil || s.mayRead != nil && !s.mayRead(e) {
		return nil, err
	}
	return e, nil
}

// find returns an execution, or nil if it is not stored.
func (s *Stored) find(ctx context.Context, handle string) (*events.Execution, error) {
	if e, ok := s.executions[handle]; ok {
		return e, nil
	}
	seq, matches, err := events.Handle(handle).Parse()
	if err != nil {
		return nil, nil //nolint:nilerr // not our handle: imported with the log of another system
	}
	found, err := s.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	e, _ := found.(*events.Execution)
	s.executions[handle] = e
	return e, nil
}

// Reflection implements Evidence.
func (s *Stored) Reflection(ctx context.Context, c playbook.Cover) (*events.Reflection, error) {
	found, err := s.conn.Events.Find(ctx, events.StreamReflections, c.Seq, func(events.ID) bool { return true })
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	if ref, ok := found.(*events.Reflection); ok && ref.Cover(c.Seq).ID == c.ID { // else the sequence is that of another server, as in an imported log
		return ref, nil
	}
	return nil, nil
}

// withLabels returns a log in the form that package history reads, and the labels by version. The map has a label only after the
// version was read from the returned log.
func withLabels(log deltalog.Log) (history.Log, map[uint64]string) {
	labels := map[uint64]string{}
	labelled := deltalog.Log(func(fn func(*deltalog.Record) error) error {
		return log(func(r *deltalog.Record) error {
			labels[r.Version] = playbook.VersionLabel(r.Version, r.Chain)
			return fn(r)
		})
	})
	return labelled.History(), labels
}

// labelsOf returns the labels of the versions of events.
func labelsOf(all []history.Event, labels map[uint64]string) map[uint64]string {
	used := map[uint64]string{}
	for _, e := range all {
		used[e.Version] = labels[e.Version]
	}
	return used
}

// Outcome formats a label with its score, for a place that is named "outcome".
func Outcome(label string, score float64) string {
	if label == "" || label == string(events.Unknown) {
		return string(events.Unknown)
	}
	return fmt.Sprintf("%s %.2f", label, score)
}

// NamedOutcome is Outcome for a place where no heading names the outcome. There an unknown one is "outcome unknown".
func NamedOutcome(label string, score float64) string {
	text := Outcome(label, score)
	if text == string(events.Unknown) {
		return "outcome unknown"
	}
	return text
}

// reflectorText formats a reflector with its model, if any.
func reflectorText(reflector, model string) string {
	if model == "" {
		return reflector
	}
	return fmt.Sprintf("%s, model %s", reflector, model)
}

// expiredText returns a note that an object has expired.
func expiredText(object string) string { return fmt.Sprintf(" (%s itself has expired)", object) }

// originText formats the session and the source of an execution, if any.
func originText(session, source string) string {
	text := ""
	if session != "" {
		text += ", session " + session
	}
	if source != "" {
		text += ", source " + source
	}
	return text
}

// modelText formats the model and the prompt of an execution, "" if it has no model.
func modelText(e *events.Execution) string {
	if e.Model == "" {
		return ""
	}
	return fmt.Sprintf(", model %s, prompt %s", e.Model, hex.EncodeToString(e.PromptSHA256[:min(4, len(e.PromptSHA256))]))
}

// Example is an excerpt of an execution.
type Example struct {
	Execution string `json:"execution"`
	Question  string `json:"question,omitempty"`
	Answer    string `json:"answer,omitempty"`
	Feedback  string `json:"feedback,omitempty"`
}

// maxExampleText limits each text of an example, in bytes.
const maxExampleText = 600

// maxTries is the number of executions that NewestExample reads. If these have expired, the older ones have expired, too.
const maxTries = 3

// NewestExample returns an excerpt of the newest stored execution that the caller may read, or nil. It ignores executions of owners that sees does
// not permit. evidence has the oldest first.
func (s *Stored) NewestExample(ctx context.Context, evidence []*playbook.Evidence, sees func(owner string) bool) (*Example, error) {
	tries := 0
	for _, ev := range slices.Backward(evidence) {
		if !sees(ev.Owner) {
			continue
		}
		if tries == maxTries {
			break
		}
		tries++
		e, err := s.Execution(ctx, ev.Execution)
		if err != nil {
			return nil, err
		}
		if e != nil {
			return &Example{
				Execution: ev.Execution, Question: text.Excerpt(e.Question, maxExampleText),
				Answer: text.Excerpt(e.Answer, maxExampleText), Feedback: text.Excerpt(e.Outcome.Feedback, maxExampleText),
			}, nil
		}
	}
	return nil, nil
}
