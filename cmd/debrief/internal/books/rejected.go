package books

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/playbook/history"
)

// newestFlags are the flags of the commands that list the newest items of a playbook, oldest first.
type newestFlags struct {
	apiclient.BookFlags
	Limit int  `help:"Maximum number to list, newest ones; 0 lists all." default:"50"`
	JSON  bool `help:"Print JSON lines, nothing if there are none."`
}

// list prints the newest items of a list of the API, whose first item is the newest. It prints them oldest first: as JSON, or as a
// table whose rows the function line writes. empty is the text for a list without items.
func list[T any](ctx context.Context, c *program.Common, n *newestFlags, query map[string]string, path, empty, columns string, line func(io.Writer, T)) error {
	all, older, err := apiclient.List[T](ctx, c, n.Flags, n.Path(path), query, n.Limit)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	switch {
	case n.JSON:
		return cli.WriteLines(term.Stdout, all)
	case len(all) == 0:
		_, err := term.Println(empty)
		return err
	}
	if err := term.PrintTable(term.Stdout, columns, all, line); err != nil {
		return err
	}
	if older {
		term.Printf("Older ones are not listed; --limit 0 lists all.\n")
	}
	return nil
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
		"execution\twhen\toutcome\tquestion\treason", func(w io.Writer, e api.ExecutionItem) {
			term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Handle, e.Started.Local().Format(time.DateTime), explain.Outcome(string(e.Outcome.Label), e.Outcome.Score),
				term.OneLine(e.Question, 80), term.OneLine(e.LabelSuspect, 200))
		})
}
