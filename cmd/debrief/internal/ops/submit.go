package ops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/generator/scoring"
)

// Submit publishes one task.
type Submit struct {
	apiclient.BookFlags
	Question    string        `arg:"" help:"Question; '-' reads it from standard input."`
	Context     string        `help:"Context of the question, such as a document." placeholder:"TEXT"`
	ID          string        `help:"Id of the run; a task with the same id counts once. Default: a new id."`
	Task        string        `help:"Label of the task, the same for all attempts at it." placeholder:"LABEL" rare:""`
	User        string        `name:"end-user" help:"Person that the task is for." placeholder:"NAME" rare:""`
	Session     string        `help:"Session of the task. Default: none."`
	Target      string        `help:"Expected answer. It is never in the prompt."`
	Evaluator   string        `help:"Evaluator of the answer: ${evaluators}." placeholder:"NAME"`
	Evaluate    bool          `help:"Do not learn from this task."`
	Wait        bool          `help:"Wait for the answer and print it."`
	WaitTimeout time.Duration `help:"Longest wait for the result, up to 10m." default:"10m"`
	JSON        bool          `help:"Print one JSON document."`
}

func (*Submit) Help() string {
	return `Publish one task. With --wait, print the answer on standard output and its handle on standard error.

Examples:

  debrief submit --wait "How many days has February?" --target 28
  cat ticket.txt | debrief submit --wait --book support -
  debrief submit --session s-1 "Which shelf is highest?"`
}

func (s *Submit) Run(ctx context.Context, c *program.Common) error {
	if s.Question == "-" {
		text, err := cli.ReadFile(s.Question)
		if err != nil {
			return fmt.Errorf("read the question: %w", err)
		}
		s.Question = string(text)
	}
	if err := scoring.Check(s.Evaluator); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	a, err := s.Open(ctx, c, apiclient.Running, "")
	if err != nil {
		return err
	}
	defer a.Close()
	task := &api.TaskRequest{
		RunID: s.ID, Task: s.Task, User: s.User, Session: s.Session, Question: strings.TrimSpace(s.Question), Context: s.Context,
		Target: s.Target, Evaluator: s.Evaluator,
	}
	if s.Evaluate {
		task.Purpose = events.Evaluate
	}
	wait := "" // do not wait
	if s.Wait {
		wait = s.WaitTimeout.String()
		name := strings.TrimSpace("task " + s.ID) // without an id until the server has chosen one
		defer term.Doing(fmt.Sprintf("waiting for the answer to %s, for up to %s", name, s.WaitTimeout))()
	}
	reply, err := api.Post[api.TaskReply](ctx, a.Client, s.Path("tasks"), map[string]string{"wait": wait}, task)
	switch {
	case err != nil:
		return err
	case reply.Duplicate:
		return program.Exit(program.ExitRefused, fmt.Errorf("task %q: duplicate: it was submitted before", reply.RunID))
	}
	return s.print(reply)
}

// print prints the answer. Without --wait the reply has no execution, and print says that the task is stored.
func (s *Submit) print(reply *api.TaskReply) error {
	e := reply.Execution
	switch {
	case e == nil && s.JSON:
		return cli.WriteJSON(term.Stdout, struct {
			*api.TaskReply
			Stored bool `json:"stored"`
		}{reply, true})
	case e == nil:
		_, err := term.Printf("task %s is stored\n", reply.RunID)
		return err
	case s.JSON:
		return cli.WriteJSON(term.Stdout, struct {
			Handle events.Handle `json:"handle"`
			Trace  string        `json:"trace"`
			*events.Execution
		}{reply.Handle, reply.Trace, e})
	}
	term.Fprintln(term.Stdout, term.Block(e.Answer))
	term.Fprintf(term.Stderr, "execution %s, playbook version %d, %s shown, %d cited, outcome %s\n",
		reply.Handle, e.Version, term.Plural(len(e.Shown), "bullet"), len(e.Cited), e.Outcome.Label)
	if remark := e.Outcome.Remark(); remark != "" {
		term.Fprintf(term.Stderr, "%s\n", remark)
	}
	return nil
}
