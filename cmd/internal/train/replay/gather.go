package replay

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"debrief/events"
)

// The Curator can skip reflections of a gathering if no reply of its model was usable. The log does not cover them.
// They stay in gathereg.uncovered, oldest first, and every later gathering begins with them.
const (
	// maxFruitless is the number of gatherings in a row without a usable reply after which the run ends with an
	// error.
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

// gatherer has the Curator learn from reflections, many in one edit.
type gatherer struct {
	run       string // name of the run
	committer *committer
	*position
	onSkipped func(reflections int, reason string) // may be nil

	uncovered []events.Handle // reflections of earlier gatherings that the log does not cover
	fruitless int             // gatherings in a row that covered nothing
}

// gather has the Curator apply the reflections of a window together, after those that earlier gatherings skipped. It
// waits until the version is visible to generators.
func (g *gatherer) gather(ctx context.Context, window int, reflections []events.Handle) error {
	g.uncovered = append(g.uncovered, reflections...)
	return g.gatherUncovered(ctx, strconv.Itoa(window), fmt.Sprintf("window %d", window+1))
}

// retrySkipped gathers the skipped reflections again at the end of an epoch. The report counts reflections that are
// skipped again.
func (g *gatherer) retrySkipped(ctx context.Context) error {
	for n, asked := 0, g.committer.requested; len(g.uncovered) > 0 && g.committer.requested < asked+retriesAtEnd; n++ {
		if err := g.gatherUncovered(ctx, fmt.Sprint("rest ", n), fmt.Sprintf("skipped reflections, attempt %d", n+1)); err != nil {
			return err
		}
	}
	return nil
}

// gatherUncovered gathers the uncovered reflections, up to the size of one edit. The name distinguishes the
// gatherings of an epoch.
func (g *gatherer) gatherUncovered(ctx context.Context, name, about string) error {
	if len(g.uncovered) == 0 {
		return nil
	}
	e := &events.Edit{
		ID:     events.Hash("gather", string(g.committer.book), strconv.Itoa(g.epoch), name),
		Author: author, Reason: fmt.Sprintf("run %s, epoch %d, %s", g.run, g.epoch, about),
		Gather: slices.Clone(g.uncovered[:min(len(g.uncovered), events.MaxGather)]),
	}
	d, err := g.committer.commit(ctx, e)
	if err != nil {
		return err
	}
	g.uncovered = slices.DeleteFunc(g.uncovered, g.committer.log.coversReflection)
	if d == nil || d.Asked == 0 {
		return nil
	}
	if d.Skipped < d.Asked {
		g.fruitless = 0
	} else if g.fruitless++; g.fruitless == maxFruitless {
		return &noUsableReplyError{len(g.uncovered), g.fruitless, d.SkippedReason}
	}
	if d.Skipped > 0 && g.onSkipped != nil {
		g.onSkipped(d.Skipped, d.SkippedReason)
	}
	return nil
}
