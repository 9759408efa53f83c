// Package generator is the role that answers tasks: it reads a task, lays out what the model is to see (Desk), asks the
// model, scores the answer where the task says what is right, and hands on the execution. It makes one model call a
// task and runs no tools. Agents that run tools, or ask their own model, are served the same contexts and report what
// they did. It learns nothing itself.
package generator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/generator/assembly"
	"debrief/generator/scoring"
)

// Config of a generator; zero fields are defaults.
type Config struct {
	Slots int `name:"generator-slots" help:"Tasks answered at the same time." default:"16"`

	assembly.Limits `embed:""`

	Recall    Recall    `name:"recall" help:"Where older executions are recalled from: session, book (also other people's sessions), none." default:"session" group:"Context"`
	Summaries Summaries `name:"summaries" help:"What older turns of a session are compressed by: model (the generator's, a call in as many turns as the window has; excerpts where there is none) or extract." default:"model" group:"Context"`

	RecallMemory int `name:"recall-memory" help:"Most bytes that a process holds of executions to recall; past it the oldest are let go." default:"268435456" group:"Context"`

	// Instructions are what the model of our own tasks is told before the playbook, in place of ours; empty is ours. The
	// form of the answer it is told all the same.
	Instructions string `kong:"-"`
	// Judge says how good the answers are; nil is one who knows no programs.
	Judge *scoring.Judge `kong:"-"`
	// Meter is told how long things take; nil is nobody.
	Meter Meter `kong:"-"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Slots == 0 {
		c.Slots = 16
	}
	if c.Recall == "" {
		c.Recall = RecallSession
	}
	if c.Summaries == "" {
		c.Summaries = SummariesModel
	}
	if c.RecallMemory == 0 {
		c.RecallMemory = 256 << 20
	}
	c.Limits = c.Limits.WithDefaults()
	return c
}

// Validate names the flag of what cannot be.
func (c Config) Validate() error {
	c = c.WithDefaults()
	errs := []error{c.Limits.Validate()}
	if err := c.Recall.UnmarshalText([]byte(c.Recall)); err != nil {
		errs = append(errs, fmt.Errorf("--recall: %w", err))
	}
	if err := c.Summaries.UnmarshalText([]byte(c.Summaries)); err != nil {
		errs = append(errs, fmt.Errorf("--summaries: %w", err))
	}
	if c.Slots < 0 {
		errs = append(errs, fmt.Errorf("--generator-slots: must be at least 1, got %d", c.Slots))
	}
	if c.RecallMemory < 0 {
		errs = append(errs, fmt.Errorf("--recall-memory: must be positive, got %d", c.RecallMemory))
	}
	return errors.Join(errs...)
}

// Recall says where older executions are recalled from.
type Recall string

// The scopes of recall. What happened in a session may be private to who was in it, so a book's other sessions are
// looked at only where somebody says so.
const (
	RecallSession Recall = "session"
	RecallBook    Recall = "book"
	RecallNone    Recall = "none"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Recall) UnmarshalText(text []byte) error {
	switch v := Recall(text); v {
	case RecallSession, RecallBook, RecallNone:
		*r = v
		return nil
	}
	return fmt.Errorf("want session, book or none, got %q", text)
}

// Generator answers tasks, and serves contexts to agents that call their own model.
type Generator struct {
	model    chat.Model
	embedder Embedder
	cfg      Config
	doors    []Door
	desk     atomic.Pointer[Desk] // while it runs
}

// Door is a way in for outside agents: it serves what the desk lays out until it is closed.
type Door func(conn *bus.Conn, desk *Desk) (closed func(), err error)

// New is a generator that asks a model. Without a model it answers no tasks and serves contexts alone. Embedder may be
// nil; see NewDesk.
func New(model chat.Model, embedder Embedder, cfg Config, doors ...Door) *Generator {
	return &Generator{model: model, embedder: embedder, cfg: cfg.WithDefaults(), doors: doors}
}

// Run works until the context ends.
func (g *Generator) Run(ctx context.Context, conn *bus.Conn) error {
	return g.run(ctx, conn, NewDesk(conn, g.embedder, g.cfg))
}

// run works with a desk, and closes it.
func (g *Generator) run(ctx context.Context, conn *bus.Conn, desk *Desk) error {
	defer desk.Close()
	g.desk.Store(desk)
	defer g.desk.Store(nil)
	if g.model != nil && g.cfg.Summaries == SummariesModel {
		s := newSummaries(desk, g.model)
		defer s.close()
		desk.moved = s.moved
	}
	for _, open := range g.doors {
		closed, err := open(conn, desk)
		if err != nil {
			return err
		}
		defer closed()
	}
	if g.model == nil {
		<-ctx.Done()
		return nil
	}
	return conn.Run(ctx, bus.Worker{
		Role:  events.RoleGenerator,
		Slots: g.cfg.Slots,
		Handle: func(ctx context.Context, batch []*bus.Delivery) []bus.Result {
			task, ok := batch[0].Event.(*events.Task)
			if !ok {
				return []bus.Result{{Err: bus.Discard(fmt.Errorf("a generator handles no %s", batch[0].Event.Kind()))}}
			}
			return []bus.Result{g.answer(ctx, desk, task)}
		},
		Done: func(ctx context.Context, d *bus.Delivery) (bool, error) {
			t, ok := d.Event.(*events.Task)
			if !ok {
				return false, nil
			}
			id := events.ExecutionID(t.Book, t.ID, t.Origin.Round)
			return conn.Has(ctx, events.StreamExecutions, events.KindExecution.Subject(t.Book), d.Stored, id)
		},
	})
}

// Answer makes the execution of one task and stores nothing. The desk is one that was opened with the generator's
// configuration. What is wrong with the task itself, so that asking again changes nothing, is a bus.Discard.
func (g *Generator) Answer(ctx context.Context, desk *Desk, t *events.Task) (*events.Execution, error) {
	e, _, err := g.execute(ctx, desk, t)
	return e, err
}

// answer makes the execution of one task, and has the session's window keep it once it is stored.
func (g *Generator) answer(ctx context.Context, desk *Desk, t *events.Task) bus.Result {
	e, l, err := g.execute(ctx, desk, t)
	if err != nil {
		return bus.Result{Err: err}
	}
	return bus.Result{Events: []events.Event{e}, Asked: true, Then: func(ctx context.Context, first bus.Receipt) error {
		if l.seen {
			return nil // the task came again, and its first execution is in the window
		}
		return desk.rememberOrLog(ctx, e, first)
	}}
}

// execute makes the execution of one task, of the context that it returns with it.
func (g *Generator) execute(ctx context.Context, desk *Desk, t *events.Task) (*events.Execution, *laid, error) {
	started := time.Now()
	id := events.ExecutionID(t.Book, t.ID, t.Origin.Round)
	system, ref := g.cfg.system()
	o := &order{
		book: t.Book, session: t.Session, execution: id, turn: t.Turn, query: t.Question, about: t.Context,
		system: system, ref: ref, version: t.Playbook, oldest: t.MinVersion, limits: g.cfg.Limits,
		tries: t.Tries,
	}
	if t.Purpose != events.Evaluate { // of which nobody learns
		o.draw = func(int) string { return "task " + t.ID } // in every round and delivery
	}
	l, err := desk.lay(ctx, o)
	if tooSmall := (*assembly.LimitError)(nil); errors.As(err, &tooSmall) {
		err = bus.Discard(err) // the same limit has no room for it the next time
	}
	if err != nil {
		return nil, nil, fmt.Errorf("lay out task %q: %w", t.ID, err)
	}
	a, reply, err := Ask(ctx, g.model, Prompt(l.Messages))
	if err != nil {
		return nil, nil, fmt.Errorf("answer task %q: %w", t.ID, err)
	}
	outcome, err := g.cfg.Judge.Evaluate(ctx, t, scoring.Answer{Reasoning: a.Reasoning, Final: a.Final}, desk.conn.LogIn(ctx))
	if errors.Is(err, scoring.ErrUnjudgeable) {
		err = bus.Discard(err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("evaluate task %q: %w", t.ID, err)
	}
	shown := l.shown()
	e := &events.Execution{
		ID: id, TaskID: t.ID, Session: t.Session, Turn: l.turn,
		Question: t.Question, Context: t.Context, Target: t.Target, Purpose: t.Purpose, Origin: t.Origin,
		Reasoning: a.Reasoning, Answer: a.Final, Outcome: outcome,
		Evaluator: t.Evaluator, Rounds: t.Rounds, Tries: t.Tries, Pinned: t.Playbook != nil,
		Version: l.version, Shown: shown, Cited: cited(a.BulletIDs, shown), Manifest: &l.Manifest,
		Model: reply.Model, PromptSHA256: chat.Digest(l.Messages), Usage: reply.Usage,
		Started: started.UTC(), Duration: time.Since(started),
	}
	e.Book = t.Book
	return e, l, nil
}
