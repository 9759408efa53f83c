package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/curator"
	"debrief/events"
	"debrief/events/chat/openai"
	"debrief/events/deltalog"
	"debrief/events/streams"
	"debrief/generator"
	"debrief/reflector"

	book "debrief/playbook"
)

// Demo shows how the pipeline learns the hidden rules of an invoice desk. No prompt contains the rules at the start.
type Demo struct {
	Epochs  int    `help:"Passes over the training tasks." default:"5"`
	Train   int    `help:"Number of training tasks, 1 to 200; with --tasks up to 20000." default:"200"`
	HeldOut int    `help:"Number of held-out tasks for measurement, 1 to 200; with --tasks up to 5000." default:"200"`
	Seed    uint64 `help:"Seed of the rules and the tasks." default:"1"`
	Tasks   string `help:"Only write the tasks to train.jsonl and held-out.jsonl in this directory." type:"path" placeholder:"DIR" env:"-"`
	Data    string `help:"Keep the streams in this directory. Default: discard them." type:"path" placeholder:"DIR" env:"-"`
	JSON    bool   `help:"Print JSON lines; the last one is the result."`

	Noise   float64       `help:"Control: share of nonsense reflections, 0 to 1." default:"0" group:"Simulated model" rare:""`
	Fail    float64       `help:"Share of failed model calls, 0 to 1: 429, 500, truncated and garbled replies." default:"0" group:"Simulated model" rare:""`
	Sloppy  float64       `help:"Share of sloppy replies, 0 to 1: code fences, prose, null and unknown ids." default:"0" group:"Simulated model" rare:""`
	Latency time.Duration `help:"Response time of the simulated model." default:"0s" group:"Simulated model" rare:""`

	program.Model
}

// Help implements kong.HelpProvider.
func (*Demo) Help() string {
	return `Run the three roles in one process on the tasks of a simulated invoice desk. The training tasks are learned from; the
held-out tasks measure the accuracy before and after each epoch.

Examples:

  debrief demo
  debrief demo --epochs 2 --train 80 --data demo-data
  debrief demo --tasks tasks`
}

// Validate implements kong's check.
func (d *Demo) Validate() error {
	if d.Latency != 0 && d.Named() {
		return errors.New("--latency: requires the simulated model: remove --model")
	}
	train, heldOut := simulated.TrainTasks, simulated.HeldOutTasks
	if d.Tasks != "" {
		train, heldOut = simulated.MaxTrainTasks, simulated.MaxHeldOutTasks
	}
	switch {
	case d.Epochs < 1:
		return fmt.Errorf("--epochs: must be at least 1, got %d", d.Epochs)
	case d.Train < 1 || d.Train > train:
		return fmt.Errorf("--train: must be 1 to %d, got %d", train, d.Train)
	case d.HeldOut < 1 || d.HeldOut > heldOut:
		return fmt.Errorf("--held-out: must be 1 to %d, got %d", heldOut, d.HeldOut)
	}
	for flag, rate := range map[string]float64{"noise": d.Noise, "fail": d.Fail, "sloppy": d.Sloppy} {
		if rate < 0 || rate > 1 {
			return fmt.Errorf("--%s: must be between 0 and 1, got %v", flag, rate)
		}
		if rate > 0 && d.Named() {
			return fmt.Errorf("--%s: requires the simulated model: remove --model", flag)
		}
	}
	return nil
}

// demoEpoch is the result of one pass over the training tasks.
type demoEpoch struct {
	Epoch   int     `json:"epoch"`
	Train   float64 `json:"train_accuracy"`    // answers of this epoch, before its lessons are used
	HeldOut float64 `json:"held_out_accuracy"` // after this epoch
	Bullets int     `json:"bullets"`
	Version uint64  `json:"playbook_version"`
	Seconds float64 `json:"seconds"`
}

// demoResult is the last line of --json.
type demoResult struct {
	Baseline  float64     `json:"baseline_accuracy"`
	Final     float64     `json:"final_accuracy"`
	Epochs    []demoEpoch `json:"epochs"`
	Bullets   int         `json:"bullets"`
	Calls     int         `json:"model_calls"`
	Tokens    int         `json:"tokens"`
	Cost      float64     `json:"cost"`
	Lost      int         `json:"lost"` // samples without an outcome or without an effect
	Seconds   float64     `json:"seconds"`
	Simulated bool        `json:"simulated"`
	Model     string      `json:"model"`
	Book      string      `json:"book"`
	StateHash string      `json:"state_hash"`

	bullets []*book.Bullet // of the final playbook
}

// Run implements the command.
func (d *Demo) Run(ctx context.Context, c *program.Common) error {
	if d.Tasks != "" {
		return d.writeTasks()
	}
	show := newDemoScreen(term.Stdout, d.JSON)
	show.introduce(d)
	s, err := d.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	checkedCtx, stopCheck := request.WithModelCheck(ctx, s.Conn, streams.Roles...)
	defer stopCheck()
	roles, err := d.roles(ctx)
	if err != nil {
		return err
	}
	var res *demoResult
	err = withRoles(checkedCtx, s.Conn, roles, func(ctx context.Context) (err error) {
		res, err = d.learn(ctx, s, show)
		return err
	})
	if res != nil {
		return errors.Join(show.result(d, res), err)
	}
	if cause := context.Cause(checkedCtx); cause != nil { // an error of the model, or an interruption
		err = cause
	}
	return exitOf(err)
}

// open starts a server on the directory of --data, or else on a temporary one.
func (d *Demo) open(ctx context.Context, log zerolog.Logger) (*cli.Session, error) {
	flags := cli.ServerFlags{Data: d.Data, Sync: "always", MaxStore: 16 << 30}
	flags.Replicas = 1
	if d.Data == "" {
		return flags.StartTemporary(ctx, flags.Sync, log)
	}
	s, err := flags.StartServer(ctx, "", log)
	if err == nil && s.Server == nil {
		s.Close()
		return nil, program.Exit(program.ExitRefused, fmt.Errorf("--data: a server runs on %s: the demo requires a separate directory", d.Data))
	}
	return s, err
}

// roles returns the three roles with their default settings. All of them have a model: the named one, or the simulated one, which this method starts.
func (d *Demo) roles(ctx context.Context) (_ []program.Role, err error) {
	models := d.Model
	if !models.Named() {
		models, err = Simulate(ctx, models, simulated.Options{
			Seed: d.Seed, Latency: d.Latency, FaultRate: d.Fail, SloppyRate: d.Sloppy, NonsenseRate: d.Noise,
		})
		if err != nil {
			return nil, err
		}
	}
	var clients [3]*openai.Client
	for i, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		if clients[i], err = models.Client(role); err != nil {
			return nil, err
		}
	}
	generatorRole, err := generator.New(clients[0], nil, generator.Config{})
	if err != nil {
		return nil, err
	}
	reflectorRole, err := reflector.New(clients[1], reflector.Config{})
	if err != nil {
		return nil, err
	}
	curatorRole, err := curator.New(clients[2], curator.Config{})
	return []program.Role{generatorRole, reflectorRole, curatorRole}, err
}

// learn trains a playbook on the training tasks, in epochs of one batch, and measures the held-out tasks before the first and after
// each epoch.
func (d *Demo) learn(ctx context.Context, s *cli.Session, show *demoScreen) (*demoResult, error) {
	name := "demo-" + events.ShortID(events.NewID())
	res := &demoResult{Simulated: !d.Named(), Model: simulated.Name, Book: name}
	if d.Named() {
		res.Model = d.Model.Model
	}
	train, heldOut := simulated.Tasks(d.Seed)
	sets := replay.Sets{Train: demoSet(replay.Train, train[:d.Train]), Validation: demoSet(replay.Validation, heldOut[:d.HeldOut])}
	options := replay.Options{Name: name, Debrief: program.Version(), OnEvent: res.recorder(show)}
	out, err := replay.Run(ctx, s.Conn, replay.Config{Epochs: d.Epochs, Batch: d.Train}, sets, options)
	if err != nil {
		return nil, err
	}
	usage := out.Report.Cost.Total()
	res.Calls, res.Tokens = usage.Calls, usage.InputTokens+usage.OutputTokens
	res.Cost, res.Lost = usage.Dollars, len(out.Report.Losses)
	res.Seconds, res.StateHash = out.Report.Timing.Seconds, out.Report.Final.StateHash
	p, err := deltalog.New(s.JetStream()).PlaybookAt(ctx, book.Book(name), out.Report.Final.Version)
	if err != nil {
		return nil, err
	}
	res.bullets = p.Top(p.Len())
	return res, nil
}

// recorder returns a function that adds the events of a run to the result, and shows them.
func (res *demoResult) recorder(show *demoScreen) func(replay.Event) {
	epochStart := time.Now()
	return func(event replay.Event) {
		switch {
		case event.Progress != nil:
			show.progress(*event.Progress)
		case event.Epoch != nil:
			e := event.Epoch
			row := demoEpoch{
				Epoch: e.Epoch, Train: e.Train.Accuracy, HeldOut: e.Validation.Accuracy, Bullets: e.Book.Bullets, Version: e.Book.Version, Seconds: time.Since(epochStart).Seconds(),
			}
			res.Epochs = append(res.Epochs, row)
			res.Final, res.Bullets = row.HeldOut, row.Bullets
			epochStart = time.Now()
			show.epoch(row)
		case event.Point != nil && event.Point.Set == replay.Validation && event.Point.Step == 0: // before the first epoch
			res.Baseline = event.Point.Score.Accuracy
			res.Final = res.Baseline
			show.begin(res)
			epochStart = time.Now()
		}
	}
}

// demoSet returns a set of a run with these tasks.
func demoSet(name string, tasks []events.Task) *replay.Set {
	return &replay.Set{Data: report.Data{Set: name, File: "the simulated desk", Samples: len(tasks)}, Tasks: tasks}
}
