package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook/text"
	"debrief/reflector"
)

// maxExplained is the maximum number of lessons that one command explains. Each costs a request to the model.
const maxExplained = 200

// explain asks the model to explain new lessons, and stores the explanations in them. A lesson without a useful reply stays without an
// explanation; a note counts these. It returns an error if the model is unavailable. Without a model it does nothing.
func (l *Learn) explain(ctx context.Context, s *cli.Session, lessons []*newLesson, stored sequences, res *learnResult) error {
	if l.reflectorModel == nil {
		return nil
	}
	l.expect(min(len(lessons), maxExplained), res)
	if more := len(lessons) - maxExplained; more > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%s of the comparison without an explanation: one command explains at most %d.", term.Plural(more, "lesson"), maxExplained))
		lessons = lessons[:maxExplained]
	}
	failed, rejected := make([]string, len(lessons)), make([]string, len(lessons)) // the reason for each lesson, or ""
	err := Each(len(lessons), max(1, min(l.MaxConcurrent, len(lessons))), func(i int) error {
		lesson := lessons[i]
		runs, err := examplesOf(ctx, s, lesson, stored)
		if err != nil {
			return err
		}
		found, err := reflector.Explain(ctx, l.reflectorModel, lesson.Lesson, runs, reflector.Config{})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, new(*chat.UselessError)), errors.As(err, new(*chat.TooLongError)):
			failed[i] = bus.Loggable(err)
		case err != nil: // an outage, or a wrong key: the same command can explain the lessons later
			return fmt.Errorf("explain the lesson %q: %w", text.Quotable(lesson.Content, 80), err)
		}
		rejected[i] = found.Rejected
		lesson.explanation, lesson.model = found.Text, found.Model
		return nil
	})
	isEmpty := func(reason string) bool { return reason == "" }
	failed, rejected = slices.DeleteFunc(failed, isEmpty), slices.DeleteFunc(rejected, isEmpty)
	if reasons := slices.Concat(failed, rejected); len(reasons) > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%s no explanation: %s and %s. The first reason: %s.", pluralOf(len(reasons), "new lesson has", "new lessons have"),
			pluralOf(len(failed), "request failed", "requests failed"), pluralOf(len(rejected), "reply was rejected", "replies were rejected"), text.Line(reasons[0], 300)))
	}
	return err
}

// expect prints the calls of the model that follow: to explain lessons, to reflect on the new runs, and to curate. res.Expected has the calls
// to reflect already.
func (l *Learn) expect(lessons int, res *learnResult) {
	curated := curatorCalls(res.Expected.Calls, l.MaxBatch)
	res.Expected.add(curated.Calls, curated.Tokens)
	res.Expected.add(lessons, lessons*explainTokens)
	if res.Expected.Calls > 0 {
		l.print(map[string]any{"expected_model_calls": res.Expected}, "About %s will follow.", res.Expected)
	}
}

// explainTokens is a typical number of tokens of a request to explain a lesson.
const explainTokens = 2500

// examplesOf returns the first run that supports a lesson, and the run of the same task that ended differently, if both are stored.
func examplesOf(ctx context.Context, s *cli.Session, n *newLesson, stored sequences) (runs []*events.Execution, err error) {
	var ids []events.ID
	if len(n.Executions) > 0 {
		ids = append(ids, n.Executions[0])
	}
	if n.Opposite != "" {
		ids = append(ids, n.Opposite)
	}
	for _, id := range ids {
		e, err := storedRun(ctx, s, id, stored)
		if err != nil {
			return nil, err
		}
		if e != nil {
			runs = append(runs, e)
		}
	}
	return runs, nil
}
