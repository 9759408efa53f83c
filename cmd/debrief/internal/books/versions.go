package books

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/playbook"
)

// logBook lists the changes of a playbook.
type logBook struct {
	apiclient.BookFlags
	Limit int  `help:"Maximum number of changes to list; 0 lists all." default:"20"`
	Names bool `help:"List only the versions that have a name."`
	JSON  bool `help:"Print JSON lines; an empty list prints nothing."`
}

func (l *logBook) Run(ctx context.Context, c *program.Common) error {
	limit := l.Limit
	if l.Names {
		limit = 0 // any version may have a name
	}
	all, _, err := apiclient.List[index.Version](ctx, c, l.Flags, l.Path("versions"), nil, limit)
	if err != nil {
		return err
	}
	if l.Names {
		all = slices.DeleteFunc(all, func(v index.Version) bool { return len(v.Names) == 0 })
		if l.Limit > 0 && len(all) > l.Limit {
			all = all[:l.Limit]
		}
	}
	if l.JSON {
		return cli.WriteLines(term.Stdout, all)
	}
	return term.PrintTable(term.Stdout, "version\twhen\tby\tcovers\tchanges", all, func(w io.Writer, v index.Version) {
		title := strings.Join(append([]string{v.Label}, v.Names...), " ")
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", title, v.Time.Local().Format(time.DateTime), term.OneLine(v.Author, 20), v.Covers, v.Summary)
	})
}

// diffBook compares two versions of a playbook.
type diffBook struct {
	apiclient.BookFlags
	From string `arg:"" help:"Old version." placeholder:"POINT"`
	To   string `arg:"" optional:"" help:"New version. Default: the newest." default:"newest" placeholder:"POINT"`
	JSON bool   `help:"Print JSON lines, one for each bullet that differs."`
}

func (*diffBook) Help() string {
	return explain.VersionHelp + `

Examples:

  debrief playbook diff 12
  debrief playbook diff 24h newest
  debrief playbook diff before-import 17@ab12cd`
}

func (d *diffBook) Run(ctx context.Context, c *program.Common) error {
	diff, err := apiclient.Get[api.Difference](ctx, c, d.Flags, d.Path("diff"), map[string]string{"from": d.From, "to": d.To})
	if err != nil {
		return err
	}
	if d.JSON {
		return cli.WriteLines(term.Stdout, diff.Items)
	}
	_, err = term.Println(term.Block(explain.Differences(diff.Items, fmt.Sprintf("(%s → %s)", diff.From, diff.To))))
	return err
}

type forkBook struct {
	apiclient.BookFlags
	To   string `arg:"" help:"Name of the new playbook." placeholder:"NEW"`
	At   string `help:"Version to copy: number, label, time or tag; see 'debrief playbook diff --help'." default:"newest" placeholder:"POINT"`
	JSON bool   `help:"Print one JSON document."`
}

func (*forkBook) Help() string {
	return `A fork is a copy of the bullets and the settings of a playbook at one version. Both playbooks then change independently. The
executions and the log of the source are not copied.

Examples:

  debrief playbook fork support-copy
  debrief playbook fork support-copy --book support --at 2026-11-20
  debrief playbook fork before --at 17@ab12cd`
}

func (f *forkBook) Run(ctx context.Context, c *program.Common) error {
	// Change suffices for a new playbook: its streams exist, because the source has a log there.
	out, err := apiclient.Send[api.ForkReply](ctx, c, f.Flags, apiclient.Change, "", f.Path("fork"), &api.ForkRequest{To: playbook.Book(f.To), At: f.At})
	switch {
	case err != nil:
		return err
	case f.JSON:
		return cli.WriteJSON(term.Stdout, out)
	case out.Version == 0:
		_, err = term.Printf("Playbook %q at version %s is empty: there is nothing to copy.\n", out.From, out.At)
	default:
		_, err = term.Printf("Playbook %q is a copy of %q at version %s: %s.\n", out.Book, out.From, out.At, term.Plural(out.Bullets, "bullet"))
	}
	return err
}

// promoteBook copies what the playbook of a training run has changed since its fork into another playbook.
type promoteBook struct {
	apiclient.Flags
	From   string `arg:"" name:"run" help:"Name of the run and of its playbook." placeholder:"RUN"`
	To     string `help:"Playbook to change." required:"" placeholder:"BOOK"`
	At     string `help:"Version of the run's playbook. Default: the one named best, else the newest." placeholder:"POINT"`
	Merge  bool   `help:"If the playbook has changed since the fork, apply only the changes without a conflict."`
	DryRun bool   `help:"Only show the changes."`
	Author string `help:"Author of the change, for the log. Default: $USER." placeholder:"NAME"`
	Reason string `help:"Reason of the change, for the log. Default: the run and its version." placeholder:"TEXT"`
	JSON   bool   `help:"Print one JSON document."`
}

func (*promoteBook) Help() string {
	return `A run over a data set has a separate playbook. This command shows the changes of the run and applies them to another
playbook as one change. New bullets keep their votes. Bullets in both playbooks get the run's text, section, status and
pin, and keep their own votes. Bullets that the run removed are removed.

If the playbook has changed since the run began, nothing is changed, the bullets are listed, and the exit code is 3. With
--merge, the playbook keeps its own changes and gets the others.

` + explain.VersionHelp + `

Examples:

  debrief playbook promote run-1 --to default --dry-run
  debrief playbook promote run-1 --to default --at 17@ab12cd --merge`
}

func (p *promoteBook) Run(ctx context.Context, c *program.Common) error {
	if err := events.ValidateBook(playbook.Book(p.To)); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--to: %w", err))
	}
	if p.From == p.To {
		return program.Exit(program.ExitUsage, fmt.Errorf("--to: %s is the playbook of the run: name another one", p.To))
	}
	access := apiclient.Create
	if p.DryRun {
		access = apiclient.Read
	}
	body := &api.PromoteRequest{Run: playbook.Book(p.From), At: p.At, Merge: p.Merge, Reason: p.Reason, DryRun: p.DryRun}
	plan, err := apiclient.Send[request.Promotion](ctx, c, p.Flags, access, p.Author, api.Path("books", p.To, "promote"), body)
	if err != nil {
		return err
	}
	if p.JSON {
		err = cli.WriteJSON(term.Stdout, plan)
	} else {
		_, err = term.Printf("%s", term.Block(plan.Text()))
	}
	switch {
	case err != nil:
		return err
	case plan.NeedsMerge && !p.Merge:
		return program.Exit(program.ExitRefused, fmt.Errorf("playbook %q has changed since the run began (%s): nothing was changed; apply the other changes with --merge", p.To, plan.ChangedInTargetText()))
	case p.JSON: // the document has the result
	case plan.Promoted:
		_, err = term.Printf("Playbook %q is at version %s.\n", p.To, plan.Label)
	default:
		_, err = term.Println("Nothing was changed.")
	}
	return err
}
