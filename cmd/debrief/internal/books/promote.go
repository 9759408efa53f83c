package books

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/events"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// bestVersion is the name of the best version of a run's playbook.
const bestVersion = "best"

// promoteBook copies the changes of a run into another playbook.
type promoteBook struct {
	cli.ServerFlags
	From   string `arg:"" name:"run" help:"Name of the run and of its playbook." placeholder:"RUN"`
	To     string `help:"Playbook to change." required:"" placeholder:"BOOK"`
	At     string `help:"Version of the run's playbook. Default: the one named best, else the newest." placeholder:"POINT"`
	Merge  bool   `help:"If the playbook has changed since the fork, apply only the changes without a conflict."`
	DryRun bool   `help:"Only show the changes."`
	Author string `help:"Author of the change. Default: $USER." placeholder:"NAME"`
	Reason string `help:"Reason of the change. Default: the run and its version." placeholder:"TEXT"`
	JSON   bool   `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*promoteBook) Help() string {
	return `A run over a data set has a separate playbook. This command shows the changes of the run and applies them to another
playbook as one change. New bullets keep their votes. Bullets in both playbooks get the run's text, section, status and
pin, and keep their own votes. Bullets that the run removed are removed. If both playbooks have a bullet from the same
Reflector rule, the playbook keeps its own.

If the playbook has changed since the run began, nothing is changed, the bullets are listed, and the exit code is 3. With
--merge, the playbook keeps its own changes and gets the others.

` + cli.VersionHelp + `

Examples:

  debrief playbook promote run-1 --to default --dry-run
  debrief playbook promote run-1 --to default --at 17@ab12cd --merge`
}

// promotion is the output of --json.
type promotion struct {
	Book     book.Book                       `json:"book"`
	Run      book.Book                       `json:"run"`
	At       string                          `json:"at"`             // label of the run's version
	Fork     string                          `json:"fork,omitempty"` // playbook and version that the run began with
	Was      string                          `json:"before"`         // label of the playbook's version before
	Changes  []history.Difference            `json:"changes"`
	Left     []history.Difference            `json:"conflicts"`         // conflicts: the playbook keeps its own bullet
	Moved    []book.BulletID                 `json:"moved"`             // changed in the playbook since the run began
	Renamed  map[book.BulletID]book.BulletID `json:"renamed"`           // new ids of bullets whose id is in use
	Version  uint64                          `json:"version,omitempty"` // of the playbook after the change
	Label    string                          `json:"label,omitempty"`
	Promoted bool                            `json:"promoted"`

	ops    []book.Op
	before *book.Playbook // the playbook before the change
	after  *book.Playbook // the playbook after the change
}

// Run implements the command.
func (p *promoteBook) Run(ctx context.Context, c *app.Common) error {
	to := book.Book(p.To)
	if err := to.Validate(); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--to: %w", err))
	}
	if p.From == p.To {
		return app.Exit(app.ExitUsage, fmt.Errorf("--to: %s is the playbook of the run: name another one", p.To))
	}
	s, err := p.Connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	run, target := s.Playbook(book.Book(p.From)), s.Playbook(to)
	plan, err := p.plan(ctx, run, target)
	if err != nil {
		return err
	}
	if !p.JSON {
		plan.print()
	}
	switch {
	case len(plan.Moved) > 0 && len(plan.ops) > 0 && !p.Merge:
		if p.JSON {
			if err := cli.WriteJSON(console.Stdout, plan); err != nil {
				return err
			}
		}
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q has changed since the run began (%s): nothing was changed; apply the other changes with --merge",
			to, listIDs(plan.Moved)))
	case len(plan.ops) == 0 || p.DryRun:
		return p.done(plan, "Nothing was changed.")
	}
	if err := p.promote(ctx, target, plan); err != nil {
		return err
	}
	return p.done(plan, fmt.Sprintf("Playbook %q is at version %s.", to, plan.Label))
}

// plan compares the run's playbook with the target and returns the changes to apply.
func (p *promoteBook) plan(ctx context.Context, run, target *cli.Playbook) (*promotion, error) {
	known, err := run.Store.BooksWithLog(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known, run.Name) {
		return nil, unknownRunError(ctx, run, known)
	}
	fork, whole, err := history.ForkOf(run.Store.History(ctx, run.Name))
	if err != nil {
		return nil, cli.LogError(err)
	}
	at, err := p.version(ctx, run)
	if err != nil {
		return nil, err
	}
	if at.Number < whole {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("--at: must be at least %d, the version at the start of the run, got %s", whole, at.Label()))
	}
	learned, err := run.Store.PlaybookAt(ctx, run.Name, at.Number)
	if err != nil {
		return nil, cli.LogError(err)
	}
	base := new(book.Playbook)
	if slices.Contains(known, target.Name) { // a new playbook also gets the bullets that the run began with
		if base, err = run.Store.PlaybookAt(ctx, run.Name, whole); err != nil {
			return nil, cli.LogError(err)
		}
	}
	began, label, err := target.At(ctx, "")
	if err != nil {
		return nil, err
	}
	with := history.Promote(base, learned, began)
	none := []history.Difference{} // an empty JSON list instead of null
	plan := &promotion{
		Book: target.Name, Run: run.Name, At: at.Label(), Was: label,
		Changes: append(none, history.Diff(began, with.After)...), Left: append(none, with.Skipped...), Moved: []book.BulletID{},
		Renamed: with.Renamed, ops: with.Ops, before: began, after: with.After,
	}
	if whole > 0 {
		plan.Fork = fork.String()
	}
	for _, d := range with.ChangedInTarget {
		plan.Moved = append(plan.Moved, d.ID())
	}
	return plan, nil
}

// version returns the version to promote.
func (p *promoteBook) version(ctx context.Context, run *cli.Playbook) (cli.Version, error) {
	if p.At != "" {
		return run.Version(ctx, p.At)
	}
	if best, err := run.Version(ctx, bestVersion); err == nil {
		return best, nil
	}
	return run.Version(ctx, "newest")
}

// unknownRunError returns an error that lists the runs.
func unknownRunError(ctx context.Context, run *cli.Playbook, known []book.Book) error {
	var runs []string
	for _, b := range known {
		if _, whole, err := history.ForkOf(run.Store.History(ctx, b)); err == nil && whole > 0 {
			runs = append(runs, string(b))
		}
	}
	bucket, err := run.JetStream().KeyValue(ctx, events.BucketRuns)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	keys, err := bucket.ListKeys(ctx)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	for name := range keys.Keys() {
		if slices.Contains(known, book.Book(name)) {
			runs = append(runs, name)
		}
	}
	slices.Sort(runs)
	if runs = slices.Compact(runs); len(runs) == 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("run %q not found: there are no runs; create one with 'debrief train'", run.Name))
	}
	return app.Exit(app.ExitUsage, fmt.Errorf("run %q not found: name one of %s", run.Name, strings.Join(runs, ", ")))
}

// promote sends the planned operations as edits. The Curator rejects an edit if one of its bullets has changed since the
// plan was made. Without --merge it also rejects the edit if any other bullet has changed.
func (p *promoteBook) promote(ctx context.Context, target *cli.Playbook, plan *promotion) error {
	ch := change{Author: p.Author, Reason: p.Reason}
	if ch.Reason == "" {
		ch.Reason = fmt.Sprintf("promotion of %s at %s", plan.Run, plan.At)
	}
	seen := plan.before.Version()
	state := plan.before.Clone()
	for ops := range slices.Chunk(plan.ops, cli.PerEdit) {
		e := &events.Edit{Ops: ops, Expect: expectations(state, ops)}
		if !p.Merge {
			e.BaseVersion = &seen
		}
		d, err := ch.ask(ctx, target, e)
		if err != nil {
			return err
		}
		if _, err := state.Apply(&book.Delta{Version: state.Version() + 1, Ops: ops}); err != nil {
			return err
		}
		seen, plan.Version, plan.Label, plan.Promoted = d.Version, d.Version, book.VersionLabel(d.Version, d.Chain), true
	}
	return nil
}

// expectations returns the state of each bullet before the operations. A bullet that does not exist has no text.
func expectations(p *book.Playbook, ops []book.Op) []events.Expectation {
	var all []events.Expectation
	done := map[book.BulletID]bool{}
	for _, op := range ops {
		if done[op.Bullet] {
			continue
		}
		done[op.Bullet] = true
		was := events.Expectation{Bullet: op.Bullet}
		if b := p.Bullet(op.Bullet); b != nil {
			was.Section, was.Content = b.Section, b.Content
		}
		all = append(all, was)
	}
	return all
}

// print prints the changes, the renamed bullets and the conflicts.
func (plan *promotion) print() {
	since := "from an empty playbook"
	if plan.Fork != "" {
		since = "since " + plan.Fork
	}
	console.Printf("Changes of %s at %s %s, applied to playbook %q:\n\n", plan.Run, plan.At, since, plan.Book)
	_ = showDifferences(plan.Changes, "", false)
	for _, id := range slices.Sorted(maps.Keys(plan.Renamed)) {
		console.Printf("%s gets the new id %s: the playbook has used its id.\n", id, plan.Renamed[id])
	}
	if len(plan.Left) > 0 {
		console.Printf("%s with a conflict, not applied:\n", cli.Plural(len(plan.Left), "bullet"))
		for _, d := range plan.Left {
			console.Printf("  %s  %s → keeps: %s\n", d.ID(), shortBullet(d.After), shortBullet(d.Before))
		}
	}
}

// shortBullet returns the beginning of a bullet's text.
func shortBullet(b *book.Bullet) string {
	if b == nil {
		return "removed"
	}
	return cli.OneLine(fmt.Sprintf("%q%s", b.Content, explain.Traits(b)), 60)
}

// listIDs lists the first ten ids.
func listIDs(ids []book.BulletID) string {
	const most = 10
	if len(ids) <= most {
		return cli.JoinIDs(ids)
	}
	return fmt.Sprintf("%s and %d more", cli.JoinIDs(ids[:most]), len(ids)-most)
}

// done prints the plan as JSON, else the text.
func (p *promoteBook) done(plan *promotion, text string) error {
	if p.JSON {
		return cli.WriteJSON(console.Stdout, plan)
	}
	console.Println(console.Block(text))
	return nil
}
