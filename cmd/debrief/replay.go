package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/dataset"
	"debrief/cmd/internal/replay"
	"debrief/cmd/internal/report"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/playbook/natskv"
	"debrief/reflector"

	book "debrief/playbook"
)

// replayRun runs over a data set.
type replayRun struct {
	place
	Dataset    string `arg:"" optional:"" help:"Training tasks, a JSON object a line: question, context, target. '-' is standard input, with --online." placeholder:"FILE"`
	Validation string `help:"Tasks that choose the best playbook. Never learned from." type:"path" placeholder:"FILE" group:"Data"`
	Test       string `help:"Tasks that are asked before and after. Never learned from." type:"path" placeholder:"FILE" group:"Data"`
	taskFile
	MaxSamples int `help:"Only so many training tasks; 0 is all." default:"0" group:"Data"`

	Name string `help:"Name of the run, and of its playbook. Default: the file's name and a hash of all settings, so that the same command goes on with the same run." placeholder:"NAME"`
	From string `help:"Playbook to begin with: BOOK, or BOOK@POINT for an older version. Default: an empty one." placeholder:"BOOK[@POINT]"`
	Out  string `help:"Folder for the report and all results. Default: debrief-runs/NAME." type:"path" placeholder:"DIR"`

	Epochs        int    `help:"Passes over the training tasks." default:"1" group:"Run"`
	Batch         int    `help:"Tasks that are answered with one version of the playbook, at the same time. 1 is the sequential loop of the ACE paper; default online: 15." default:"0" group:"Run"`
	CurateEvery   int    `help:"Tasks that the Curator learns from together. Default: the batch." default:"0" group:"Run"`
	Order         string `help:"fixed, or seeded: every epoch shuffled by --seed." enum:"fixed,seeded" default:"fixed" group:"Run"`
	Seed          uint64 `help:"Of the order." default:"1" group:"Run"`
	ValidateEvery int    `help:"Ask the validation tasks after so many training tasks, besides the end of every epoch; 0 is never." default:"100" group:"Run"`
	Patience      int    `help:"End after so many validations without a better one; 0 is never." default:"0" group:"Run"`
	Online        bool   `help:"Test, then learn: one pass in the order of arrival, answered as live traffic with the newest playbook." group:"Run"`
	Executions    string `help:"Run no task: have the reflector look at this playbook's recorded executions anew, and learn another playbook from that." placeholder:"BOOK" group:"Run"`
	JSON          bool   `help:"Print JSON lines; the last one is the report."`

	Simulated bool          `help:"Answer with the simulated model of the demo, which knows invoices and nothing else." instead:"model,generator-model,reflector-model,curator-model" group:"Model"`
	Latency   time.Duration `help:"How long the simulated model thinks." default:"0s" group:"Model"`

	app.Model
	app.Embedding
	GeneratorConfig app.Generator  `embed:""`
	Evaluators      scoring.Config `embed:""`
	ReflectorConfig app.Reflector  `embed:""`
	CuratorConfig   app.Curator    `embed:""`

	unread atomic.Int64 // lines of standard input
}

// Help implements kong.HelpProvider.
func (*replayRun) Help() string {
	return `Trains a playbook on tasks with targets. Tasks go to the same generators, reflectors and curators as live traffic: to
those of the server, or, where none runs on the directory, to roles in this process. The run has a playbook of its own;
'debrief playbook promote' brings what it learned into another.

A run that was interrupted goes on when the same command is given again: nothing that was answered is asked again, and
the outcome is the same.

Examples:

  debrief demo --tasks tasks && debrief replay tasks/train.jsonl --test tasks/held-out.jsonl --epochs 5 --batch 32 --simulated
  debrief replay train.jsonl --validation val.jsonl --test test.jsonl --model gpt-4o-mini --batch 16
  debrief replay train.jsonl --field question=prompt --field target=expected --evaluator numeric:0.01 --model …
  zcat tasks.jsonl.gz | debrief replay - --online --model …
  debrief replay --executions support --reflector-prompt new-prompt.txt --test test.jsonl --model …`
}

// Run implements the command.
func (p *replayRun) Run(ctx context.Context, c *app.Common, k *kong.Context) error {
	cfg, err := p.config()
	if err != nil {
		return err
	}
	sets, err := p.sets(ctx)
	if err != nil {
		return err
	}
	settings, err := p.settings(k.Flags())
	if err != nil {
		return err
	}
	s, err := p.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	o := replay.Options{Settings: settings, From: p.From, Debrief: app.Version(), Name: p.Name}
	if o.Name == "" {
		o.Name = replay.DefaultName(p.stem(), cfg, sets, o)
	}
	if err := book.Book(o.Name).Validate(); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--name: %w", err))
	}
	if p.Out == "" {
		p.Out = filepath.Join("debrief-runs", o.Name)
	}
	folder, err := report.Open(p.Out, report.Config{
		Run: o.Name, Model: p.who(), Debrief: o.Debrief, Go: report.Built(), Settings: o.Settings, Data: sets.Data(),
	})
	if taken := (*report.TakenError)(nil); errors.As(err, &taken) {
		return app.Exit(app.ExitRefused, fmt.Errorf("--out: %w", err))
	} else if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer folder.Close()
	if p.From != "" {
		name, at, err := p.parent(ctx, s)
		if err != nil {
			return err
		}
		o.Fork = func(ctx context.Context) (uint64, error) { return fork(ctx, s, name, at, book.Book(o.Name)) }
	}
	roles, err := p.roles(ctx, s, &o)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	going, idle := context.WithCancelCause(ctx)
	defer idle(nil)
	working := make(chan error, 1)
	if s.server != nil { // nobody else works on the directory
		go func() {
			err := app.Run(work, s.Conn, roles...)
			if err != nil {
				idle(err)
			}
			working <- err
		}()
	} else {
		close(working)
	}
	show := newRunScreen(p, o.Name)
	o.Progress, o.Point, o.Epoch, o.Waiting, o.Skipped = show.progress, show.point, show.epoch, show.waiting, show.skipped
	out, err := replay.Go(going, s.Conn, cfg, sets, o)
	stop()
	if werr := <-working; err == nil || werr != nil { // without roles, that the run ended follows
		err = werr
	}
	if err != nil {
		return p.ended(ctx, o.Name, err)
	}
	if p.Dataset == "-" {
		out.Report.Data[0].Unread = int(p.unread.Load())
	}
	if err := p.leave(ctx, s, folder, out); err != nil {
		return err
	}
	return show.result(out, p.Out)
}

// parent is the playbook that the run begins with.
func (p *replayRun) parent(ctx context.Context, s *session) (name book.Book, at moment, err error) {
	text, point, old := strings.Cut(p.From, "@")
	name = book.Book(text)
	store := natskv.New(s.JetStream())
	if err := isBook(ctx, store, "--from", name); err != nil {
		return name, at, err
	}
	if !old {
		point = "newest"
	}
	at, err = (&openBook{s, store, name}).moment(ctx, point)
	return name, at, err
}

// isBook makes sure that a flag names a playbook that is there.
func isBook(ctx context.Context, store *natskv.Store, flag string, name book.Book) error {
	if err := name.Validate(); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("%s: %w", flag, err))
	}
	known, err := store.Logged(ctx)
	if err != nil || slices.Contains(known, name) {
		return err
	}
	if len(known) == 0 {
		return app.Exit(app.ExitRefused, fmt.Errorf("%s: there is no playbook %q here, nor any other", flag, name))
	}
	return app.Exit(app.ExitRefused, fmt.Errorf("%s: there is no playbook %q here; there is %v", flag, name, known))
}

// ended is an error of a run as a person needs it.
func (p *replayRun) ended(ctx context.Context, name string, err error) error {
	var used *replay.InUseError
	var other *replay.OtherError
	var expired *replay.ExpiredError
	switch {
	case errors.As(err, &used), errors.As(err, &other), errors.As(err, &expired):
		return app.Exit(app.ExitRefused, err)
	case ctx.Err() != nil:
		return fmt.Errorf("run %q was interrupted; the same command goes on with it", name)
	}
	return err
}

func (p *replayRun) config() (replay.Config, error) {
	cfg := replay.Config{
		Epochs: p.Epochs, Batch: p.Batch, CurateEvery: p.CurateEvery, Rounds: p.ReflectorConfig.Rounds,
		Shuffle: p.Order == "seeded", Seed: p.Seed, ValidateEvery: p.ValidateEvery, Patience: p.Patience,
	}
	switch {
	case p.Online && p.Executions != "":
		return cfg, app.Exit(app.ExitUsage, errors.New("--online, --executions: choose one"))
	case p.Online:
		cfg.Mode = replay.Online
	case p.Executions != "":
		cfg.Mode = replay.Executions
		if p.Batch == 0 {
			cfg.Batch = 32
		}
	}
	switch {
	case p.Executions == "" && p.Dataset == "":
		return cfg, app.Exit(app.ExitUsage, errors.New("DATASET: is missing: name a file of tasks, or --executions BOOK"))
	case p.Executions != "" && p.Dataset != "":
		return cfg, app.Exit(app.ExitUsage, errors.New("--executions: runs no tasks, so there can be no DATASET; --test FILE compares the two playbooks"))
	case p.Dataset == "-" && !p.Online:
		return cfg, app.Exit(app.ExitUsage, errors.New("'-': standard input is for --online; epochs need a file"))
	case p.Simulated && p.Named():
		return cfg, app.Exit(app.ExitUsage, errors.New("--simulated: is set, and so is --model: choose one"))
	case p.Patience > 0 && p.Validation == "":
		return cfg, app.Exit(app.ExitUsage, errors.New("--patience: counts measurements of validation tasks: name their file with --validation"))
	case p.Epochs < 1:
		return cfg, app.Exit(app.ExitUsage, fmt.Errorf("--epochs: must be at least 1, got %d", p.Epochs))
	case p.Executions != "" && !p.Simulated && p.Model.Model == "" && p.ReflectorModel == "":
		return cfg, app.Exit(app.ExitUsage, errors.New("--executions: this process reflects: name its model with --model or --reflector-model"))
	}
	if err := cfg.Validate(); err != nil {
		return cfg, app.Exit(app.ExitUsage, err)
	}
	return cfg, nil
}

// deciding are flags that what comes of a run depends on, besides those that settings names itself and those of the
// groups Context and Gate.
var deciding = []string{"max-tokens", "no-schema", "embed-model", "trace-budget", "token-budget", "section-token-budget", "trust", "burst"}

// settings is what the run was asked to do, for the report and to tell it from others: a run goes on where all of it is
// the same. Of files it is what they say.
func (p *replayRun) settings(flags []*kong.Flag) ([]report.Setting, error) {
	answers, err := p.GeneratorConfig.Settings()
	if err != nil {
		return nil, err
	}
	reflects, err := p.ReflectorConfig.Settings()
	if err != nil {
		return nil, err
	}
	all := []report.Setting{}
	set := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "false" {
			all = append(all, report.Setting{Name: name, Value: text})
		}
	}
	set("DATASET", nonEmptyBase(p.Dataset))
	set("validation", nonEmptyBase(p.Validation))
	set("test", nonEmptyBase(p.Test))
	set("online", p.Online)
	set("executions", p.Executions)
	set("from", p.From)
	set("epochs", p.Epochs)
	set("batch", p.Batch)
	set("curate-every", p.CurateEvery)
	set("rounds", p.ReflectorConfig.Rounds)
	set("order", p.Order)
	set("seed", p.Seed)
	set("validate-every", p.ValidateEvery)
	set("patience", p.Patience)
	set("max-samples", p.MaxSamples)
	set("form", p.Form)
	set("evaluator", p.Evaluator)
	for _, program := range p.Evaluators.Programs {
		set("evaluator-program", program.Name+"="+strings.Join(program.Command, " "))
	}
	for _, ours := range slices.Sorted(maps.Keys(p.Field)) {
		set("field", ours+"="+p.Field[ours])
	}
	set("simulated", p.Simulated)
	set("model", p.Model.Model)
	set("generator-model", p.GeneratorModel)
	set("reflector-model", p.ReflectorModel)
	set("curator-model", p.CuratorModel)
	set("temperature", p.Temperature)
	set("generator-prompt", said(p.GeneratorConfig.GeneratorPrompt, answers.Instructions))
	set("reflector-prompt", said(p.ReflectorConfig.ReflectorPrompt, reflects.Instructions))
	for _, f := range flags {
		if grouped := f.Group != nil && (f.Group.Key == "Context" || f.Group.Key == "Gate"); !grouped && !slices.Contains(deciding, f.Name) {
			continue
		}
		value, byDefault := f.Target.Interface(), f.Default
		if _, is := value.(time.Duration); is {
			if d, err := time.ParseDuration(byDefault); err == nil {
				byDefault = d.String() // 168h is 168h0m0s
			}
		}
		if text := fmt.Sprint(value); text != byDefault && (byDefault != "" || !f.Target.IsZero()) {
			all = append(all, report.Setting{Name: f.Name, Value: text})
		}
	}
	return all, nil
}

// said names a file by what it says, "" where there is none.
func said(name, text string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%s (SHA-256 %.6x)", filepath.Base(name), sha256.Sum256([]byte(text)))
}

func nonEmptyBase(name string) string {
	if name == "" {
		return ""
	}
	return filepath.Base(name)
}

// stem is what the run is called after.
func (p *replayRun) stem() string {
	name := p.Executions
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(p.Dataset), filepath.Ext(p.Dataset))
	}
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, name)
	if name == "" || name == "-" {
		name = "online"
	}
	return name[:min(len(name), 40)]
}

// sets reads the files.
func (p *replayRun) sets(ctx context.Context) (sets replay.Sets, err error) {
	if p.Dataset == "-" {
		if sets.Train, err = p.stream(ctx); err != nil {
			return sets, err
		}
	} else if p.Dataset != "" {
		if sets.Train, err = p.tasks(ctx, replay.Train, p.Dataset, p.MaxSamples); err != nil {
			return sets, err
		}
	}
	if p.Validation != "" {
		if sets.Validation, err = p.tasks(ctx, replay.Validation, p.Validation, 0); err != nil {
			return sets, err
		}
	}
	if p.Test != "" {
		sets.Test, err = p.tasks(ctx, replay.Test, p.Test, 0)
	}
	return sets, err
}

// tasks reads a file.
func (p *replayRun) tasks(ctx context.Context, set, name string, most int) (*replay.Set, error) {
	d, err := p.read(ctx, name, scoring.Check, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set, err)
	}
	for _, bad := range d.Problems {
		console.Fprintf(console.Stderr, "%s: line %d was not read: %s\n", name, bad.Line, bad.Reason)
	}
	return &replay.Set{
		Data:  report.Data{Set: set, File: filepath.Base(name), SHA256: d.SHA256, Samples: len(d.Tasks), Unread: d.Unread},
		Tasks: d.Tasks,
	}, nil
}

// stream hands on the tasks of standard input as they come.
func (p *replayRun) stream(ctx context.Context) (*replay.Set, error) {
	o, err := p.options(scoring.Check, p.MaxSamples)
	if err != nil {
		return nil, err
	}
	in, err := dataset.NewReader(os.Stdin, o)
	if err != nil {
		return nil, err
	}
	tasks := make(chan events.Task)
	go func() {
		defer close(tasks)
		for {
			t, err := in.Next()
			if bad := (*dataset.Problem)(nil); errors.As(err, &bad) {
				console.Fprintf(console.Stderr, "standard input: line %d was not read: %s\n", bad.Line, bad.Reason)
				p.unread.Add(1)
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					console.Fprintf(console.Stderr, "standard input: %s\n", err)
				}
				return
			}
			select {
			case tasks <- t:
			case <-ctx.Done():
				return
			}
		}
	}()
	return &replay.Set{Data: report.Data{Set: replay.Train, File: "standard input"}, Stream: tasks}, nil
}

// roles are the roles of this process, and, for recorded executions, the reflector that looks at them.
func (p *replayRun) roles(ctx context.Context, s *session, o *replay.Options) ([]app.Role, error) {
	models := p.Model
	if p.Simulated {
		var err error
		if models, err = simulate(ctx, models, p.Latency); err != nil {
			return nil, err
		}
	}
	reflecting, err := models.Optional(events.RoleReflector)
	if err != nil {
		return nil, err
	}
	reflects, err := p.ReflectorConfig.Settings()
	if err != nil {
		return nil, err
	}
	looks := reflector.New(reflecting, reflects)
	if p.Executions != "" {
		if err := isBook(ctx, natskv.New(s.JetStream()), "--executions", book.Book(p.Executions)); err != nil {
			return nil, err
		}
		o.Source = replay.Source{Book: book.Book(p.Executions), Reflect: looks.Reflect, AtOnce: models.MaxConcurrent}
	}
	if s.server == nil {
		return nil, nil
	}
	answering, err := models.Optional(events.RoleGenerator)
	if err != nil {
		return nil, err
	}
	if answering == nil && p.Dataset != "" {
		return nil, app.Exit(app.ExitUsage, errors.New("no model: name one with --model, try the simulated one with --simulated, or let the workers of a server answer with --nats"))
	}
	curating, err := models.Optional(events.RoleCurator)
	if err != nil {
		return nil, err
	}
	embedder, err := p.Embedder(models)
	if err != nil {
		return nil, err
	}
	answers, err := p.GeneratorConfig.Settings()
	if err != nil {
		return nil, err
	}
	answers.Judge = scoring.NewJudge(p.Evaluators, answers.Slots)
	if err := answers.Judge.Check(p.Evaluator); err != nil && p.Dataset != "" {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	return []app.Role{generator.New(answering, embedder, answers), looks, p.CuratorConfig.Role(curating)}, nil
}

// leave writes what the run leaves behind.
func (p *replayRun) leave(ctx context.Context, s *session, folder *report.Folder, out *replay.Outcome) error {
	rep := out.Report
	versions := map[string]uint64{"best": rep.Best.Version, "final": rep.Final.Version}
	for _, e := range rep.Epochs {
		versions["epoch-"+strconv.Itoa(e.Epoch)] = e.Book.Version
	}
	if err := p.playbooks(ctx, s, folder, rep.Run.Book, versions); err != nil {
		return err
	}
	if err := report.Lines(folder, report.SamplesFile, lines(out.Samples)); err != nil {
		return err
	}
	if err := report.Lines(folder, report.OperationsFile, lines(out.Operations)); err != nil {
		return err
	}
	if err := report.Lines(folder, report.BulletsFile, lines(rep.Bullets)); err != nil {
		return err
	}
	return folder.Report(rep)
}

// lines gives the elements of a slice as lines to be written.
func lines[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// who is the model that answers, as far as this process knows.
func (p *replayRun) who() string {
	switch {
	case p.Simulated:
		return simulated.Name
	case p.GeneratorModel != "":
		return p.GeneratorModel
	case p.Model.Model != "":
		return p.Model.Model
	}
	return "the workers'"
}
