package steps

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
	"debrief/events/redact"
	"debrief/playbook/text"
)

// Run is an execution with the recorder's name for it.
type Run struct {
	events.Execution
	Name     string // the recorder's name within the file; may be empty
	Task     string // the recorder's name of the task, the same for all attempts in the file; may be empty
	HasRunID bool   // the execution already has its RunID
	// IDs has one entry for each step: the ids that the recorder gave to its messages, or "" without one. A copy of the run in another
	// file has the same ids. IDs is nil if no step has one.
	IDs     []string
	Invalid int // texts that begin like JSON and are not valid
}

// OutcomeNames are the names of the fields with an outcome.
var OutcomeNames = []string{"outcome", "reward", "score"}

// ParseOutcome returns the outcome in the first of the members that is set. Its label is Unknown if none is set. evaluator is the author of an
// outcome that names none. leadingScore is the name of the score that counts among several.
func ParseOutcome(v modelapi.Value, names []string, evaluator, leadingScore string) (events.Outcome, error) {
	for _, name := range names {
		member := v.Get(name)
		if !member.IsSet() {
			continue
		}
		o, err := outcome.Decoder{Leading: outcome.Lead(leadingScore), Recorder: cmp.Or(evaluator, "file")}.Parse(member.TextOrJSON())
		if err != nil {
			return o, fmt.Errorf("field %s: %w", name, err)
		}
		o.Label = cmp.Or(o.Label, events.Unknown)
		if o.Known() {
			o.By = cmp.Or(o.By, evaluator)
		}
		return o, nil
	}
	return events.Outcome{Label: events.Unknown}, nil
}

// ReadOutcome sets the outcome from the first of the places that has a known one, and notes the problem of an unreadable one.
func (c *Conversation) ReadOutcome(evaluator, leadingScore string, places ...modelapi.Value) {
	for _, place := range places {
		o, err := ParseOutcome(place, OutcomeNames, evaluator, leadingScore)
		if err != nil {
			place.Note("", "%v", err)
		}
		if !c.Outcome.Known() {
			c.Outcome = o
		}
	}
}

// The names of the fields with a question and an answer, outside conversations. The first one that has a value is used.
var (
	QuestionNames = []string{"question", "input", "prompt", "query", "instruction", "problem"}
	AnswerNames   = []string{"answer", "output", "response", "completion", "prediction", "model_answer", "model_output", "final_answer"}
)

// ValidDuration converts recorded seconds to a duration. It returns 0 for a negative or implausible value.
func ValidDuration(s float64) time.Duration {
	const year = 365 * 24 * 3600
	if s < 0 || s > year {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// Usage returns the usage of a number of model calls. The value tokens is an object with the counts under the names of any API or
// recorder. The cost is in US dollars.
func Usage(calls int, tokens modelapi.Value, cost float64) chat.Usage {
	u := tokens.Usage()
	return chat.Usage{Calls: calls, InputTokens: u.InputTokens, CachedTokens: u.CachedTokens, OutputTokens: u.OutputTokens, Cost: cost}.Recorded()
}

// MaxOutput is the maximum size of a tool's output in bytes. From a longer one, the beginning and the end are kept.
const MaxOutput = 16 << 10

// Clip shortens a tool's output to about MaxOutput bytes with ClipTo.
func Clip(s string) string { return ClipTo(s, MaxOutput) }

// ClipTo shortens a text to about limit bytes, and marks the place of the cut. It keeps three quarters from the beginning and one from the
// end, because errors can be at either end. The mark has the number of missing bytes, also those of an earlier cut in the part that is cut.
// Secrets are replaced before the cut, because a part of a secret may not look like one.
func ClipTo(s string, limit int) string {
	if len(s) > limit {
		s = redact.Text(s)
	}
	if len(s) <= limit {
		return s
	}
	first, last := text.Cut(s, limit-limit/4, limit/4)
	middle := s[len(first) : len(s)-len(last)]
	missing := len(middle)
	for _, m := range cutMark.FindAllStringSubmatch(middle, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			missing += n - len(m[0])
		}
	}
	return fmt.Sprintf("%s… [cut %d bytes] …%s", first, missing, last)
}

// cutMark matches the mark of ClipTo.
var cutMark = regexp.MustCompile(`… \[cut (\d{1,10}) bytes\] …`)
