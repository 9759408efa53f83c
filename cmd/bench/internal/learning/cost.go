package learning

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/sample"
	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/simulated"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/generator/prompt/selection"
	"debrief/generator/scoring"
	"debrief/reflector"

	book "debrief/playbook"
)

// expense is the number of samples, model calls and tokens.
type expense struct {
	Samples int     `json:"samples"`
	Calls   float64 `json:"calls_per_sample"`
	Tokens  float64 `json:"tokens_per_sample"`
}

func (e *expense) add(u chat.Usage) {
	e.Samples++
	e.Calls += float64(u.Calls)
	e.Tokens += float64(u.Tokens())
}

func (e expense) plus(o expense) expense {
	return expense{e.Samples + o.Samples, e.Calls + o.Calls, e.Tokens + o.Tokens}
}

// mean returns the expense per sample.
func (e expense) mean() expense {
	n := float64(max(e.Samples, 1))
	return expense{e.Samples, e.Calls / n, e.Tokens / n}
}

type costRow struct {
	Part      string  `json:"part"`
	Outcome   string  `json:"outcome"`
	Ours      expense `json:"ours"`
	Reference expense `json:"reference"`
	Of        float64 `json:"calls_of_reference"`
	OfTokens  float64 `json:"tokens_of_reference"`
}

// cost measures the cost of a sample. It compares the pipeline with the reference on the same samples, with the same
// model and prompts.
func (b *Bench) cost(ctx context.Context, log zerolog.Logger) (*table.Table, error) {
	samples := min(600, b.Train)
	train, _ := simulated.GenerateTasks(1, samples, 0)
	right, wrong, err := ourCost(ctx, train, log)
	if err != nil {
		return nil, err
	}
	refRight, refWrong, err := referenceCost(ctx, train)
	if err != nil {
		return nil, err
	}
	s := &table.Table{
		Title: fmt.Sprintf("Cost: model calls and tokens a sample, %d samples, rounds 1; the reference generates, reflects (up to 3 rounds when wrong), curates and generates again", samples),
		Head:  "answer\tsamples\tcalls\ttokens\treference: samples\tcalls\ttokens\tcalls, of it\ttokens, of it\t",
	}
	for _, r := range []struct {
		outcome   string
		ours, ref expense
	}{{"right", right, refRight}, {"wrong", wrong, refWrong}, {"all", right.plus(wrong), refRight.plus(refWrong)}} {
		ours, ref := r.ours.mean(), r.ref.mean()
		row := costRow{"cost", r.outcome, ours, ref, ours.Calls / ref.Calls, ours.Tokens / ref.Tokens}
		s.Row(row, "%s\t%d\t%.2f\t%.0f\t%d\t%.2f\t%.0f\t%.0f %%\t%.0f %%\t", r.outcome, ours.Samples, ours.Calls, ours.Tokens,
			ref.Samples, ref.Calls, ref.Tokens, 100*row.Of, 100*row.OfTokens)
		s.Goal(row.Of <= 0.5 && row.OfTokens <= 0.5, r.outcome+" answers: at most half of the reference's calls and tokens a sample",
			"%.0f %% and %.0f %%", 100*row.Of, 100*row.OfTokens)
	}
	return s, nil
}

// ourCost returns the cost of right and of wrong answers in the pipeline. Only wrong answers have lessons, so the cost
// of curating counts for them.
func ourCost(ctx context.Context, train []events.Task, log zerolog.Logger) (right, wrong expense, err error) {
	s, err := schooling{}.open(ctx, log)
	if err != nil {
		return right, wrong, err
	}
	defer func() {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}()
	p, err := s.enrol(ctx, "cost", "", 1, 0, train, nil)
	if err != nil {
		return right, wrong, err
	}
	p.judgedInside = true
	for p.handed < len(train) {
		if err := s.step(ctx, []*pupil{p}, min(100, len(train)-p.handed)); err != nil {
			return right, wrong, err
		}
		for _, e := range p.endings {
			if e.Right {
				right.add(e.Usage)
			} else {
				wrong.add(e.Usage)
			}
		}
	}
	right.Calls += float64(s.reflector.Right.Load())
	right.Tokens += float64(s.reflector.RightTokens.Load())
	wrong.Calls += float64(s.reflector.Calls.Load() - s.reflector.Right.Load() + s.curator.Calls.Load())
	wrong.Tokens += float64(s.reflector.Tokens() - s.reflector.RightTokens.Load() + s.curator.Tokens())
	return right, wrong, nil
}

// referenceRounds is the maximum number of reflections of the reference on a wrong answer.
const referenceRounds = 3

// reference is the loop of ACE's own implementation. It processes one sample after another: generate, reflect, curate,
// and generate again with the new playbook.
type reference struct {
	*sample.Model
	bullets []*book.Bullet
	minted  uint64
}

func referenceCost(ctx context.Context, train []events.Task) (right, wrong expense, err error) {
	r := &reference{Model: &sample.Model{Direct: simulated.NewDirect(simulated.Options{})}}
	for i := range train {
		calls, tokens := r.Calls.Load(), r.Tokens()
		good, err := r.sample(ctx, &train[i])
		if err != nil {
			return right, wrong, err
		}
		spent := chat.Usage{Calls: int(r.Calls.Load() - calls), InputTokens: int(r.Tokens() - tokens)}
		if good {
			right.add(spent)
		} else {
			wrong.add(spent)
		}
	}
	return right, wrong, nil
}

// sample reports whether the first answer was right.
func (r *reference) sample(ctx context.Context, t *events.Task) (good bool, err error) {
	e, err := r.generate(ctx, t, nil)
	if err != nil {
		return false, err
	}
	good = e.Outcome.Label == events.Success
	var last *events.Reflection
	for range referenceRounds {
		if last, err = r.reflect(ctx, e); err != nil {
			return good, err
		}
		if good {
			break
		}
		if e, err = r.generate(ctx, t, last); err != nil {
			return good, err
		}
		if e.Outcome.Label == events.Success {
			break
		}
	}
	if err := r.curate(ctx, last); err != nil {
		return good, err
	}
	_, err = r.generate(ctx, t, nil)
	return good, err
}

func (r *reference) generate(ctx context.Context, t *events.Task, after *events.Reflection) (*events.Execution, error) {
	in := assembly.Input{Now: time.Now().UTC(), System: generator.Instructions, Query: t.Question, Index: selection.NewIndex(false)}
	in.Index.Update(book.Restore(1, r.minted, slices.Values(r.bullets)))
	if after != nil {
		if note := events.NewNote(after.Handle, after); note != nil {
			in.Notes = []*events.Note{note}
		}
	}
	c, err := assembly.Assemble(in, assembly.Limits{})
	if err != nil {
		return nil, err
	}
	a, _, err := generator.Ask(ctx, r, generator.Prompt(c.Messages))
	if err != nil {
		return nil, err
	}
	o, err := scoring.Evaluate(t, scoring.Answer{Reasoning: a.Reasoning, Final: a.Final})
	if err != nil {
		return nil, err
	}
	e := &events.Execution{
		ID: events.ExecutionID("reference", "", t.ID, 0), RunID: t.ID, Question: t.Question, Target: t.Target,
		Reasoning: a.Reasoning, Answer: a.Final, Outcome: o, Cited: a.BulletIDs,
	}
	for _, b := range c.Bullets {
		e.Shown = append(e.Shown, events.ShownBullet{ID: b.ID, Content: b.Content})
	}
	return e, nil
}

func (r *reference) reflect(ctx context.Context, e *events.Execution) (*events.Reflection, error) {
	out, _, err := reflector.Ask(ctx, r, e, reflector.Config{Rounds: 1})
	if err != nil {
		return nil, err
	}
	ref := &events.Reflection{
		ID: events.ReflectionID(e.ID, "", "reference"), Execution: e.ID, Handle: events.NewHandle(1, e.ID), Question: e.Question,
		Outcome: e.Outcome, Reasoning: out.Reasoning, ErrorIdentification: out.ErrorIdentification,
		CorrectApproach: out.CorrectApproach, KeyInsight: out.KeyInsight, Tags: out.Tags,
	}
	if out.KeyInsight != "" {
		ref.Lessons = []events.Lesson{{Section: out.Section, Content: out.KeyInsight}}
	}
	return ref, nil
}

func (r *reference) curate(ctx context.Context, ref *events.Reflection) error {
	out, _, err := propose.Ask(ctx, r, propose.Request{Bullets: r.bullets, Total: len(r.bullets), Reflections: []*events.Reflection{ref}})
	if err != nil {
		return err
	}
	for _, p := range out.Proposals {
		switch p.Op.Kind {
		case book.Add:
			r.minted++
			r.bullets = append(r.bullets, &book.Bullet{ID: book.MintID(p.Op.Section, r.minted), Section: p.Op.Section, Content: p.Op.Content})
		case book.Update:
			for i, b := range r.bullets {
				if b.ID == p.Op.Bullet {
					changed := *b
					changed.Content = p.Op.Content
					r.bullets[i] = &changed
				}
			}
		}
	}
	return nil
}
