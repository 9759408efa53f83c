package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/generator"
	"debrief/playbook/text"
)

// evaluation answers the same samples with the settings of one or more arms.
type evaluation struct {
	samples  []sample
	arms     []*evalArm
	parallel int
	contexts *generator.ContextBuilder
	bar      *progressLine // nil for none

	outageTimeout time.Duration // longest outage of a model that answered before
	pause         time.Duration // wait between attempts during an outage

	mu         sync.Mutex // guards the fields below, and those of the arms while run works
	done       int        // answers so far, with the lost ones
	lost       int        // answers with an error
	unfinished bool       // the evaluation stopped before the last sample
}

// close closes the context builder, if prepare has opened it.
func (x *evaluation) close() {
	if x.contexts != nil {
		x.contexts.Close()
	}
}

// errMostFailed ends an evaluation in which more than half of the answers of an arm failed.
var errMostFailed = errors.New("more than half of the answers failed")

// run answers every sample in every arm. It answers a sample in all arms before the next sample, so that an outage of
// the model affects all arms alike.
func (x *evaluation) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total := len(x.samples) * len(x.arms)
	err := Each(total, x.parallel, func(n int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i, a := n/len(x.arms), x.arms[n%len(x.arms)]
		result := x.answer(ctx, a, i)
		if result.lost != "" && ctx.Err() != nil { // the answer failed because the evaluation ends
			return ctx.Err()
		}
		if err := x.add(a, i, result); err != nil {
			cancel(err)
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause // the cause names the first error
	}
	x.unfinished = x.done < total
	for _, a := range x.arms {
		a.addUp()
	}
	if err != nil {
		return err
	}
	for _, a := range x.arms {
		if a.Score.N == 0 {
			return fmt.Errorf("%s: no answer could be scored: %s", a.Arm, a.whyUnscored())
		}
	}
	return nil
}

// add adds the answer to sample i in an arm, and shows the progress. It returns errMostFailed if that ends the evaluation.
func (x *evaluation) add(a *evalArm, i int, result sampleResult) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done++
	a.answers[i] = result
	if result.lost != "" {
		x.lost++
		a.lost++
	}
	x.showProgress()
	if 2*a.lost > len(x.samples) {
		return fmt.Errorf("%w with %s: the first error: %s", errMostFailed, a.Arm, a.firstLoss())
	}
	return nil
}

// answer answers one sample in one arm, with a pinned playbook version and without the session of the task.
func (x *evaluation) answer(ctx context.Context, a *evalArm, i int) sampleResult {
	t := x.samples[i].Task
	t.Book = a.taskBook
	t.Playbook = &a.Version
	t.Purpose = events.Evaluate
	t.Session = ""
	for {
		e, err := a.generator.Answer(ctx, x.contexts, &t)
		if err == nil {
			x.mu.Lock()
			a.lastReply = time.Now()
			x.mu.Unlock()
			return sampleResult{execution: e}
		}
		if !x.shouldRetry(a, err) {
			return sampleResult{lost: err.Error()}
		}
		select {
		case <-time.After(x.pause):
		case <-ctx.Done():
		}
	}
}

// shouldRetry reports whether to ask the model again after an error. The client has made its own retries before. It returns true if the model
// is unavailable and its last answer is less than outageTimeout ago. It returns false for a model that never answered: its address or key is
// probably wrong.
func (x *evaluation) shouldRetry(a *evalArm, err error) bool {
	var outage interface{ Unavailable() bool }
	if !errors.As(err, &outage) || !outage.Unavailable() {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return !a.lastReply.IsZero() && time.Since(a.lastReply) < x.outageTimeout
}

// showProgress shows the number of answers on a terminal. The caller holds the lock.
func (x *evaluation) showProgress() {
	if x.bar == nil {
		return
	}
	total := len(x.samples) * len(x.arms)
	x.bar.report(func(seconds float64) (any, string) {
		rate := float64(x.done) / seconds
		left := time.Duration(float64(total-x.done) / rate * float64(time.Second))
		line := fmt.Sprintf("%d of %d answers, %.1f a second, %s left", x.done, total, rate, left.Round(time.Second))
		if x.lost > 0 {
			line += fmt.Sprintf(", %d lost", x.lost)
		}
		return nil, line
	})
}

// write writes every answer, arm by arm in the order of the file, and closes out.
func (x *evaluation) write(out io.WriteCloser) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, a := range x.arms {
		for i := range a.answers {
			if !a.answers[i].isTried() {
				continue
			}
			if err := enc.Encode(x.record(a, i)); err != nil {
				return errors.Join(err, out.Close())
			}
		}
	}
	return out.Close()
}

// record returns an answer as a line of the --out file.
func (x *evaluation) record(a *evalArm, i int) report.Sample {
	s := &x.samples[i]
	r := report.Sample{
		Set: "test", Phase: a.Arm, Index: s.index, ID: s.ID, Question: text.Clip(s.Question, 200), Target: s.Target,
		Label: events.Unknown, Version: a.Version, Lost: a.answers[i].lost,
	}
	if e := a.answers[i].execution; e != nil {
		r.Answer, r.Model = e.Answer, e.Model
		r.Label, r.Score = e.Outcome.Label, e.Outcome.Score
		r.Feedback, r.Rounds = e.Outcome.Remark(), 1
	}
	return r
}
