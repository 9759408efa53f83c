package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train/dataset"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/curator"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/events/streams"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/playbook/formats"
	"debrief/reflector"

	book "debrief/playbook"
)

// Training trains a playbook on a data set, or on recorded executions.
type Training struct {
	cli.ServerFlags
	Dataset    string `arg:"" optional:"" help:"Training tasks, one JSON object per line; with --online, '-' reads standard input." placeholder:"FILE"`
	Validation string `help:"Tasks to choose the best playbook version; never learned from." type:"path" placeholder:"FILE" group:"Data"`
	Test       string `help:"Tasks to measure accuracy before and after; never learned from." type:"path" placeholder:"FILE" group:"Data"`
	taskFile
	MaxSamples int `help:"Maximum number of training tasks; 0 uses all." default:"0" group:"Data" rare:""`

	Name string `help:"Name of the run and of its playbook. Default: file name and hash of the settings." placeholder:"NAME"`
	From string `help:"Playbook to start with; BOOK@POINT for an older version. Default: an empty one." placeholder:"BOOK[@POINT]"`
	Out  string `help:"Folder for the report and all results. Default: debrief-runs/NAME." type:"path" placeholder:"DIR"`

	Epochs        int    `help:"Passes over the training tasks." default:"1" group:"Run"`
	Batch         int    `help:"Tasks answered with one version and learned from together. Default: 1, online 15, --executions 32." default:"0" group:"Run"`
	Tries         int    `help:"Answer each training task up to this many times, until two answers have different outcomes; the Reflector compares them." default:"1" group:"Run"`
	Order         string `help:"Order of the tasks: fixed, or seeded to shuffle each epoch by --seed." enum:"fixed,seeded" default:"fixed" group:"Run" rare:""`
	Seed          uint64 `help:"Seed of --order seeded." default:"1" group:"Run" rare:""`
	ValidateEvery int    `help:"Also validate after this number of training tasks; 0 only after each epoch." default:"100" group:"Run" rare:""`
	SnapshotEvery int    `help:"Name the version after this number of training tasks, such as step-50; 0 names none." default:"50" group:"Run" rare:""`
	Patience      int    `help:"Stop after this number of validations without improvement; 0 never stops." default:"0" group:"Run"`
	Online        bool   `help:"One pass in order of arrival; answer each task first, then learn from it." group:"Run"`
	Executions    string `help:"Run no tasks: reflect again on the recorded executions of this playbook." placeholder:"BOOK" group:"Run"`
	JSON          bool   `help:"Print JSON lines; the last one is the report."`

	Simulated bool          `help:"Use the simulated model of the demo; it only answers invoice tasks." instead:"model,generator-model,reflector-model,curator-model" group:"Model"`
	Latency   time.Duration `help:"Response time of the simulated model." default:"0s" group:"Model" rare:""`

	program.Model
	program.Embedding
	GeneratorConfig program.Generator  `embed:""`
	Evaluators      program.Evaluators `embed:""`
	ReflectorConfig program.Reflector  `embed:""`
	CuratorConfig   program.Curator    `embed:""`

	unread     atomic.Int64         // unreadable lines of standard input
	reflector  *reflector.Reflector // of this process
	hasCurator bool                 // the Curator of this process has a model
}

// Help implements kong.HelpProvider.
func (*Training) Help() string {
	return `Train a playbook on tasks with targets. The generators, reflectors and curators of the server process the tasks like live
traffic. If no server runs on the directory, the roles run in this process. The run has a separate playbook; copy its
changes to another playbook with 'debrief playbook promote'.

Run the same command again to continue an interrupted run: answered tasks are not submitted again, and the result is the
same. Tasks have the fields question, context and target; see --field for other names.

--batch 1 is the sequential loop of the ACE paper. In larger batches, answers and reflections run in parallel. --online answers with the newest playbook, as for live traffic.
With --tries 3 one reflection compares a right and a wrong answer to the same prompt, if the model gives both; the first counts.
--executions learns a second playbook from existing executions, for example with another --reflector-prompt.

Examples:

  debrief demo --tasks tasks
  debrief train tasks/train.jsonl --epochs 5 --batch 32 --simulated
  debrief train train.jsonl --validation val.jsonl --model gpt-4o-mini
  debrief train train.jsonl --field target=expected --model gpt-4o-mini
  debrief train train.jsonl --tries 3 --model gpt-4o-mini
  zcat tasks.jsonl.gz | debrief train - --online --model gpt-4o-mini
  debrief train --executions support --reflector-prompt new.txt --model gpt`
}

// Run implements the command.
func (p *Training) Run(ctx context.Context, c *program.Common, k *kong.Context) error {
	cfg, err := p.config()
	if err != nil {
		return err
	}
	sets, err := p.readSets(ctx)
	if err != nil {
		return err
	}
	settings, err := p.settings(k.Flags())
	if err != nil {
		return err
	}
	connecting := time.Now()
	s, err := p.Connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	if err := warnOfMissingData(ctx, c, &p.ServerFlags, s, connecting); err != nil {
		return err
	}
	o := replay.Options{Settings: settings, From: p.From, Debrief: program.Version(), Name: p.Name}
	model := p.NameOf(events.RoleGenerator)
	if p.Simulated {
		model = simulated.Name
	}
	o.Model = model
	if p.Executions != "" && s.Server == nil {
		o.Model = "" // --model is for the reflections; the generators of the server answer the tests
	}
	if o.Name == "" {
		o.Name = replay.DefaultName(p.stem(), cfg, sets, o)
	}
	if err := events.ValidateBook(book.Book(o.Name)); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--name: %w", err))
	}
	if p.Out == "" {
		p.Out = filepath.Join("debrief-runs", o.Name)
	}
	folder, err := report.Open(p.Out, report.Config{
		Run: o.Name, Model: cmp.Or(model, "the workers'"), Debrief: o.Debrief, Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Settings: o.Settings, Data: sets.Data(),
	})
	if err != nil {
		err = fmt.Errorf("--out: %w", err)
		if errors.As(err, new(*report.FolderInUseError)) {
			err = program.Exit(program.ExitRefused, err)
		}
		return err
	}
	defer folder.Close()
	if p.From != "" {
		name, at, err := p.parent(ctx, s)
		if err != nil {
			return err
		}
		o.Fork = func(ctx context.Context) (uint64, error) {
			return request.Fork(ctx, s.Conn, name, at, book.Book(o.Name))
		}
	}
	roles, err := p.roles(ctx, s, &o)
	if err != nil {
		return err
	}
	runCtx, stopCheck := request.WithModelCheck(ctx, s.Conn, streams.Roles...)
	defer stopCheck()
	stopRoles := func() error { return nil }
	if s.Server != nil { // no other process has the directory: run the roles here
		runCtx, stopRoles = startRoles(runCtx, s.Conn, roles)
	}
	show := newTrainScreen(p)
	if roles != nil {
		show.expect(expectedCalls(cfg, sets, p.reflector, p.hasCurator))
	}
	o.OnEvent = show.event
	out, err := replay.Run(runCtx, s.Conn, cfg, sets, o)
	if roleErr := stopRoles(); roleErr != nil { // the cause of the error of the run, if that has one
		err = roleErr
	}
	if err != nil {
		return p.runError(ctx, o.Name, err)
	}
	if p.Dataset == "-" {
		out.Report.Data[0].Unread = int(p.unread.Load())
	}
	if err := p.writeFolder(ctx, s, folder, out); err != nil {
		return err
	}
	return show.result(out, p.Out)
}

// parent returns the playbook and the version that the run begins with.
func (p *Training) parent(ctx context.Context, s *cli.Session) (name book.Book, at explain.Version, err error) {
	text, point, hasPoint := strings.Cut(p.From, "@")
	name = book.Book(text)
	store := deltalog.New(s.JetStream())
	if err := checkBook(ctx, store, "--from", name); err != nil {
		return name, at, err
	}
	if !hasPoint {
		point = "newest"
	}
	at, err = explain.NewBook(s.JetStream(), name).Version(ctx, point)
	return name, at, err
}

// checkBook returns an error if the playbook that a flag names does not exist.
func checkBook(ctx context.Context, store *deltalog.Store, flag string, name book.Book) error {
	if err := name.Validate(); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("%s: %w", flag, err))
	}
	known, err := store.BooksWithLog(ctx)
	if err != nil || slices.Contains(known, name) {
		return err
	}
	if len(known) == 0 {
		return program.Exit(program.ExitRefused, fmt.Errorf("%s: playbook %q not found: there are no playbooks", flag, name))
	}
	return program.Exit(program.ExitRefused, fmt.Errorf("%s: playbook %q not found: name one of: %s", flag, name, term.Join(known)))
}

// runError adds the exit code or advice to the error of a run.
func (p *Training) runError(ctx context.Context, name string, err error) error {
	switch {
	case errors.As(err, new(*replay.OtherModelError)):
		return program.Exit(program.ExitRefused, fmt.Errorf("run %q stopped: %w: stop that generator or name its model, then run the same command again", name, err))
	case errors.As(err, new(*request.ModelError)):
		return exitOf(fmt.Errorf("run %q stopped: %w; then run the same command again to continue", name, err))
	case errors.As(err, new(*replay.InUseError)), errors.As(err, new(*replay.ConflictError)), errors.As(err, new(*replay.ExpiredError)):
		return program.Exit(program.ExitRefused, err)
	case ctx.Err() != nil:
		return fmt.Errorf("run %q was interrupted; run the same command again to continue", name)
	}
	return err
}

// config returns the configuration of the run. It returns an error for invalid combinations of flags.
func (p *Training) config() (replay.Config, error) {
	cfg := replay.Config{
		Epochs: p.Epochs, Batch: p.Batch, Rounds: p.ReflectorConfig.Rounds, Tries: p.Tries,
		Shuffle: p.Order == "seeded", Seed: p.Seed, ValidateEvery: p.ValidateEvery, Patience: p.Patience, SnapshotEvery: p.SnapshotEvery,
	}
	switch {
	case p.Online && p.Executions != "":
		return cfg, program.Exit(program.ExitUsage, errors.New("--online: is set, and so is --executions: choose one"))
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
		return cfg, program.Exit(program.ExitUsage, errors.New("DATASET: required: name a file of tasks, or --executions BOOK"))
	case p.Executions != "" && p.Dataset != "":
		return cfg, program.Exit(program.ExitUsage, errors.New("--executions: runs no tasks: remove DATASET; --test FILE compares the two playbooks"))
	case p.Dataset == "-" && !p.Online:
		return cfg, program.Exit(program.ExitUsage, errors.New("'-': standard input requires --online; epochs require a file"))
	case p.Simulated && p.Named():
		return cfg, program.Exit(program.ExitUsage, errors.New("--simulated: is set, and so is --model: choose one"))
	case p.Patience > 0 && p.Validation == "":
		return cfg, program.Exit(program.ExitUsage, errors.New("--patience: requires validation tasks: name their file with --validation"))
	case p.Epochs < 1:
		return cfg, program.Exit(program.ExitUsage, fmt.Errorf("--epochs: must be at least 1, got %d", p.Epochs))
	case p.Executions != "" && !p.Simulated && p.Model.Model == "" && p.ReflectorModel == "":
		return cfg, program.Exit(program.ExitUsage, errors.New("--executions: model required for the reflector: set --model or --reflector-model"))
	}
	if err := cfg.Validate(); err != nil {
		return cfg, program.Exit(program.ExitUsage, err)
	}
	return cfg, nil
}

// resultFlags are the flags that change the result of a run, in addition to those of the groups Context and Gate.
var resultFlags = []string{
	"validation", "test", "online", "executions", "from", "epochs", "batch", "rounds", "tries", "order", "seed", "validate-every", "patience",
	"snapshot-every", "max-samples", "evaluator", "evaluator-program", "field", "simulated", "model", "generator-model", "reflector-model",
	"curator-model", "judge-model", "temperature", "generator-prompt", "reflector-prompt", "judge-rubric", "max-tokens", "no-schema",
	"embed-model", "trace-budget", "evidence-budget", "token-budget", "section-token-budget", "trust", "burst",
}

// settings returns the settings that change the result of the run and differ from their defaults. They are in the report, and an
// interrupted run continues only with the same settings. A prompt file is identified by the hash of its content.
func (p *Training) settings(flags []*kong.Flag) ([]report.Setting, error) {
	all := []report.Setting{}
	if p.Dataset != "" {
		all = append(all, report.Setting{Name: "DATASET", Value: filepath.Base(p.Dataset)})
	}
	for _, f := range flags {
		grouped := f.Group != nil && (f.Group.Key == "Context" || f.Group.Key == "Gate")
		changesResult := grouped || slices.Contains(resultFlags, f.Name)
		isUnset := f.Target.IsZero() && !f.HasDefault
		if !changesResult || isUnset {
			continue
		}
		text := fmt.Sprint(f.Target.Interface())
		switch f.Name {
		case "evaluator-program":
			for _, program := range p.Evaluators.Programs {
				all = append(all, report.Setting{Name: f.Name, Value: program.Name + "=" + strings.Join(program.Command, " ")})
			}
			continue
		case "field":
			for _, ours := range slices.Sorted(maps.Keys(p.Field)) {
				all = append(all, report.Setting{Name: f.Name, Value: ours + "=" + p.Field[ours]})
			}
			continue
		case "validation", "test":
			text = filepath.Base(text)
		case "generator-prompt", "reflector-prompt", "judge-rubric":
			content, err := os.ReadFile(text)
			if err != nil {
				return nil, program.Exit(program.ExitUsage, fmt.Errorf("--%s: %w", f.Name, err))
			}
			text = fmt.Sprintf("%s (SHA-256 %.6x)", filepath.Base(text), sha256.Sum256(content))
		}
		defaultText := f.Default
		if d, err := time.ParseDuration(defaultText); err == nil && defaultText != "0" {
			defaultText = d.String() // as in text: 168h is 168h0m0s
		}
		if text != defaultText {
			all = append(all, report.Setting{Name: f.Name, Value: text})
		}
	}
	return all, nil
}

// stem returns the first part of the default name of the run.
func (p *Training) stem() string {
	name := p.Executions
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(p.Dataset), filepath.Ext(p.Dataset))
	}
	name = strings.Map(func(c rune) rune {
		isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		isDigit := c >= '0' && c <= '9'
		if isLetter || isDigit || c == '_' {
			return c
		}
		return '-'
	}, name)
	if name == "" || name == "-" {
		name = "online"
	}
	return name[:min(len(name), 40)]
}

// readSets reads the data sets that the flags name.
func (p *Training) readSets(ctx context.Context) (sets replay.Sets, err error) {
	if p.Dataset == "-" {
		if sets.Train, err = p.startStream(ctx); err != nil {
			return sets, err
		}
	} else if p.Dataset != "" {
		if sets.Train, err = p.readTasks(ctx, replay.Train, p.Dataset, p.MaxSamples); err != nil {
			return sets, err
		}
	}
	if p.Validation != "" {
		if sets.Validation, err = p.readTasks(ctx, replay.Validation, p.Validation, 0); err != nil {
			return sets, err
		}
	}
	if p.Test != "" {
		sets.Test, err = p.readTasks(ctx, replay.Test, p.Test, 0)
	}
	return sets, err
}

// readTasks reads a file of tasks, at most limit; 0 means no limit.
func (p *Training) readTasks(ctx context.Context, set, name string, limit int) (*replay.Set, error) {
	d, err := p.read(ctx, name, scoring.Check, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set, err)
	}
	for _, bad := range d.Problems {
		term.Fprintf(term.Stderr, "%s: %s was not read: %s\n", name, bad.Place, bad.Reason)
	}
	return &replay.Set{
		Data:  report.Data{Set: set, File: filepath.Base(name), SHA256: d.SHA256, Samples: len(d.Tasks), Unread: d.Invalid},
		Tasks: d.Tasks,
	}, nil
}

// startStream sends the tasks of standard input to a channel as they arrive.
func (p *Training) startStream(ctx context.Context) (*replay.Set, error) {
	o, err := p.options(scoring.Check, p.MaxSamples)
	if err != nil {
		return nil, err
	}
	tasks := make(chan events.Task)
	go func() {
		defer close(tasks)
		err := dataset.Each(os.Stdin, o, func(t *events.Task, bad *dataset.SampleError) error {
			if bad != nil {
				term.Fprintf(term.Stderr, "standard input: %s was not read: %s\n", bad.Place, bad.Reason)
				p.unread.Add(1)
				return nil //nolint:nilerr // the user has read it, and the other samples count
			}
			select {
			case tasks <- *t:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil && ctx.Err() == nil {
			term.Fprintf(term.Stderr, "standard input: %s\n", err)
		}
	}()
	return &replay.Set{Data: report.Data{Set: replay.Train, File: "standard input"}, Stream: tasks}, nil
}

// roles returns the roles to run in this process, nil if a server of another process runs them. For --executions it also
// sets o.Source: this process reflects on the executions itself.
func (p *Training) roles(ctx context.Context, s *cli.Session, o *replay.Options) ([]program.Role, error) {
	models := p.Model
	if p.Simulated {
		var err error
		if models, err = Simulate(ctx, models, simulated.Options{Seed: 1, Latency: p.Latency}); err != nil {
			return nil, err
		}
	}
	reflectorModel, err := models.Optional(events.RoleReflector)
	if err != nil {
		return nil, err
	}
	reflectorConfig, err := p.ReflectorConfig.Settings()
	if err != nil {
		return nil, err
	}
	reflectorRole, err := reflector.New(reflectorModel, reflectorConfig)
	if err != nil {
		return nil, err
	}
	if p.Executions != "" {
		if err := checkBook(ctx, deltalog.New(s.JetStream()), "--executions", book.Book(p.Executions)); err != nil {
			return nil, err
		}
		o.Source = replay.Source{Book: book.Book(p.Executions), Reflect: reflectorRole.Reflect, Concurrency: models.MaxConcurrent}
	}
	if s.Server == nil {
		return nil, nil
	}
	generatorModel, err := models.Optional(events.RoleGenerator)
	if err != nil {
		return nil, err
	}
	if generatorModel == nil && p.Dataset != "" {
		return nil, program.Exit(program.ExitUsage, errors.New("model required: set --model, use the simulated one with --simulated, or use the workers of a server with --nats"))
	}
	curatorModel, err := models.Optional(events.RoleCurator)
	if err != nil {
		return nil, err
	}
	embedder, err := p.Embedder(models)
	if err != nil {
		return nil, err
	}
	generatorConfig, err := p.GeneratorConfig.Settings()
	if err != nil {
		return nil, err
	}
	generatorConfig.ModelName = models.NameOf(events.RoleGenerator)
	judge, err := models.Judge()
	if err != nil {
		return nil, err
	}
	generatorConfig.Scorer = scoring.NewScorer(p.Evaluators.Settings(), generatorConfig.Slots).WithModel(judge)
	if err := generatorConfig.Scorer.Check(p.Evaluator); err != nil && p.Dataset != "" {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	generatorRole, err := generator.New(generatorModel, embedder, generatorConfig)
	if err != nil {
		return nil, err
	}
	curatorRole, err := curator.New(curatorModel, p.CuratorConfig.Settings(""))
	if err != nil {
		return nil, err
	}
	p.reflector, p.hasCurator = reflectorRole, curatorModel != nil
	return []program.Role{generatorRole, reflectorRole, curatorRole}, nil
}

// writeFolder writes the report, the answers, the operations and the playbooks of the run.
func (p *Training) writeFolder(ctx context.Context, s *cli.Session, folder *report.Folder, out *replay.Result) error {
	rep := out.Report
	versions := map[string]uint64{"best": rep.Best.Version, "final": rep.Final.Version}
	for _, e := range rep.Epochs {
		versions["epoch-"+strconv.Itoa(e.Epoch)] = e.Book.Version
	}
	if err := p.writePlaybooks(ctx, s, folder, rep.Run.Book, versions); err != nil {
		return err
	}
	if err := report.WriteLines(folder, report.SamplesFile, slices.Values(out.Samples)); err != nil {
		return err
	}
	if err := report.WriteLines(folder, report.OperationsFile, slices.Values(out.Operations)); err != nil {
		return err
	}
	if err := report.WriteLines(folder, report.BulletsFile, slices.Values(rep.Bullets)); err != nil {
		return err
	}
	if err := report.WriteLines(folder, report.BulletUsesFile, out.BulletUses); err != nil {
		return err
	}
	return folder.WriteReport(rep, console.WriteRun)
}

// writePlaybooks writes versions of the run's playbook to the folder, by the name of their file.
func (p *Training) writePlaybooks(ctx context.Context, s *cli.Session, folder *report.Folder, name string, versions map[string]uint64) error {
	store := deltalog.New(s.JetStream())
	for file, version := range versions {
		at, err := store.PlaybookAt(ctx, book.Book(name), version)
		if err != nil {
			return err
		}
		data, _, err := formats.Write(formats.JSON, name, at.Sorted())
		if err != nil {
			return err
		}
		if err := folder.WriteFile("playbooks/"+file+".json", data); err != nil {
			return err
		}
	}
	return nil
}
