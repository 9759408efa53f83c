package replay

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"debrief/events"
)

// A gathering can skip reflections: those of which no reply of the Curator's model was usable. The log does not cover them.
// They stay in run.left, oldest first, and every later gathering begins with them.
const (
	// maxFruitless is how many gatherings in a row may get no usable reply before the run ends with an error.
	maxFruitless = 5
	// retriesAtEnd is how many more gatherings the skipped reflections get at the end of an epoch.
	retriesAtEnd = 3
)

// UnlearnedError is returned when the Curator's model gives no usable reply any more. Nothing is lost: the reflections are
// stored, and the same command goes on with them.
type UnlearnedError struct {
	Reflections int    // that wait to be learned from
	Gatherings  int    // in a row without a usable reply
	Reason      string // of the first reflection that the last gathering skipped
}

func (e *UnlearnedError) Error() string {
	return fmt.Sprintf("no reply of the Curator's model was usable in %d gatherings in a row (%s): %d reflections are kept; repair the model or its prompt and run the same command again to go on",
		e.Gatherings, e.Reason, e.Reflections)
}

// gather has the reflections of a window take effect together, after those that earlier gatherings skipped, and waits until
// generators see it.
func (r *run) gather(ctx context.Context, window int, held []events.Handle) error {
	r.left = append(r.left, held...)
	return r.gatherLeft(ctx, strconv.Itoa(window), fmt.Sprintf("window %d", window+1))
}

// gatherRest gathers the skipped reflections again, at the end of an epoch. The report counts those that are skipped again.
func (r *run) gatherRest(ctx context.Context) error {
	for n, asked := 0, r.asked; len(r.left) > 0 && r.asked < asked+retriesAtEnd; n++ {
		if err := r.gatherLeft(ctx, fmt.Sprint("rest ", n), fmt.Sprintf("skipped reflections, attempt %d", n+1)); err != nil {
			return err
		}
	}
	return nil
}

// gatherLeft gathers the open reflections, as many as fit in one edit. The name tells the gatherings of an epoch apart.
func (r *run) gatherLeft(ctx context.Context, name, about string) error {
	if len(r.left) == 0 {
		return nil
	}
	e := &events.Edit{
		ID:     events.Hash("gather", string(r.book), strconv.Itoa(r.epoch), name),
		Author: author, Reason: fmt.Sprintf("run %s, epoch %d, %s", r.Name, r.epoch, about),
		Gather: slices.Clone(r.left[:min(len(r.left), events.MaxGather)]),
	}
	d, err := r.commit(ctx, e)
	if err != nil {
		return err
	}
	r.left = slices.DeleteFunc(r.left, r.logged.gathered)
	if d == nil || d.Asked == 0 {
		return nil
	}
	if d.Skipped < d.Asked {
		r.fruitless = 0
	} else if r.fruitless++; r.fruitless == maxFruitless {
		return &UnlearnedError{len(r.left), r.fruitless, d.SkippedReason}
	}
	if d.Skipped > 0 && r.Skipped != nil {
		r.Skipped(d.Skipped, d.SkippedReason)
	}
	return nil
}
