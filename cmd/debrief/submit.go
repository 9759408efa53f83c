package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/generator/scoring"
)

// submit hands in one task.
type submit struct {
	place
	Question  string        `arg:"" help:"The question; '-' reads it from standard input."`
	Context   string        `help:"What the question is about."`
	Book      string        `help:"Playbook to answer with." default:"default"`
	ID        string        `help:"Id of the task: the same id is the same sample. Default: a new one."`
	Session   string        `help:"Session that the task belongs to."`
	Target    string        `help:"What a right answer is; it never enters the prompt."`
	Evaluator string        `help:"How to compare with the target: ${evaluators}." placeholder:"NAME"`
	Evaluate  bool          `help:"Do not learn from it."`
	Wait      bool          `help:"Wait for the answer and print it."`
	Patience  time.Duration `help:"How long --wait waits." default:"2m"`
	JSON      bool          `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*submit) Help() string {
	return `Examples:

  debrief submit --wait "How many days has February in 2028?" --target 29 --evaluator numeric
  cat ticket.txt | debrief submit --wait --book support -`
}

// Run implements the command.
func (s *submit) Run(ctx context.Context, c *app.Common) error {
	if s.Question == "-" {
		text, err := readFile(s.Question)
		if err != nil {
			return fmt.Errorf("read the question: %w", err)
		}
		s.Question = string(text)
	}
	b, err := bookName(s.Book)
	if err != nil {
		return err
	}
	if err := scoring.Check(s.Evaluator); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	task := &events.Task{
		ID: s.ID, Session: s.Session, Question: strings.TrimSpace(s.Question), Context: s.Context, Target: s.Target,
		Evaluator: s.Evaluator, Created: time.Now().UTC(),
	}
	task.Book = b
	if task.ID == "" {
		task.ID = string(events.NewID())
	}
	if s.Evaluate {
		task.Purpose = events.Evaluate
	}
	if err := task.Validate(); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("task: %w", err))
	}
	conn, err := s.running(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	if !s.Wait {
		r, err := conn.Publish(ctx, task, bus.Marks{})
		if err != nil {
			return err
		}
		return s.print(map[string]any{"task": task.ID, "handle": r.Handle, "stored": true, "trace": r.Trace}, "task %s is stored as %s", task.ID, r.Handle)
	}
	return s.await(ctx, conn, task)
}

func (s *submit) await(ctx context.Context, conn *session, task *events.Task) error {
	wait, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	reply, err := conn.Request(wait, task, bus.Marks{})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return app.Exit(app.ExitUnreachable, fmt.Errorf("no answer in %s: the task is stored and will be answered when a generator runs and its model answers; see 'debrief status', and the generator's log", s.Patience))
	}
	if errors.Is(err, bus.ErrDuplicate) {
		return app.Exit(app.ExitRefused, fmt.Errorf("task %q %w", task.ID, bus.ErrDuplicate))
	}
	if err != nil {
		return err
	}
	if reply.Refused != "" {
		return fmt.Errorf("task %s was given up: %s", task.ID, reply.Refused)
	}
	e := new(events.Execution)
	if err := events.Unmarshal(reply.Data, e); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	e.Book = task.Book
	if s.JSON {
		return writeJSON(console.Stdout, struct {
			Handle events.Handle `json:"handle"`
			Trace  string        `json:"trace"`
			*events.Execution
		}{reply.Handle, reply.Trace, e})
	}
	console.Println(console.Block(e.Answer))
	console.Fprintf(console.Stderr, "execution %s, playbook version %d, %d bullets shown, %d cited, outcome %s\n",
		reply.Handle, e.Version, len(e.Shown), len(e.Cited), e.Outcome.Label)
	if e.Outcome.Feedback != "" {
		console.Fprintln(console.Stderr, e.Outcome.Feedback)
	}
	return nil
}

func (s *submit) print(v any, format string, args ...any) error {
	if s.JSON {
		return writeJSON(console.Stdout, v)
	}
	console.Printf(format+"\n", args...)
	return nil
}
