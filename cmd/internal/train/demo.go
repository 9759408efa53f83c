package train

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/request"
	"debrief/cmd/internal/simulated"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/chat/openai"
	"debrief/events/deltalog"
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

	Freeze  bool          `help:"Control: run without a Curator; accuracy must not change." group:"Simulated model" rare:""`
	Noise   float64       `help:"Control: share of nonsense reflections, 0 to 1." default:"0" group:"Simulated model" rare:""`
	Fail    float64       `help:"Share of failed model calls, 0 to 1: 429, 500, truncated and garbled replies." default:"0" group:"Simulated model" rare:""`
	Sloppy  float64       `help:"Share of sloppy replies, 0 to 1: code fences, prose, null and unknown ids." default:"0" group:"Simulated model" rare:""`
	Latency time.Duration `help:"Response time of the simulated model." default:"0s" group:"Simulated model" rare:""`

	app.Model
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
	Epoch    int     `json:"epoch"`
	Train    float64 `json:"train_accuracy"`    // answers of this epoch, before its lessons are used
	HeldOut  float64 `json:"held_out_accuracy"` // after this epoch
	Bullets  int     `json:"bullets"`
	Playbook string  `json:"playbook"` // version
	Seconds  float64 `json:"seconds"`
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
	Lost      int         `json:"dead_letters"`
	Seconds   float64     `json:"seconds"`
	Simulated bool        `json:"simulated"`
	Model     string      `json:"model"`
	Book      string      `json:"book"`
	StateHash string      `json:"state_hash"`
}

// Run implements the command.
func (d *Demo) Run(ctx context.Context, c *app.Common) error {
	if d.Tasks != "" {
		return d.writeTasks()
	}
	show := newDemoScreen(console.Stdout, d.JSON)
	show.introduce(d)
	p := cli.ServerFlags{Data: d.Data, Sync: "always", MaxStore: 16 << 30}
	p.Replicas = 1
	s, err := d.open(ctx, p, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	run, err := d.begin(ctx, s)
	if err != nil {
		return err
	}
	checked, unchecked := request.WithModelCheck(ctx, s.Conn, cli.Roles...)
	defer unchecked()
	res, err := run.epochs(checked, show)
	if err != nil {
		run.end()
		if cause := context.Cause(checked); cause != nil {
			err = cause
		}
		return exitOf(err)
	}
	if err := run.end(); err != nil {
		return err
	}
	return show.result(d, res, run.final)
}

func (d *Demo) open(ctx context.Context, p cli.ServerFlags, log zerolog.Logger) (*cli.Session, error) {
	if d.Data == "" {
		return p.StartTemporary(ctx, p.Sync, log)
	}
	s, err := p.StartServer(ctx, "", log)
	if err == nil && s.Server == nil {
		s.Close()
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("--data: a server runs on %s: the demo requires a separate directory", d.Data))
	}
	return s, err
}

// demoRun is a running demo: its tasks, roles and results.
type demoRun struct {
	*Demo
	*Runner
	name    string
	began   time.Time
	train   []events.Task
	heldOut []events.Task
	clients []*openai.Client
	follow  *deltalog.Follower
	store   *deltalog.Store
	final   []*book.Bullet

	stop context.CancelCauseFunc
	wait []func() error // called by end in reverse order
}

// begin starts the model and the roles. On error it stops them.
func (d *Demo) begin(ctx context.Context, s *cli.Session) (run *demoRun, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	run = &demoRun{Demo: d, began: time.Now(), name: events.ShortID(events.NewID()), stop: stop, store: deltalog.New(s.JetStream())}
	defer func() {
		if err != nil {
			run.end()
		}
	}()
	train, heldOut := simulated.Tasks(d.Seed)
	run.train, run.heldOut = train[:d.Train], heldOut[:d.HeldOut]

	models := d.Model
	if !models.Named() {
		// The model stops after the roles: they may have calls in flight when the demo ends.
		mctx, mstop := context.WithCancel(context.WithoutCancel(ctx))
		url, wait, err := simulated.Serve(mctx, "", simulated.Options{
			Seed: d.Seed, Latency: d.Latency, FaultRate: d.Fail, SloppyRate: d.Sloppy, NonsenseRate: d.Noise,
		})
		if err != nil {
			mstop()
			return run, fmt.Errorf("start the simulated model: %w", err)
		}
		run.wait = append(run.wait, func() error { mstop(); return wait() })
		models = app.Model{Model: simulated.Name, BaseURL: url, Timeout: models.Timeout, MaxConcurrent: models.MaxConcurrent}
	}
	roles, err := run.roles(models)
	if err != nil {
		return run, err
	}
	name := book.Book("demo-" + run.name)
	t, done := Watch(ctx, s.Conn, name)
	run.Runner = t
	run.wait = append(run.wait, done)
	f, followed, err := run.store.Follow(ctx, name)
	if err != nil {
		return run, err
	}
	run.follow = f
	run.wait = append(run.wait, func() error { followed(); return nil })
	working := make(chan error, 1)
	go func() { working <- app.Run(ctx, s.Conn, roles...) }()
	run.wait = append(run.wait, func() error { return <-working })
	return run, nil
}

func (r *demoRun) roles(models app.Model) ([]app.Role, error) {
	var m [3]chat.Model
	for i, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		client, err := models.Client(role)
		if err != nil {
			return nil, err
		}
		r.clients = append(r.clients, client)
		m[i] = client
	}
	roles := []app.Role{generator.New(m[0], nil, generator.Config{}), reflector.New(m[1], reflector.Config{})}
	if !r.Freeze {
		roles = append(roles, app.NewCurator(m[2], curator.Config{}))
	}
	return roles, nil
}

// end stops the roles, then the model and the readers, and waits for them. It returns the first error.
func (r *demoRun) end() error {
	r.stop(bus.ErrInterrupted) // a demo that has ended waits for no message
	var first error
	for i := len(r.wait) - 1; i >= 0; i-- {
		if err := r.wait[i](); err != nil && first == nil {
			first = err
		}
	}
	r.wait = nil
	for _, c := range r.clients {
		c.Close()
	}
	return first
}

// passTasks returns the tasks of one pass. Their ids contain the run and the epoch, so each pass has new samples.
func (r *demoRun) passTasks(epoch int, tasks []events.Task, purpose events.Purpose, version uint64) []events.Task {
	out := make([]events.Task, len(tasks))
	for i, t := range tasks {
		t.Purpose, t.Playbook = purpose, &version
		t.Origin = events.Origin{Run: r.name, Epoch: epoch, Index: i}
		t.ID = fmt.Sprintf("%s/e%02d/%s", r.name, epoch, t.ID)
		out[i] = t
	}
	return out
}

// epochs runs the demo: the held-out tasks with an empty playbook, then the epochs. Within an epoch all tasks are
// answered with the playbook version at its start; new lessons are used from the next epoch on.
func (r *demoRun) epochs(ctx context.Context, show *demoScreen) (*demoResult, error) {
	res := &demoResult{Simulated: !r.Named(), Model: simulated.Name, Book: string(r.book)}
	if r.Named() {
		res.Model = r.Model.Model
	}
	base, err := r.Ask(ctx, r.passTasks(0, r.heldOut, events.Evaluate, 0), show.progress("before", "held-out", len(r.heldOut)))
	if err != nil {
		return nil, err
	}
	res.Baseline = Accuracy(base)
	res.Final = res.Baseline
	show.begin(res)
	for e := 1; e <= r.Epochs; e++ {
		began := time.Now()
		label := fmt.Sprintf("epoch %d", e)
		train, err := r.Ask(ctx, r.passTasks(e, r.train, events.Learn, r.follow.Version()), show.progress(label, "training", len(r.train)))
		if err != nil {
			return nil, err
		}
		if err := r.waitLearned(ctx); err != nil {
			return nil, err
		}
		held, err := r.Ask(ctx, r.passTasks(e, r.heldOut, events.Evaluate, r.follow.Version()), show.progress(label, "held-out", len(r.heldOut)))
		if err != nil {
			return nil, err
		}
		row := demoEpoch{Epoch: e, Train: Accuracy(train), HeldOut: Accuracy(held), Seconds: time.Since(began).Seconds()}
		r.follow.Read(func(p *book.Playbook, chain []byte) {
			row.Bullets, row.Playbook = p.Len(), book.VersionLabel(p.Version(), chain)
			res.StateHash = fmt.Sprintf("%x", p.StateHash())
			r.final = p.Top(p.Len())
		})
		res.Epochs = append(res.Epochs, row)
		res.Final, res.Bullets = row.HeldOut, row.Bullets
		show.epoch(row)
	}
	for _, c := range r.clients {
		s := c.Stats()
		res.Calls += int(s.Calls)
		res.Tokens += int(s.InputTokens + s.OutputTokens)
		res.Cost += s.Cost
	}
	res.Lost = r.Losses()
	res.Seconds = time.Since(r.began).Seconds()
	return res, nil
}

// waitLearned waits until all executions are reflected on and the lessons are in the view that generators read.
func (r *demoRun) waitLearned(ctx context.Context) error {
	if err := r.WaitIdle(ctx, events.RoleReflector); err != nil {
		return err
	}
	if r.Freeze {
		return nil
	}
	if err := r.WaitIdle(ctx, events.RoleCurator); err != nil {
		return err
	}
	w, err := r.store.Writer(ctx, r.book)
	if err != nil {
		return err
	}
	return r.follow.Wait(ctx, w.State().Playbook().Version())
}
