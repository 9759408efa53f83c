package edits

import (
	"context"

	"debrief/cmd/internal/api/explain"
	"debrief/curator"
	"debrief/events/bus"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// Forgetting is the change that a Curator would make to forget executions.
type Forgetting struct {
	Label   string // of the version of the playbook
	Matched int    // reflections on the executions
	Changes []history.Difference
}

// PlanForget returns the change that forgets the selected executions. It changes nothing.
func PlanForget(ctx context.Context, conn *bus.Conn, b *explain.Book, selector book.Selector) (*Forgetting, error) {
	now, label, err := b.At(ctx, "")
	if err != nil {
		return nil, err
	}
	log := b.Store.History(ctx, b.Name)
	if err := curator.ResolveSample(ctx, conn, log, &selector); err != nil {
		return nil, err
	}
	plan, err := planForget(now, log, selector)
	if err != nil {
		return nil, err
	}
	plan.Label = label
	return plan, nil
}

// planForget compares the playbook with its state without the executions of the selector.
func planForget(now *book.Playbook, log history.Log, selector book.Selector) (*Forgetting, error) {
	then, err := history.Forget(log, selector)
	if err != nil {
		return nil, explain.LogError(err)
	}
	return &Forgetting{Matched: then.Matched, Changes: history.Diff(now, then.Playbook)}, nil
}
