package learning

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/world"
	"debrief/cmd/internal/train"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/client"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/generator"
	"debrief/reflector"

	book "debrief/playbook"
)

// answers is the number of tasks that an agent answers at the same time.
const answers = 8

// worldStep is the number of tasks that an agent answers with one version of the playbook.
const worldStep = 20

// classroom is a server with a Reflector, a Curator and an outside agent, for one playbook. All settings are the defaults,
// except those of the arm and the number of slots.
type classroom struct {
	world   worlds.World
	arm     *worldArm
	seed    uint64
	bench   *worldsBench
	wrong   float64 // share of wrong verdicts
	session *cli.Session
	store   *deltalog.Store
	builder *generator.ContextBuilder
	agent   service.Backend  // the builder, or its HTTP API
	api     *httptest.Server // nil without HTTP
	gateway *throughGateway  // nil without a gateway
	model   *worldModel
	version uint64             // of the playbook, when it was last read or edited
	done    int                // training tasks so far
	warned  int                // reports with a warning
	late    []lateOutcome      // outcomes to report
	states  map[statement]bool // cache of isStatement
	prefix  []float64          // by training prompt: see sharedPrefix
	stop    context.CancelFunc
	wait    []func() error // wait for the goroutines of the roles
}

// lateOutcome is an outcome that is reported as soon as a number of training tasks are done.
type lateOutcome struct {
	due      int
	feedback *events.FeedbackRequest
}

// maxWarned is the maximum share of reports with a warning, for example because a server on a busy machine did not store a context in
// time. With more, the measurement fails.
const maxWarned = 0.02

const classroomBook = book.Book("default")

// openClassroom starts the classroom of a run on a temporary server. It adds the bullets of the arm.
func openClassroom(ctx context.Context, r *worldRun, b *worldsBench, log zerolog.Logger) (_ *classroom, err error) {
	a := r.arm
	imperfect := b.errors
	imperfect.Forgetful = a.forgets
	w, err := worlds.New(r.world, r.seed, imperfect)
	if err != nil {
		return nil, err
	}
	p := cli.ServerFlags{}
	p.Replicas = 1
	session, err := p.StartTemporary(ctx, "100ms", log)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &classroom{
		world: w, arm: a, seed: r.seed, bench: b, session: session, store: deltalog.New(session.JetStream()),
		model: &worldModel{world: w, seed: r.seed, broken: a.broken, repeated: make(map[uint64]int)},
		stop:  stop, states: make(map[statement]bool),
	}
	if a.wrong {
		c.wrong = b.wrong
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	cfg := generator.Config{}
	if a.showAll {
		const unlimited = 1 << 20
		cfg.Limits.Total = unlimited
		cfg.Limits.Bullets = unlimited
		cfg.Limits.MaxBullets = unlimited
	}
	c.builder = generator.NewContextBuilder(session.Conn, nil, cfg)
	c.agent = c.builder
	if a.gateway != "" {
		if err := c.openGateway(ctx, log); err != nil {
			return nil, err
		}
	} else if slices.Contains(b.remote, w.Name()) {
		c.api = httptest.NewServer(api.New(c.builder, api.Options{Log: log}))
		c.agent = client.HTTP(c.api.URL, "")
	}
	reflects, err := reflector.New(c.model, reflector.Config{Slots: 32})
	if err != nil {
		return nil, err
	}
	curates, err := curator.New(c.model, a.curator())
	if err != nil {
		return nil, err
	}
	working := make(chan error, 1)
	go func() { working <- program.Run(ctx, session.Conn, reflects, curates) }()
	c.wait = append(c.wait, func() error { return <-working })
	if a.gate != "" && a.gate != defaultGate {
		if err := c.edit(ctx, &events.Edit{Gate: a.gate}); err != nil {
			return nil, err
		}
	}
	if a.judge {
		if err := c.edit(ctx, &events.Edit{Judge: c.calibrate()}); err != nil {
			return nil, err
		}
	}
	if a.bullets != nil {
		if err := c.addByHand(ctx, a.bullets(w, c.phase(b.tasks))); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// simulatedJudge is the name of the judge in the arm judge.
const simulatedJudge = book.JudgePrefix + "simulated"

// labelled is the number of labels that measure the error of the judge.
const labelled = 100

// calibrate returns the judge with its errors on labelled answers, of which half are right.
func (c *classroom) calibrate() *book.Judge {
	j := &book.Judge{Name: simulatedJudge, Right: labelled / 2, Wrong: labelled / 2}
	for i := range labelled {
		isFalse := world.Chance(c.wrong, c.seed, "label", fmt.Sprint(i))
		switch {
		case isFalse && i%2 == 0:
			j.FalseFailures++
		case isFalse:
			j.FalseSuccesses++
		}
	}
	return j
}

// addByHand adds bullets like an operator. Repeated texts are added once.
func (c *classroom) addByHand(ctx context.Context, texts []string) error {
	e := new(events.Edit)
	added := make(map[string]bool)
	for _, text := range texts {
		if added[text] {
			continue
		}
		added[text] = true
		e.Ops = append(e.Ops, book.Op{Kind: book.Add, Section: "rules", Content: text})
	}
	return c.edit(ctx, e)
}

func (c *classroom) edit(ctx context.Context, e *events.Edit) error {
	e.ID = events.NewID()
	e.Author = "bench"
	e.Reason = "the arm of the measurement"
	e.Created = time.Now().UTC()
	e.Book = classroomBook
	d, err := request.SubmitEdit(ctx, c.session.Conn, e, bus.PublishOptions{})
	if err != nil {
		return fmt.Errorf("edit the playbook: %w", err)
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("edit the playbook: %w", err)
	}
	c.version = d.Version
	return nil
}

// close stops the roles and the server.
func (c *classroom) close() error {
	var errs []error
	if c.api != nil {
		c.api.Close()
	}
	if c.gateway != nil {
		errs = append(errs, c.gateway.close())
	}
	c.stop()
	if c.builder != nil {
		c.builder.Close()
	}
	for _, wait := range slices.Backward(c.wait) {
		errs = append(errs, wait())
	}
	c.session.Close()
	return errors.Join(errs...)
}

// phase returns the phase of the world after n training tasks.
func (c *classroom) phase(n int) int { return c.world.Train(max(n, 1))[max(n, 1)-1].Phase }

// learn answers training tasks until n are done. The roles learn from each step before the next one.
func (c *classroom) learn(ctx context.Context, n int) error {
	tasks := c.world.Train(n)
	for c.done < n {
		step := tasks[c.done:min(c.done+worldStep, n)]
		c.done += len(step)
		if c.gateway != nil {
			if err := c.chat(ctx, step); err != nil {
				return err
			}
			continue
		}
		if err := c.step(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// answered is a task that the agent has answered.
type answered struct {
	report  *events.Report
	outcome events.Outcome // wrong for some tasks
	system  string         // system part of the prompt
}

// step answers tasks with the current version of the playbook, reports the executions in order, and waits until the roles
// have learned from them. An agent of the HTTP API reports the outcomes of a step only in the next step.
func (c *classroom) step(ctx context.Context, tasks []worlds.Task) error {
	due := c.dueOutcomes()
	out := make([]answered, len(tasks))
	err := train.Each(len(tasks), answers, func(i int) (err error) {
		out[i], err = c.answer(ctx, &tasks[i])
		return err
	})
	if err != nil {
		return err
	}
	isLate := c.api != nil || c.arm.late > 0
	for i := range out {
		if i > 0 {
			c.prefix = append(c.prefix, sharedPrefix(out[i-1].system, out[i].system))
		}
		r := out[i].report
		if !isLate {
			r.Outcome = out[i].outcome
		}
		stored, err := c.agent.Report(ctx, r)
		if err == nil && len(stored.Warnings) > 0 {
			c.warned++
			if float64(c.warned) > maxWarned*float64(c.done+len(tasks)) {
				err = errors.New(stored.Warnings[0])
			}
		}
		if err != nil {
			return fmt.Errorf("report task %s: %w", r.RunID, err)
		}
		if isLate {
			c.late = append(c.late, lateOutcome{
				due:      c.done + c.delay(r.RunID),
				feedback: &events.FeedbackRequest{Book: classroomBook, Execution: stored.Handle, Outcome: out[i].outcome},
			})
		}
	}
	for _, o := range due {
		if _, err := c.agent.Feedback(ctx, o.feedback); err != nil {
			return fmt.Errorf("report late feedback: %w", err)
		}
	}
	if err := train.WaitIdle(ctx, c.session.Conn, nil, events.RoleReflector, events.RoleCurator); err != nil {
		return err
	}
	_, err = c.read(ctx)
	return err
}

// delay returns the number of tasks after which the outcome of a run is reported. Unless the arm has late outcomes, it is 1: the next step reports it.
func (c *classroom) delay(run string) int {
	if c.arm.late == 0 {
		return 1
	}
	return c.arm.late/2 + int(world.Draw(c.seed, "delay", run)%uint64(c.arm.late))
}

// dueOutcomes removes and returns the outcomes that are due.
func (c *classroom) dueOutcomes() (due []lateOutcome) {
	c.late = slices.DeleteFunc(c.late, func(o lateOutcome) bool {
		if o.due > c.done {
			return false
		}
		due = append(due, o)
		return true
	})
	slices.SortStableFunc(due, func(a, b lateOutcome) int { return a.due - b.due })
	return due
}

// answer requests a context for a task and lets the agent of the world answer it.
func (c *classroom) answer(ctx context.Context, t *worlds.Task) (answered, error) {
	served, err := c.agent.Context(ctx, c.request(t))
	if err != nil {
		return answered{}, fmt.Errorf("request context of task %s: %w", t.ID, err)
	}
	system := systemOf(served.Messages)
	a := c.world.Attempt(*t, system)
	v := c.world.Verdict(*t, a)
	if world.Chance(c.wrong, c.seed, "wrong verdict", t.ID) {
		v = c.world.Wrong(*t, a, v)
	}
	outcome := outcomeOf(v)
	if c.arm.judge {
		outcome.By = simulatedJudge
	}
	r := &events.Report{
		Book: classroomBook, ContextID: served.ID, RunID: t.ID, Question: t.Question, Context: t.Context, Reasoning: a.Reasoning, Answer: a.Answer, Model: c.world.Name(),
		Purpose: events.Learn, Cited: bulletIDs(a.Cited), Steps: stepsOf(a),
	}
	return answered{report: r, outcome: outcome, system: system}, nil
}

func bulletIDs(cited []string) []book.BulletID {
	var ids []book.BulletID
	for _, id := range cited {
		ids = append(ids, book.BulletID(id))
	}
	return ids
}

// stepsOf returns the tool calls of an attempt.
func stepsOf(a worlds.Attempt) (steps []events.Step) {
	for _, s := range a.Steps {
		call := events.ToolCall{Tool: s.Tool, Arguments: s.Arguments, Output: s.Output, Outcome: events.Success}
		if s.Failed {
			call.Outcome = events.Errored
		}
		steps = append(steps, events.Step{Speaker: chat.Assistant, Calls: []events.ToolCall{call}})
	}
	return steps
}

// label returns the label of a verdict.
func label(v worlds.Verdict) events.Label {
	switch v.Score {
	case 0:
		return events.Failure
	case 1:
		return events.Success
	}
	return events.Partial
}

// outcomeOf returns a verdict as an outcome.
func outcomeOf(v worlds.Verdict) events.Outcome {
	return events.Outcome{Score: v.Score, Label: label(v), Feedback: v.Feedback, By: "bench"}
}

func (c *classroom) request(t *worlds.Task) *events.ContextRequest {
	r := &events.ContextRequest{Book: classroomBook, Query: t.Question, Context: t.Context, MinVersion: c.version}
	if c.gateway != nil {
		r.Advice = true
	} else {
		r.System = generator.Instructions
	}
	return r
}

// bulletsIn returns the text that gives the agent its bullets: the advice that the gateway adds, else the system messages.
func (c *classroom) bulletsIn(messages []chat.Message) string {
	switch {
	case c.gateway == nil:
		return systemOf(messages)
	case c.arm.observes() || len(messages) == 0:
		return c.gateway.known
	}
	return c.gateway.known + "\n" + messages[0].Text
}

// systemOf joins the system messages of a context.
func systemOf(messages []chat.Message) string {
	var all []string
	for _, m := range messages {
		if m.Speaker == chat.System {
			all = append(all, m.Text)
		}
	}
	return strings.Join(all, "\n")
}

// read returns the playbook from its log, and records its version.
func (c *classroom) read(ctx context.Context) (*book.Playbook, error) {
	w, err := c.store.Writer(ctx, classroomBook)
	if err != nil {
		return nil, err
	}
	p := w.State().Playbook()
	c.version = p.Version()
	return p, nil
}
