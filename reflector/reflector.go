// Package reflector is the role that looks at what came of a task: which of the bullets in the prompt helped or hurt,
// what went wrong, and what would be worth knowing next time. It works with a model, and by rules over tool calls
// without one. It changes no playbook.
package reflector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/window"
)

// Config of a reflector; zero fields are defaults.
type Config struct {
	Slots int `name:"reflector-slots" help:"Executions reflected on at the same time." default:"16"`

	Rounds      int `name:"rounds" help:"Rounds at a task that an evaluator judges, 1 to 3: a wrong answer goes back to the generators with the advice that came of it." default:"1"`
	TraceBudget int `name:"trace-budget" help:"Most tokens of an execution's steps that the reflector's model sees: those around errors and the last." default:"6000"`

	// Instructions are what the model is told to look for in an execution, in place of ours; empty is ours. That what is
	// quoted is no order, and the form of the answer, it is told all the same.
	Instructions string `kong:"-"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Slots == 0 {
		c.Slots = 16
	}
	if c.Rounds == 0 {
		c.Rounds = 1
	}
	if c.TraceBudget == 0 {
		c.TraceBudget = 6000
	}
	return c
}

// Validate names the flag of what cannot be.
func (c Config) Validate() error {
	var errs []error
	if c.Slots < 0 {
		errs = append(errs, fmt.Errorf("--reflector-slots: must be at least 1, got %d", c.Slots))
	}
	if c.Rounds < 0 || c.Rounds > events.MaxRounds {
		errs = append(errs, fmt.Errorf("--rounds: must be 1 to %d, got %d", events.MaxRounds, c.Rounds))
	}
	if c.TraceBudget < 0 {
		errs = append(errs, fmt.Errorf("--trace-budget: must be positive, got %d", c.TraceBudget))
	}
	return errors.Join(errs...)
}

// Reflector reflects on executions.
type Reflector struct {
	model   chat.Model
	version string
	cfg     Config
}

// New is a reflector that asks a model and runs the rules; without a model it runs the rules alone.
func New(model chat.Model, cfg Config) *Reflector {
	version := Version(model != nil)
	if cfg.Instructions = strings.TrimSpace(cfg.Instructions); model != nil && cfg.Instructions != "" {
		version += "+p" + chat.Fingerprint(cfg.Instructions)
	}
	return &Reflector{model: model, version: version, cfg: cfg.WithDefaults()}
}

// Version is the version of a reflector with our instructions, part of the ids of what it makes: another version reflects
// anew. With other instructions it has "+p" and the fingerprint of those behind it.
func Version(withModel bool) string {
	if withModel {
		return RulesVersion + "+" + PromptVersion
	}
	return RulesVersion
}

// Run works until the context ends.
func (r *Reflector) Run(ctx context.Context, conn *bus.Conn) error {
	windows := window.New(conn.NATS(), conn.JetStream())
	return conn.Run(ctx, bus.Worker{
		Role:  events.RoleReflector,
		Slots: r.cfg.Slots,
		Handle: func(ctx context.Context, batch []*bus.Delivery) []bus.Result {
			return []bus.Result{r.handle(ctx, conn, windows, batch[0])}
		},
		Done: func(ctx context.Context, d *bus.Delivery) (bool, error) { return r.done(ctx, conn, d) },
	})
}

func (r *Reflector) handle(ctx context.Context, conn *bus.Conn, windows *window.Store, d *bus.Delivery) (out bus.Result) {
	e, ok := d.Event.(*events.Execution)
	handle, after := d.Handle(), late{}
	if f, isLate := d.Event.(*events.Feedback); isLate {
		var err error
		if e, after, err = settled(ctx, conn, windows, f, d.Seq, d.Attempt); err != nil {
			return bus.Result{Err: fmt.Errorf("feedback on %s: %w", f.Execution, err)}
		}
		handle = f.Execution
	} else if !ok {
		return bus.Result{Err: bus.Discard(fmt.Errorf("a reflector handles no %s", d.Event.Kind()))}
	}
	if e.Purpose == events.Evaluate || e.Origin.Held && after.feedback != "" {
		return bus.Result{}
	}
	ref, err := r.reflect(ctx, e, after.feedback)
	if err != nil {
		return bus.Result{Err: fmt.Errorf("reflect on %s: %w", handle, err)}
	}
	defer func() { out.Asked = ref.Model != "" }()
	ref.Handle = handle
	if after.feedback == "" {
		if r.goesOn(e) {
			if next := round(e, handle, ref); next != nil {
				return bus.Result{Events: []events.Event{next}}
			}
		}
		conclude(e, ref)
	}
	ref.Judged, ref.Corrects, ref.First = after.judged, after.corrects, after.first
	if e.Origin.Held {
		// What depends on which execution came first is left out: neither runs at the same task, nor notes for later prompts.
		return bus.Result{Events: []events.Event{ref}}
	}
	if !says(ref) && after.feedback == "" { // feedback moves votes that were cast
		return bus.Result{} // nothing to learn from it
	}
	var p *pair
	if windows != nil {
		p = newPair(e)
	}
	if p != nil {
		if err := p.compare(ctx, windows, ref); err != nil {
			return bus.Result{Err: fmt.Errorf("reflect on %s: %w", handle, err)}
		}
	}
	return bus.Result{Events: []events.Event{ref}, Then: func(ctx context.Context, stored bus.Receipt) error {
		note := events.NewNote(stored.Handle, ref)
		if p == nil && note == nil {
			return nil
		}
		// A copy that comes later is neither the last run at its task nor a recent reflection.
		first, err := windows.First(ctx, ref.Book, window.Noted, d.Event.EventID(), d.Seq)
		if err != nil || !first {
			return err
		}
		if p != nil {
			if err := p.keep(ctx, windows, ref); err != nil {
				return err
			}
		}
		if note == nil {
			return nil
		}
		return windows.AddNote(ctx, ref.Book, note)
	}}
}

// Reflect is the reflection on an execution that is stored under a handle, as a worker makes it of a held one that is its
// sample's last round. It stores nothing and looks at nothing but the execution.
func (r *Reflector) Reflect(ctx context.Context, e *events.Execution, h events.Handle) (*events.Reflection, error) {
	ref, err := r.reflect(ctx, e, "")
	if err != nil {
		return nil, fmt.Errorf("reflect on %s: %w", h, err)
	}
	ref.Handle = h
	conclude(e, ref)
	return ref, nil
}

// reflect is what this reflector makes of an execution. A right answer after wrong ones was asked about already.
func (r *Reflector) reflect(ctx context.Context, e *events.Execution, feedback events.ID) (*events.Reflection, error) {
	sample := e.Sample()
	ref := &events.Reflection{
		ID: events.ReflectionID(sample, feedback, r.version), Execution: e.ID, Sample: sample, Feedback: feedback, Reflector: r.version, Session: e.Session, Origin: e.Origin,
		Question: events.Beginning(e.Question, 500), Outcome: e.Outcome, Findings: Inspect(e), Created: time.Now().UTC(),
	}
	ref.Book = e.Book
	bearWitness(e, ref)
	settled := feedback == "" && len(e.Tries) > 0 && e.Outcome.Label == events.Success
	if r.model != nil && !settled && (e.Outcome.Known() || signal(e)) {
		out, reply, err := Ask(ctx, r.model, e, r.cfg)
		if err != nil {
			return nil, err
		}
		out.ground(e, r.cfg.TraceBudget)
		ref.Reasoning, ref.ErrorIdentification, ref.RootCauseAnalysis = out.Reasoning, out.ErrorIdentification, out.RootCauseAnalysis
		ref.CorrectApproach, ref.KeyInsight, ref.Tags = out.CorrectApproach, out.KeyInsight, out.Tags
		if out.KeyInsight != "" {
			ref.Lessons = append(ref.Lessons, events.Lesson{Section: out.Section, Content: out.KeyInsight})
		}
		ref.Lessons = append(ref.Lessons, out.Lessons...)
		ref.Records, ref.Ignored = out.Records, out.Ignored
		ref.Model, ref.Usage = reply.Model, reply.Usage
	}
	return ref, nil
}

// bearWitness says what chance had decided about the prompt, and what that came to. Later rounds know more than their
// prompt's bullets, so the first one speaks for all.
func bearWitness(e *events.Execution, ref *events.Reflection) {
	switch {
	case !e.Outcome.Known():
	case len(e.Tries) > 0:
		ref.Trials, ref.Score = e.Tries[0].Trials, e.Tries[0].Score
	case e.Manifest != nil && len(e.Manifest.Trials) > 0:
		ref.Trials, ref.Score = e.Manifest.Trials, e.Outcome.Score
	}
}

// says reports whether there is something in a reflection that anybody goes on with.
func says(ref *events.Reflection) bool {
	return len(ref.Tags)+len(ref.Lessons)+len(ref.Findings)+len(ref.Trials)+len(ref.Records) > 0
}
