package main

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/llm"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/playbook/natskv"
	"debrief/reflector"

	"github.com/rs/zerolog"

	book "debrief/playbook"
)

// demo shows the pipeline learning a trade: an invoice desk whose house rules nobody tells the model.
type demo struct {
	Epochs  int    `help:"Passes over the training tasks." default:"5"`
	Train   int    `help:"Training tasks, up to 200; with --tasks up to 20000." default:"200"`
	HeldOut int    `help:"Tasks that are never learned from, up to 200; with --tasks up to 5000." default:"200"`
	Seed    uint64 `help:"Which house rules and tasks." default:"1"`
	Tasks   string `help:"Only write the tasks into this directory, as train.jsonl and held-out.jsonl." type:"path" placeholder:"DIR" env:"-"`
	Data    string `help:"Keep the streams in this directory. Default: nowhere." type:"path" placeholder:"DIR" env:"-"`
	JSON    bool   `help:"Print JSON lines; the last one is the result."`

	Freeze  bool          `help:"Control: run no Curator. Accuracy must stay where it began." group:"Simulated model"`
	Noise   float64       `help:"Control: this share of reflections is nonsense." default:"0" group:"Simulated model"`
	Fail    float64       `help:"This share of model calls fails: 429, 500, cut and garbled replies." default:"0" group:"Simulated model"`
	Sloppy  float64       `help:"This share of replies is sloppy: fences, prose, null and unknown ids." default:"0" group:"Simulated model"`
	Latency time.Duration `help:"How long the simulated model thinks." default:"0s" group:"Simulated model"`

	app.Model
}

// Validate implements kong's check.
func (d *demo) Validate() error {
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
			return fmt.Errorf("--%s: is for the simulated model, not for --model", flag)
		}
	}
	return nil
}

// epoch is what one pass came to.
type epoch struct {
	Epoch    int     `json:"epoch"`
	Train    float64 `json:"train_accuracy"`    // of the answers of the pass, before it was learned from
	HeldOut  float64 `json:"held_out_accuracy"` // after it
	Bullets  int     `json:"bullets"`
	Playbook string  `json:"playbook"` // version
	Seconds  float64 `json:"seconds"`
}

// result is the last line of --json.
type result struct {
	Baseline  float64 `json:"baseline_accuracy"`
	Final     float64 `json:"final_accuracy"`
	Epochs    []epoch `json:"epochs"`
	Bullets   int     `json:"bullets"`
	Calls     int     `json:"model_calls"`
	Tokens    int     `json:"tokens"`
	Cost      float64 `json:"cost"`
	Lost      int     `json:"dead_letters"`
	Seconds   float64 `json:"seconds"`
	Simulated bool    `json:"simulated"`
	Model     string  `json:"model"`
	Book      string  `json:"book"`
	StateHash string  `json:"state_hash"`
}

// Run implements the command.
func (d *demo) Run(ctx context.Context, c *app.Common) error {
	if d.Tasks != "" {
		return d.writeTasks()
	}
	show := newScreen(console.Stdout, d.JSON)
	p := place{Data: d.Data, Sync: "always", MaxStore: 16 << 30}
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
	res, err := run.epochs(ctx, show)
	if err != nil {
		run.end()
		return err
	}
	if err := run.end(); err != nil {
		return err
	}
	return show.result(d, res, run.final)
}

func (d *demo) open(ctx context.Context, p place, log zerolog.Logger) (*session, error) {
	if d.Data == "" {
		return p.scratch(ctx, p.Sync, log)
	}
	s, err := p.embed(ctx, "", log)
	if err == nil && s.server == nil {
		s.Close()
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("--data: a server runs on %s: the demo wants a directory of its own", d.Data))
	}
	return s, err
}

// demoRun is a demo under way: roles running, tasks at hand.
type demoRun struct {
	*demo
	*trial
	name    string
	began   time.Time
	train   []events.Task
	heldOut []events.Task
	clients []*llm.Client
	follow  *natskv.Follower
	store   *natskv.Store
	final   []*book.Bullet

	stop func()
	wait []func() error
}

// begin starts the model and the roles.
func (d *demo) begin(ctx context.Context, s *session) (run *demoRun, err error) {
	ctx, stop := context.WithCancel(ctx)
	run = &demoRun{demo: d, began: time.Now(), name: events.Short(events.NewID()), stop: stop, store: natskv.New(s.JetStream())}
	defer func() {
		if err != nil {
			run.end()
		}
	}()
	train, heldOut := simulated.Tasks(d.Seed)
	run.train, run.heldOut = train[:d.Train], heldOut[:d.HeldOut]

	models := d.Model
	if !models.Named() {
		// The model outlives the roles: they may still be asking when the demo ends.
		mctx, mstop := context.WithCancel(context.WithoutCancel(ctx))
		url, wait, err := simulated.Serve(mctx, "", simulated.Options{
			Seed: d.Seed, Latency: d.Latency, Fail: d.Fail, Sloppy: d.Sloppy, Noise: d.Noise,
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
	t, done := watch(ctx, s.Conn, name)
	run.trial = t
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
		roles = append(roles, app.Curator{}.Role(m[2]))
	}
	return roles, nil
}

// end stops the roles, then what they use, and waits for all of it.
func (r *demoRun) end() error {
	r.stop()
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

// pass is one round of tasks: their ids are the run's and the epoch's own, so that each is a sample of its own.
func (r *demoRun) pass(epoch int, tasks []events.Task, purpose events.Purpose, version uint64) []events.Task {
	out := make([]events.Task, len(tasks))
	for i, t := range tasks {
		t.Purpose, t.Playbook = purpose, &version
		t.Origin = events.Origin{Run: r.name, Epoch: epoch, Index: i}
		t.ID = fmt.Sprintf("%s/e%02d/%s", r.name, epoch, t.ID)
		out[i] = t
	}
	return out
}

// epochs runs the demo: held-out tasks before anything is learned, then pass after pass. Within a pass the playbook
// that answers is the one of its beginning; what it teaches is used from the next pass on.
func (r *demoRun) epochs(ctx context.Context, show *screen) (*result, error) {
	res := &result{Simulated: !r.Named(), Model: simulated.Name, Book: string(r.book)}
	if r.Named() {
		res.Model = r.Model.Model
	}
	base, err := r.ask(ctx, r.pass(0, r.heldOut, events.Evaluate, 0), show.progress("before", "held-out", len(r.heldOut)))
	if err != nil {
		return nil, err
	}
	res.Baseline = accuracy(base)
	res.Final = res.Baseline
	show.begin(r.demo, res)
	for e := 1; e <= r.Epochs; e++ {
		began := time.Now()
		label := fmt.Sprintf("epoch %d", e)
		train, err := r.ask(ctx, r.pass(e, r.train, events.Learn, r.follow.Version()), show.progress(label, "training", len(r.train)))
		if err != nil {
			return nil, err
		}
		if err := r.learned(ctx); err != nil {
			return nil, err
		}
		held, err := r.ask(ctx, r.pass(e, r.heldOut, events.Evaluate, r.follow.Version()), show.progress(label, "held-out", len(r.heldOut)))
		if err != nil {
			return nil, err
		}
		row := epoch{Epoch: e, Train: accuracy(train), HeldOut: accuracy(held), Seconds: time.Since(began).Seconds()}
		r.follow.Read(func(p *book.Playbook, chain []byte) {
			row.Bullets, row.Playbook = p.Len(), book.Label(p.Version(), chain)
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
	res.Lost = r.losses()
	res.Seconds = time.Since(r.began).Seconds()
	return res, nil
}

// learned waits until everything that was answered is reflected on, and in the view that generators read.
func (r *demoRun) learned(ctx context.Context) error {
	if err := r.settled(ctx, events.RoleReflector); err != nil {
		return err
	}
	if r.Freeze {
		return nil
	}
	if err := r.settled(ctx, events.RoleCurator); err != nil {
		return err
	}
	w, err := r.store.Writer(ctx, r.book)
	if err != nil {
		return err
	}
	return r.follow.Wait(ctx, w.State().Playbook().Version())
}

// losses counts what ended as a dead letter.
func (t *trial) losses() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.lost)
	for _, e := range t.ended {
		if e.dead != "" {
			n++
		}
	}
	return n
}
