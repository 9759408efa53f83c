package generator

import (
	"context"
	"errors"
	"fmt"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/generator/scoring"
)

// attempt is one answer to a task, with its outcome.
type attempt struct {
	answer  Answer
	reply   chat.Reply
	outcome events.Outcome
}

// attempt asks the model for an answer and evaluates it.
func (g *Generator) attempt(ctx context.Context, conn *bus.Conn, t *events.Task, messages []chat.Message) (a attempt, err error) {
	a.answer, a.reply, err = Ask(ctx, g.model, Prompt(messages))
	if err != nil {
		return a, fmt.Errorf("answer task %q: %w", t.ID, err)
	}
	if a.answer.Final == "" {
		a.outcome = noAnswer
		return a, nil
	}
	answer := scoring.Answer{Reasoning: a.answer.Reasoning, Final: a.answer.Final}
	if t.Evaluator == scoring.ByJudge {
		var spent chat.Usage
		a.outcome, spent, err = g.cfg.Scorer.Judge(ctx, t, answer, func() (string, error) {
			return deltalog.New(conn.JetStream()).LeadingScore(ctx, t.Book)
		})
		a.reply.Usage = a.reply.Usage.Add(spent)
		if a.outcome.Label == events.Unknown && err == nil {
			conn.ContextLog(ctx).Warn().Str("task", t.ID).Str("by", a.outcome.By).Msg(a.outcome.Feedback)
		}
	} else {
		a.outcome, err = g.cfg.Scorer.Evaluate(ctx, t, answer, conn.ContextLog(ctx))
	}
	if errors.Is(err, scoring.ErrNotScorable) {
		err = bus.Discard(err)
	}
	if err != nil {
		return a, fmt.Errorf("evaluate task %q: %w", t.ID, err)
	}
	return a, nil
}

// setAnswer sets the answer and the outcome of an execution to those of an attempt.
func (g *Generator) setAnswer(e *events.Execution, a *attempt) {
	e.Reasoning, e.Answer, e.RawReply = a.answer.Reasoning, a.answer.Final, g.cfg.rawReply(a.reply.Text)
	e.Outcome, e.Cited, e.Model = a.outcome, citedBullets(a.answer.BulletIDs, e.Shown), a.reply.Model
}

// tryAgain answers a task again, with the same prompt, until an answer has another outcome than e, or all tries of the task are
// used. It adds the tries and their usage to e. An answer that breaks a rule becomes the answer of e, so that the bullets that it cites are
// suspended. If the model fails, tryAgain keeps the answers so far and returns no error, unless ctx has ended.
func (g *Generator) tryAgain(ctx context.Context, conn *bus.Conn, t *events.Task, messages []chat.Message, e *events.Execution) error {
	if t.Tries <= 1 || t.Purpose == events.Evaluate || len(t.PreviousRounds) > 0 || !e.Outcome.Known() {
		return nil
	}
	e.Tries = 1
	for e.Tries < t.Tries && e.OtherTry == nil && !e.Outcome.Violation {
		again, err := g.attempt(ctx, conn, t, messages)
		e.Usage = e.Usage.Add(again.reply.Usage) // also of a try that fails later
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			conn.ContextLog(ctx).Warn().Err(err).Int("tries", e.Tries).Msg("another try of a task failed")
			return nil
		}
		e.Tries++
		before := events.Try{Reasoning: e.Reasoning, Answer: e.Answer, Outcome: e.Outcome}
		switch {
		case again.outcome.Violation:
			g.setAnswer(e, &again)
			if before.Outcome.Label != e.Outcome.Label {
				e.OtherTry = &before
			}
		case again.outcome.Known() && again.outcome.Label != e.Outcome.Label:
			e.OtherTry = &events.Try{Reasoning: again.answer.Reasoning, Answer: again.answer.Final, Outcome: again.outcome}
		}
	}
	return nil
}
