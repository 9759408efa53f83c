package replay

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"debrief/events"
)

// A gathering is an edit that has the Curator learn from many reflections together. The Curator skips a reflection if its model gave no usable
// reply for it. The log does not cover skipped reflections. They stay in run.uncovered, and every later gathering begins with them.
const (
	// maxFruitless is the number of gatherings in a row without a usable reply that ends the run with an error.
	maxFruitless = 5
	// retriesAtEnd is the number of further gatherings for skipped reflections at the end of an epoch.
	retriesAtEnd = 3
)

// noUsableReplyError is returned when the Curator's model gives no usable replies any more. The reflections stay stored,
// and the same command resumes with them.
type noUsableReplyError struct {
	Reflections int    // not learned from yet
	Gatherings  int    // in a row without a usable reply
	Reason      string // of the first reflection that the last gathering skipped
}

func (e *noUsableReplyError) Error() string {
	return fmt.Sprintf("curator model: no usable reply in %d gatherings in a row (%s): %d reflections are kept; fix the model or its prompt and run the same command again to resume",
		e.Gatherings, e.Reason, e.Reflections)
}

// gather has the Curator apply the reflections of a window together, after those that earlier gatherings skipped. The windows of an epoch count
// from 0. gather waits until the new version is visible to generators.
func (r *run) gather(ctx context.Context, window int, reflections []events.Handle) error {
	r.uncovered = append(r.uncovered, reflections...)
	return r.gatherUncovered(ctx, strconv.Itoa(window), fmt.Sprintf("window %d", window+1))
}

// retrySkipped gathers the skipped reflections again at the end of an epoch. Reflections that are skipped again stay in r.uncovered.
func (r *run) retrySkipped(ctx context.Context) error {
	limit := r.edits + retriesAtEnd
	// r.edits grows with each gathering, except one that an earlier process of a resumed run requested. That one does not count as a retry.
	for n := 0; len(r.uncovered) > 0 && r.edits < limit; n++ {
		if err := r.gatherUncovered(ctx, fmt.Sprint("rest ", n), fmt.Sprintf("skipped reflections, attempt %d", n+1)); err != nil {
			return err
		}
	}
	return nil
}

// gatherUncovered gathers the uncovered reflections, up to the limit of one edit. name is different for each gathering of an epoch; about is
// for people.
func (r *run) gatherUncovered(ctx context.Context, name, about string) error {
	if len(r.uncovered) == 0 {
		return nil
	}
	e := &events.Edit{
		ID:     events.Hash("gather", string(r.book), strconv.Itoa(r.epoch), name),
		Author: author, Reason: fmt.Sprintf("run %s, epoch %d, %s", r.Name, r.epoch, about),
		Gather: slices.Clone(r.uncovered[:min(len(r.uncovered), events.MaxGather)]),
	}
	d, err := r.commit(ctx, e)
	if err != nil {
		return err
	}
	r.uncovered = slices.DeleteFunc(r.uncovered, r.log.coversReflection)
	if d == nil || d.Asked == 0 { // it was applied before, or no reflection needed the model
		return nil
	}
	if d.Skipped < d.Asked {
		r.fruitless = 0
	} else {
		r.fruitless++
	}
	if r.fruitless == maxFruitless {
		return &noUsableReplyError{len(r.uncovered), r.fruitless, d.SkippedReason}
	}
	if d.Skipped > 0 {
		r.send(Event{Event: "skipped", Reflections: d.Skipped, Reason: d.SkippedReason})
	}
	return nil
}
