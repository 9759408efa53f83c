// Package generator is the role that answers tasks: it reads a task, puts the playbook's bullets in the prompt, asks a
// model, scores the answer where the task says what is right, and hands on the execution. It makes one model call a
// task and runs no tools. It learns nothing itself.
package generator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// Config of a generator; zero fields are defaults.
type Config struct {
	Slots   int `name:"generator-slots" help:"Tasks answered at the same time." default:"16"`
	Bullets int `help:"Most bullets in a prompt." default:"30"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Slots == 0 {
		c.Slots = 16
	}
	if c.Bullets == 0 {
		c.Bullets = 30
	}
	return c
}

// Validate names the flag of what cannot be.
func (c Config) Validate() error {
	var errs []error
	if c.Slots < 0 {
		errs = append(errs, fmt.Errorf("--generator-slots: must be at least 1, got %d", c.Slots))
	}
	if c.Bullets < 0 {
		errs = append(errs, fmt.Errorf("--bullets: must be at least 1, got %d", c.Bullets))
	}
	return errors.Join(errs...)
}

// Generator answers tasks.
type Generator struct {
	model chat.Model
	cfg   Config
}

// New is a generator that asks a model.
func New(model chat.Model, cfg Config) *Generator {
	return &Generator{model: model, cfg: cfg.WithDefaults()}
}

// Run works until the context ends.
func (g *Generator) Run(ctx context.Context, conn *bus.Conn) error {
	books := newShelf(natskv.New(conn.JetStream()), g.cfg.Bullets)
	defer books.close()
	return conn.Run(ctx, bus.Worker{
		Role:  events.RoleGenerator,
		Slots: g.cfg.Slots,
		Handle: func(ctx context.Context, batch []*bus.Delivery) []bus.Result {
			task, ok := batch[0].Event.(*events.Task)
			if !ok {
				return []bus.Result{{Err: bus.Discard(fmt.Errorf("a generator handles no %s", batch[0].Event.Kind()))}}
			}
			e, err := g.answer(ctx, books, task)
			if err != nil {
				return []bus.Result{{Err: err}}
			}
			return []bus.Result{{Events: []events.Event{e}}}
		},
	})
}

// answer makes the execution of one task.
func (g *Generator) answer(ctx context.Context, books *shelf, t *events.Task) (*events.Execution, error) {
	started := time.Now()
	page, err := books.open(ctx, t.Book, t.Playbook)
	if err != nil {
		return nil, err
	}
	prompt := Prompt(t, page.bullets)
	a, reply, err := Ask(ctx, g.model, prompt)
	if err != nil {
		return nil, fmt.Errorf("answer task %q: %w", t.ID, err)
	}
	outcome, err := Evaluate(t, a)
	if err != nil {
		return nil, bus.Discard(fmt.Errorf("evaluate task %q: %w", t.ID, err))
	}
	e := &events.Execution{
		ID: events.ExecutionID(t.Book, t.ID, t.Origin.Round), TaskID: t.ID, Session: t.Session,
		Question: t.Question, Context: t.Context, Target: t.Target, Purpose: t.Purpose, Origin: t.Origin,
		Reasoning: a.Reasoning, Answer: a.Final, Outcome: outcome,
		Version: page.version, Shown: page.shown, Cited: page.cited(a.BulletIDs),
		Model: reply.Model, PromptSHA256: digest(prompt), Usage: reply.Usage,
		Started: started.UTC(), Duration: time.Since(started),
	}
	e.Book = t.Book
	return e, nil
}

// digest tells one prompt from another: SHA-256 over its messages, each part ended by a NUL.
func digest(p chat.Prompt) []byte {
	h := sha256.New()
	for _, m := range p.Messages {
		h.Write([]byte(m.Speaker))
		h.Write([]byte{0})
		h.Write([]byte(m.Text))
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// page is what a prompt shows of a playbook: its best bullets at one version.
type page struct {
	version uint64
	bullets []*playbook.Bullet
	shown   []events.ShownBullet
}

func newPage(p *playbook.Playbook, most int) *page {
	pg := &page{version: p.Version(), bullets: p.Top(most)}
	for _, b := range pg.bullets {
		pg.shown = append(pg.shown, events.ShownBullet{ID: b.ID, Content: b.Content})
	}
	return pg
}

// cited drops what the model cites and was not shown.
func (pg *page) cited(ids []playbook.BulletID) []playbook.BulletID {
	var known []playbook.BulletID
	for _, id := range ids {
		for _, b := range pg.bullets {
			if b.ID == id {
				known = append(known, id)
				break
			}
		}
	}
	return known
}
