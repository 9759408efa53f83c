package books

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/request"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	windows "debrief/events/window"
	"debrief/generator"
	trail "debrief/generator/prompt/records"
	book "debrief/playbook"
)

// Context groups the commands to inspect and change the context of a model.
type Context struct {
	Show    showContext `cmd:"" default:"withargs" help:"Show the context for a query, or of a past execution."`
	Pin     pinTurn     `cmd:"" help:"Pin an interaction: its session's window keeps it."`
	Star    starTurn    `cmd:"" help:"Star an interaction: its session's window keeps it and ranks it higher."`
	Unpin   unpinTurn   `cmd:"" help:"Remove the pin or star from an interaction."`
	Session showSession `cmd:"" help:"List the interactions in a session's window."`
}

// Help implements kong.HelpProvider.
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
	cli.ServerFlags
	Query      string        `help:"Query for the model; '-' reads it from standard input." placeholder:"TEXT"`
	Session    string        `help:"Session of the query." placeholder:"NAME"`
	Execution  string        `help:"Show the context of this past execution instead." placeholder:"HANDLE"`
	Book       string        `help:"Name of the playbook." default:"default"`
	Context    string        `help:"Context of the query, such as a document." placeholder:"TEXT"`
	Steps      string        `help:"File with the steps of an unfinished turn: JSON list of {speaker, text, tool_calls}." type:"existingfile" placeholder:"FILE"`
	At         string        `help:"Version of the playbook: number, label, time or tag. Default: the newest." placeholder:"POINT"`
	MinVersion uint64        `help:"Minimum version of the playbook." placeholder:"VERSION"`
	TaskKind   string        `help:"Kind of task: general, research, coding, debugging, analysis." placeholder:"KIND"`
	Explain    bool          `help:"Show the components of the scores of bullets and of the window."`
	Manifest   bool          `help:"Show only the manifest, without the messages."`
	JSON       bool          `help:"Print one JSON document."`
	Config     app.Generator `embed:""`
}

// Help implements kong.HelpProvider.
func (*showContext) Help() string {
	return `Examples:

  debrief context show --query "What is due for Orchard?" --manifest
  debrief context show --query "and by courier?" --session desk-7 --explain
  debrief context show --execution 1003-824a105a`
}

// Run implements the command.
func (s *showContext) Run(ctx context.Context, c *app.Common) error {
	switch {
	case s.Execution != "" && s.Query != "":
		return app.Exit(app.ExitUsage, errors.New("--execution: is set, and so is --query: choose one"))
	case s.Execution == "" && s.Query == "":
		return app.Exit(app.ExitUsage, errors.New("--query: required, unless --execution names a past run"))
	}
	conn, err := s.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.Execution != "" {
		return s.showPast(ctx, conn)
	}
	r, err := s.request(ctx, conn)
	if err != nil {
		return err
	}
	cfg, err := s.Config.Settings()
	if err != nil {
		return err
	}
	reply, local, err := request.Context(ctx, conn.Conn, cfg, r)
	if err != nil {
		return cli.RequestError(err)
	}
	if s.JSON {
		return cli.WriteJSON(console.Stdout, reply)
	}
	out := console.Stdout
	by := "by the generator's service"
	if local {
		by = "by this command"
	}
	version := fmt.Sprintf("playbook %q at version %d", reply.Book, reply.Version)
	if reply.Stale {
		version += " (stale)"
	}
	console.Fprintf(out, "Context for turn %d with %s, built %s.\n", reply.Turn, version, by)
	writeManifest(out, &reply.Manifest)
	writeScores(out, reply.Scores)
	writeWindowScores(out, reply.WindowScores)
	if !s.Manifest {
		writeMessages(out, reply.Messages)
	}
	return nil
}

func (s *showContext) request(ctx context.Context, conn *cli.Session) (*events.ContextRequest, error) {
	r := &events.ContextRequest{
		Session: s.Session, Query: s.Query, Context: s.Context, MinVersion: s.MinVersion, Task: s.TaskKind,
		Explain: s.Explain, DryRun: true,
	}
	if s.Query == "-" {
		text, err := cli.ReadFile(s.Query)
		if err != nil {
			return nil, fmt.Errorf("read the query: %w", err)
		}
		r.Query = strings.TrimSpace(string(text))
	}
	var err error
	if r.Book, err = cli.ParseBook(s.Book); err != nil {
		return nil, err
	}
	if s.At != "" {
		at, err := conn.Playbook(r.Book).Version(ctx, s.At)
		if err != nil {
			return nil, err
		}
		r.Playbook = &at.Number
	}
	if s.Steps != "" {
		data, err := cli.ReadFile(s.Steps)
		if err == nil {
			err = json.Unmarshal(data, &r.Steps)
		}
		if err != nil {
			return nil, app.Exit(app.ExitUsage, fmt.Errorf("--steps: %w", err))
		}
	}
	return r, nil
}

// showPast prints the context of a past execution.
func (s *showContext) showPast(ctx context.Context, conn *cli.Session) error {
	cfg, err := s.Config.Settings()
	if err != nil {
		return err
	}
	cfg.Recall = generator.RecallNone // Rebuild reads the recalled parts of the manifest
	builder := generator.NewContextBuilder(conn.Conn, nil, cfg)
	defer builder.Close()
	r, err := builder.Rebuild(ctx, events.Handle(s.Execution))
	if err != nil {
		return cli.RequestError(err)
	}
	if s.JSON {
		if err := cli.WriteJSON(console.Stdout, r); err != nil {
			return err
		}
	} else {
		out := console.Stdout
		console.Fprintf(out, "Context of execution %s, built %s.\n", s.Execution, r.Manifest.At.Local().Format(time.DateTime))
		writeManifest(out, &r.Manifest)
		writeToolCosts(out, r.Steps)
		writeCalls(out, r.Calls)
		if !s.Manifest {
			writeMessages(out, r.Messages)
			writeRawReply(out, r.RawReply)
		}
		writeVerification(out, r)
	}
	if !r.Verified {
		return app.Exit(app.ExitPartial, fmt.Errorf("execution %s: the context could not be rebuilt exactly", s.Execution))
	}
	return nil
}

// writeRawReply prints the model's reply to the messages.
func writeRawReply(out io.Writer, reply string) {
	if reply != "" {
		console.Fprintf(out, "\n──── raw reply of the model ────\n%s\n", console.Block(strings.TrimRight(reply, "\n")))
	}
}

func writeVerification(out io.Writer, r *generator.RebuiltContext) {
	if r.Verified {
		console.Fprintf(out, "\nSHA-256 %s: the messages are identical to those that the model received.\n", r.SHA256)
		return
	}
	console.Fprintf(out, "\nThe messages differ from those that the model received:\n")
	for _, why := range r.Reasons {
		console.Fprintf(out, "  %s\n", why)
	}
	for _, p := range r.Missing {
		console.Fprintf(out, "  %s %s has expired\n", p.Kind, p.Ref)
	}
}

// writeManifest prints the size of a context, the parts in it and the parts left out, with reasons.
func writeManifest(out io.Writer, m *events.Manifest) {
	window := console.Plural(m.Window, "turn")
	if m.Window < 0 {
		window = "unlimited"
	}
	size := fmt.Sprintf("%d of %d tokens (estimated); window %s, conversation budget %d tokens, state %s.", m.Tokens, m.Limit, window, m.Conversation, m.State)
	width := console.Width(out)
	console.Fprintf(out, "%s\n\n", console.Block(strings.Join(console.Wrap(console.Line(size), width, width > 0), "\n")))
	w := console.NewTable(out)
	console.Fprintf(w, "part\tin\ttokens\tleft out\ttokens\treason\n")
	for _, t := range m.Totals() {
		console.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", t.Kind, t.Included, t.Tokens, t.Omitted, t.OmittedTokens, strings.Join(t.Reasons, ", "))
	}
	_ = w.Flush()
	for _, p := range m.Parts {
		if p.Why != "" && p.Kind != events.PartBullet && p.Kind != events.PartRecord {
			console.Fprintf(out, "%s %s: %s\n", p.Kind, p.Ref, p.Why)
		}
	}
	writeExposures(out, m.Exposures)
	for _, d := range m.Warnings {
		console.Fprintf(out, "warning: %s\n", d)
	}
}

// writeExposures describes the experiment of the prompt.
func writeExposures(out io.Writer, all []events.Exposure) {
	for _, x := range all {
		console.Fprintf(out, "experiment %d: bullet %s is %s at random\n", x.Experiment, x.Bullet, x.Arm)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func writeScores(out io.Writer, scores []events.BulletScore) {
	if len(scores) == 0 {
		return
	}
	console.Fprintln(out)
	w := console.NewTable(out)
	console.Fprintf(w, "bullet\ttotal\teffectiveness\trecency\trelevance\ttokens\tin\treason\n")
	for _, s := range scores {
		console.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%s\t%s\n", s.ID, s.Total, s.Effectiveness, s.Recency, s.Relevance, s.Tokens, yesNo(s.Shown), s.Why)
	}
	_ = w.Flush()
}

func writeWindowScores(out io.Writer, scores []events.WindowScore) {
	if len(scores) == 0 {
		return
	}
	console.Fprintln(out)
	w := console.NewTable(out)
	console.Fprintf(w, "window\titem\tpriority\ttotal\trecency\tflags\tsemantic\tsource\ttokens\tin\treason\n")
	for _, s := range scores {
		console.Fprintf(w, "%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%s\t%s\n",
			s.Kind, s.Ref, s.Priority, s.Total, s.Recency, s.Flags, s.Semantic, s.Source, s.Tokens, yesNo(s.Shown), s.Why)
	}
	_ = w.Flush()
}

// writeToolCosts prints calls, failures, time and tokens of each tool of a run.
func writeToolCosts(out io.Writer, steps []events.Step) {
	costs := trail.Costs(steps)
	if len(costs) == 0 {
		return
	}
	console.Fprintln(out)
	w := console.NewTable(out)
	console.Fprintf(w, "tool\tcalls\tfailed\ttime\ttokens\n")
	for _, c := range costs {
		console.Fprintf(w, "%s\t%d\t%d\t%s\t%d\n", c.Tool, c.Calls, c.Failed, c.Took.Round(time.Millisecond), c.Tokens)
	}
	_ = w.Flush()
}

// writeCalls prints the tool calls of a run, with the agent's text before each.
func writeCalls(out io.Writer, calls []trail.Call) {
	if len(calls) == 0 {
		return
	}
	console.Fprintln(out)
	w := console.NewTable(out)
	console.Fprintf(w, "iteration\ttool\toutcome\ttime\ttokens\tmodel tokens\trationale\n")
	for _, c := range calls {
		console.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%s\n",
			c.Iteration, c.Tool, c.Outcome, c.Took.Round(time.Millisecond), c.Tokens, c.Usage.Tokens(), console.OneLine(c.Rationale, 80))
	}
	_ = w.Flush()
}

func writeMessages(out io.Writer, messages []chat.Message) {
	for _, m := range messages {
		console.Fprintf(out, "\n──── %s ────\n", m.Speaker)
		if m.Text != "" {
			console.Fprintln(out, console.Block(strings.TrimRight(m.Text, "\n")))
		}
		for _, c := range m.Calls {
			console.Fprintf(out, "%s %s(%s)\n", c.ID, c.Tool, c.Arguments)
		}
	}
}

// showSession lists the window of a session.
type showSession struct {
	cli.ServerFlags
	Session string `help:"Name of the session." required:""`
	Owner   string `help:"Owner of the session, as executions name it. Default: the common owner." placeholder:"ID"`
	Book    string `help:"Name of the session's playbook." default:"default"`
	JSON    bool   `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*showSession) Help() string {
	return `Examples:

  debrief context session --session desk-7
  debrief context session --session desk-7 --book support --json`
}

// Run implements the command.
func (s *showSession) Run(ctx context.Context, c *app.Common) error {
	b, err := cli.ParseBook(s.Book)
	if err != nil {
		return err
	}
	conn, err := s.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	store := windows.New(conn.NATS(), conn.JetStream())
	list, damaged, err := store.Interactions(ctx, b, s.Owner, s.Session)
	if err != nil {
		return err
	}
	marks, err := store.Marks(ctx, b, s.Owner, s.Session)
	if err != nil {
		return err
	}
	if s.JSON {
		return cli.WriteJSON(console.Stdout, struct {
			Interactions []*events.Interaction      `json:"interactions"`
			Marks        []events.MarkedInteraction `json:"marks"`
			Damaged      int                        `json:"damaged"`
		}{list, marks, damaged})
	}
	if len(list)+len(marks) == 0 {
		console.Printf("The window of session %q of playbook %q is empty.\n", s.Session, b)
	}
	turns, older := explain.Window(list, marks)
	w := console.NewTable(console.Stdout)
	if len(turns) > 0 {
		console.Fprintf(w, "turn\texecution\ttime\tmark\tquestion\n")
	}
	for _, i := range turns {
		console.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", i.Turn, i.Execution, i.At.Local().Format(time.DateTime), i.Mark, console.OneLine(i.Question, 80))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, m := range older {
		console.Printf("%s, older than the window: %s %s\n", m.Mark, m.Interaction.Execution, console.OneLine(m.Interaction.Question, 80))
	}
	if damaged > 0 {
		console.Printf("%d entries are damaged.\n", damaged)
	}
	return nil
}

// interactionFlags select an interaction.
type interactionFlags struct {
	cli.ServerFlags
	Execution string `arg:"" help:"Handle of the execution." placeholder:"HANDLE"`
	JSON      bool   `help:"Print one JSON document."`
}

type (
	pinTurn   struct{ interactionFlags }
	starTurn  struct{ interactionFlags }
	unpinTurn struct{ interactionFlags }
)

// Help implements kong.HelpProvider.
func (*pinTurn) Help() string {
	return `'debrief context session' lists the handles of a session's executions.

Examples:

  debrief context pin 1003-824a105a
  debrief context pin 1003-824a105a --nats nats://localhost:4222`
}

// Help implements kong.HelpProvider.
func (*starTurn) Help() string {
	return `'debrief context session' lists the handles of a session's executions.

Examples:

  debrief context star 1003-824a105a
  debrief context star 1003-824a105a --nats nats://localhost:4222`
}

// Help implements kong.HelpProvider.
func (*unpinTurn) Help() string {
	return `Examples:

  debrief context unpin 1003-824a105a
  debrief context unpin 1003-824a105a --nats nats://localhost:4222`
}

// Run implements the command.
func (p *pinTurn) Run(ctx context.Context, c *app.Common) error { return p.mark(ctx, c, events.Pin) }

// Run implements the command.
func (p *starTurn) Run(ctx context.Context, c *app.Common) error { return p.mark(ctx, c, events.Star) }

// Run implements the command.
func (p *unpinTurn) Run(ctx context.Context, c *app.Common) error { return p.mark(ctx, c, "") }

func (t *interactionFlags) mark(ctx context.Context, c *app.Common, m events.Mark) error {
	h := events.Handle(t.Execution)
	seq, is, err := h.Parse()
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	conn, err := t.Connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if errors.Is(err, bus.ErrNotFound) {
		return app.Exit(app.ExitRefused, fmt.Errorf("execution %s: %w", h, err))
	}
	if err != nil {
		return fmt.Errorf("execution %s: %w", h, err)
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Session == "" {
		return app.Exit(app.ExitRefused, fmt.Errorf("execution %s has no session, so it is not in a window", h))
	}
	store := windows.New(conn.NATS(), conn.JetStream())
	if m == "" {
		found, err := store.Unmark(ctx, e.Book, e.Owner, e.Session, h)
		if err != nil {
			return err
		}
		if !found {
			return app.Exit(app.ExitRefused, fmt.Errorf("execution %s is not marked", h))
		}
		return t.print(e, "", "Removed the mark of %s in session %q.\n", h, e.Session)
	}
	err = store.Mark(ctx, e.Book, e.Owner, e.Session, events.MarkedInteraction{Mark: m, By: os.Getenv("USER"), At: time.Now().UTC(), Interaction: *events.NewInteraction(h, e)})
	if errors.Is(err, windows.ErrFull) {
		return app.Exit(app.ExitRefused, err)
	}
	if err != nil {
		return err
	}
	return t.print(e, m, "%s stays in the window of session %q.\n", h, e.Session)
}

// print prints the new mark as JSON, or the formatted text.
func (t *interactionFlags) print(e *events.Execution, m events.Mark, format string, args ...any) error {
	if !t.JSON {
		_, err := console.Printf(format, args...)
		return err
	}
	return cli.WriteJSON(console.Stdout, struct {
		Execution string      `json:"execution"`
		Book      book.Book   `json:"book"`
		Session   string      `json:"session"`
		Mark      events.Mark `json:"mark"` // empty if it was removed
	}{t.Execution, e.Book, e.Session, m})
}
