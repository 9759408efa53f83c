package main

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

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/dataset"
	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/generator"
	"debrief/generator/assembly"
	"debrief/generator/scoring"
)

// eval answers a data set with a playbook and scores it. It asks the model in this process: none of it goes through the
// streams, so that it takes nothing from live traffic, and nothing is learned.
type eval struct {
	onBook
	Dataset         string        `arg:"" help:"File with the samples: JSON objects, one a line or in a list." type:"path" placeholder:"DATASET"`
	At              string        `help:"Version of the playbook: a number, a time or a name; see 'debrief playbook diff --help'. Default: the newest." placeholder:"POINT"`
	Empty           bool          `help:"Answer without a playbook."`
	GeneratorPrompt string        `help:"File with instructions for the model, in place of our own." type:"path" placeholder:"FILE"`
	Against         []otherWise   `help:"Answer the same samples in another way, too, and compare: book=NAME, at=POINT, empty, model=NAME, prompt=FILE, joined by commas. Can be given several times." sep:"none" placeholder:"ARM"`
	Sample          int           `help:"Draw so many of the samples; 0 is all." default:"0"`
	Seed            uint64        `help:"Which ones are drawn." default:"1"`
	Parallel        int           `help:"Samples at work at the same time. The model is asked for as many, also where --max-concurrent is less." default:"20"`
	Patience        time.Duration `help:"How long to wait for a model that has answered and does not any more." default:"1m"`
	Out             string        `help:"File for every answer, one JSON object a line. It must not be there yet." type:"path" placeholder:"FILE"`
	Simulated       bool          `help:"Ask the simulated model of the demo, which knows invoices and nothing else." instead:"model,generator-model,reflector-model,curator-model"`
	JSON            bool          `help:"Print JSON."`

	taskFile
	app.Model
	app.Embedding
	assembly.Limits `embed:""`
	Evaluators      scoring.Config `embed:""`
}

// Help implements kong.HelpProvider.
func (*eval) Help() string {
	return `Nothing is learned and nothing is stored. A sample whose answer fails is lost: it is listed and left out of the
comparisons, and the command ends with code 5; when more than half are lost it fails.

What --against does not say is as for the first answers; book=NAME without at= is that book's newest version. The
difference is that of the first answers to the others, with an interval of 95 % (Newcombe 1998, method 10); p is of
McNemar's exact test.

Examples:

  debrief eval held-out.jsonl --model gpt-4o-mini --book invoices --against empty
  debrief eval held-out.jsonl --model gpt-4o-mini --book invoices --against at=before-import --against at=7d,model=gpt-4o
  debrief eval finer.jsonl --form finer --empty --model gpt-4o-mini --sample 100 --evaluator list --out answers.jsonl`
}

// Validate implements kong's check.
func (e *eval) Validate() error {
	switch {
	case e.Parallel < 1 || e.Parallel > 1000:
		return fmt.Errorf("--parallel: must be 1 to 1000, got %d", e.Parallel)
	case e.Patience < 0:
		return fmt.Errorf("--patience: cannot be negative, got %s", e.Patience)
	case e.Sample < 0:
		return fmt.Errorf("--sample: cannot be negative, got %d", e.Sample)
	case e.Empty && e.At != "":
		return errors.New("--at: is set, and so is --empty: choose one")
	case e.Simulated && e.Named():
		return errors.New("--simulated: is set, and so is --model: choose one")
	case !e.Simulated && e.Model.Model == "" && e.GeneratorModel == "":
		return errors.New("--model: is empty: name the model that answers, or try --simulated")
	}
	for _, a := range e.Against {
		if e.Simulated && a.model != "" {
			return fmt.Errorf("--against %s: --simulated knows one model", a.text)
		}
	}
	return nil
}

// Run implements the command.
func (e *eval) Run(ctx context.Context, c *app.Common) error {
	judge := scoring.NewJudge(e.Evaluators, e.Parallel)
	set, err := e.read(ctx, e.Dataset, judge.Check, 0)
	if err != nil {
		return err
	}
	samples, err := e.draw(set)
	if err != nil {
		return err
	}
	s, err := e.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	x := &exam{samples: samples, parallel: e.Parallel, patience: e.Patience, pause: time.Second}
	defer x.close()
	if err := e.enter(ctx, s, judge, x); err != nil {
		return err
	}
	var out *os.File
	if e.Out != "" {
		if out, err = newFile(e.Out); err != nil {
			return err
		}
	}
	stop := func() {}
	if !e.JSON {
		stop = x.tell(console.Stderr)
	}
	failed := x.run(ctx)
	stop()
	// What was answered is paid for: it is kept also when the rest failed.
	if out != nil {
		if err := x.write(out); err != nil {
			failed = errors.Join(failed, fmt.Errorf("--out: %w", err))
		}
	}
	if x.unfinished {
		return failed
	}
	res := x.result(report.Data{Set: "test", File: filepath.Base(e.Dataset), SHA256: set.SHA256, Samples: len(set.Tasks), Unread: set.Unread}, set.Problems)
	if err := e.show(res); err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil {
		return failed
	}
	if n := len(res.Losses); n+set.Unread > 0 {
		return app.Exit(app.ExitLosses, fmt.Errorf("%s failed and %s could not be read; see above", plural(n, "answer"), plural(set.Unread, "line")))
	}
	return nil
}

// sample is a task with its place in the file.
type sample struct {
	events.Task
	index int
}

// draw are the samples to answer, in the order of the file.
func (e *eval) draw(set *dataset.Set) ([]sample, error) {
	var all []sample
	judged := false
	for i, t := range set.Tasks {
		all = append(all, sample{t, i})
		judged = judged || scoring.CanJudge(&t)
	}
	if !judged {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("%s: no sample has a target to judge by: name the field that holds it with --field target=NAME, or a program that needs none with --evaluator", filepath.Base(e.Dataset)))
	}
	if e.Sample > 0 && e.Sample < len(all) {
		rng := rand.New(rand.NewPCG(e.Seed, 0x64726177)) // "draw"
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:e.Sample]
		slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.index, b.index) })
	}
	return all, nil
}

// newFile makes a file that is not there yet.
func newFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, exists(name)
	}
	return f, err
}

// exam is samples that are answered in several ways.
type exam struct {
	samples  []sample
	ways     []*way
	parallel int
	desk     *generator.Desk
	closers  []func()

	patience time.Duration // with a model that cannot be reached any more
	pause    time.Duration // before it is asked again

	mu         sync.Mutex
	done, lost int
	unfinished bool // nobody waited for the end of it
}

func (x *exam) close() {
	for _, c := range slices.Backward(x.closers) {
		c()
	}
}

// errHopeless is the cause of the end of an exam in which most answers fail.
var errHopeless = errors.New("more than half of the answers failed")

// run answers every sample in every way. All ways go through the samples together, so that a model that has a bad hour
// has it for all of them alike.
func (x *exam) run(ctx context.Context) error {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := each(len(x.samples)*len(x.ways), x.parallel, func(n int) error {
		if within.Err() != nil {
			return within.Err()
		}
		s, a := n/len(x.ways), x.ways[n%len(x.ways)]
		got := x.answer(within, a, s)
		if got.lost != "" && within.Err() != nil {
			return within.Err()
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.done++
		a.answers[s] = got
		if got.lost != "" {
			x.lost++
			if a.lost++; 2*a.lost > len(x.samples) {
				cancel(fmt.Errorf("%w with %s: the first one: %s", errHopeless, a.name, a.firstLoss()))
			}
		}
		return nil
	})
	if cause := context.Cause(within); cause != nil {
		err = cause // which says more, and once
	}
	x.unfinished = x.done < len(x.samples)*len(x.ways)
	if err == nil {
		for _, a := range x.ways {
			if score := a.score(); score.N == 0 {
				return fmt.Errorf("%s: nobody can say how good they are: %s", a.name, a.firstRemark())
			}
		}
	}
	return err
}

// answer answers one sample in one way, as a measurement: with a pinned playbook and without its session.
func (x *exam) answer(ctx context.Context, a *way, s int) answered {
	t := x.samples[s].Task
	t.Book, t.Playbook, t.Purpose, t.Session = a.book, &a.version, events.Evaluate, ""
	for {
		e, err := a.generator.Answer(ctx, x.desk, &t)
		if err == nil {
			x.mu.Lock()
			a.reached = time.Now()
			x.mu.Unlock()
			return answered{execution: e}
		}
		if !x.waits(a, err) {
			return answered{lost: err.Error()}
		}
		select {
		case <-time.After(x.pause):
		case <-ctx.Done():
		}
	}
}

// waits reports whether an answer is worth another attempt, though the client has made its own: the model cannot be
// reached, and could be a while ago. One that never answered has the wrong address or the wrong key.
func (x *exam) waits(a *way, err error) bool {
	var away interface{ Unavailable() bool }
	if !errors.As(err, &away) || !away.Unavailable() {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return !a.reached.IsZero() && time.Since(a.reached) < x.patience
}

// tell shows how far it is to somebody who watches a terminal, every second, until it is stopped.
func (x *exam) tell(to *console.Writer) (stop func()) {
	if !to.IsTerminal() {
		return func() {}
	}
	ended, told := make(chan struct{}), make(chan struct{})
	began, total := time.Now(), len(x.samples)*len(x.ways)
	go func() {
		defer close(told)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				console.Control(to, console.ClearLine)
				return
			case <-tick.C:
			}
			x.mu.Lock()
			done, lost := x.done, x.lost
			x.mu.Unlock()
			line := fmt.Sprintf("%d of %d answers", done, total)
			if rate := float64(done) / time.Since(began).Seconds(); rate > 0 {
				left := time.Duration(float64(total-done) / rate * float64(time.Second))
				line += fmt.Sprintf(", %.1f a second, %s left", rate, left.Round(time.Second))
			}
			if lost > 0 {
				line += fmt.Sprintf(", %d lost", lost)
			}
			console.Control(to, console.ClearLine)
			console.Fprintf(to, "%s", line)
		}
	}()
	return func() { close(ended); <-told }
}

// write writes every answer, way by way in the order of the file, and closes the file.
func (x *exam) write(out io.WriteCloser) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, a := range x.ways {
		for i := range a.answers {
			if a.answers[i].missing() {
				continue
			}
			if err := enc.Encode(x.told(a, i)); err != nil {
				return errors.Join(err, out.Close())
			}
		}
	}
	return out.Close()
}

// told is an answer as a line.
func (x *exam) told(a *way, i int) report.Sample {
	s := &x.samples[i]
	r := report.Sample{
		Set: "test", Phase: a.name, Index: s.index, ID: s.ID, Question: events.Beginning(s.Question, 200), Target: s.Target,
		Label: events.Unknown, Version: a.version, Lost: a.answers[i].lost,
	}
	if e := a.answers[i].execution; e != nil {
		r.Answer, r.Label, r.Score, r.Feedback, r.Rounds = e.Answer, e.Outcome.Label, e.Outcome.Score, e.Outcome.Feedback, 1
	}
	return r
}
