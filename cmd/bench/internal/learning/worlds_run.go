package learning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/train"
	"debrief/cmd/internal/worlds"
	"debrief/cmd/internal/worlds/world"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/generator"
	"debrief/reflector"

	book "debrief/playbook"
)

// worldStep is the number of tasks that an agent answers with one version of the playbook.
const worldStep = 20

// worldModel is the model of a world as a model of the roles. It counts its calls and tokens.
type worldModel struct {
	world  worlds.World
	calls  atomic.Int64
	tokens atomic.Int64
}

// Complete implements chat.Model.
func (m *worldModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	said := make([]worlds.Message, len(p.Messages))
	for i := range p.Messages {
		said[i] = worlds.Message{Speaker: p.Messages[i].Speaker, Text: p.Messages[i].Text}
	}
	text := m.world.Reply(p.Name, said)
	in, out := 0, chat.Tokens(text)
	for i := range said {
		in += chat.Tokens(said[i].Text)
	}
	m.calls.Add(1)
	m.tokens.Add(int64(in + out))
	return chat.Reply{Text: text, Model: m.world.Name(), Finish: "stop", Usage: chat.Usage{Calls: 1, InputTokens: in, OutputTokens: out}}, nil
}

// worldEmbedder computes the embeddings of a world.
type worldEmbedder struct{ world worlds.World }

func (e worldEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	return e.world.Embed(texts), nil
}

func (e worldEmbedder) Model() string { return e.world.Name() + "-embeddings" }

// classroom is a server with a Reflector, a Curator and an outside agent, for one playbook. All settings are the defaults,
// except those of the arm and the number of slots.
type classroom struct {
	world   worlds.World
	arm     *worldArm
	seed    uint64
	wrong   float64
	session *cli.Session
	store   *deltalog.Store
	builder *generator.ContextBuilder
	agent   service.Backend // the builder, or its HTTP API
	api     *api.Server     // nil without HTTP
	runner  *train.Runner
	model   *worldModel
	version uint64
	done    int // training tasks so far
	late    []*events.FeedbackRequest
	states  map[statement]bool
	stop    context.CancelFunc
	wait    []func() error
}

const classroomBook = book.Book("default")

// openClassroom starts a classroom on a temporary server. It imports the bullets of the arm.
func openClassroom(ctx context.Context, w worlds.World, a *worldArm, seed uint64, b *worldsBench, log zerolog.Logger) (_ *classroom, err error) {
	p := cli.ServerFlags{}
	p.Replicas = 1
	session, err := p.StartTemporary(ctx, "100ms", log)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &classroom{
		world: w, arm: a, seed: seed, session: session, store: deltalog.New(session.JetStream()), model: &worldModel{world: w},
		stop: stop, states: make(map[statement]bool),
	}
	if a.wrong {
		c.wrong = b.wrong
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	var done func() error
	c.runner, done = train.Watch(ctx, session.Conn, "")
	c.wait = append(c.wait, done)
	cfg := generator.Config{}
	if a.showAll {
		const unlimited = 1 << 20
		cfg.Limits.Total, cfg.Limits.Bullets, cfg.Limits.MaxBullets = unlimited, unlimited, unlimited
	}
	var embedder generator.Embedder
	if b.embeddings {
		embedder = worldEmbedder{w}
	}
	c.builder = generator.NewContextBuilder(session.Conn, embedder, cfg)
	c.agent = c.builder
	if slices.Contains(b.remote, w.Name()) {
		if c.api, err = api.Serve("127.0.0.1:0", c.builder, api.Options{Log: log}); err != nil {
			return nil, err
		}
		c.agent = httpAgent{c.api.URL()}
	}
	working := make(chan error, 1)
	go func() {
		working <- app.Run(ctx, session.Conn, reflector.New(c.model, reflector.Config{Slots: 32}), curator.New(c.model, curator.Config{}))
	}()
	c.wait = append(c.wait, func() error { return <-working })
	if a.gate != "" {
		if err := c.edit(ctx, &events.Edit{Gate: a.gate}); err != nil {
			return nil, err
		}
	}
	if a.bullets != nil {
		e := new(events.Edit)
		imported := make(map[string]bool)
		for _, text := range a.bullets(w, c.phase(b.tasks)) {
			if imported[text] {
				continue
			}
			imported[text] = true
			e.Ops = append(e.Ops, book.Op{Kind: book.Add, Section: "rules", Content: text})
		}
		if err := c.edit(ctx, e); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *classroom) edit(ctx context.Context, e *events.Edit) error {
	e.ID, e.Author, e.Reason, e.Created, e.Book = events.NewID(), "bench", "the arm of the measurement", time.Now().UTC(), classroomBook
	d, err := cli.RequestEdit(ctx, c.session.Conn, e, bus.PublishOptions{})
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
		errs = append(errs, c.api.Close())
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
		late := c.late
		c.late = nil
		if err := c.work(ctx, step); err != nil {
			return err
		}
		for _, f := range late {
			if _, err := c.agent.Feedback(ctx, f); err != nil {
				return fmt.Errorf("report late feedback: %w", err)
			}
		}
		c.done += len(step)
		if err := c.runner.WaitIdle(ctx, events.RoleReflector, events.RoleCurator); err != nil {
			return err
		}
		if _, err := c.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// work answers tasks with the current version of the playbook, and then reports the executions in order.
func (c *classroom) work(ctx context.Context, tasks []worlds.Task) error {
	reports := make([]*events.Report, len(tasks))
	verdicts := make([]events.Outcome, len(tasks))
	err := train.Each(len(tasks), answers, func(i int) (err error) {
		reports[i], verdicts[i], err = c.answer(ctx, &tasks[i])
		return err
	})
	if err != nil {
		return err
	}
	isLate := c.api != nil
	for i, r := range reports {
		if !isLate {
			r.Outcome = verdicts[i]
		}
		stored, err := c.agent.Report(ctx, r)
		if err == nil && len(stored.Warnings) > 0 {
			err = errors.New(stored.Warnings[0])
		}
		if err != nil {
			return fmt.Errorf("report task %s: %w", r.TaskID, err)
		}
		if isLate {
			c.late = append(c.late, &events.FeedbackRequest{Book: classroomBook, Execution: stored.Handle, Outcome: verdicts[i]})
		}
	}
	return nil
}

// answer requests a context for a task and lets the agent of the world answer it. Some verdicts are wrong.
func (c *classroom) answer(ctx context.Context, t *worlds.Task) (*events.Report, events.Outcome, error) {
	served, err := c.agent.Context(ctx, c.request(t))
	if err != nil {
		return nil, events.Outcome{}, fmt.Errorf("request context of task %s: %w", t.ID, err)
	}
	a := c.world.Attempt(*t, systemOf(served.Messages))
	v := c.world.Verdict(*t, a)
	if world.Chance(c.wrong, c.seed, "wrong verdict", t.ID) {
		v = c.world.Wrong(*t, a, v)
	}
	o := events.Outcome{Label: events.Failure, Feedback: v.Feedback, By: "bench"}
	if v.Right {
		o.Score, o.Label = 1, events.Success
	}
	r := &events.Report{
		Book: classroomBook, ContextID: served.ID, TaskID: t.ID, Reasoning: a.Reasoning, Answer: a.Answer, Model: c.world.Name(),
		Purpose: events.Learn,
	}
	for _, id := range a.Cited {
		r.Cited = append(r.Cited, book.BulletID(id))
	}
	for _, s := range a.Steps {
		call := events.ToolCall{Tool: s.Tool, Arguments: s.Arguments, Output: s.Output, Outcome: events.Success}
		if s.Failed {
			call.Outcome = events.Errored
		}
		r.Steps = append(r.Steps, events.Step{Speaker: chat.Assistant, Calls: []events.ToolCall{call}})
	}
	return r, o, nil
}

func (c *classroom) request(t *worlds.Task) *events.ContextRequest {
	return &events.ContextRequest{Book: classroomBook, Query: t.Question, Context: t.Context, System: generator.Instructions, MinVersion: c.version}
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

// statement is a bullet that may state a rule of a phase.
type statement struct {
	text        string
	phase, rule int
}

// worldPoint is one evaluation of the held-out tasks.
type worldPoint struct {
	tasks           int
	accuracy        float64
	bullets, active float64
	tokens, shown   float64 // tokens and bullets of a prompt
	calls           float64 // model calls for a training task, the agent's included
	deciding        float64 // share of deciding rules in the prompt, of those that an active bullet states; -1 if unknown
	stated          float64 // share of deciding rules that an active bullet states; -1 if unknown
	changed         float64 // accuracy on the tasks that a changed rule decides; -1 without changes
	deadLetters     float64
	modelTokens     float64 // tokens of the Reflector and the Curator for a training task
}

// evaluate answers the held-out tasks. Nothing is withheld, stored or learned.
func (c *classroom) evaluate(ctx context.Context, b *worldsBench) (*worldPoint, error) {
	p, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	phase := c.phase(c.done)
	if c.arm.isFixed {
		phase = c.phase(b.tasks)
	}
	tasks := c.world.HeldOut(phase, b.heldOut)
	right, shown := make([]bool, len(tasks)), make([][]events.ShownBullet, len(tasks))
	tokens := make([]int, len(tasks))
	err = train.Each(len(tasks), answers, func(i int) error {
		r := c.request(&tasks[i])
		r.DryRun = true
		served, err := c.agent.Context(ctx, r)
		if err != nil {
			return fmt.Errorf("request context of task %s: %w", tasks[i].ID, err)
		}
		if served.Stale {
			return fmt.Errorf("request context of task %s: version %d is not available", tasks[i].ID, c.version)
		}
		right[i] = c.world.Verdict(tasks[i], c.world.Attempt(tasks[i], systemOf(served.Messages))).Right
		shown[i], tokens[i] = served.Shown, served.Manifest.Tokens
		return nil
	})
	if err != nil {
		return nil, err
	}
	n := float64(len(tasks))
	out := &worldPoint{tasks: c.done, bullets: float64(p.Len()), active: float64(countActive(p)), deadLetters: float64(c.runner.Losses())}
	for i := range tasks {
		if right[i] {
			out.accuracy += 1 / n
		}
		out.tokens += float64(tokens[i]) / n
		out.shown += float64(len(shown[i])) / n
	}
	if c.done > 0 {
		out.calls = 1 + float64(c.model.calls.Load())/float64(c.done)
		out.modelTokens = float64(c.model.tokens.Load()) / float64(c.done)
	}
	out.stated, out.deciding = c.decidingRules(p, tasks, shown)
	out.changed = c.changedRules(tasks, right)
	return out, nil
}

// changedRules returns the accuracy on the tasks that a changed rule decides, or -1 if the rules of the world do not change.
func (c *classroom) changedRules(tasks []worlds.Task, right []bool) float64 {
	d, ok := c.world.(world.Changer)
	if !ok {
		return -1
	}
	changed := d.Changed()
	all, good := 0, 0
	for i := range tasks {
		if slices.ContainsFunc(tasks[i].Deciding, func(rule int) bool { return slices.Contains(changed, rule) }) {
			all++
			if right[i] {
				good++
			}
		}
	}
	return float64(good) / float64(max(all, 1))
}

// decidingRules returns the share of deciding rules that an active bullet states, and the share of these that the prompt
// contains. Both are -1 if the world cannot compare bullets with rules.
func (c *classroom) decidingRules(p *book.Playbook, tasks []worlds.Task, shown [][]events.ShownBullet) (stated, inPrompt float64) {
	s, ok := c.world.(world.Stater)
	if !ok {
		return -1, -1
	}
	states := func(text string, phase, rule int) bool {
		key := statement{text, phase, rule}
		is, known := c.states[key]
		if !known {
			is = s.States(text, phase, rule)
			c.states[key] = is
		}
		return is
	}
	all, known, found := 0, 0, 0
	for i := range tasks {
		for _, rule := range tasks[i].Deciding {
			all++
			exists := false
			for b := range p.All() {
				if exists = b.Shown() && states(b.Content, tasks[i].Phase, rule); exists {
					break
				}
			}
			if !exists {
				continue
			}
			known++
			if slices.ContainsFunc(shown[i], func(b events.ShownBullet) bool { return states(b.Content, tasks[i].Phase, rule) }) {
				found++
			}
		}
	}
	if known == 0 {
		return 0, -1
	}
	return float64(known) / float64(all), float64(found) / float64(known)
}

// jsonShare is a share that is null in JSON if it is unknown, which is -1.
type jsonShare float64

// MarshalJSON implements json.Marshaler.
func (s jsonShare) MarshalJSON() ([]byte, error) {
	if s < 0 {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}
