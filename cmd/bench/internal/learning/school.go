package learning

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/sample"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/reflector"

	book "debrief/playbook"
)

// school is a server with the three roles and a simulated model, for several playbooks that learn at the same time.
// They work in steps: a step ends when every playbook has finished it.
type school struct {
	*train.Runner
	session *cli.Session
	store   *deltalog.Store
	desk    *generator.ContextBuilder

	generator, reflector, curator *sample.Model

	stop []func()
	wait []func() error
}

// schooling configures a school.
type schooling struct {
	model     simulated.Options
	curator   curator.Config
	noCurator bool // it is begun later
	// beforeCurating is called before every prompt of the Curator.
	beforeCurating func(context.Context, chat.Prompt) error
}

// open starts a school on a temporary server.
func (o schooling) open(ctx context.Context, log zerolog.Logger) (_ *school, err error) {
	p := cli.ServerFlags{}
	p.Replicas = 1
	session, err := p.StartTemporary(ctx, "100ms", log)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &school{session: session, store: deltalog.New(session.JetStream()), stop: []func(){stop}}
	for _, m := range []**sample.Model{&s.generator, &s.reflector, &s.curator} {
		*m = &sample.Model{Direct: simulated.NewDirect(o.model)}
	}
	s.curator.Before = o.beforeCurating
	t, done := train.Watch(ctx, session.Conn, "")
	s.Runner = t
	s.wait = append(s.wait, done)
	cfg := generator.Config{Slots: 32, Recall: generator.RecallNone, Limits: assembly.Limits{Reflections: -1}}
	s.desk = generator.NewContextBuilder(session.Conn, nil, cfg)
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

// work runs roles until the school closes.
func (s *school) work(ctx context.Context, roles ...app.Role) {
	ctx, stop := context.WithCancel(ctx)
	s.stop = append(s.stop, stop)
	working := make(chan error, 1)
	go func() { working <- app.Run(ctx, s.session.Conn, roles...) }()
	s.wait = append(s.wait, func() error { return <-working })
}

// close stops the roles and the server. It returns all errors, including dead letters.
func (s *school) close() error {
	for _, stop := range s.stop {
		stop()
	}
	s.desk.Close()
	var errs []error
	for i := len(s.wait) - 1; i >= 0; i-- {
		errs = append(errs, s.wait[i]())
	}
	if n := s.Losses(); n > 0 {
		errs = append(errs, fmt.Errorf("%d dead letters: %s", n, s.FirstLoss()))
	}
	s.session.Close()
	return errors.Join(errs...)
}

// pupil is a playbook that learns.
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
	endings      []train.TaskResult
}

// enrol creates a playbook with a mode of the gate. An empty mode keeps the default.
func (s *school) enrol(ctx context.Context, name string, gate book.Gate, seed uint64, wrong float64, train, heldOut []events.Task) (*pupil, error) {
	p := &pupil{school: s, book: book.Book(name), evaluator: simulated.NewEvaluator(seed, wrong), train: train, heldOut: heldOut}
	if gate == "" {
		return p, nil
	}
	e := &events.Edit{ID: events.NewID(), Author: "bench", Reason: "the arm of the measurement", Gate: gate, Created: time.Now().UTC()}
	e.Book = p.book
	if _, err := cli.RequestEdit(ctx, s.session.Conn, e, bus.PublishOptions{}); err != nil {
		return nil, fmt.Errorf("set the gate to %s: %w", gate, err)
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

// read returns the playbook from its log.
func (p *pupil) read(ctx context.Context) (version uint64, b *book.Playbook, err error) {
	w, err := p.store.Writer(ctx, p.book)
	if err != nil {
		return 0, nil, err
	}
	b = w.State().Playbook()
	return b.Version(), b, nil
}

// together calls do for every pupil at the same time.
func together(pupils []*pupil, do func(*pupil) error) error {
	errs := make([]error, len(pupils))
	var all sync.WaitGroup
	for i, p := range pupils {
		all.Go(func() { errs[i] = do(p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// step answers the next training tasks of every pupil with its current playbook, reports the results, and waits until
// they are learned. After the last task it starts again with the first.
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
			p.endings, err = p.Ask(ctx, asked, nil)
			p.Forget(asked)
			return err
		}
		return p.work(ctx, asked)
	})
	if err != nil {
		return err
	}
	return s.WaitIdle(ctx, events.RoleReflector, events.RoleCurator)
}

// answers is the number of tasks that one pupil answers at the same time.
const answers = 8

// work answers tasks like an external agent: it requests contexts, calls its own model, and reports the results with
// the outcomes of its own evaluator. It reports only after all tasks are answered.
func (p *pupil) work(ctx context.Context, tasks []events.Task) error {
	reports := make([]*events.Report, len(tasks))
	err := train.Each(len(tasks), answers, func(i int) (err error) {
		reports[i], err = p.answer(ctx, &tasks[i])
		return err
	})
	if err != nil {
		return err
	}
	return train.Each(len(reports), answers, func(i int) error {
		stored, err := p.desk.Report(ctx, reports[i])
		if err == nil && len(stored.Warnings) > 0 {
			err = errors.New(stored.Warnings[0])
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
	o, _, err := p.evaluator.Evaluate(t, a.Final, a.Reasoning)
	return &events.Report{
		Book: p.book, ContextID: served.ID, RunID: t.ID, Reasoning: a.Reasoning, Answer: a.Final, Cited: a.BulletIDs,
		Outcome: o, Purpose: t.Purpose, Model: reply.Model, Usage: reply.Usage,
	}, err
}

// examine answers the held-out tasks of every pupil with its current playbook. It returns the results of each.
func (s *school) examine(ctx context.Context, pupils []*pupil, label string) ([][]train.TaskResult, error) {
	all := make([][]train.TaskResult, len(pupils))
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
		all[index[p]], err = p.Ask(ctx, tasks, nil)
		p.Forget(tasks)
		return err
	})
}
