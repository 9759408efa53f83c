// Package reflector is the role that looks at what came of a task: which of the bullets in the prompt helped or hurt,
// what went wrong, and what would be worth knowing next time. It works with a model, and by rules over tool calls
// without one. It changes no playbook.
package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/window"
)

// Config of a reflector; zero fields are defaults.
type Config struct {
	Slots int `name:"reflector-slots" help:"Executions reflected on at the same time." default:"16"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Slots == 0 {
		c.Slots = 16
	}
	return c
}

// Validate names the flag of what cannot be.
func (c Config) Validate() error {
	if c.Slots < 0 {
		return fmt.Errorf("--reflector-slots: must be at least 1, got %d", c.Slots)
	}
	return nil
}

// Reflector reflects on executions.
type Reflector struct {
	model   chat.Model
	version string
	cfg     Config
}

// New is a reflector that asks a model and runs the rules; without a model it runs the rules alone.
func New(model chat.Model, cfg Config) *Reflector {
	return &Reflector{model: model, version: Version(model != nil), cfg: cfg.WithDefaults()}
}

// Version is the version of a reflector, part of the ids of what it makes: another version reflects anew.
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
	})
}

func (r *Reflector) handle(ctx context.Context, conn *bus.Conn, windows *window.Store, d *bus.Delivery) bus.Result {
	e, ok := d.Event.(*events.Execution)
	handle, feedback := d.Handle(), events.ID("")
	if f, late := d.Event.(*events.Feedback); late {
		var err error
		if e, err = settled(ctx, conn, f); err != nil {
			return bus.Result{Err: fmt.Errorf("feedback on %s: %w", f.Execution, err)}
		}
		handle, feedback = f.Execution, f.ID
	} else if !ok {
		return bus.Result{Err: bus.Discard(fmt.Errorf("a reflector handles no %s", d.Event.Kind()))}
	}
	if e.Purpose == events.Evaluate {
		return bus.Result{}
	}
	ref, err := r.reflect(ctx, e, feedback)
	if err != nil {
		return bus.Result{Err: fmt.Errorf("reflect on %s: %w", handle, err)}
	}
	if ref == nil {
		return bus.Result{} // nothing to learn from it
	}
	ref.Handle = handle
	var p *pair
	if windows != nil {
		p = newPair(e)
	}
	if p != nil {
		if err := p.compare(ctx, windows, ref); err != nil {
			return bus.Result{Err: fmt.Errorf("reflect on %s: %w", handle, err)}
		}
	}
	return bus.Result{Events: []events.Event{ref}, Then: func(ctx context.Context, first bus.Receipt) error {
		if p != nil {
			if err := p.keep(ctx, windows, ref); err != nil {
				return err
			}
		}
		note := events.NewNote(first.Handle, ref)
		if note == nil {
			return nil
		}
		return windows.AddNote(ctx, ref.Book, note)
	}}
}

// settled is the execution that feedback is on, with the outcome that it says. Where the outcome was known before, votes
// were cast on it.
func settled(ctx context.Context, conn *bus.Conn, f *events.Feedback) (*events.Execution, error) {
	seq, is, err := f.Execution.Parse()
	if err != nil {
		return nil, bus.Discard(err)
	}
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if errors.Is(err, bus.ErrGone) {
		return nil, bus.Discard(err)
	}
	if err != nil {
		return nil, err
	}
	e, ok := found.(*events.Execution)
	switch {
	case !ok || e.Book != f.Book:
		return nil, bus.Discard(fmt.Errorf("is no execution of book %q", f.Book))
	case judged(e):
		return nil, bus.Discard(fmt.Errorf("its outcome was known before (%s), and this version does not correct votes", e.Outcome.Label))
	}
	e.Outcome, e.Target = f.Outcome, cmp.Or(f.Target, e.Target)
	return e, nil
}

// reflect is what this reflector makes of an execution, nil if there is nothing to learn from it.
func (r *Reflector) reflect(ctx context.Context, e *events.Execution, feedback events.ID) (*events.Reflection, error) {
	ref := &events.Reflection{
		ID: events.ReflectionID(e.ID, feedback, r.version), Execution: e.ID, Feedback: feedback, Reflector: r.version, Session: e.Session, Origin: e.Origin,
		Question: events.Beginning(e.Question, 500), Outcome: e.Outcome, Findings: Inspect(e), Created: time.Now().UTC(),
	}
	ref.Book = e.Book
	if r.model != nil && (judged(e) || signal(e)) {
		out, reply, err := Ask(ctx, r.model, e)
		if err != nil {
			return nil, err
		}
		ref.Reasoning, ref.ErrorIdentification, ref.RootCauseAnalysis = out.Reasoning, out.ErrorIdentification, out.RootCauseAnalysis
		ref.CorrectApproach, ref.KeyInsight, ref.Tags = out.CorrectApproach, out.KeyInsight, out.Tags
		if out.KeyInsight != "" {
			ref.Lessons = append(ref.Lessons, events.Lesson{Section: out.Section, Content: out.KeyInsight})
		}
		ref.Lessons = append(ref.Lessons, out.Lessons...)
		ref.Model, ref.Usage = reply.Model, reply.Usage
	}
	if len(ref.Tags)+len(ref.Lessons)+len(ref.Findings) == 0 {
		return nil, nil
	}
	return ref, nil
}
