package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/curator"
	"debrief/events"
	"debrief/events/chat"
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
	cli.NATSFlags
	Dataset    string `arg:"" optional:"" help:"Training tasks, one JSON object per line; '-' reads standard input." placeholder:"FILE"`
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
}

// Help implements kong.HelpProvider.
func (*Training) Help() string {
	return `Train a playbook on tasks with targets. The generators, reflectors and curators of the server process the tasks like live
traffic. If no server runs on the directory, the roles run in this process. To look at the playbook meanwhile, start
'debrief up' first. The run has a separate playbook; copy its changes to another playbook with 'debrief playbook promote'.

Run the same command again to continue an interrupted run: answered tasks are not submitted again, and the result is the
same. Tasks have the fields question, context and target; see --field for other names.

--batch 1 is the sequential loop of the ACE paper. In larger batches, answers and reflections run in parallel. --online answers with the newest playbook, as for live traffic.
With --tries 3 one reflection compares a right and a wrong answer to the same prompt, if the model gives both; the first counts.
--evaluator program:NAME --evaluator-program NAME='COMMAND' scores answers by a program. For each answer it reads one JSON object from
standard input, with the texts id, question, context, target, answer and reasoning. It prints {"score": 0.5, "feedback": "why"}.
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
	o := replay.Options{Settings: settings, From: p.From, Debrief: program.Version(), Name: p.Name, Model: p.answeringModel()}
	if p.Executions != "" && s.Server == nil {
		o.Model = "" // --model is for the reflections; the generators of the server answer the tests
	}
	if o.Name == "" {
		o.Name = replay.DefaultName(p.stem(), cfg, sets, o)
	}
	if err := events.ValidateBook(book.Book(o.Name)); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--name: %w", err))
	}
	folder, err := p.openFolder(o, sets.Data())
	if err != nil {
		return err
	}
	defer folder.Close()
	if p.From != "" {
		if o.Fork, err = p.fork(ctx, s, book.Book(o.Name)); err != nil {
			return err
		}
	}
	return p.train(ctx, s, folder, cfg, sets, o)
}

// answeringModel returns the name of the model for the answers, "" for the model of the workers.
func (p *Training) answeringModel() string {
	if p.Simulated {
		return simulated.Name
	}
	return p.NameOf(events.RoleGenerator)
}

// openFolder opens the folder of the run. It sets --out to its default.
func (p *Training) openFolder(o replay.Options, data []report.Data) (*report.Folder, error) {
	if p.Out == "" {
		p.Out = filepath.Join("debrief-runs", o.Name)
	}
	folder, err := report.Open(p.Out, report.Config{
		Run: o.Name, Model: cmp.Or(p.answeringModel(), "the workers'"), Debrief: o.Debrief, Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Settings: o.Settings, Data: data,
	})
	if err == nil {
		return folder, nil
	}
	err = fmt.Errorf("--out: %w", err)
	if errors.As(err, new(*report.FolderInUseError)) {
		err = program.Exit(program.ExitRefused, err)
	}
	return nil, err
}

// fork returns the function that copies the playbook of --from to the playbook of the run.
func (p *Training) fork(ctx context.Context, s *cli.Session, to book.Book) (func(context.Context) (uint64, error), error) {
	name, point, hasPoint := strings.Cut(p.From, "@")
	from := book.Book(name)
	store := deltalog.New(s.JetStream())
	if err := checkBook(ctx, store, "--from", from); err != nil {
		return nil, err
	}
	if !hasPoint {
		point = "newest"
	}
	at, err := explain.FindVersion(from, point, store.Log(ctx, from))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (uint64, error) { return request.Fork(ctx, s.Conn, from, at, to) }, nil
}

// train runs or resumes the run, with the roles in this process unless another process runs the server. Then it writes the folder and prints
// the result.
func (p *Training) train(ctx context.Context, s *cli.Session, folder *report.Folder, cfg replay.Config, sets replay.Sets, o replay.Options) error {
	models, err := p.models(ctx)
	if err != nil {
		return err
	}
	opened, err := openRoleModels(models, s.Server != nil)
	if err != nil {
		return err
	}
	reflectorRole, err := p.newReflector(opened.reflector)
	if err != nil {
		return err
	}
	if p.Executions != "" { // this process reflects on the executions
		source := book.Book(p.Executions)
		if err := checkBook(ctx, deltalog.New(s.JetStream()), "--executions", source); err != nil {
			return err
		}
		o.Source = replay.Source{Book: source, Reflect: reflectorRole.Reflect, Concurrency: models.MaxConcurrent}
	}
	show := newTrainScreen(p)
	o.OnEvent = show.event
	runCtx, stopCheck := request.WithModelCheck(ctx, s.Conn, streams.Roles...)
	defer stopCheck()
	var out *replay.Result
	run := func(ctx context.Context) (err error) {
		out, err = replay.Run(ctx, s.Conn, cfg, sets, o)
		return err
	}
	if s.Server == nil { // the roles of other processes do the work
		err = run(runCtx)
	} else {
		roles, rolesErr := p.roles(models, opened, reflectorRole)
		if rolesErr != nil {
			return rolesErr
		}
		show.expect(expectedCalls(cfg, sets, reflectorRole, opened.curator != nil))
		err = withRoles(runCtx, s.Conn, roles, run)
	}
	if out == nil {
		return p.runError(ctx, o.Name, err)
	}
	return errors.Join(p.finish(ctx, s, folder, show, out), err)
}

// finish writes the folder of a run that has ended, and prints its result.
func (p *Training) finish(ctx context.Context, s *cli.Session, folder *report.Folder, show *trainScreen, out *replay.Result) error {
	if err := p.writeFolder(ctx, s, folder, out); err != nil {
		return fmt.Errorf("run %q is stored, but not all of its files: %w", out.Report.Run.Name, err)
	}
	return show.result(out, p.Out)
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

// runError adds the exit code or advice to the error of a run. ctx is the context of the command.
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

// models returns the settings of the models. For --simulated it starts the simulated model.
func (p *Training) models(ctx context.Context) (program.Model, error) {
	if p.Simulated {
		return Simulate(ctx, p.Model, simulated.Options{Seed: 1, Latency: p.Latency})
	}
	return p.Model, nil
}

// roleModels are the models of the roles in this process. Nil means none.
type roleModels struct{ generator, reflector, curator, judge chat.Model }

// openRoleModels returns the model of the Reflector, and with allRoles also those of the others.
func openRoleModels(models program.Model, allRoles bool) (m roleModels, err error) {
	if m.reflector, err = models.OptionalClient(events.RoleReflector); err != nil || !allRoles {
		return m, err
	}
	if m.generator, err = models.OptionalClient(events.RoleGenerator); err != nil {
		return m, err
	}
	if m.curator, err = models.OptionalClient(events.RoleCurator); err != nil {
		return m, err
	}
	m.judge, err = models.Judge()
	return m, err
}

// newReflector returns the Reflector of this process. Without a model it reflects by rules.
func (p *Training) newReflector(model chat.Model) (*reflector.Reflector, error) {
	cfg, err := p.ReflectorConfig.Settings()
	if err != nil {
		return nil, err
	}
	return reflector.New(model, cfg)
}

// roles returns the roles to run in this process.
func (p *Training) roles(models program.Model, opened roleModels, reflectorRole *reflector.Reflector) ([]program.Role, error) {
	if opened.generator == nil && p.Dataset != "" {
		return nil, program.Exit(program.ExitUsage, errors.New("model required: set --model, use the simulated one with --simulated, or use the workers of a server with --nats"))
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
	generatorConfig.Scorer = scoring.NewScorer(p.Evaluators.Settings(), generatorConfig.Slots).WithModel(opened.judge)
	if err := generatorConfig.Scorer.Check(p.Evaluator); err != nil && p.Dataset != "" {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	generatorRole, err := generator.New(opened.generator, embedder, generatorConfig)
	if err != nil {
		return nil, err
	}
	curatorRole, err := curator.New(opened.curator, p.CuratorConfig.Settings())
	if err != nil {
		return nil, err
	}
	return []program.Role{generatorRole, reflectorRole, curatorRole}, nil
}
