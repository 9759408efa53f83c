package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/runs"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/outcome"
	"debrief/events/redact"
)

// Some agents write the end of a turn to the transcript after they have called the hook. So the transcript is read when it has not changed for
// quietTime, and after maxQuietWait in any case.
const (
	quietTime    = 300 * time.Millisecond
	maxQuietWait = 5 * time.Second
)

// maxFile is the maximum size of a transcript in bytes. A larger one is not read.
const maxFile = 512 << 20

// reportOf returns the report of a run, and whether the run took back changes. The steps of the report are those of the transcript, or the
// calls that the hooks have seen. Without either, the report has only the message of the user and the answer.
func reportOf(ctx context.Context, e *entry) (report *events.Report, reverts bool) {
	report = &events.Report{
		RunID: e.Run.ID, ContextID: e.Run.ContextID, Session: e.Session, Turn: e.TurnNumber,
		Question: e.Run.Prompt, Answer: e.Run.Answer, Started: e.Run.Started, Duration: max(e.Ended.Sub(e.Run.Started), 0),
	}
	for i := range e.Run.Calls {
		report.Steps = append(report.Steps, events.Step{Calls: e.Run.Calls[i : i+1]})
	}
	if e.Transcript != "" {
		waitQuiet(ctx, e.Transcript)
		if t, err := readTurn(ctx, e.Transcript, e.Run.Prompt); err == nil {
			report.Steps, report.Model = t.steps, t.model
			report.Answer = cmp.Or(e.Run.Answer, t.answer)
		}
	}
	report.Outcome = outcome.OfWork(report.Steps)
	return report, outcome.Reverts(report.Steps)
}

// waitQuiet waits until a file does not change any more.
func waitQuiet(ctx context.Context, file string) {
	for end := time.Now().Add(maxQuietWait); time.Now().Before(end); {
		info, err := os.Stat(file)
		quiet := err == nil && time.Since(info.ModTime()) > quietTime
		if quiet || ctx.Err() != nil {
			return
		}
		time.Sleep(quietTime / 6)
	}
}

// recordedTurn is the work on one message of the user in a transcript.
type recordedTurn struct {
	answer, model string
	steps         []events.Step
}

var errNoTurn = errors.New("the transcript does not have the message")

// readTurn reads the last turn of a transcript that begins with a message of the user, in the formats of package runs.
func readTurn(ctx context.Context, file, prompt string) (*recordedTurn, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = fmt.Errorf("read %s: no regular file of at most %d bytes", file, maxFile)
	}
	if err != nil {
		return nil, err
	}
	var found *recordedTurn
	_, err = runs.Read(ctx, events.DefaultBook, "transcript", f, func(x *events.Execution) error {
		if t := lastTurn(x, prompt); t != nil {
			found = t
		}
		return nil
	})
	if found == nil {
		return nil, cmp.Or(err, errNoTurn)
	}
	return found, nil
}

// lastTurn returns the last turn of a session that begins with a message, or nil.
func lastTurn(x *events.Execution, prompt string) *recordedTurn {
	end := len(x.Steps) // of the turn that begins at i
	for i, s := range slices.Backward(x.Steps) {
		if s.Speaker != chat.User {
			continue
		}
		if isMessage(s.Text, prompt) {
			return newTurn(x, x.Steps[i+1:end])
		}
		end = i
	}
	if isMessage(x.Question, prompt) { // the first turn
		return newTurn(x, x.Steps[:end])
	}
	return nil
}

// newTurn returns a turn with its steps. The answer is the last text in them.
func newTurn(x *events.Execution, steps []events.Step) *recordedTurn {
	t := &recordedTurn{model: x.Model, steps: steps}
	for i := range steps {
		if steps[i].Text != "" {
			t.answer = steps[i].Text
		}
	}
	return t
}

// isMessage reports whether a text of a transcript is the message that a hook has seen. An agent may add context around it, and readers
// and hooks shorten long texts, after they have replaced secrets.
func isMessage(text, prompt string) bool {
	const compared = 400
	text, prompt = redact.Text(strings.TrimSpace(text)), redact.Text(strings.TrimSpace(prompt))
	if text == "" || prompt == "" {
		return false
	}
	hasPrompt := strings.Contains(text, clip(prompt, compared))
	isShortened := len(text) > compared && strings.Contains(prompt, clip(text, compared))
	return hasPrompt || isShortened
}
