package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/dataset"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/playbook/text"
)

// Eval answers a data set with a playbook and scores the answers. It calls the model in this process and publishes
// nothing: live traffic is not delayed, and nothing is learned.
type Eval struct {
	cli.BookFlags
	Dataset         string        `arg:"" help:"File with the samples: JSON objects, one per line or in a list." type:"path" placeholder:"DATASET"`
	At              string        `help:"Playbook version: number, time or name; see 'playbook diff --help'. Default: newest." placeholder:"POINT"`
	Empty           bool          `help:"Answer without a playbook."`
	GeneratorPrompt string        `help:"File with instructions for the model. Default: built-in instructions." type:"path" placeholder:"FILE"`
	Against         []armSettings `help:"Answer the samples with other settings too, and compare; see above. Repeatable." sep:"none" placeholder:"ARM"`
	Sample          int           `help:"Number of samples to draw at random; 0 uses all." default:"0"`
	Seed            uint64        `help:"Seed of the random draw." default:"1" rare:""`
	Parallel        int           `help:"Samples answered at the same time; overrides a smaller --max-concurrent." default:"20"`
	OutageTimeout   time.Duration `help:"Longest wait for a model that answered before and is now unavailable." default:"1m"`
	Out             string        `help:"New file for all answers, one JSON object per line." type:"path" placeholder:"FILE"`
	Simulated       bool          `help:"Use the simulated model of the demo; it only answers invoice tasks." instead:"model,generator-model,reflector-model,curator-model"`
	JSON            bool          `help:"Print one JSON document."`

	taskFile
	program.Model
	program.Embedding
	program.Limits
	Evaluators program.Evaluators `embed:""`
}

// Help implements kong.HelpProvider.
func (*Eval) Help() string {
	return `Nothing is learned and nothing is stored. A sample without an answer is lost: it is listed and left out of the
comparisons, and the exit code is 5. If more than half of the samples are lost, the command fails.

--against takes settings joined by commas: book=NAME, at=POINT, empty, model=NAME, prompt=FILE. Settings that it leaves
out are those of the first answers; book=NAME without at= uses the newest version of that playbook. The difference is
the accuracy of the first answers minus the accuracy of the others, with a 95 % interval (Newcombe 1998, method 10); p is
from McNemar's exact test. The last column is the difference of the mean scores.

Examples:

  debrief eval test.jsonl --model gpt-4o-mini --against empty
  debrief eval test.jsonl --model gpt-4o-mini --against at=7d,model=gpt-4o
  debrief eval finer.jsonl --evaluator list:ignore-extra --empty --model gpt`
}

// Validate implements kong's check.
func (e *Eval) Validate() error {
	switch {
	case e.Parallel < 1 || e.Parallel > 1000:
		return fmt.Errorf("--parallel: must be 1 to 1000, got %d", e.Parallel)
	case e.OutageTimeout < 0:
		return fmt.Errorf("--outage-timeout: must be at least 0, got %s", e.OutageTimeout)
	case e.Sample < 0:
		return fmt.Errorf("--sample: must be at least 0, got %d", e.Sample)
	case e.Empty && e.At != "":
		return errors.New("--at: is set, and so is --empty: choose one")
	case e.Simulated && e.Named():
		return errors.New("--simulated: is set, and so is --model: choose one")
	case !e.Simulated && e.Model.Model == "" && e.GeneratorModel == "":
		return errors.New("--model: required: name a model, or use --simulated")
	}
	for _, a := range e.Against {
		if e.Simulated && a.model != "" {
			return fmt.Errorf("--against %s: --simulated has only one model", a.text)
		}
	}
	return nil
}

// Run implements the command.
func (e *Eval) Run(ctx context.Context, c *program.Common) error {
	scorer := scoring.NewScorer(e.Evaluators.Settings(), e.Parallel)
	set, err := e.read(ctx, e.Dataset, scorer.Check, 0)
	if err != nil {
		return err
	}
	samples, err := e.draw(set)
	if err != nil {
		return err
	}
	s, err := e.ConnectReadingOrEmpty(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	x := &evaluation{samples: samples, parallel: e.Parallel, outageTimeout: e.OutageTimeout, pause: time.Second}
	defer x.close()
	if err := e.prepare(ctx, s, scorer, x); err != nil {
		return err
	}
	var out *os.File
	if e.Out != "" {
		if out, err = newFile(e.Out); err != nil {
			return err
		}
	}
	if !e.JSON {
		x.bar = newProgressLine(term.Stderr)
	}
	runErr := x.run(ctx)
	if x.bar != nil {
		x.bar.clear()
	}
	if out != nil { // also after an error: the answers so far are paid for
		if err := x.write(out); err != nil {
			runErr = errors.Join(runErr, fmt.Errorf("--out: %w", err))
		}
	}
	if x.unfinished { // a comparison of a part of the samples would be misleading
		return runErr
	}
	res := x.result(report.Data{Set: "test", File: filepath.Base(e.Dataset), SHA256: set.SHA256, Samples: len(set.Tasks), Unread: set.Invalid}, set.Problems)
	if e.JSON {
		err = cli.WriteJSON(term.Stdout, res)
	} else {
		err = res.print(term.Stdout)
	}
	if err := errors.Join(runErr, err); err != nil {
		return err
	}
	if n := len(res.Losses); n+set.Invalid > 0 {
		return program.Exit(program.ExitPartial, fmt.Errorf("%s failed and %s could not be read; see above", term.Plural(n, "answer"), term.Plural(set.Invalid, "line")))
	}
	return nil
}

// sample is a task with its position in the file.
type sample struct {
	events.Task
	index int
}

// draw returns the samples to answer, in the order of the file. It returns an error if none of the file can be scored.
func (e *Eval) draw(set *dataset.Set) ([]sample, error) {
	var all []sample
	canScore := false // at least one sample
	for i, t := range set.Tasks {
		all = append(all, sample{t, i})
		canScore = canScore || scoring.CanScore(&t)
	}
	if !canScore {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("%s: no sample has a target: name its field with --field target=NAME, or use an evaluator program that needs no target with --evaluator", filepath.Base(e.Dataset)))
	}
	if e.Sample > 0 && e.Sample < len(all) {
		rng := rand.New(rand.NewPCG(e.Seed, 0x64726177)) // any constant: the seed alone decides
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:e.Sample]
		slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.index, b.index) })
	}
	return all, nil
}

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
		a.firstLoss = cmp.Or(a.firstLoss, result.lost)
		a.lost++
		x.lost++
	}
	x.showProgress()
	if 2*a.lost > len(x.samples) {
		return fmt.Errorf("%w with %s: the first error: %s", errMostFailed, a.Arm, a.firstLoss)
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
			if a.answers[i] == (sampleResult{}) { // not tried
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
