package train

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/chat/openai"
	"debrief/events/deltalog"
	"debrief/generator"
	"debrief/generator/scoring"

	book "debrief/playbook"
)

// armSettings are the settings of an arm. An empty field of an --against flag takes its value from the first arm, see withDefaults.
type armSettings struct {
	text                    string // of the flag; empty for the first arm
	book, at, model, prompt string
	empty                   bool
}

// UnmarshalText implements encoding.TextUnmarshaler. The text is a list such as book=support,at=7d or empty,model=gpt-4o.
func (o *armSettings) UnmarshalText(text []byte) error {
	*o = armSettings{text: string(text)}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(o.text, ",") {
		key, value, hasValue := strings.Cut(part, "=")
		if seen[key] {
			return fmt.Errorf("%s is given twice in %q", key, text)
		}
		seen[key] = true
		isValid := value != ""
		switch key {
		case "book":
			o.book = value
		case "at":
			o.at = value
		case "model":
			o.model = value
		case "prompt":
			o.prompt = value
		case "empty":
			o.empty, isValid = true, !hasValue
		default:
			isValid = false
		}
		if !isValid {
			return fmt.Errorf("want book=NAME, at=POINT, empty, model=NAME or prompt=FILE, joined by commas, got %q", text)
		}
	}
	if o.empty && (o.at != "" || o.book != "") {
		return fmt.Errorf("empty cannot be combined with book or at: remove one in %q", text)
	}
	return nil
}

// evalArm is an arm of an evaluation: its settings and its answers.
type evalArm struct {
	armResult           // its settings; addUp adds the score and the usage
	taskBook  book.Book // of its tasks; also set for an arm without a playbook, whose Book is empty

	generator *generator.Generator
	answers   []sampleResult // in the order of the samples
	lost      int            // answers with an error so far
	firstLoss string         // the first of these errors
	lastReply time.Time      // of the model; zero before its first reply
}

// sampleResult is the answer to a sample, or the error. The zero value is that of a sample that was not tried.
type sampleResult struct {
	execution *events.Execution
	lost      string // error; "" if there is an answer
}

// right reports whether an answer is right, and whether its outcome is known.
func (r *sampleResult) right() (right, known bool) {
	if r.execution == nil {
		return false, false
	}
	o := &r.execution.Outcome
	return o.Label == events.Success, o.Known()
}

// prepare opens the playbook version and the model client of each arm.
func (e *Eval) prepare(ctx context.Context, s *cli.Session, scorer *scoring.Scorer, x *evaluation) error {
	models := e.Model
	models.MaxConcurrent = max(models.MaxConcurrent, e.Parallel)
	if e.Simulated {
		var err error
		if models, err = Simulate(ctx, models, simulated.Options{Seed: 1}); err != nil {
			return err
		}
	}
	embedder, err := e.Embedder(models)
	if err != nil {
		return err
	}
	judge, err := models.Judge()
	if err != nil {
		return err
	}
	cfg := generator.Config{Slots: e.Parallel, Limits: e.Limits.Settings(), Recall: generator.RecallNone}
	x.contexts = generator.NewContextBuilder(s.Conn, embedder, cfg)

	first := &armSettings{book: e.Book, at: e.At, empty: e.Empty, model: cmp.Or(models.GeneratorModel, models.Model), prompt: e.GeneratorPrompt}
	clients := make(map[string]*openai.Client) // by model
	for _, o := range append([]armSettings{*first}, e.Against...) {
		o = o.withDefaults(first)
		a := &evalArm{
			armResult: armResult{Arm: cmp.Or(o.text, "the first answers"), Model: o.model, Prompt: o.prompt},
			answers:   make([]sampleResult, len(x.samples)),
		}
		if err := a.open(ctx, s, &o); err != nil {
			return err
		}
		if clients[o.model] == nil {
			models.GeneratorModel = o.model
			client, err := models.Client(events.RoleGenerator)
			if err != nil {
				return err
			}
			clients[o.model] = client
		}
		armConfig := cfg
		armConfig.Instructions, err = program.Instructions("--generator-prompt", o.prompt)
		switch {
		case err != nil && o.text != "":
			return fmt.Errorf("--against %s: %w", o.text, err)
		case err != nil:
			return err
		}
		armConfig.Scorer = scorer.WithModel(judge)
		if a.generator, err = generator.New(clients[o.model], embedder, armConfig); err != nil {
			return err
		}
		x.arms = append(x.arms, a)
	}
	return nil
}

// withDefaults fills empty settings from the first arm. A version belongs to its book: an arm with another book and no version has the newest
// one.
func (o armSettings) withDefaults(first *armSettings) armSettings {
	if o.book == "" && o.at == "" && !o.empty {
		o.at, o.empty = first.at, first.empty
	}
	o.book = cmp.Or(o.book, first.book)
	o.model = cmp.Or(o.model, first.model)
	o.prompt = cmp.Or(o.prompt, first.prompt)
	return o
}

// open looks up the playbook version of the settings.
func (a *evalArm) open(ctx context.Context, s *cli.Session, o *armSettings) error {
	name, err := cli.ParseBook(o.book)
	if err != nil {
		return err
	}
	a.taskBook = name
	if o.empty {
		return nil // version 0 of any book
	}
	store := deltalog.New(s.JetStream())
	known, err := store.BooksWithLog(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(known, name) {
		return program.Exit(program.ExitRefused, fmt.Errorf("%w; or answer without a playbook: --empty", cli.NotFoundError(name, known)))
	}
	at, err := explain.FindVersion(name, cmp.Or(o.at, "newest"), store.Log(ctx, name))
	if err != nil {
		return err
	}
	a.Book, a.Label = string(name), at.Label()
	a.Version = at.Number
	return nil
}

// addUp computes the score, the accuracy and the usage of the answers. The usage of failed calls is unknown, so it is not included.
func (a *evalArm) addUp() {
	a.Score, a.Usage = report.Score{}, report.Usage{}
	for i := range a.answers {
		e := a.answers[i].execution
		if e == nil {
			a.Score.Lost++
			continue
		}
		a.Score.Count(e.Outcome.Label, e.Outcome.Score)
		a.Usage = a.Usage.Plus(report.UsageOf(e.Usage))
	}
	a.Score = a.Score.Finish()
	a.Accuracy = a.Score.Interval()
}

// whyUnscored returns the reason why no answer has a score: the first feedback of an evaluator, such as its error. An evaluator that gets no
// target gives no feedback.
func (a *evalArm) whyUnscored() string {
	for i := range a.answers {
		if e := a.answers[i].execution; e != nil && e.Outcome.Remark() != "" {
			return e.Outcome.Remark()
		}
	}
	return "no drawn sample has a target"
}
