package books

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/generator"
	"debrief/playbook"
)

// Context groups the commands to inspect and change the context of a model.
type Context struct {
	Show    showContext      `cmd:"" default:"withargs" help:"Show the context for a query, or of a past execution." example:"--query 'and by courier?' --session desk-7 --explain"`
	Pin     pinInteraction   `cmd:"" help:"Pin an interaction: its session's window keeps it. 'debrief context session' lists the handles." example:"1003-824a105a"`
	Star    starInteraction  `cmd:"" help:"Star an interaction: its session's window keeps it and ranks it higher." example:"1003-824a105a"`
	Unpin   unpinInteraction `cmd:"" help:"Remove the pin or star from an interaction." example:"1003-824a105a"`
	Session showSession      `cmd:"" help:"List the interactions in a session's window." example:"--session desk-7 --book support"`
}

func (*Context) Help() string {
	return `Examples:

  debrief context --query "What is due for Orchard Stationers?"
  debrief context --query "and by courier?" --session desk-7 --explain
  debrief context --execution 1003-824a105a    a past run, verified by SHA-256
  debrief context session --session desk-7
  debrief context pin 1003-824a105a

A running 'debrief up' or generator builds the context, with its own settings, as it does for agents. If none runs, or
if a flag changes a setting, this command builds it.`
}

// showContext prints one context.
type showContext struct {
	apiclient.BookFlags
	Query      string            `help:"Query for the model; '-' reads it from standard input." placeholder:"TEXT"`
	Session    string            `help:"Session of the query." placeholder:"NAME"`
	Execution  string            `help:"Show the context of this past execution instead." placeholder:"HANDLE"`
	Context    string            `help:"Context of the query, such as a document." placeholder:"TEXT"`
	Steps      string            `help:"File with the steps of an unfinished turn: JSON list of {speaker, text, tool_calls}." type:"existingfile" placeholder:"FILE"`
	At         string            `help:"Version of the playbook: number, label, time or tag. Default: the newest." placeholder:"POINT"`
	MinVersion uint64            `help:"Minimum version of the playbook." placeholder:"VERSION"`
	TaskKind   string            `help:"Kind of task: general, research, coding, debugging, analysis." placeholder:"KIND"`
	Explain    bool              `help:"Show the components of the scores of bullets and of the window."`
	Manifest   bool              `help:"Show only the manifest, without the messages."`
	JSON       bool              `help:"Print one JSON document."`
	Config     program.Generator `embed:""`
}

func (s *showContext) Run(ctx context.Context, c *program.Common) error {
	switch {
	case s.Execution != "" && s.Query != "":
		return program.Exit(program.ExitUsage, errors.New("--execution: is set, and so is --query: choose one"))
	case s.Execution == "" && s.Query == "":
		return program.Exit(program.ExitUsage, errors.New("--query: required, unless --execution names a past run"))
	}
	cfg, err := s.Config.Settings()
	if err != nil {
		return err
	}
	a, err := s.OpenWithContexts(ctx, c, cfg)
	if err != nil {
		return err
	}
	defer a.Close()
	if s.Execution != "" {
		return s.showPast(ctx, a)
	}
	r, err := s.request(ctx, a)
	if err != nil {
		return err
	}
	reply, err := api.Post[events.ContextReply](ctx, a.Client, "/contexts", nil, r)
	if err != nil {
		return err
	}
	if s.JSON {
		return cli.WriteJSON(term.Stdout, reply)
	}
	out := term.Stdout
	version := fmt.Sprintf("playbook %q at version %d", reply.Book, reply.Version)
	if reply.Stale {
		version += " (stale)"
	}
	term.Fprintf(out, "Context for turn %d with %s.\n", reply.Turn, version)
	writeManifest(out, &reply.Manifest)
	writeScores(out, reply.Scores)
	writeWindowScores(out, reply.WindowScores)
	if !s.Manifest {
		writeMessages(out, reply.Messages)
	}
	return nil
}

// request returns the request that the flags describe. It reads the files that they name, and the version of --at.
func (s *showContext) request(ctx context.Context, a *apiclient.Client) (*events.ContextRequest, error) {
	r := &events.ContextRequest{
		Book: playbook.Book(s.Book), Session: s.Session, Query: s.Query, Context: s.Context, MinVersion: s.MinVersion, Task: s.TaskKind,
		Explain: s.Explain, DryRun: true,
	}
	if s.Query == "-" {
		text, err := cli.ReadFile(s.Query)
		if err != nil {
			return nil, fmt.Errorf("read the query: %w", err)
		}
		r.Query = strings.TrimSpace(string(text))
	}
	if s.At != "" {
		b, err := api.Get[api.BookState](ctx, a.Client, s.Path(), map[string]string{"at": s.At})
		if err != nil {
			return nil, err
		}
		r.Playbook = &b.Version
	}
	if s.Steps != "" {
		data, err := cli.ReadFile(s.Steps)
		if err == nil {
			err = json.Unmarshal(data, &r.Steps)
		}
		if err != nil {
			return nil, program.Exit(program.ExitUsage, fmt.Errorf("--steps: %w", err))
		}
	}
	return r, nil
}

// pastContext is the context of a past execution, with the answers that the Reflector compared with the execution.
type pastContext struct {
	*generator.RebuiltContext
	OtherTry  *events.Try       `json:"other_try,omitempty"`
	OtherRuns []events.OtherRun `json:"other_runs,omitempty"`
}

// showPast prints the context of a past execution.
func (s *showContext) showPast(ctx context.Context, a *apiclient.Client) error {
	path, err := a.ExecutionPath(ctx, s.Execution, s.Book)
	if err != nil {
		return err
	}
	r, err := api.Get[generator.RebuiltContext](ctx, a.Client, path+"/context", nil)
	if err != nil {
		return err
	}
	x, err := api.Get[explain.Execution](ctx, a.Client, path, nil)
	if err != nil {
		return err
	}
	if s.JSON {
		past := pastContext{RebuiltContext: r, OtherRuns: x.OtherRuns()}
		if x.Execution != nil {
			past.OtherTry = x.Execution.OtherTry
		}
		if err := cli.WriteJSON(term.Stdout, past); err != nil {
			return err
		}
	} else {
		out := term.Stdout
		term.Fprintf(out, "Context of execution %s, built %s.\n", s.Execution, r.Manifest.At.Local().Format(time.DateTime))
		writeManifest(out, &r.Manifest)
		writeCalls(out, r.Calls)
		if !s.Manifest {
			writeMessages(out, r.Messages)
			if r.RawReply != "" {
				term.Fprintf(out, "\n──── raw reply of the model ────\n%s\n", term.Block(strings.TrimRight(r.RawReply, "\n")))
			}
		}
		writeReflectorSaw(out, x)
		writeVerification(out, r)
	}
	if !r.Verified {
		return program.Exit(program.ExitPartial, fmt.Errorf("execution %s: the context could not be rebuilt exactly", s.Execution))
	}
	return nil
}

// showSession lists the window of a session.
type showSession struct {
	apiclient.BookFlags
	Session string `help:"Name of the session." required:""`
	Owner   string `help:"Owner of the session, as executions name it. Default: yours." placeholder:"ID"`
	JSON    bool   `help:"Print one JSON document."`
}

func (s *showSession) Run(ctx context.Context, c *program.Common) error {
	return apiclient.Show(ctx, c, s.Flags, s.JSON, s.Path("sessions", s.Session), map[string]string{"owner": s.Owner}, func(window *api.SessionWindow) error {
		return writeWindow(term.Stdout, window)
	})
}

// writeWindow prints the interactions in a window, and the marked ones that are older.
func writeWindow(out io.Writer, window *api.SessionWindow) error {
	marks := map[events.Handle]events.Mark{} // that are not printed yet
	for _, m := range window.Marks {
		marks[m.Interaction.Execution] = m.Mark
	}
	w := term.NewTable(out)
	if len(window.Interactions) > 0 {
		term.Fprintf(w, "turn\texecution\ttime\tmark\tquestion\n")
	}
	for _, i := range window.Interactions {
		term.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", i.Turn, i.Execution, i.At.Local().Format(time.DateTime), marks[i.Execution], term.OneLine(i.Question, 80))
		delete(marks, i.Execution)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, m := range window.Marks {
		if marks[m.Interaction.Execution] != "" {
			term.Fprintf(out, "%s, older than the window: %s %s\n", m.Mark, m.Interaction.Execution, term.OneLine(m.Interaction.Question, 80))
		}
	}
	if window.Damaged > 0 {
		term.Fprintf(out, "%d entries are damaged.\n", window.Damaged)
	}
	return nil
}

// interactionFlags select an interaction.
type interactionFlags struct {
	apiclient.Flags
	Execution string `arg:"" help:"Handle of the execution." placeholder:"HANDLE"`
	JSON      bool   `help:"Print one JSON document."`
}

type (
	pinInteraction   struct{ interactionFlags }
	starInteraction  struct{ interactionFlags }
	unpinInteraction struct{ interactionFlags }
)

func (p *pinInteraction) Run(ctx context.Context, c *program.Common) error {
	return p.mark(ctx, c, events.Pin)
}

func (p *starInteraction) Run(ctx context.Context, c *program.Common) error {
	return p.mark(ctx, c, events.Star)
}

func (p *unpinInteraction) Run(ctx context.Context, c *program.Common) error {
	return p.mark(ctx, c, "")
}

// mark sets the mark of the interaction. An empty m removes the mark.
func (t *interactionFlags) mark(ctx context.Context, c *program.Common, m events.Mark) error {
	a, err := t.Open(ctx, c, apiclient.Change, "")
	if err != nil {
		return err
	}
	defer a.Close()
	path, err := a.ExecutionPath(ctx, t.Execution, string(events.DefaultBook))
	if err != nil {
		return err
	}
	r, err := api.Post[api.MarkReply](ctx, a.Client, path+"/mark", nil, &api.MarkRequest{Mark: m})
	switch {
	case err != nil:
		return err
	case t.JSON:
		return cli.WriteJSON(term.Stdout, r)
	case m == "":
		_, err = term.Printf("Removed the mark of %s in session %q.\n", r.Execution, r.Session)
	default:
		_, err = term.Printf("%s stays in the window of session %q.\n", r.Execution, r.Session)
	}
	return err
}
