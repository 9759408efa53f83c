package books

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/curator/draft"
	"debrief/curator/propose"
	"debrief/events"

	book "debrief/playbook"
)

// refineBook merges similar bullets and retires weak ones.
type refineBook struct {
	change
	Apply  bool          `help:"Apply the plan. Without it the command only shows the plan."`
	Votes  int           `name:"min-votes" help:"Votes needed to retire a bullet with as many harmful as helpful votes, if the gate is off." default:"5"`
	Unused time.Duration `help:"Retire candidates without new evidence for this duration." default:"720h"`
	Tokens int           `name:"token-budget" help:"Maximum estimated tokens of the shown bullets; -1 means no limit." default:"80000"`

	app.Model
}

// Help implements kong.HelpProvider.
func (*refineBook) Help() string {
	return `Merge and retire bullets in three steps:

1. Merge bullets with equal or nearly equal text and add up their votes. Bullets with different numbers, names or
   negations are never merged. With --model, also merge bullets that state the same rule in other words.
2. Retire candidates without new evidence (--unused) and, if the gate is off, bullets with as many harmful as helpful votes.
   Otherwise the gate decides by outcomes.
3. Retire the weakest bullets until the rest fits into --token-budget.

Pinned, retired and quarantined bullets do not change.

The command shows the plan first and changes nothing without --apply. If a bullet changes in between, nothing is applied.
'debrief playbook restore' undoes the change.

Examples:

  debrief playbook refine
  debrief playbook refine --apply --reason "spring cleaning"
  debrief playbook refine --model gpt-4o-mini --min-votes 10`
}

// refinedBook is the output of --json.
type refinedBook struct {
	Book    book.Book `json:"book"`
	Version string    `json:"version"` // version that the plan is based on
	*draft.Plan
	Applied *decided `json:"applied,omitempty"`
}

// Run implements the command.
func (r *refineBook) Run(ctx context.Context, c *app.Common) error {
	if r.Votes < 1 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--min-votes: must be at least 1, got %d", r.Votes))
	}
	if r.Unused <= 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--unused: must be above 0, got %s", r.Unused))
	}
	if r.Tokens < 1 && r.Tokens != -1 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--token-budget: must be at least 1, or -1 for no limit, got %d", r.Tokens))
	}
	model, err := r.Optional(events.RoleCurator)
	if err != nil {
		return err
	}
	b, err := r.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, label, err := b.At(ctx, "")
	if err != nil {
		return err
	}
	options := draft.RefineOptions{MinVotes: r.Votes, MaxIdle: r.Unused, TokenBudget: r.Tokens, Now: time.Now()}
	if model != nil {
		defer console.Doing("asking the model")()
		if options.Merges, err = propose.FindParaphrases(ctx, model, draft.Refinable(p)); err != nil {
			return err
		}
	}
	out := refinedBook{Book: b.Name, Version: label, Plan: draft.Refine(p, options)}
	if !r.JSON {
		if err := out.print(); err != nil {
			return err
		}
	}
	if !r.Apply || len(out.Steps) == 0 {
		if r.JSON {
			return cli.WriteJSON(console.Stdout, out)
		}
		if len(out.Steps) > 0 {
			console.Printf("Nothing was changed; apply the plan with --apply.\n")
		}
		return nil
	}
	d, err := r.ask(ctx, b, out.Edit())
	if err != nil {
		return err
	}
	if r.JSON {
		out.Applied = &decided{b.Name, d.Version, book.VersionLabel(d.Version, d.Chain), d.Added, d.Changed}
		return cli.WriteJSON(console.Stdout, out)
	}
	return r.done(b, d, "Done: %s changed.", console.Plural(d.Changed, "bullet"))
}

// print prints the plan as a table.
func (r *refinedBook) print() error {
	if len(r.Steps) == 0 {
		console.Printf("Playbook %q at version %s needs no change: %s shown, %d tokens.\n",
			r.Book, r.Version, console.Plural(r.ShownBefore, "bullet"), r.TokensBefore)
		return nil
	}
	w := console.NewTable(console.Stdout)
	console.Fprintf(w, "step\tbullet\tinto\ttokens\treason\n")
	for _, s := range r.Steps {
		if s.Op.Kind == book.Merge {
			console.Fprintf(w, "merge\t%s\t%s\t%+d\t%s\n", explain.JoinIDs(s.Op.Sources), s.Op.Bullet, -s.TokensSaved, s.Reason)
		} else {
			console.Fprintf(w, "retire\t%s\t\t%+d\t%s\n", s.Op.Bullet, -s.TokensSaved, s.Reason)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	console.Printf("\nPlaybook %q at version %s: %s, %d shown in %d tokens; then %d in %d.\n",
		r.Book, r.Version, console.Plural(len(r.Steps), "step"), r.ShownBefore, r.TokensBefore, r.ShownAfter, r.TokensAfter)
	return nil
}
