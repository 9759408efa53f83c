package books

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/worth"
	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook/history"
)

type whyBook struct {
	apiclient.BookFlags
	What string `arg:"" help:"Id of a bullet, or handle of an execution, such as 412-ab12cd34." placeholder:"BULLET|EXECUTION"`
	Full bool   `help:"List all executions of each change and vote. Default: the first three."`
	JSON bool   `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*whyBook) Help() string {
	return `Explain a bullet or an execution. For a bullet: all changes of its text and its votes, with their reflections,
executions, outcomes, models and prompts. For an execution: the shown and cited bullets, the outcome and the lessons.
Executions and reflections expire; the log keeps a digest of each forever. Expired ones are marked.

Examples:

  debrief playbook why shr-00012
  debrief playbook why 412-ab12cd34 --json`
}

// executionHandle is the form of the handle of an execution. No bullet id of Debrief has this form.
var executionHandle = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Run implements the command.
func (w *whyBook) Run(ctx context.Context, c *program.Common) error {
	a, err := w.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	if executionHandle.MatchString(w.What) {
		return w.printExecution(ctx, a)
	}
	executions := "first"
	if w.Full || w.JSON {
		executions = "all"
	}
	x, err := api.Get[explain.Bullet](ctx, a.Client, w.Path("bullets", string(bulletArg(w.What).id()), "history"), map[string]string{"executions": executions})
	if err != nil {
		return err
	}
	return w.print(x, x.Text(w.Full))
}

// printExecution explains an execution. If no version covers the execution yet, the explanation has the work that waits (pending).
func (w *whyBook) printExecution(ctx context.Context, a *apiclient.Client) error {
	path, err := a.ExecutionPath(ctx, w.What, w.Book)
	if err != nil {
		return err
	}
	x, err := api.Get[explain.Execution](ctx, a.Client, path, map[string]string{"pending": "true"})
	if err != nil {
		return err
	}
	return w.print(x, x.Text())
}

// print prints an explanation: x as JSON, or its text.
func (w *whyBook) print(x any, text string) error {
	if w.JSON {
		return cli.WriteJSON(term.Stdout, x)
	}
	_, err := term.Printf("%s", term.Block(text))
	return err
}

// newestFlags are the flags of the commands that list the newest items of a playbook, oldest first.
type newestFlags struct {
	apiclient.BookFlags
	Limit int  `help:"Maximum number to list, newest ones; 0 lists all." default:"50"`
	JSON  bool `help:"Print JSON lines, nothing if there are none."`
}

// list prints the newest items of a list of the API, oldest first: as JSON, or as a table whose rows the function line writes. The API
// returns the newest item first. empty is the text for a list without items.
func list[T any](ctx context.Context, c *program.Common, n *newestFlags, query map[string]string, path, empty, columns string, line func(io.Writer, T)) error {
	all, older, err := apiclient.List[T](ctx, c, n.Flags, n.Path(path), query, n.Limit)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	err = cli.PrintList(n.JSON, all, empty, columns, line)
	if err == nil && older && !n.JSON {
		_, err = term.Printf("Older ones are not listed; --limit 0 lists all.\n")
	}
	return err
}

// rejectedBook lists rejected proposals and removed bullets.
type rejectedBook struct{ newestFlags }

// Help implements kong.HelpProvider.
func (*rejectedBook) Help() string {
	return `List rejected proposals and removed bullets, oldest first, each with the reason: rejected and duplicate proposals,
bullets that the Curator merged, quarantined or retired over the token budget, and edits that could not be applied.

Examples:

  debrief playbook rejected
  debrief playbook rejected --book support --limit 5
  debrief playbook rejected --limit 0 --json`
}

// Run implements the command.
func (r *rejectedBook) Run(ctx context.Context, c *program.Common) error {
	return list(ctx, c, &r.newestFlags, nil, "rejections", "No proposals or bullets were rejected, merged or removed.",
		"version\twhen\tkind\toperation\tbullet\treason\ttext", func(w io.Writer, l history.Rejection) {
			term.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Version, l.Time.Local().Format(time.DateTime), l.Verdict, l.Op.Kind, cmp.Or(l.Op.Bullet, l.DuplicateOf), l.Reason, term.OneLine(l.Op.Content, 120))
		})
}

// doubtsBook lists the outcomes that the Reflector doubts.
type doubtsBook struct{ newestFlags }

// Help implements kong.HelpProvider.
func (*doubtsBook) Help() string {
	return `List the executions whose outcome the Reflector doubts, oldest first, each with the reason: the expected answer may be wrong, or the
evaluator. Such an outcome gives no lesson and no vote. 'debrief feedback' corrects it.

Examples:

  debrief playbook doubts
  debrief playbook doubts --book support --limit 5
  debrief playbook doubts --json`
}

// Run implements the command.
func (d *doubtsBook) Run(ctx context.Context, c *program.Common) error {
	return list(ctx, c, &d.newestFlags, map[string]string{"doubted": "true"}, "executions", "The Reflector doubts no outcome.",
		"execution\twhen\toutcome\tquestion\treason", func(w io.Writer, e index.ExecutionItem) {
			term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Handle, e.Started.Local().Format(time.DateTime), explain.Outcome(string(e.Outcome.Label), e.Outcome.Score),
				term.OneLine(e.Question, 80), term.OneLine(e.LabelSuspect, 200))
		})
}

// verifyBook checks the log and the view of a playbook.
type verifyBook struct {
	cli.BookFlags
	JSON bool `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*verifyBook) Help() string {
	return `Check a playbook without a model:

  - each change follows the previous one, by number, sequence and hash;
  - the changes can be applied in order, and the view has the same bullets as the result;
  - each shown bullet can be traced to an execution or to a person;
  - the streams still have the reflections and executions that the playbook was learned from.

Readers skip messages that are not part of the log. Damage ends the command with exit code 3 and advice.

Examples:

  debrief playbook verify
  debrief playbook verify --book support --json`
}

// verified is the output of --json.
type verified struct {
	*deltalog.Verification
	Traced   int `json:"traced"` // shown bullets with a known execution or person
	Untraced int `json:"untraced"`
}

// Run implements the command.
func (v *verifyBook) Run(ctx context.Context, c *program.Common) error {
	name, err := cli.ParseBook(v.Book)
	if err != nil {
		return err
	}
	s, err := v.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	store := deltalog.New(s.JetStream())
	known, err := store.AllBooks(ctx)
	switch {
	case err != nil:
		return err
	case !slices.Contains(known, name):
		return program.Exit(program.ExitRefused, cli.NotFoundError(name, known))
	}
	found, err := store.Verify(ctx, name)
	if err != nil {
		return err
	}
	out := verified{Verification: found}
	if err := out.addDamage(ctx, &v.BookFlags, s.Conn); err != nil {
		return err
	}
	damaged := found.Damaged()
	if !damaged {
		if err := out.trace(ctx, store); err != nil {
			return err
		}
	}
	if v.JSON {
		err = cli.WriteJSON(term.Stdout, out)
	} else {
		out.print()
	}
	if err == nil && damaged {
		err = program.Exit(program.ExitRefused, fmt.Errorf("playbook %q is damaged; see above", name))
	}
	return err
}

// trace counts the shown bullets with and without a known origin.
func (v *verified) trace(ctx context.Context, store *deltalog.Store) error {
	p, err := store.PlaybookAt(ctx, v.Book, v.Version)
	if err != nil {
		return explain.LogError(err)
	}
	v.Traced, v.Untraced, err = history.CountTraced(store.History(ctx, v.Book), p)
	return explain.LogError(err)
}

// print prints the hashes, the traced bullets and the findings.
func (v *verified) print() {
	term.Printf("Playbook %q at version %s: %s, %d bytes, %s.\n", v.Book, v.Label, term.Plural(v.Deltas, "delta"), v.Bytes, term.Plural(v.Bullets, "bullet"))
	term.Printf("  chain hash  %s\n  state hash  %s\n  view        version %d\n", v.ChainHash, v.StateHash, v.View)
	for _, r := range v.Redacted {
		term.Printf("  erased      texts of version %d, by %s at %s\n", r.Version, r.Author, r.Time.Local().Format(time.DateTime))
	}
	if v.Traced+v.Untraced > 0 {
		term.Printf("  traced      %d of %d shown bullets lead to an execution or a person\n", v.Traced, v.Traced+v.Untraced)
	}
	for _, f := range v.Findings {
		term.Printf("%s: %s\n", f.Severity, f.Text)
	}
	if len(v.Findings) == 0 {
		term.Printf("All hashes are correct.\n")
	}
}

// addDamage adds the damage of all streams to the findings, because the playbook was learned from their messages.
func (v *verified) addDamage(ctx context.Context, flags *cli.BookFlags, conn *bus.Conn) error {
	all, err := flags.Damage(ctx, conn, 0) // 0: without reading the messages
	if err != nil {
		return err
	}
	v.Findings = append(v.Findings, doctor.DamageFindings(all)...)
	return nil
}

// Report compares the outcomes of sessions with a playbook and without.
type Report struct {
	apiclient.BookFlags
	JSON bool `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*Report) Help() string {
	return `Compare the sessions with the playbook with those of its control group: points, failures avoided, tokens, cost and time, each
with a 95 % interval. The intervals hold at all looks together: read the report as often as you like. Before there is enough data it
says how many outcomes are missing. It needs a control share; see 'debrief playbook control --help'.

The console has the same as a page for print: Worth.

The exit code is 1 if the playbook harms, else 0, also if nothing is known yet.

Examples:

  debrief report
  debrief report --book support
  debrief report --book support --json`
}

// errHarms is the error for the exit code after the report on a playbook that harms.
var errHarms = errors.New("the playbook harms")

// Run implements the command.
func (cmd *Report) Run(ctx context.Context, c *program.Common) error {
	r, err := apiclient.Get[worth.Report](ctx, c, cmd.Flags, cmd.Path("worth"), nil)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = cli.WriteJSON(term.Stdout, r)
	} else {
		err = printReport(r)
	}
	if err == nil && r.Status == worth.Harms {
		return errHarms
	}
	return err
}

func printReport(r *worth.Report) error {
	term.Printf("%s\n%s\n", r.Summary, r.Next)
	if r.Command != "" {
		term.Printf("\n  %s\n", r.Command)
	}
	for _, w := range r.Warnings {
		term.Printf("\nWarning: %s\n", w)
	}
	w := term.NewTable(term.Stdout)
	term.Fprintf(w, "\nmeasure\twith\twithout\teffect\tinterval\n")
	for _, row := range r.Rows() {
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", row.Name, row.With, row.Without, row.Effect, row.Interval)
	}
	term.Fprintf(w, "sessions\t%d\t%d\t\t\nwith an outcome\t%d\t%d\t\t\noutcomes\t%d\t%d\t\t\n",
		r.With.Sessions, r.Without.Sessions, r.With.Rated, r.Without.Rated, r.With.Outcomes, r.Without.Outcomes)
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Behind > 0 {
		term.Printf("The server still reads %d stored events: the numbers grow while it does.\n", r.Behind)
	}
	return nil
}
