package train

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
func (l *Learn) explain(ctx context.Context, s *cli.Session, lessons []*newLesson, stored map[runID]uint64, res *learnResult) error {
	if l.reflectorModel == nil {
		return nil
	}
	l.expect(min(len(lessons), maxExplained), res)
	if more := len(lessons) - maxExplained; more > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%s of the comparison without an explanation: one command explains at most %d.", term.Plural(more, "lesson"), maxExplained))
		lessons = lessons[:maxExplained]
	}
	var mu sync.Mutex
	failed, rejected := 0, 0
	firstReason := ""
	count := func(n *int, reason string) {
		mu.Lock()
		defer mu.Unlock()
		*n++
		if firstReason == "" {
			firstReason = text.Line(reason, 300)
		}
	}
	err := Each(len(lessons), max(1, min(l.MaxConcurrent, len(lessons))), func(i int) error {
		runs, err := examplesOf(ctx, s, lessons[i], stored)
		if err != nil {
			return err
		}
		found, err := reflector.Explain(ctx, l.reflectorModel, lessons[i].Lesson, runs, reflector.Config{})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, new(*chat.UselessError)), errors.As(err, new(*chat.TooLongError)):
			count(&failed, bus.Loggable(err))
		case err != nil: // an outage, or a wrong key: the same command can explain the lessons later
			return fmt.Errorf("explain the lesson %q: %w", text.Quotable(lessons[i].Content, 80), err)
		case found.Rejected != "":
			count(&rejected, found.Rejected)
		}
		lessons[i].explanation, lessons[i].model = found.Text, found.Model
		return nil
	})
	if failed+rejected > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%s no explanation: %s and %s. The first reason: %s.", pluralOf(failed+rejected, "new lesson has", "new lessons have"),
			pluralOf(failed, "request failed", "requests failed"), pluralOf(rejected, "reply was rejected", "replies were rejected"), firstReason))
	}
	return err
}

// expect prints the calls of the model that follow: to explain lessons, to reflect on the new runs, and to curate.
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
func examplesOf(ctx context.Context, s *cli.Session, n *newLesson, stored map[runID]uint64) (runs []*events.Execution, err error) {
	ids := n.Executions[:min(len(n.Executions), 1)]
	if n.Opposite != "" {
		ids = append(ids[:len(ids):len(ids)], n.Opposite)
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
