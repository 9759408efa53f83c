package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/chat"
	windows "debrief/events/window"
	"debrief/generator"
	trail "debrief/generator/records"
	book "debrief/playbook"
)

// contexts are the commands about what a model sees.
type contexts struct {
	Show    showContext `cmd:"" default:"withargs" help:"Show what a model would be given for a query, or was given in a past execution."`
	Pin     pinTurn     `cmd:"" help:"Keep an interaction in its session's window."`
	Star    starTurn    `cmd:"" help:"Keep an interaction in its session's window, as one that is worth more."`
	Unpin   unpinTurn   `cmd:"" help:"Take the pin or the star off an interaction."`
	Session showSession `cmd:"" help:"Show the interactions that a session's window holds."`
}

// Help implements kong.HelpProvider.
func (*contexts) Help() string {
	return `Examples:

  debrief context --query "What is due for Orchard Stationers?"
  debrief context --query "and with courier delivery?" --session desk-7 --explain
  debrief context --execution 1003-824a105a       what a past run was given, verified by its SHA-256
  debrief context session --session desk-7
  debrief context pin 1003-824a105a

A running 'debrief up' or generator is asked, so that it is what an agent would be served; where none runs, the context is
laid out here.`
}

// showContext shows one context.
type showContext struct {
	place
	Query      string        `help:"What the model would be asked; '-' reads it from standard input."`
	Session    string        `help:"Session that it belongs to."`
	Execution  string        `help:"Show the context of this past execution instead." placeholder:"HANDLE"`
	Book       string        `help:"Playbook to use." default:"default"`
	Context    string        `help:"What the query is about." placeholder:"TEXT"`
	Steps      string        `help:"File with the steps of a running turn: a JSON list of {speaker, text, tool_calls}." type:"existingfile" placeholder:"FILE"`
	At         *uint64       `help:"Version of the playbook; default is the newest." placeholder:"VERSION"`
	MinVersion uint64        `help:"Oldest version that will do." placeholder:"VERSION"`
	Task       string        `help:"Kind of task: general, research, coding, debugging, analysis." placeholder:"KIND"`
	Explain    bool          `help:"Show the parts of every bullet's score."`
	Manifest   bool          `help:"Leave out the messages."`
	JSON       bool          `help:"Print JSON."`
	Config     app.Generator `embed:""`
}

// Run implements the command.
func (s *showContext) Run(ctx context.Context, c *app.Common) error {
	switch {
	case s.Execution != "" && s.Query != "":
		return app.Exit(app.ExitUsage, errors.New("--execution: is set, and so is --query: choose one"))
	case s.Execution == "" && s.Query == "":
		return app.Exit(app.ExitUsage, errors.New("--query: is empty; or name a past run with --execution"))
	}
	if err := s.Config.Validate(); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	conn, err := s.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.Execution != "" {
		return s.past(ctx, conn)
	}
	r, err := s.request()
	if err != nil {
		return err
	}
	reply, by, err := s.lay(ctx, conn, r)
	if err != nil {
		return contextError(err)
	}
	if s.JSON {
		return writeJSON(console.Stdout, reply)
	}
	out := new(strings.Builder)
	version := fmt.Sprintf("playbook %q at version %d", reply.Book, reply.Version)
	if reply.Stale {
		version += " (stale)"
	}
	console.Fprintf(out, "Context for turn %d with %s, laid out %s.\n", reply.Turn, version, by)
	tellManifest(out, &reply.Manifest)
	tellScores(out, reply.Scores)
	if !s.Manifest {
		tellMessages(out, reply.Messages)
	}
	_, err = io.WriteString(console.Stdout, out.String())
	return err
}

func (s *showContext) request() (*events.ContextRequest, error) {
	r := &events.ContextRequest{
		Session: s.Session, Query: s.Query, Context: s.Context, Playbook: s.At, MinVersion: s.MinVersion, Task: s.Task,
		Explain: s.Explain, DryRun: true,
	}
	if s.Query == "-" {
		text, err := readFile(s.Query)
		if err != nil {
			return nil, fmt.Errorf("read the query: %w", err)
		}
		r.Query = strings.TrimSpace(string(text))
	}
	var err error
	if r.Book, err = bookName(s.Book); err != nil {
		return nil, err
	}
	if s.Steps != "" {
		data, err := readFile(s.Steps)
		if err == nil {
			err = json.Unmarshal(data, &r.Steps)
		}
		if err != nil {
			return nil, app.Exit(app.ExitUsage, fmt.Errorf("--steps: %w", err))
		}
	}
	return r, nil
}

// lay has the context laid out: by a service where one answers, which has its own settings, else here.
func (s *showContext) lay(ctx context.Context, conn *session, r *events.ContextRequest) (*events.ContextReply, string, error) {
	cfg, err := s.Config.Settings()
	if err != nil {
		return nil, "", err
	}
	if cfg.WithDefaults() == (generator.Config{}).WithDefaults() { // what differs is to be seen
		reply, err := askService(ctx, conn, r)
		if !errors.Is(err, nats.ErrNoResponders) {
			return reply, "by the service", err
		}
	}
	desk := generator.NewDesk(conn.Conn, nil, cfg)
	defer desk.Close()
	desk.Loaded(ctx, loadPatience)
	reply, err := desk.Context(ctx, r)
	return reply, "here", err
}

// loadPatience is how long a command reads history before it lays out a context without the rest.
const loadPatience = 20 * time.Second

func askService(ctx context.Context, conn *session, r *events.ContextRequest) (*events.ContextReply, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	msg, err := conn.nc.RequestWithContext(ctx, events.ServiceSubject(events.VerbContext, r.Book), body)
	if err != nil {
		return nil, err
	}
	if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
		return nil, &serviceError{code, msg.Header.Get("Nats-Service-Error")}
	}
	reply := new(events.ContextReply)
	if err := json.Unmarshal(msg.Data, reply); err != nil {
		return nil, fmt.Errorf("read the service's reply: %w", err)
	}
	return reply, nil
}

type serviceError struct{ code, text string }

func (e *serviceError) Error() string  { return e.text }
func (e *serviceError) Invalid() bool  { return e.code == "400" }
func (e *serviceError) NotFound() bool { return e.code == "404" }

// contextError gives an error its exit code.
func contextError(err error) error {
	var wrong interface{ Invalid() bool }
	var gone interface{ NotFound() bool }
	switch {
	case errors.As(err, &wrong) && wrong.Invalid():
		return app.Exit(app.ExitUsage, err)
	case errors.As(err, &gone) && gone.NotFound():
		return app.Exit(app.ExitRefused, err)
	}
	return err
}

// past shows the context of a past execution.
func (s *showContext) past(ctx context.Context, conn *session) error {
	cfg, err := s.Config.Settings()
	if err != nil {
		return err
	}
	cfg.Recall = generator.RecallNone // nothing is recalled anew
	desk := generator.NewDesk(conn.Conn, nil, cfg)
	defer desk.Close()
	r, err := desk.Rebuild(ctx, events.Handle(s.Execution))
	if err != nil {
		return contextError(err)
	}
	if s.JSON {
		if err := writeJSON(console.Stdout, r); err != nil {
			return err
		}
	} else {
		out := new(strings.Builder)
		console.Fprintf(out, "Context of execution %s, put together %s.\n", s.Execution, r.Manifest.At.Local().Format(time.DateTime))
		tellManifest(out, &r.Manifest)
		tellCosts(out, r.Steps)
		if !s.Manifest {
			tellMessages(out, r.Messages)
		}
		tellVerdict(out, r)
		if _, err := io.WriteString(console.Stdout, out.String()); err != nil {
			return err
		}
	}
	if !r.Verified {
		return app.Exit(app.ExitLosses, fmt.Errorf("execution %s: its context cannot be made again exactly", s.Execution))
	}
	return nil
}

func tellVerdict(out io.Writer, r *generator.Rebuilt) {
	if r.Verified {
		console.Fprintf(out, "\nSHA-256 %s: these are the messages that the model was given, to the byte.\n", r.SHA256)
		return
	}
	console.Fprintf(out, "\nThese are not the messages that the model was given:\n")
	for _, why := range r.Why {
		console.Fprintf(out, "  %s\n", why)
	}
	for _, p := range r.Missing {
		console.Fprintf(out, "  %s %s has expired\n", p.Kind, p.Ref)
	}
}

// kinds are the parts of a context in the order in which people read about them.
var kinds = []events.PartKind{
	events.PartSystem, events.PartBullet, events.PartUser, events.PartAnswer, events.PartTools, events.PartSummary,
	events.PartRecall, events.PartReflection, events.PartRecord, events.PartRecovery, events.PartContext, events.PartQuery,
}

// tellManifest says what is in a context, what is not, and why.
func tellManifest(out io.Writer, m *events.Manifest) {
	window := plural(m.Window, "turn")
	if m.Window < 0 {
		window = "no bound"
	}
	console.Fprintf(out, "%d of %d tokens by estimate; window %s, conversation budget %d tokens, state %s.\n\n", m.Tokens, m.Limit, window, m.Conversation, m.State)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	console.Fprintf(w, "part\tin\ttokens\tleft out\ttokens\twhy\n")
	for _, kind := range kinds {
		in, tokens, cut := 0, 0, 0
		for _, p := range m.Parts {
			if p.Kind == kind {
				in, tokens = in+1, tokens+p.Tokens
				if p.Keep > 0 {
					cut++
				}
			}
		}
		left, leftTokens := 0, 0
		var why []string
		for _, l := range m.Left {
			if l.Kind == kind {
				left, leftTokens = left+l.Count, leftTokens+l.Tokens
				why = append(why, fmt.Sprintf("%d %s", l.Count, l.Why))
			}
		}
		if cut > 0 {
			why = append(why, fmt.Sprintf("%d cut", cut))
		}
		if in+left > 0 {
			console.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", kind, in, tokens, left, leftTokens, strings.Join(why, ", "))
		}
	}
	_ = w.Flush() // into memory
	for _, p := range m.Parts {
		if p.Why != "" && p.Kind != events.PartBullet && p.Kind != events.PartRecord {
			console.Fprintf(out, "%s %s: %s\n", p.Kind, p.Ref, p.Why)
		}
	}
	tellTrials(out, m.Trials)
	for _, d := range m.Degraded {
		console.Fprintf(out, "degraded: %s\n", d)
	}
}

// tellTrials says which bullets bear on the query, and what chance decided about them.
func tellTrials(out io.Writer, trials []events.Trial) {
	if len(trials) == 0 {
		return
	}
	console.Fprintf(out, "bullets that bear on the query, and are judged by the outcome:\n")
	w := tabwriter.NewWriter(out, 2, 0, 3, ' ', 0)
	for _, t := range trials {
		how := map[book.Arm]string{book.ArmShown: "shown by chance", book.ArmWithheld: "withheld by chance", book.ArmOpen: "shown, as to all"}[t.Arm]
		console.Fprintf(w, "  %s\tcase %d\t%s\n", t.Bullet, t.Case, how)
	}
	_ = w.Flush() // into memory
}

func tellScores(out io.Writer, scores []events.BulletScore) {
	if len(scores) == 0 {
		return
	}
	console.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	console.Fprintf(w, "bullet\ttotal\teffectiveness\trecency\trelevance\ttokens\tin\twhy\n")
	for _, s := range scores {
		in := "yes"
		if !s.Shown {
			in = "no"
		}
		console.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%s\t%s\n", s.ID, s.Total, s.Effectiveness, s.Recency, s.Relevance, s.Tokens, in, s.Why)
	}
	_ = w.Flush() // into memory
}

// tellCosts says what the tools of a run cost.
func tellCosts(out io.Writer, steps []events.Step) {
	costs := trail.Costs(steps)
	if len(costs) == 0 {
		return
	}
	console.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	console.Fprintf(w, "tool\tcalls\tfailed\ttime\ttokens\n")
	for _, c := range costs {
		console.Fprintf(w, "%s\t%d\t%d\t%s\t%d\n", c.Tool, c.Calls, c.Failed, c.Took.Round(time.Millisecond), c.Tokens)
	}
	_ = w.Flush() // into memory
}

func tellMessages(out io.Writer, messages []chat.Message) {
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

// showSession shows a session's window.
type showSession struct {
	place
	Session string `help:"The session." required:""`
	Book    string `help:"Playbook that it works with." default:"default"`
	JSON    bool   `help:"Print JSON."`
}

// Run implements the command.
func (s *showSession) Run(ctx context.Context, c *app.Common) error {
	b, err := bookName(s.Book)
	if err != nil {
		return err
	}
	conn, err := s.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	store := windows.New(conn.NATS(), conn.JetStream())
	list, damaged, err := store.Interactions(ctx, b, s.Session)
	if err != nil {
		return err
	}
	marks, err := store.Marks(ctx, b, s.Session)
	if err != nil {
		return err
	}
	if s.JSON {
		return writeJSON(console.Stdout, struct {
			Interactions []*events.Interaction `json:"interactions"`
			Marks        []events.Marked       `json:"marks"`
			Damaged      int                   `json:"damaged"`
		}{list, marks, damaged})
	}
	if len(list)+len(marks) == 0 {
		console.Printf("Session %q of playbook %q has nothing in its window.\n", s.Session, b)
	}
	mark := make(map[events.Handle]events.Mark)
	for _, m := range marks {
		mark[m.Interaction.Execution] = m.Mark
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 3, ' ', 0)
	if len(list) > 0 {
		console.Fprintf(w, "turn\texecution\twhen\tmark\tasked\n")
	}
	for _, i := range list {
		console.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", i.Turn, i.Execution, i.At.Local().Format(time.DateTime), mark[i.Execution], inLine(i.Question, 80))
		delete(mark, i.Execution)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, m := range marks {
		if _, older := mark[m.Interaction.Execution]; older {
			console.Printf("%s, older than the window: %s %s\n", m.Mark, m.Interaction.Execution, inLine(m.Interaction.Question, 80))
		}
	}
	if damaged > 0 {
		console.Printf("%d entries cannot be read.\n", damaged)
	}
	return nil
}

// turnOf names an interaction on the command line.
type turnOf struct {
	place
	Execution string `arg:"" help:"Handle of the execution." placeholder:"HANDLE"`
}

type (
	pinTurn   struct{ turnOf }
	starTurn  struct{ turnOf }
	unpinTurn struct{ turnOf }
)

// Run implements the command.
func (p *pinTurn) Run(ctx context.Context, c *app.Common) error { return p.mark(ctx, c, events.Pin) }

// Run implements the command.
func (p *starTurn) Run(ctx context.Context, c *app.Common) error { return p.mark(ctx, c, events.Star) }

// Run implements the command.
func (p *unpinTurn) Run(ctx context.Context, c *app.Common) error { return p.mark(ctx, c, "") }

func (t *turnOf) mark(ctx context.Context, c *app.Common, m events.Mark) error {
	h := events.Handle(t.Execution)
	seq, is, err := h.Parse()
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	conn, err := t.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if err != nil {
		return app.Exit(app.ExitRefused, fmt.Errorf("execution %s: %w", h, err))
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Session == "" {
		return app.Exit(app.ExitRefused, fmt.Errorf("execution %s: belongs to no session, so it is in no window", h))
	}
	store := windows.New(conn.NATS(), conn.JetStream())
	if m == "" {
		there, err := store.Unmark(ctx, e.Book, e.Session, h)
		if err != nil {
			return err
		}
		if !there {
			return app.Exit(app.ExitRefused, fmt.Errorf("execution %s: is not marked", h))
		}
		console.Printf("%s is not marked any more in session %q.\n", h, e.Session)
		return nil
	}
	err = store.Mark(ctx, e.Book, e.Session, events.Marked{Mark: m, By: os.Getenv("USER"), At: time.Now().UTC(), Interaction: *events.NewInteraction(h, e)})
	if errors.Is(err, windows.ErrFull) {
		return app.Exit(app.ExitRefused, err)
	}
	if err != nil {
		return err
	}
	console.Printf("%s stays in the window of session %q.\n", h, e.Session)
	return nil
}
