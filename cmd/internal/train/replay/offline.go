package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
)

// runOffline replays the training set in epochs.
func (r *run) runOffline(ctx context.Context) error {
	if err := r.measurer.before(ctx); err != nil {
		return err
	}
	for r.epoch = 1; r.epoch <= r.Epochs; r.epoch++ {
		if err := r.runEpoch(ctx); err != nil {
			return err
		}
		if r.recorder.report.Stopped != "" {
			break
		}
	}
	r.epoch = min(r.epoch, r.Epochs)
	return r.measurer.after(ctx)
}

// order returns the positions of the training samples in an epoch.
func (r *run) order(epoch int) []int {
	places := make([]int, len(r.Train.Tasks))
	for i := range places {
		places[i] = i
	}
	if r.Shuffle {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(epoch)))
		rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	}
	return places
}

// runEpoch replays the training set once.
func (r *run) runEpoch(ctx context.Context) error {
	order := r.order(r.epoch)
	train := report.Score{}
	window := 0
	var stopped string
	var last *report.Score
	for from := 0; from < len(order); from += r.CurateEvery {
		to := min(from+r.CurateEvery, len(order))
		score, err := r.runWindow(ctx, window, order[from:to], from, len(order))
		if err != nil {
			return err
		}
		window++
		train = train.Plus(score)
		last = nil
		if r.measurer.isDue(r.ValidateEvery, to-from) && to < len(order) {
			if last, err = r.measurer.validate(ctx); err != nil {
				return err
			}
			if stopped = r.measurer.stopReason(); stopped != "" {
				break
			}
		}
	}
	if version := r.version; stopped == "" {
		if err := r.gatherer.retrySkipped(ctx); err != nil {
			return err
		}
		if r.version > version { // the last measurement used an older version
			last = nil
		}
	}
	if r.Validation != nil && last == nil {
		var err error
		if last, err = r.measurer.validate(ctx); err != nil {
			return err
		}
		if r.epoch < r.Epochs { // the last epoch ends the run in any case
			stopped = r.measurer.stopReason()
		}
	}
	now, err := r.log.bookAt(ctx, *r.position)
	if err != nil {
		return err
	}
	r.recorder.report.Stopped = stopped
	r.recorder.addEpoch(report.Epoch{Epoch: r.epoch, Train: train.Finish(), Validation: last, Book: now})
	return nil
}

// runWindow has samples answered, batch by batch. Then it has the Curator learn from all of them together.
func (r *run) runWindow(ctx context.Context, window int, places []int, from, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.recorder.learning += time.Since(began) }()
	var reflections []events.Handle
	score := report.Score{}
	book, err := r.log.bookAt(ctx, *r.position)
	if err != nil {
		return score, err
	}
	for at := 0; at < len(places); at += r.Batch {
		batch := places[at:min(at+r.Batch, len(places))]
		tasks := make([]events.Task, len(batch))
		version := r.version
		for i, p := range batch {
			t := r.Train.Tasks[p]
			t.Book, t.Purpose, t.Playbook, t.Rounds, t.Session = r.book, events.Learn, &version, r.Rounds, ""
			t.Origin = events.Origin{Run: r.Name, Epoch: r.epoch, Index: p, Step: r.step + i + 1, Steps: r.recorder.total, Source: t.Origin.Source, Held: true, Model: r.Model}
			t.ID = taskID(epochPhase(r.epoch), t.ID)
			tasks[i] = t
		}
		results, err := r.submitter.run(ctx, tasks, func(done int) {
			r.recorder.progress(fmt.Sprintf("epoch %d", r.epoch), from+at+done, total)
		})
		if err != nil {
			return score, err
		}
		r.step += len(batch)
		for i := range results {
			f, sample := &results[i], &r.Train.Tasks[batch[i]]
			r.recorder.addSample(Train, fmt.Sprintf("epoch %d", r.epoch), sample, batch[i], f, &score)
			if f.reflection != "" {
				reflections = append(reflections, f.reflection)
			}
		}
	}
	if err := r.gatherer.gather(ctx, window, reflections); err != nil {
		return score, err
	}
	r.recorder.endWindow(book, score)
	return score, r.snapshot(ctx, len(places))
}
