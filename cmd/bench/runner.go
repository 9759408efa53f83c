package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/simulated/worlds"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/client"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/generator"
	"debrief/reflector"

	book "debrief/playbook"
)

// runner is a server with a Reflector, a Curator and an outside agent, for one playbook. All settings are the defaults,
// except those of the arm and the number of slots.
type runner struct {
	world       worlds.World
	arm         *arm
	seed        uint64
	measurement *measurement
	wrong       float64 // share of wrong verdicts
	session     *cli.Session
	store       *deltalog.Store
	builder     *generator.ContextBuilder
	agent       service.Backend  // the builder, or its HTTP API
	api         *httptest.Server // nil without HTTP
	model       *roleModel
	version     uint64             // of the playbook, when it was last read or edited
	done        int                // training tasks so far
	warned      int                // reports with a warning
	pending     []pendingOutcome   // outcomes to report
	prefix      []float64          // by training prompt: see sharedPrefix
	stop        context.CancelFunc // stops the roles
	roles       chan error         // receives the error of the roles when they have stopped; nil before they start
}

// syncInterval is how often the temporary server flushes to disk.
const syncInterval = "100ms"

// startRunner starts the runner of a run on a temporary server, and prepares the playbook as the arm requires.
func startRunner(ctx context.Context, of *run, m *measurement, log zerolog.Logger) (_ *runner, err error) {
	a := of.arm
	imperfect := m.part.imperfection
	if a.votesOnly {
		imperfect = worlds.Imperfection{Idle: 1} // it finds no lesson, and makes no other error
	}
	imperfect.Forgetful = a.forgets
	w, err := newWorld(of.world, of.seed, imperfect)
	if err != nil {
		return nil, err
	}
	session, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(ctx, syncInterval, log)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	r := &runner{
		world: w, arm: a, seed: of.seed, measurement: m, session: session, store: deltalog.New(session.JetStream()),
		model: &roleModel{world: w},
		stop:  stop,
	}
	if a.wrong {
		r.wrong = wrongShare
	}
	for _, start := range []func(context.Context, zerolog.Logger) error{r.startAgent, r.startRoles, r.prepareBook} {
		if err := start(ctx, log); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

// startAgent opens what the agent of the world uses: the HTTP API, or the context builder itself.
func (r *runner) startAgent(ctx context.Context, log zerolog.Logger) error {
	cfg := generator.Config{}
	if r.arm.showAll {
		const unlimited = 1 << 20
		cfg.Limits.Total = unlimited
		cfg.Limits.Bullets = unlimited
		cfg.Limits.MaxBullets = unlimited
	}
	r.builder = generator.NewContextBuilder(r.session.Conn, nil, cfg)
	r.agent = r.builder
	if slices.Contains(r.measurement.overHTTP, r.world.Name()) {
		r.api = httptest.NewServer(api.New(r.builder, api.Options{Log: log}))
		r.agent = client.HTTP(r.api.URL, "")
	}
	return nil
}

// startRoles starts the Reflector and the Curator.
func (r *runner) startRoles(ctx context.Context, _ zerolog.Logger) error {
	reflects, err := reflector.New(r.model, reflector.Config{Slots: 32})
	if err != nil {
		return err
	}
	curates, err := curator.New(r.model, curator.Config{})
	if err != nil {
		return err
	}
	r.roles = make(chan error, 1)
	go func() { r.roles <- program.Run(ctx, r.session.Conn, reflects, curates) }()
	return nil
}

// prepareBook sets the gate and the judge of the arm, and adds the rules by hand.
func (r *runner) prepareBook(ctx context.Context, _ zerolog.Logger) error {
	var edits []*events.Edit
	if r.arm.gate != "" && r.arm.gate != defaultGate {
		edits = append(edits, &events.Edit{Gate: r.arm.gate})
	}
	if r.arm.judge {
		edits = append(edits, &events.Edit{Judge: r.calibrate()})
	}
	if r.arm.byHand {
		e := new(events.Edit)
		for _, text := range r.world.ByHand(r.phase(r.measurement.tasks)) {
			e.Ops = append(e.Ops, book.Op{Kind: book.Add, Section: "rules", Content: text})
		}
		edits = append(edits, e)
	}
	for _, e := range edits {
		if err := r.edit(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// simulatedJudge is the name of the judge in the arm judge.
const simulatedJudge = book.JudgePrefix + "simulated"

// labelled is the number of labels that measure the error of the judge.
const labelled = 100

// calibrate returns the judge with its errors on labelled answers, of which half are right.
func (r *runner) calibrate() *book.Judge {
	j := &book.Judge{Name: simulatedJudge, Right: labelled / 2, Wrong: labelled / 2}
	for i := range labelled {
		isFalse := worlds.Chance(r.wrong, r.seed, "label", fmt.Sprint(i))
		switch {
		case isFalse && i%2 == 0:
			j.FalseFailures++
		case isFalse:
			j.FalseSuccesses++
		}
	}
	return j
}

// edit submits an edit as an operator would.
func (r *runner) edit(ctx context.Context, e *events.Edit) error {
	e.ID = events.NewID()
	e.Author = "bench"
	e.Reason = "the arm of the measurement"
	e.Created = time.Now().UTC()
	e.Book = benchBook
	d, err := request.SubmitEdit(ctx, r.session.Conn, e, bus.PublishOptions{})
	if err != nil {
		return fmt.Errorf("edit the playbook: %w", err)
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("edit the playbook: %w", err)
	}
	r.version = d.Version
	return nil
}

// close stops the roles and the server.
func (r *runner) close() error {
	var errs []error
	if r.api != nil {
		r.api.Close()
	}
	r.stop()
	r.builder.Close()
	if r.roles != nil {
		errs = append(errs, <-r.roles)
	}
	r.session.Close()
	return errors.Join(errs...)
}
