// Package generator implements the role that answers tasks. It reads a task, builds the context (ContextBuilder), calls the
// model, scores the answer if the task has a target or an evaluator, and publishes the execution. It makes one model
// call for each task and runs no tools. Agents that run tools or call their own model request the same contexts and
// report their executions. The generator itself learns nothing.
package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/config"
	"debrief/events/redact"
	"debrief/generator/prompt/assembly"
	"debrief/generator/scoring"
	"debrief/playbook/text"
)

// Config configures a generator. A zero field has its default; see package config for the rules of all configurations.
type Config struct {
	Slots int // maximum number of tasks answered at the same time; default 16

	assembly.Limits

	Recall Recall // scope of recalled executions; default RecallSession

	RawReply int // maximum bytes of the model's reply that are stored with an execution, up to 65,536; default 0, which stores none

	RecallMemory int // memory limit for recalled executions, in bytes; the oldest are evicted; default 256 MiB

	// Instructions replace the default instructions before the playbook, for tasks of this generator. Empty selects
	// the default. The answer format is appended in both cases.
	Instructions string
	// ModelName is the name of the model. Tasks that require another model are not answered; see events.Origin. Empty answers
	// every task.
	ModelName string
	// Rounds is the number of rounds of a task that names no number, as configured for the Reflectors of the server; default 1.
	// The requester of a task with several rounds gets the answer of the last one.
	Rounds int
	// Scorer scores the answers. Nil scores without outside programs.
	Scorer *scoring.Scorer
	// Meter receives the metrics; nil disables them.
	Meter Meter
}

// WithDefaults returns c with defaults in its zero fields.
func (c Config) WithDefaults() Config {
	c.Slots = cmp.Or(c.Slots, 16)
	c.Recall = cmp.Or(c.Recall, RecallSession)
	c.RecallMemory = cmp.Or(c.RecallMemory, 256<<20)
	c.Limits = c.Limits.WithDefaults()
	return c
}

// Validate returns all invalid fields, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var e config.Errors
	e.Wrap("Limits", c.Limits.Validate())
	e.Wrap("Recall", c.Recall.UnmarshalText([]byte(c.Recall)))
	config.AtLeast(&e, "Slots", c.Slots, 1)
	config.AtLeast(&e, "RecallMemory", c.RecallMemory, 1)
	if c.RawReply < 0 || c.RawReply > maxRawReply {
		e.Add("RawReply", "must be 0 to %d bytes, got %d", maxRawReply, c.RawReply)
	}
	return e.Join()
}

// maxRawReply is the maximum of Config.RawReply.
const maxRawReply = 64 << 10

// rawReply returns the part of a reply to store, without secrets. It redacts secrets before it cuts the reply, because a part of a secret would not
// be recognized.
func (c Config) rawReply(reply string) string {
	if c.RawReply == 0 {
		return ""
	}
	return text.Clip(redact.Text(reply), c.RawReply)
}

// Recall is the scope from which older executions are recalled.
type Recall string

// The scopes of recall. A session may be private to its users. Other sessions of the playbook are searched only with
// RecallBook.
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

// Generator answers tasks and serves contexts to agents that call their own model.
type Generator struct {
	model     chat.Model
	embedder  Embedder
	cfg       Config
	endpoints []Endpoint
	builder   atomic.Pointer[ContextBuilder] // nil while Run is not active
}

// Endpoint starts an endpoint for outside agents. The endpoint serves contexts of the builder until closed is called. The one for
// agents over NATS is
//
//	func(conn *bus.Conn, b *generator.ContextBuilder) (func(), error) {
//		return service.Serve(conn.NATS(), b, log, nil)
//	}
type Endpoint func(conn *bus.Conn, builder *ContextBuilder) (closed func(), err error)

// New returns a generator that calls a model. A nil model answers no tasks; the generator then only serves contexts at its
// endpoints. Without endpoints it serves none. A nil embedder is valid, see NewContextBuilder. New returns the error of [Config.Validate].
func New(model chat.Model, embedder Embedder, cfg Config, endpoints ...Endpoint) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if model != nil {
		cfg.Scorer = cfg.Scorer.WithModel(model)
	}
	return &Generator{model: model, embedder: embedder, cfg: cfg, endpoints: endpoints}, nil
}

// Run answers tasks until ctx ends. The roles of a process may share one Conn. To stop, cancel ctx, wait for Run, then close the
// connection.
func (g *Generator) Run(ctx context.Context, conn *bus.Conn) error {
	return g.run(ctx, conn, NewContextBuilder(conn, g.embedder, g.cfg))
}

// run answers tasks with a context builder, and closes the builder.
func (g *Generator) run(ctx context.Context, conn *bus.Conn, builder *ContextBuilder) error {
	defer builder.Close()
	g.builder.Store(builder)
	defer g.builder.Store(nil)
	for _, open := range g.endpoints {
		closed, err := open(conn, builder)
		if err != nil {
			return err
		}
		defer closed()
	}
	if g.model == nil {
		conn.Serve(ctx, events.RoleGenerator)
		return nil
	}
	return conn.Run(ctx, bus.Worker{
		Role:    events.RoleGenerator,
		Slots:   g.cfg.Slots,
		Waiting: func() string { return chat.Waiting(g.model) },
		Handle: func(ctx context.Context, batch []*bus.Delivery) []bus.Result {
			task, ok := batch[0].Event.(*events.Task)
			if !ok {
				return []bus.Result{{Err: bus.Discard(fmt.Errorf("handle event: want a task, got %s", batch[0].Event.Kind()))}}
			}
			return []bus.Result{g.answer(ctx, builder, task)}
		},
		Done: func(ctx context.Context, d *bus.Delivery) (bool, error) {
			t, ok := d.Event.(*events.Task)
			if !ok {
				return false, nil
			}
			id := events.ExecutionID(t.Book, t.Owner, t.ID, t.Origin.Round)
			return conn.Events.Has(ctx, events.StreamExecutions, events.KindExecution.Subject(t.Book), d.Stored, id)
		},
	})
}

// Answer returns the execution of one task and stores nothing. The builder must have the configuration of the
// generator. An error that a retry cannot resolve is a bus.Discard.
func (g *Generator) Answer(ctx context.Context, builder *ContextBuilder, t *events.Task) (*events.Execution, error) {
	e, _, err := g.execute(ctx, builder, t)
	return e, err
}

// answer executes one task. After the execution is stored it is recorded, and added to the window of its session, if the task needs that.
func (g *Generator) answer(ctx context.Context, builder *ContextBuilder, t *events.Task) bus.Result {
	e, built, err := g.execute(ctx, builder, t)
	if err != nil {
		return bus.Result{Err: err}
	}
	return bus.Result{Events: []events.Event{e}, ModelUseful: true, Forward: g.hasNextRound(t, e), AfterStore: func(ctx context.Context, first bus.Receipt) error {
		if built.inWindow {
			return nil // redelivered: the first execution is in the window already
		}
		if t.Session == "" && !t.Record {
			return nil
		}
		return builder.addToWindowOrLog(ctx, e, first)
	}}
}

// hasNextRound reports whether a Reflector may submit another round of a task. If so, the Generator sends no reply: the Reflector
// replies to the requester, or passes the request on with the next round.
func (g *Generator) hasNextRound(t *events.Task, e *events.Execution) bool {
	rounds := min(cmp.Or(t.Rounds, g.cfg.Rounds, 1), events.MaxRounds)
	if len(t.PreviousRounds)+1 >= rounds || t.Purpose == events.Evaluate {
		return false
	}
	isWrong := e.Outcome.Label == events.Failure || e.Outcome.Label == events.Partial
	return isWrong && scoring.CanScore(t)
}

// OtherModelError reports that a task requires another model. A Generator with that model can answer a copy of the task.
type OtherModelError struct {
	Task, Want, Got string // the id of the task, and the names of the models
	// Run is the training run that submitted the task, and that submits it again when it continues. It is empty for any other task, and for a later
	// round, which the run cannot submit.
	Run string
}

func (e *OtherModelError) Error() string {
	if e.Run != "" {
		return fmt.Sprintf("run %q requires model %q, this generator has %q", e.Run, e.Want, e.Got)
	}
	return fmt.Sprintf("task %q requires model %q, this generator has %q", e.Task, e.Want, e.Got)
}

// SharedLetter returns the run, because all waiting tasks of a run share one dead letter.
func (e *OtherModelError) SharedLetter() string { return e.Run }

// Discard marks the error for the failure policy: no retry by this Generator can succeed.
func (e *OtherModelError) Discard() bool { return true }

// DeadCode is the code of the dead letter.
func (e *OtherModelError) DeadCode() events.DeadCode { return events.DeadOtherModel }

// noAnswer is the outcome if the model gave no answer, also when it was asked again. A missing answer says nothing about the
// advice, so the outcome is unknown, not a failure.
var noAnswer = events.Outcome{Label: events.Unknown, Feedback: "The model gave no answer."}

// execute answers one task. It returns the execution and the context that the model received.
func (g *Generator) execute(ctx context.Context, builder *ContextBuilder, t *events.Task) (*events.Execution, *builtContext, error) {
	if want := t.Origin.Model; want != "" && g.cfg.ModelName != "" && want != g.cfg.ModelName {
		err := &OtherModelError{Task: t.ID, Want: want, Got: g.cfg.ModelName}
		if t.Origin.Round == 0 { // a Reflector submits later rounds, so the run cannot repeat them
			err.Run = t.Origin.Run
		}
		return nil, nil, err
	}
	ctx, release, err := chat.Reserve(ctx, g.model) // before build: a prompt that waited for a slow model would lack the newest lessons
	if err != nil {
		return nil, nil, err
	}
	defer release()
	started := time.Now()
	req := g.newRequest(t)
	built, err := builder.build(ctx, req)
	if _, ok := errors.AsType[*assembly.LimitError](err); ok {
		err = bus.Discard(err) // a retry has the same limit
	}
	if err != nil {
		return nil, nil, fmt.Errorf("build context of task %q: %w", t.ID, err)
	}
	first, err := g.attempt(ctx, builder.conn, t, built.Messages)
	if err != nil {
		return nil, nil, err
	}
	e := &events.Execution{
		Book: t.Book, ID: req.execution, RunID: t.ID, Owner: t.Owner, User: t.User, Session: t.Session, Turn: built.turn,
		Question: t.Question, Context: t.Context, Target: t.Target, Purpose: t.Purpose, Origin: t.Origin,
		Evaluator: cmp.Or(t.Evaluator, scoring.ByDefault), Rounds: t.Rounds, PreviousRounds: t.PreviousRounds, Pinned: t.Playbook != nil,
		Version: built.version, Shown: built.Shown, Manifest: &built.Manifest, Control: built.control,
		PromptSHA256: chat.Digest(built.Messages), Usage: first.reply.Usage,
		Started: started.UTC(),
	}
	g.setAnswer(e, &first)
	if err := g.tryAgain(ctx, builder.conn, t, built.Messages, e); err != nil {
		return nil, nil, err
	}
	e.Duration = time.Since(started)
	return e, built, nil
}

// newRequest returns the description of the context for a task.
func (g *Generator) newRequest(t *events.Task) *contextRequest {
	instructions, ref := g.cfg.system()
	req := &contextRequest{
		book: t.Book, owner: t.Owner, session: t.Session, execution: events.ExecutionID(t.Book, t.Owner, t.ID, t.Origin.Round), turn: t.Turn,
		query: t.Question, taskContext: t.Context, instructions: instructions, instructionsRef: ref, pinnedVersion: t.Playbook,
		minVersion: t.MinVersion, limits: g.cfg.Limits, rounds: t.PreviousRounds,
	}
	if t.Purpose == events.Evaluate { // without experiments and without a control group
		return req
	}
	req.armKey = func(int) string { return "task " + t.Owner + "/" + t.ID } // without the turn: all rounds and deliveries have the same arms
	if t.Origin.Run != "" {                                                 // a training run has no control group
		return req
	}
	isPinned := t.Playbook != nil
	switch {
	case t.Session != "":
		req.control = controlKey{session: t.Session, lasts: true, uncounted: isPinned}
	case !isPinned: // the run is its own session
		mayHaveRounds := t.Rounds != 1 // a Reflector may submit further rounds, which are requests of this session
		req.control = controlKey{session: t.ID, lasts: mayHaveRounds}
	}
	return req
}
