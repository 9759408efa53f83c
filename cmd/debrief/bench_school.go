package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/simulated"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/assembly"
	"debrief/playbook/natskv"
	"debrief/reflector"

	book "debrief/playbook"
)

// school is a server with the three roles at work and a simulated model, for as many books as come to learn at the same
// time. They go in step: what a school does next begins when every book is done.
type school struct {
	*trial
	session *session
	store   *natskv.Store
	desk    *generator.Desk

	generator, reflector, curator *meter

	stop []func()
	wait []func() error
}

// meter is a model in this process, with what was asked of it.
type meter struct {
	model  *simulated.Direct
	before func(context.Context, chat.Prompt) error // nil does nothing

	calls, in, out atomic.Int64
	right          atomic.Int64 // calls and tokens of those about a right answer, where a prompt says so
	rightTokens    atomic.Int64
}

// Complete implements chat.Model.
func (m *meter) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	if m.before != nil {
		if err := m.before(ctx, p); err != nil {
			return chat.Reply{}, err
		}
	}
	said := make([]simulated.Said, len(p.Messages))
	for i := range p.Messages {
		said[i] = simulated.Said{Speaker: p.Messages[i].Speaker, Text: p.Messages[i].Text}
	}
	text, in, out := m.model.Reply(p.Name, said)
	m.calls.Add(1)
	m.in.Add(int64(in))
	m.out.Add(int64(out))
	if strings.HasPrefix(said[len(said)-1].Text, "Outcome: success") {
		m.right.Add(1)
		m.rightTokens.Add(int64(in + out))
	}
	return chat.Reply{
		Text: text, Model: simulated.Name, Finish: "stop",
		Usage: chat.Usage{Calls: 1, InputTokens: in, OutputTokens: out},
	}, nil
}

func (m *meter) tokens() int64 { return m.in.Load() + m.out.Load() }

// schooling is how a school is set up.
type schooling struct {
	model     simulated.Options
	curator   curator.Config
	noCurator bool // it is begun later
	// beforeCurating is called before every prompt of the Curator.
	beforeCurating func(context.Context, chat.Prompt) error
}

// open starts a school on a server that leaves nothing behind.
func (o schooling) open(ctx context.Context, log zerolog.Logger) (_ *school, err error) {
	p := place{}
	p.Replicas = 1
	session, err := p.scratch(ctx, "100ms", log)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &school{session: session, store: natskv.New(session.JetStream()), stop: []func(){stop}}
	for _, m := range []**meter{&s.generator, &s.reflector, &s.curator} {
		*m = &meter{model: simulated.NewDirect(o.model)}
	}
	s.curator.before = o.beforeCurating
	t, done := watch(ctx, session.Conn, "")
	s.trial = t
	s.wait = append(s.wait, done)
	cfg := generator.Config{Slots: 32, Recall: generator.RecallNone, Limits: assembly.Limits{Reflections: -1}}
	s.desk = generator.NewDesk(session.Conn, nil, cfg)
	roles := []app.Role{
		generator.New(s.generator, nil, cfg),
		reflector.New(s.reflector, reflector.Config{Slots: 32}),
	}
	if !o.noCurator {
		roles = append(roles, curator.New(s.curator, o.curator))
	}
	s.work(ctx, roles...)
	return s, nil
}

// work has roles begin, until the school closes.
func (s *school) work(ctx context.Context, roles ...app.Role) {
	ctx, stop := context.WithCancel(ctx)
	s.stop = append(s.stop, stop)
	working := make(chan error, 1)
	go func() { working <- app.Run(ctx, s.session.Conn, roles...) }()
	s.wait = append(s.wait, func() error { return <-working })
}

// close stops the roles and the server and returns what went wrong, dead letters included.
func (s *school) close() error {
	for _, stop := range s.stop {
		stop()
	}
	s.desk.Close()
	var errs []error
	for i := len(s.wait) - 1; i >= 0; i-- {
		errs = append(errs, s.wait[i]())
	}
	if n := s.losses(); n > 0 {
		errs = append(errs, fmt.Errorf("%d dead letters: %s", n, s.aLoss()))
	}
	s.session.Close()
	return errors.Join(errs...)
}

// aLoss is why one of the dead letters is one.
func (s *school) aLoss() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, why := range s.lost {
		return why
	}
	for _, e := range s.ended {
		if e.dead != "" {
			return e.dead
		}
	}
	return ""
}

// pupil is a book that learns.
type pupil struct {
	*school
	book      book.Book
	evaluator *simulated.Evaluator
	train     []events.Task
	heldOut   []events.Task
	handed    int // training tasks so far

	// judgedInside has our Generator answer and judge; else an agent outside does. Endings are of the last step of the
	// first.
	judgedInside bool
	endings      []ending
}

// enrol is a new book in a mode of the gate; an empty mode leaves it as books are.
func (s *school) enrol(ctx context.Context, name string, gate book.Gate, seed uint64, wrong float64, train, heldOut []events.Task) (*pupil, error) {
	p := &pupil{school: s, book: book.Book(name), evaluator: simulated.NewEvaluator(seed, wrong), train: train, heldOut: heldOut}
	if gate == "" {
		return p, nil
	}
	e := &events.Edit{ID: events.NewID(), Author: "bench", Reason: "the arm of the measurement", Gate: gate, Created: time.Now().UTC()}
	e.Book = p.book
	d, err := request(ctx, s.session.Conn, e, bus.Marks{})
	if err != nil {
		return nil, err
	}
	if len(d.Refused) > 0 {
		return nil, fmt.Errorf("set the gate to %s: %s", gate, d.Refused[0])
	}
	_, now, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	if got, _ := now.Gate(); got != gate {
		return nil, fmt.Errorf("set the gate to %s: it is %s", gate, got)
	}
	return p, nil
}

// read is the book as its log has it.
func (p *pupil) read(ctx context.Context) (version uint64, b *book.Playbook, err error) {
	w, err := p.store.Writer(ctx, p.book)
	if err != nil {
		return 0, nil, err
	}
	b = w.State().Playbook()
	return b.Version(), b, nil
}

// together does a thing for every pupil at the same time.
func together(pupils []*pupil, do func(*pupil) error) error {
	errs := make([]error, len(pupils))
	var all sync.WaitGroup
	for i, p := range pupils {
		all.Go(func() { errs[i] = do(p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// step has every pupil work through its next training tasks with the playbook as it is, hands in what came of them, and
// waits until that is learned. Tasks come around again when they are at an end.
func (s *school) step(ctx context.Context, pupils []*pupil, tasks int) error {
	err := together(pupils, func(p *pupil) error {
		version, _, err := p.read(ctx)
		if err != nil {
			return err
		}
		asked := make([]events.Task, tasks)
		for i := range asked {
			at, pass := p.handed%len(p.train), p.handed/len(p.train)
			t := p.train[at]
			t.Book, t.Purpose, t.Origin, t.MinVersion = p.book, events.Learn, events.Origin{Epoch: pass, Index: at}, version
			t.ID = fmt.Sprintf("e%02d/%s", pass, t.ID)
			asked[i] = t
			p.handed++
		}
		if p.judgedInside {
			p.endings, err = p.ask(ctx, asked, nil)
			p.forget(asked)
			return err
		}
		return p.work(ctx, asked)
	})
	if err != nil {
		return err
	}
	return s.settled(ctx, events.RoleReflector, events.RoleCurator)
}

// answers is how many tasks of one pupil are answered at the same time.
const answers = 8

// work answers tasks as an agent outside does: it is served a context, asks its own model and reports what came of it,
// with the verdict of its own evaluator. All is answered before the first of it is reported.
func (p *pupil) work(ctx context.Context, tasks []events.Task) error {
	reports := make([]*events.Report, len(tasks))
	err := each(len(tasks), answers, func(i int) (err error) {
		reports[i], err = p.answer(ctx, &tasks[i])
		return err
	})
	if err != nil {
		return err
	}
	return each(len(reports), answers, func(i int) error {
		stored, err := p.desk.Report(ctx, reports[i])
		if err == nil && len(stored.Degraded) > 0 {
			err = errors.New(stored.Degraded[0])
		}
		return err
	})
}

func (p *pupil) answer(ctx context.Context, t *events.Task) (*events.Report, error) {
	served, err := p.desk.Context(ctx, &events.ContextRequest{
		Book: p.book, Query: t.Question, Context: t.Context, System: generator.Instructions, MinVersion: t.MinVersion,
	})
	if err != nil {
		return nil, err
	}
	a, reply, err := generator.Ask(ctx, p.generator, generator.Prompt(served.Messages))
	if err != nil {
		return nil, err
	}
	o, _, err := p.evaluator.Judge(t, a.Final, a.Reasoning)
	return &events.Report{
		Book: p.book, ContextID: served.ID, TaskID: t.ID, Reasoning: a.Reasoning, Answer: a.Final, Cited: a.BulletIDs,
		Outcome: o, Purpose: t.Purpose, Model: reply.Model, Usage: reply.Usage,
	}, err
}

// each calls do for 0 to n-1, so many at the same time, until one fails.
func each(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for w := range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// examine asks every pupil its held-out tasks, with the playbook as it is now, and returns the endings of each.
func (s *school) examine(ctx context.Context, pupils []*pupil, label string) ([][]ending, error) {
	all := make([][]ending, len(pupils))
	index := make(map[*pupil]int)
	for i, p := range pupils {
		index[p] = i
	}
	return all, together(pupils, func(p *pupil) error {
		version, _, err := p.read(ctx)
		if err != nil {
			return err
		}
		tasks := make([]events.Task, len(p.heldOut))
		for i, t := range p.heldOut {
			t.Book, t.Purpose, t.Playbook = p.book, events.Evaluate, &version
			t.ID = label + "/" + t.ID
			tasks[i] = t
		}
		all[index[p]], err = p.ask(ctx, tasks, nil)
		p.forget(tasks)
		return err
	})
}

// forget lets go of endings that have been looked at. Those without an answer are kept, as losses.
func (t *trial) forget(tasks []events.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range tasks {
		id := events.ExecutionID(tasks[i].Book, tasks[i].ID, tasks[i].Origin.Round)
		if t.ended[id].dead == "" {
			delete(t.ended, id)
		}
	}
}
