package train

import (
	"context"
	"fmt"
	"sync"

	"debrief/cmd/internal/cli"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/text"
	"debrief/reflector"
)

// maxExplained is the maximum number of lessons that one command explains. Each costs a request to the model.
const maxExplained = 200

// explain asks the model for the reasons of new lessons. A lesson without a reason is added too; a note counts these. Without a model
// it does nothing.
func (l *Learn) explain(ctx context.Context, s *cli.Session, lessons []*newLesson, stored map[runID]uint64, res *learnResult) error {
	if l.reflecting == nil || len(lessons) == 0 {
		return nil
	}
	lessons = lessons[:min(len(lessons), maxExplained)]
	var mu sync.Mutex
	failed, rejected, first := 0, 0, ""
	count := func(n *int, why string) {
		mu.Lock()
		defer mu.Unlock()
		if *n++; first == "" {
			first = text.Line(why, 300)
		}
	}
	err := Each(len(lessons), max(1, min(l.MaxConcurrent, len(lessons))), func(i int) error {
		runs, err := examplesOf(ctx, s, lessons[i], stored)
		if err != nil {
			return err
		}
		found, err := reflector.Explain(ctx, l.reflecting, lessons[i].Lesson, runs, reflector.Config{})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			count(&failed, bus.Loggable(err))
		case found.Rejected != "":
			count(&rejected, found.Rejected)
		}
		lessons[i].explanation, lessons[i].model = found.Text, found.Model
		return nil
	})
	if failed+rejected > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("The model explained %d of %s: %d requests failed and %d replies were rejected. The first reason: %s.",
			len(lessons)-failed-rejected, cli.Plural(len(lessons), "new lesson"), failed, rejected, first))
	}
	return err
}

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
