package books

import (
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/curator/draft"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// refineBook merges similar bullets and retires weak ones.
type refineBook struct {
	change
	Apply  bool          `help:"Apply the plan. Without it the command only shows the plan."`
	Votes  int           `name:"min-votes" help:"Harmful votes needed to retire a bullet, if the gate is off and they clearly outnumber the helpful ones." default:"5"`
	Unused time.Duration `help:"Retire candidates without new evidence for this duration." default:"720h"`
	Tokens int           `name:"token-budget" help:"Maximum estimated tokens of the shown bullets; -1 means no limit." default:"80000"`

	program.Model
}

func (*refineBook) Help() string {
	return `Merge and retire bullets in three steps:

1. Merge bullets with equal or nearly equal text and add up their votes. Bullets with different numbers, names or
   negations are never merged. With --model, also merge bullets that state the same rule in other words.
2. Retire candidates without new evidence (--unused) and, if the gate is off, bullets with at least --min-votes harmful votes that
   clearly outnumber the helpful ones. Otherwise the gate decides by outcomes.
3. Retire the weakest bullets until the rest fits into --token-budget.

The plan also lists bullets on one subject: they share rare words, and are perhaps one rule in other words, or contradict
each other. The command does not change them: read them, or let a model look for the same rule with --model.

Pinned, retired and quarantined bullets do not change.

The command shows the plan first and changes nothing without --apply. If a bullet changes in between, nothing is applied.
'debrief playbook restore' undoes the change.

Examples:

  debrief playbook refine
  debrief playbook refine --apply --reason "spring cleaning"
  debrief playbook refine --model gpt-4o-mini --min-votes 10`
}

func (r *refineBook) Run(ctx context.Context, c *program.Common) error {
	switch { // 0 is refused: in a request it selects the default
	case r.Votes < 1:
		return program.Exit(program.ExitUsage, fmt.Errorf("--min-votes: must be at least 1, got %d", r.Votes))
	case r.Tokens == 0:
		return program.Exit(program.ExitUsage, errors.New("--token-budget: must be at least 1, or -1 for no limit, got 0"))
	}
	model, err := r.OptionalClient(events.RoleCurator)
	if err != nil {
		return err
	}
	a, err := r.Open(ctx, c, apiclient.Change, r.Author)
	if err != nil {
		return err
	}
	defer a.Close()
	body := &api.RefineRequest{Votes: r.Votes, Unused: r.Unused.String(), Tokens: r.Tokens, Apply: r.Apply, Reason: r.Reason}
	if model != nil {
		if body.Merges, err = r.paraphrases(ctx, a, model); err != nil {
			return err
		}
	}
	out, err := api.Post[api.RefineReply](ctx, a.Client, r.Path("refine"), nil, body)
	switch {
	case err != nil:
		return err
	case r.JSON:
		return cli.WriteJSON(term.Stdout, out)
	}
	if err := printPlan(out); err != nil {
		return err
	}
	switch {
	case out.Applied != nil:
		term.Printf("Done: %s changed.\nPlaybook %q is at version %s.\n", term.Plural(out.Applied.Changed, "bullet"), out.Applied.Book, out.Applied.Label)
	case len(out.Steps) > 0:
		term.Printf("Nothing was changed; apply the plan with --apply.\n")
	}
	return nil
}

// paraphrases asks the model for bullets that state the same rule in other words.
func (r *refineBook) paraphrases(ctx context.Context, a *apiclient.Client, model chat.Model) ([]playbook.Op, error) {
	bullets, _, err := api.List[*playbook.Bullet](ctx, a.Client, r.Path("bullets"), nil, 0)
	if err != nil {
		return nil, err
	}
	p, err := newPlaybook(bullets)
	if err != nil {
		return nil, err
	}
	defer term.Doing("asking the model")()
	return propose.FindParaphrases(ctx, model, draft.Refinable(p))
}

// printPlan prints the plan as a table, and then the bullets on one subject.
func printPlan(r *api.RefineReply) error {
	defer explain.WriteSubjects(term.Stdout, r.SameSubject)
	if len(r.Steps) == 0 {
		term.Printf("Playbook %q at version %s needs no change: %s shown, %d tokens.\n",
			r.Book, r.Version, term.Plural(r.ShownBefore, "bullet"), r.TokensBefore)
		return nil
	}
	w := term.NewTable(term.Stdout)
	term.Fprintf(w, "step\tbullet\tinto\ttokens\treason\n")
	for _, s := range r.Steps {
		if s.Op.Kind == playbook.Merge {
			term.Fprintf(w, "merge\t%s\t%s\t%+d\t%s\n", term.Join(s.Op.Sources), s.Op.Bullet, -s.TokensSaved, s.Reason)
		} else {
			term.Fprintf(w, "retire\t%s\t\t%+d\t%s\n", s.Op.Bullet, -s.TokensSaved, s.Reason)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	term.Printf("\nPlaybook %q at version %s: %s, %d shown in %d tokens; then %d in %d.\n",
		r.Book, r.Version, term.Plural(len(r.Steps), "step"), r.ShownBefore, r.TokensBefore, r.ShownAfter, r.TokensAfter)
	return nil
}
