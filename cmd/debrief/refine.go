package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/curator"
	"debrief/events"

	book "debrief/playbook"
)

type refineBook struct {
	change
	Apply  bool          `help:"Do it. Without this only the plan is shown."`
	Votes  int           `name:"min-votes" help:"Votes from which a bullet that did harm as often as good is retired." default:"5"`
	Unused time.Duration `help:"Retire candidates that nothing was heard of for so long." default:"720h"`
	Tokens int           `name:"token-budget" help:"Most tokens that the shown bullets may take, estimated; -1 is no limit." default:"80000"`

	app.Model
}

// Help implements kong.HelpProvider.
func (*refineBook) Help() string {
	return `Clears a playbook up, in this order: bullets that say the same, or nearly, become one with the votes of all, but never
where numbers, names or negations differ; with --model also those that say it in other words; bullets that did harm as
often as good, and candidates that nothing was heard of for long, are retired; then the weakest, until the rest fits the
budget. Pinned bullets, those that rules keep and those that are retired or in quarantine stay as they are.

The plan is shown first, and nothing is changed without --apply. A bullet that changes in between refuses all of it;
'debrief playbook restore' undoes it.

Examples:

  debrief playbook refine
  debrief playbook refine --apply --reason "spring cleaning"
  debrief playbook refine --model gpt-4o-mini --min-votes 10`
}

// refinedBook is the output of --json.
type refinedBook struct {
	Book    book.Book `json:"book"`
	Version string    `json:"version"` // that the plan is of
	*curator.Plan
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
	b, err := r.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, label, err := b.at(ctx, "")
	if err != nil {
		return err
	}
	how := curator.Refinement{Votes: r.Votes, Unused: r.Unused, Tokens: r.Tokens, Now: time.Now()}
	if model != nil {
		if how.Merges, err = curator.Paraphrases(ctx, model, p); err != nil {
			return err
		}
	}
	out := refinedBook{Book: b.name, Version: label, Plan: curator.Refine(p, how)}
	if !r.JSON {
		if err := out.print(); err != nil {
			return err
		}
	}
	if !r.Apply || len(out.Steps) == 0 {
		if r.JSON {
			return writeJSON(console.Stdout, out)
		}
		if len(out.Steps) > 0 {
			console.Printf("Nothing was changed; --apply does it.\n")
		}
		return nil
	}
	d, err := r.ask(ctx, b, out.Edit())
	if err != nil {
		return err
	}
	if r.JSON {
		out.Applied = &decided{b.name, d.Version, book.Label(d.Version, d.Chain), d.Added, d.Changed}
		return writeJSON(console.Stdout, out)
	}
	return r.done(b, d, "Done: %s changed.", plural(d.Changed, "bullet"))
}

func (r *refinedBook) print() error {
	if len(r.Steps) == 0 {
		console.Printf("Playbook %q at version %s needs nothing: %s shown, %d tokens.\n",
			r.Book, r.Version, plural(r.ShownBefore, "bullet"), r.TokensBefore)
		return nil
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	console.Fprintf(w, "what\tbullet\tinto\ttokens\twhy\n")
	for _, s := range r.Steps {
		if s.Op.Kind == book.Merge {
			console.Fprintf(w, "merge\t%s\t%s\t%+d\t%s\n", joined(s.Op.Sources), s.Op.Bullet, -s.Saved, s.Reason)
		} else {
			console.Fprintf(w, "retire\t%s\t\t%+d\t%s\n", s.Op.Bullet, -s.Saved, s.Reason)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	console.Printf("\nPlaybook %q at version %s: %s, %d shown in %d tokens; then %d in %d.\n",
		r.Book, r.Version, plural(len(r.Steps), "step"), r.ShownBefore, r.TokensBefore, r.ShownAfter, r.TokensAfter)
	return nil
}
