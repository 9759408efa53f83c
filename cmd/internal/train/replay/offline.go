package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"debrief/events"
)

// runOffline replays the training set in epochs.
func (r *run) runOffline(ctx context.Context) error {
	if err := r.measureBefore(ctx); err != nil {
		return err
	}
	for r.epoch = 1; ; r.epoch++ {
		order := r.order(r.epoch)
		from := 0
		err := r.learnEpoch(ctx, func(ctx context.Context) (window, error) {
			to := min(from+r.Batch, len(order))
			w, err := r.answerWindow(ctx, order, from, to)
			from = to
			return w, err
		})
		if err != nil {
			return err
		}
		if r.report.Stopped != "" || r.epoch == r.Epochs {
			return r.measureAfter(ctx)
		}
	}
}

// order returns the indices of the training samples in the order of an epoch.
func (r *run) order(epoch int) []int {
	order := make([]int, len(r.Train.Tasks))
	for i := range order {
		order[i] = i
	}
	if r.Shuffle {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(epoch)))
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return order
}

// answerWindow has the samples order[from:to] answered with the current version. Then it has the Curator learn from all of them together.
func (r *run) answerWindow(ctx context.Context, order []int, from, to int) (window, error) {
	defer addTime(&r.learning, time.Now())
	w := window{samples: to - from, last: to == len(order)}
	if w.samples == 0 {
		return w, nil
	}
	var err error
	if w.book, err = r.log.bookAt(ctx, r.position); err != nil {
		return w, err
	}
	phase, version := fmt.Sprintf("epoch %d", r.epoch), r.version
	indices := order[from:to]
	tasks := make([]events.Task, len(indices))
	for i, index := range indices {
		t := r.trainingTask(r.Train.Tasks[index], index, r.step+i+1)
		t.Playbook = &version
		t.Session = ""
		t.Origin.Held = true // the reflection waits for r.gather
		tasks[i] = t
	}
	results, err := r.submitter.run(ctx, tasks, func(done int) { r.progress(phase, from+done, len(order)) })
	if err != nil {
		return w, err
	}
	r.step += w.samples
	var reflections []events.Handle
	for i, index := range indices {
		r.addSample(Train, phase, &r.Train.Tasks[index], index, &results[i], &w.score)
		if h := results[i].reflection; h != "" {
			reflections = append(reflections, h)
		}
	}
	return w, r.gather(ctx, from/r.Batch, reflections)
}
