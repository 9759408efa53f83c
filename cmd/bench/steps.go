package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/train"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"

	book "debrief/playbook"
)

// parallelAnswers is the number of tasks that an agent answers at the same time.
const parallelAnswers = 8

// stepTasks is the number of tasks that an agent answers with one version of the playbook.
const stepTasks = 20

// pendingOutcome is an outcome that is reported as soon as a number of training tasks are done.
type pendingOutcome struct {
	due      int // training tasks
	feedback *events.FeedbackRequest
}

// maxWarned is the maximum share of reports with a warning, for example because a server on a busy machine did not store a context in
// time. With more, the measurement fails.
const maxWarned = 0.02

// phase returns the phase of the last of n training tasks, or of the first task.
func (r *runner) phase(n int) int {
	n = max(n, 1)
	return r.world.Train(n)[n-1].Phase
}

// learn answers training tasks until n are done. The roles learn from each step before the next one.
func (r *runner) learn(ctx context.Context, n int) error {
	tasks := r.world.Train(n)
	for r.done < n {
		step := tasks[r.done:min(r.done+stepTasks, n)]
		r.done += len(step)
		if err := r.step(ctx, step); err != nil {
			return err
		}
		if err := train.WaitIdle(ctx, r.session.Conn, nil, events.RoleReflector, events.RoleCurator); err != nil {
			return err
		}
		if _, err := r.readPlaybook(ctx); err != nil {
			return err
		}
	}
	return nil
}

// answered is a task that the agent has answered.
type answered struct {
	report  *events.Report
	outcome events.Outcome // wrong for some tasks
	system  string         // system part of the prompt
}

// step answers tasks, which r.done counts already, with the current version of the playbook, and reports the executions in order. An agent of
// the HTTP API reports the outcomes of a step only in the next step.
func (r *runner) step(ctx context.Context, tasks []worlds.Task) error {
	due := r.dueOutcomes()
	out := make([]answered, len(tasks))
	err := train.Each(len(tasks), parallelAnswers, func(i int) (err error) {
		out[i], err = r.answer(ctx, &tasks[i])
		return err
	})
	if err != nil {
		return err
	}
	isLate := r.api != nil || r.arm.late > 0
	for i := range out {
		if i > 0 {
			r.prefix = append(r.prefix, sharedPrefix(out[i-1].system, out[i].system))
		}
		report := out[i].report
		if !isLate {
			report.Outcome = out[i].outcome
		}
		stored, err := r.agent.Report(ctx, report)
		if err == nil && len(stored.Warnings) > 0 {
			r.warned++
			if float64(r.warned) > maxWarned*float64(r.done) {
				err = errors.New(stored.Warnings[0])
			}
		}
		if err != nil {
			return fmt.Errorf("report task %s: %w", report.RunID, err)
		}
		if isLate && out[i].outcome.Known() {
			r.pending = append(r.pending, pendingOutcome{
				due:      r.done + r.delay(report.RunID),
				feedback: &events.FeedbackRequest{Book: benchBook, Execution: stored.Handle, Outcome: out[i].outcome},
			})
		}
	}
	for _, o := range due {
		if _, err := r.agent.Feedback(ctx, o.feedback); err != nil {
			return fmt.Errorf("report late feedback: %w", err)
		}
	}
	return nil
}

// delay returns the number of tasks after which the outcome of a run is reported. Unless the arm has late outcomes, it is 1: the next step
// reports it.
func (r *runner) delay(run string) int {
	if r.arm.late == 0 {
		return 1
	}
	return r.arm.late/2 + int(worlds.Draw(r.seed, "delay", run)%uint64(r.arm.late))
}

// dueOutcomes removes and returns the outcomes that are due.
func (r *runner) dueOutcomes() (due []pendingOutcome) {
	r.pending = slices.DeleteFunc(r.pending, func(o pendingOutcome) bool {
		if o.due > r.done {
			return false
		}
		due = append(due, o)
		return true
	})
	slices.SortStableFunc(due, func(a, b pendingOutcome) int { return a.due - b.due })
	return due
}

// maxRequests is the number of requests for a stored context. On a busy machine the server may not store a context in time.
const maxRequests = 5

// storedContext requests a context for a task, again if it was not stored: its report would not tell which bullets were shown.
func (r *runner) storedContext(ctx context.Context, t *worlds.Task) (served *events.ContextReply, err error) {
	for range maxRequests {
		served, err = r.agent.Context(ctx, r.request(t))
		if err != nil {
			return nil, fmt.Errorf("request context of task %s: %w", t.ID, err)
		}
		if served.ID != "" {
			break
		}
	}
	return served, nil
}

// answer requests a context for a task and lets the agent of the world answer it.
func (r *runner) answer(ctx context.Context, t *worlds.Task) (answered, error) {
	served, err := r.storedContext(ctx, t)
	if err != nil {
		return answered{}, err
	}
	system := systemOf(served.Messages)
	a := r.world.Attempt(*t, system)
	v := r.world.Verdict(*t, a)
	if worlds.Chance(r.wrong, r.seed, "wrong verdict", t.ID) {
		v = r.world.Wrong(*t, a, v)
	}
	if r.arm.isBinary && !v.Right() {
		v.Score = 0
	}
	outcome := outcomeOf(v)
	if worlds.Chance(r.arm.silent, r.seed, "silent", t.ID) {
		outcome = events.Outcome{}
	}
	if r.arm.judge {
		outcome.By = simulatedJudge
	}
	report := &events.Report{
		Book: benchBook, ContextID: served.ID, RunID: t.ID, Question: t.Question, Context: t.Context, Reasoning: a.Reasoning, Answer: a.Answer, Model: r.world.Name(),
		Purpose: events.Learn, Cited: bulletIDs(a.Cited), Steps: stepsOf(a),
	}
	return answered{report: report, outcome: outcome, system: system}, nil
}

func bulletIDs(cited []string) []book.BulletID {
	var ids []book.BulletID
	for _, id := range cited {
		ids = append(ids, book.BulletID(id))
	}
	return ids
}

// stepsOf returns the tool calls of an attempt.
func stepsOf(a worlds.Attempt) (steps []events.Step) {
	for _, s := range a.Steps {
		call := events.ToolCall{Tool: s.Tool, Arguments: s.Arguments, Output: s.Output, Outcome: events.Success}
		if s.Failed {
			call.Outcome = events.Errored
		}
		steps = append(steps, events.Step{Speaker: chat.Assistant, Calls: []events.ToolCall{call}})
	}
	return steps
}

// outcomeOf returns a verdict as an outcome.
func outcomeOf(v worlds.Verdict) events.Outcome {
	o := events.Outcome{Score: v.Score, Label: events.Partial, Feedback: v.Feedback, By: "bench"}
	switch v.Score {
	case 0:
		o.Label = events.Failure
	case 1:
		o.Label = events.Success
	}
	return o
}

// request returns the request for the context of a task.
func (r *runner) request(t *worlds.Task) *events.ContextRequest {
	return &events.ContextRequest{Book: benchBook, Query: t.Question, Context: t.Context, System: generator.Instructions, MinVersion: r.version}
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

// readPlaybook returns the playbook from its log, and records its version.
func (r *runner) readPlaybook(ctx context.Context) (*book.Playbook, error) {
	w, err := r.store.Writer(ctx, benchBook)
	if err != nil {
		return nil, err
	}
	p := w.State().Playbook()
	r.version = p.Version()
	return p, nil
}
