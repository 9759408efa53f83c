package curator

import (
	"context"

	"debrief/curator/propose"
	"debrief/events/bus"
	"debrief/playbook"
)

// propose makes the proposals of all work items with lessons, and returns the items that can be committed. The caller sets only AllOrNothing
// of the round. If a model fails, the items that need it get the error as their result.
func (w *worker) propose(ctx context.Context, b *book, round *propose.Round, items []*workItem) (ready []*workItem, err error) {
	s := b.writer.State()
	admission := s.Playbook().Admission()
	log := coverLookup{state: s}
	var list []*propose.Item
	for _, item := range items {
		if item.Reflection == nil || len(item.Reflection.Lessons) == 0 {
			continue
		}
		if log.covered(&item.Item.Item) || admission.Forgets(item.Reflection.Evidence()) {
			continue
		}
		// Text of an untrusted source is quarantined for a person and never sent to a model.
		item.NoModel = w.policy.Level(item.Reflection.Origin.Source, item.Reflection.Outcome.Inferred) == playbook.Untrusted
		list = append(list, &item.Item)
	}
	if len(list) == 0 || log.err != nil {
		return items, log.err
	}
	if err := w.loadRejections(ctx, b, round); err != nil {
		return nil, err
	}
	round.Playbook = s.Playbook()
	round.Bullets = &b.bulletIndex
	round.TokenBudget = w.cfg.MaxTokens
	proposer := propose.Proposer{Model: w.model, Rules: w.rules}
	proposer.Propose(ctx, round, list)
	b.usage = b.usage.Add(round.Usage)
	for _, item := range items {
		if item.Err != nil {
			*item.result = bus.Result{Err: item.Err}
		} else {
			ready = append(ready, item)
		}
	}
	return ready, nil
}

// loadRejections reads the rejected texts of a book for a round. In a round that is all or nothing they must not depend on the memory of this
// process, so they come from the complete log.
func (w *worker) loadRejections(ctx context.Context, b *book, round *propose.Round) error {
	if round.AllOrNothing {
		round.Rejections = &b.fullRejections.RejectionLog
		return b.fullRejections.read(ctx, w.store, b)
	}
	round.Rejections = &b.rejectionLog
	return b.rejectionLog.Load(ctx, b.writer)
}
