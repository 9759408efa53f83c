package books

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/curator/gate"
	"debrief/playbook/history"
)

type whyBook struct {
	apiclient.BookFlags
	What string `arg:"" help:"Id of a bullet, or handle of an execution, such as 412-ab12cd34." placeholder:"BULLET|EXECUTION"`
	Full bool   `help:"List all executions of each change and vote. Default: the first three."`
	JSON bool   `help:"Print one JSON document."`
}

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

func (w *whyBook) Run(ctx context.Context, c *program.Common) error {
	a, err := w.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	if executionHandle.MatchString(w.What) {
		return w.printExecution(ctx, a)
	}
	printed, read := explain.FirstExecutions, explain.FirstExecutions
	if w.Full {
		printed = explain.AllExecutions
	}
	if w.Full || w.JSON {
		read = explain.AllExecutions
	}
	x, err := api.Get[explain.Bullet](ctx, a.Client, w.Path("bullets", string(bulletArg(w.What).id()), "history"), map[string]string{"executions": string(read)})
	if err != nil {
		return err
	}
	text := x.Text(printed)
	if !w.JSON && x.Current != nil && !x.Current.Shown() {
		item, err := api.Get[index.BulletItem](ctx, a.Client, w.Path("bullets", string(x.Bullet)), nil)
		if err != nil {
			return err
		}
		if waits := gate.Waits(item.State, item.Record); waits != "" {
			text += fmt.Sprintf("\nNow it %s.\n", waits)
		}
	}
	return w.print(x, text)
}

// printExecution explains an execution.
func (w *whyBook) printExecution(ctx context.Context, a *apiclient.Client) error {
	path, err := a.ExecutionPath(ctx, w.What, w.Book)
	if err != nil {
		return err
	}
	x, err := api.Get[explain.Execution](ctx, a.Client, path, nil)
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
	JSON  bool `help:"Print JSON lines; an empty list prints nothing."`
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

func (*rejectedBook) Help() string {
	return `List rejected proposals and removed bullets, oldest first, each with the reason: rejected and duplicate proposals,
bullets that the Curator merged, quarantined or retired over the token budget, and edits that could not be applied.

Examples:

  debrief playbook rejected
  debrief playbook rejected --book support --limit 5
  debrief playbook rejected --limit 0 --json`
}

func (r *rejectedBook) Run(ctx context.Context, c *program.Common) error {
	return list(ctx, c, &r.newestFlags, nil, "rejections", "The Curator rejected no proposals, and merged, quarantined or retired no bullets.",
		"version\twhen\tkind\toperation\tbullet\treason\ttext", func(w io.Writer, l history.Rejection) {
			term.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Version, l.Time.Local().Format(time.DateTime), l.Verdict, l.Op.Kind, cmp.Or(l.Op.Bullet, l.DuplicateOf), l.Reason, term.OneLine(l.Op.Content, 120))
		})
}

// doubtsBook lists the outcomes that the Reflector doubts.
type doubtsBook struct{ newestFlags }

func (*doubtsBook) Help() string {
	return `List the executions whose outcome the Reflector doubts, oldest first, each with the reason: the expected answer may be wrong, or the
evaluator. Such an outcome gives no lesson and no vote. 'debrief feedback' corrects it.

Examples:

  debrief playbook doubts
  debrief playbook doubts --book support --limit 5
  debrief playbook doubts --json`
}

func (d *doubtsBook) Run(ctx context.Context, c *program.Common) error {
	return list(ctx, c, &d.newestFlags, map[string]string{"doubted": "true"}, "executions", "The Reflector doubts no outcome.",
		"execution\twhen\toutcome\tquestion\treason", func(w io.Writer, e index.ExecutionItem) {
			term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Handle, e.Started.Local().Format(time.DateTime), explain.Outcome(string(e.Outcome.Label), e.Outcome.Score),
				term.OneLine(e.Question, 80), term.OneLine(e.LabelSuspect, 200))
		})
}
