package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/llm"
	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// otherWise is a way to answer as --against names it: what is different.
type otherWise struct {
	text                    string
	book, at, model, prompt string
	empty                   bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *otherWise) UnmarshalText(text []byte) error {
	*o = otherWise{text: string(text)}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(o.text, ",") {
		key, value, valued := strings.Cut(part, "=")
		to := map[string]*string{"book": &o.book, "at": &o.at, "model": &o.model, "prompt": &o.prompt}[key]
		switch {
		case seen[key]:
			return fmt.Errorf("%s is given twice in %q", key, text)
		case key == "empty" && !valued:
			o.empty = true
		case to != nil && value != "":
			*to = value
		default:
			return fmt.Errorf("want book=NAME, at=POINT, empty, model=NAME or prompt=FILE, joined by commas, got %q", text)
		}
		seen[key] = true
	}
	if o.empty && (o.at != "" || o.book != "") {
		return fmt.Errorf("empty is no version of a book: choose one of the two in %q", text)
	}
	return nil
}

// way is one way to answer, with the answers.
type way struct {
	name    string
	book    book.Book
	version uint64
	label   string // of the version; "" of no playbook
	model   string
	prompt  string // file of the instructions; "" are ours

	generator *generator.Generator
	answers   []answered
	lost      int
	reached   time.Time // when its model answered last
}

// answered is an answer, or why there is none.
type answered struct {
	execution *events.Execution
	lost      string
}

// missing reports whether the sample's turn has not come.
func (a *answered) missing() bool { return a.execution == nil && a.lost == "" }

// right reports whether an answer is right, and whether anybody knows.
func (a *answered) right() (right, known bool) {
	if a.execution == nil {
		return false, false
	}
	o := &a.execution.Outcome
	return o.Label == events.Success, o.Known()
}

// enter opens what the ways to answer need.
func (e *eval) enter(ctx context.Context, s *session, judge *scoring.Judge, x *exam) error {
	models := e.Model
	models.MaxConcurrent = max(models.MaxConcurrent, e.Parallel)
	if e.Simulated {
		var err error
		if models, err = simulate(ctx, models, 0); err != nil {
			return err
		}
	}
	embedder, err := e.Embedder(models)
	if err != nil {
		return err
	}
	cfg := generator.Config{Slots: e.Parallel, Limits: e.Limits, Recall: generator.RecallNone}
	x.desk = generator.NewDesk(s.Conn, embedder, cfg)
	x.closers = append(x.closers, x.desk.Close)

	first := &otherWise{book: e.Book, at: e.At, empty: e.Empty, model: cmp.Or(models.GeneratorModel, models.Model), prompt: e.GeneratorPrompt}
	clients := make(map[string]*llm.Client)
	for _, o := range append([]otherWise{*first}, e.Against...) {
		o = o.completed(first)
		a := &way{name: cmp.Or(o.text, "the first answers"), model: o.model, prompt: o.prompt, answers: make([]answered, len(x.samples))}
		if err := a.open(ctx, s, &o); err != nil {
			return err
		}
		if clients[o.model] == nil {
			models.GeneratorModel = o.model
			client, err := models.Client(events.RoleGenerator)
			if err != nil {
				return err
			}
			clients[o.model] = client
			x.closers = append(x.closers, client.Close)
		}
		own, err := app.Generator{Config: cfg, GeneratorPrompt: o.prompt}.Settings()
		if err != nil && o.text != "" {
			err = fmt.Errorf("--against %s: %w", o.text, err)
		}
		if err != nil {
			return err
		}
		own.Judge = judge
		a.generator = generator.New(clients[o.model], embedder, own)
		x.ways = append(x.ways, a)
	}
	return nil
}

// completed is the way with what it does not say as in the first one. A version belongs to its book: of another book the
// newest is taken.
func (o otherWise) completed(first *otherWise) otherWise {
	if o.book == "" && o.at == "" && !o.empty {
		o.at, o.empty = first.at, first.empty
	}
	o.book = cmp.Or(o.book, first.book)
	o.model = cmp.Or(o.model, first.model)
	o.prompt = cmp.Or(o.prompt, first.prompt)
	return o
}

// open finds the version of the playbook.
func (a *way) open(ctx context.Context, s *session, o *otherWise) error {
	name, err := bookName(o.book)
	if err != nil {
		return err
	}
	a.book = name
	if o.empty {
		return nil // version 0 of any book
	}
	b := &openBook{s, natskv.New(s.JetStream()), name}
	known, err := b.store.Logged(ctx)
	if err != nil {
		return err
	}
	if !contains(known, name) {
		return app.Exit(app.ExitRefused, fmt.Errorf("%w; or answer without one: --empty", noBook(name, known)))
	}
	p, label, err := b.at(ctx, o.at)
	if err != nil {
		return err
	}
	a.version, a.label = p.Version(), label
	return nil
}

// score is how well the samples were answered.
func (a *way) score() report.Score {
	var s report.Score
	for i := range a.answers {
		right, known := a.answers[i].right()
		switch {
		case a.answers[i].execution == nil:
			s.Lost++
			continue
		case !known:
			s.Unjudged++
			continue
		case right:
			s.Right++
		}
		s.N++
		s.Mean += a.answers[i].execution.Outcome.Score
	}
	if s.N > 0 {
		s.Accuracy = float64(s.Right) / float64(s.N)
		s.Mean /= float64(s.N)
	}
	return s
}

// usage is what the answers took. That of failed calls nobody knows.
func (a *way) usage() (u report.Usage) {
	for i := range a.answers {
		if e := a.answers[i].execution; e != nil {
			u.Calls += e.Usage.Calls
			u.InputTokens += e.Usage.InputTokens
			u.OutputTokens += e.Usage.OutputTokens
			u.Dollars += e.Usage.Cost
		}
	}
	return u
}

func (a *way) firstLoss() string {
	for i := range a.answers {
		if a.answers[i].lost != "" {
			return a.answers[i].lost
		}
	}
	return ""
}

// firstRemark is what was said of an answer that nobody could judge.
func (a *way) firstRemark() string {
	for i := range a.answers {
		if e := a.answers[i].execution; e != nil && e.Outcome.Feedback != "" {
			return e.Outcome.Feedback
		}
	}
	return "no sample that was drawn has a target"
}
