package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/request"
	"debrief/events"
	"debrief/events/bus"
	"debrief/generator/scoring"
)

// Submit publishes one task.
type Submit struct {
	cli.ServerFlags
	Question    string        `arg:"" help:"Question; '-' reads it from standard input."`
	Context     string        `help:"Context of the question, such as a document." placeholder:"TEXT"`
	Book        string        `help:"Playbook to answer with." default:"default"`
	ID          string        `help:"Id of the run; a task with the same id counts once. Default: a new id."`
	Task        string        `help:"Label of the task, the same for all attempts at it." placeholder:"LABEL" rare:""`
	User        string        `name:"end-user" help:"Person that the task is for." placeholder:"NAME" rare:""`
	Session     string        `help:"Session of the task. Default: none."`
	Target      string        `help:"Expected answer. It is never in the prompt."`
	Evaluator   string        `help:"Evaluator of the answer: ${evaluators}." placeholder:"NAME"`
	Evaluate    bool          `help:"Do not learn from this task."`
	Wait        bool          `help:"Wait for the answer and print it."`
	WaitTimeout time.Duration `help:"Longest wait for the result." default:"2m"`
	JSON        bool          `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*Submit) Help() string {
	return `Publish one task. With --wait, print the answer on standard output and its handle on standard error.

Examples:

  debrief submit --wait "How many days has February?" --target 28
  cat ticket.txt | debrief submit --wait --book support -
  debrief submit --session s-1 "Which shelf is highest?"`
}

// Run implements the command.
func (s *Submit) Run(ctx context.Context, c *app.Common) error {
	if s.Question == "-" {
		text, err := cli.ReadFile(s.Question)
		if err != nil {
			return fmt.Errorf("read the question: %w", err)
		}
		s.Question = string(text)
	}
	b, err := cli.ParseBook(s.Book)
	if err != nil {
		return err
	}
	if err := scoring.Check(s.Evaluator); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	task := &events.Task{
		ID: s.ID, User: s.User, Session: s.Session, Question: strings.TrimSpace(s.Question), Context: s.Context, Target: s.Target,
		Evaluator: s.Evaluator, Created: time.Now().UTC(),
		Origin: events.Origin{Task: s.Task},
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
	conn, err := s.ConnectRunning(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	if !s.Wait {
		r, err := conn.Publish(ctx, task, bus.PublishOptions{})
		if err != nil {
			return err
		}
		return s.print(map[string]any{"run_id": task.ID, "handle": r.Handle, "stored": true, "trace": r.Trace}, "task %s is stored as %s", task.ID, r.Handle)
	}
	return s.await(ctx, conn, task)
}

// waitNotice is the time after which a command without a terminal prints that it waits.
const waitNotice = 5 * time.Second

// await submits the task, waits for its execution and prints it.
func (s *Submit) await(ctx context.Context, conn *cli.Session, task *events.Task) error {
	defer console.Doing("waiting for the answer to task " + task.ID)()
	if !console.Stderr.IsTerminal() { // which has no line of activity
		notice := time.AfterFunc(waitNotice, func() {
			console.Fprintf(console.Stderr, "waiting for the answer to task %s, for up to %s\n", task.ID, s.WaitTimeout)
		})
		defer notice.Stop()
	}
	wait, cancel := context.WithTimeout(ctx, s.WaitTimeout)
	defer cancel()
	wait, unchecked := request.WithModelCheck(wait, conn.Conn, events.RoleGenerator)
	defer unchecked()
	e, reply, err := request.Task(wait, conn.Conn, task, bus.PublishOptions{})
	if model := (*request.ModelError)(nil); err != nil && errors.As(context.Cause(wait), &model) {
		return app.Exit(app.ExitUnreachable, fmt.Errorf("no answer: %w; the task is stored as %q and is answered after that is fixed", model, task.ID))
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return app.Exit(app.ExitUnreachable, fmt.Errorf("no answer in %s: the task is stored and will be answered when a generator runs and its model answers; see 'debrief status' and the generator's log", s.WaitTimeout))
	}
	if errors.Is(err, bus.ErrDuplicate) {
		return app.Exit(app.ExitRefused, fmt.Errorf("task %q: %w", task.ID, bus.ErrDuplicate))
	}
	if dead := (*request.DeadLetterError)(nil); errors.As(err, &dead) {
		return fmt.Errorf("task %s failed and is a dead letter: %s", task.ID, dead.Reason)
	}
	if err != nil {
		return err
	}
	if s.JSON {
		return cli.WriteJSON(console.Stdout, struct {
			Handle events.Handle `json:"handle"`
			Trace  string        `json:"trace"`
			*events.Execution
		}{reply.Handle, reply.Trace, e})
	}
	console.Fprintln(console.Stdout, console.Block(e.Answer))
	console.Fprose(console.Stderr, "execution %s, playbook version %d, %s shown, %d cited, outcome %s\n",
		reply.Handle, e.Version, console.Plural(len(e.Shown), "bullet"), len(e.Cited), e.Outcome.Label)
	if e.Outcome.Feedback != "" {
		console.Fprose(console.Stderr, "%s\n", e.Outcome.Feedback)
	}
	return nil
}

// print prints v with --json, else the formatted text.
func (s *Submit) print(v any, format string, args ...any) error {
	if s.JSON {
		return cli.WriteJSON(console.Stdout, v)
	}
	console.Printf(format+"\n", args...)
	return nil
}
