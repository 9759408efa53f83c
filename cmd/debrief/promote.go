package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/playbook/history"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// bestVersion is the name of the best version of a run's book.
const bestVersion = "best"

type promoteBook struct {
	place
	From   string `arg:"" name:"run" help:"The run. Its playbook has the same name." placeholder:"RUN"`
	To     string `help:"The playbook that takes over what the run learned." required:"" placeholder:"BOOK"`
	At     string `help:"Which version of the run's playbook. Default: the one named best, else the newest." placeholder:"POINT"`
	Merge  bool   `help:"If the playbook has changed since the run began, take over what it has not changed itself."`
	DryRun bool   `help:"Only show what would change."`
	Author string `help:"Who asks for it. Default: $USER." placeholder:"NAME"`
	Reason string `help:"Why. Default: the run and its version." placeholder:"TEXT"`
	JSON   bool   `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*promoteBook) Help() string {
	return `A run over a data set learns into a playbook of its own. This shows what it learned, and takes it over into another
playbook, as one change: bullets that are new come with their votes, those that both have change in text, section,
status and pin and keep the votes that they have, those that the run took out go. What rules count stays with the
playbook whose runs they counted.

If the playbook has changed since the run began, nothing is done and the bullets are listed, exit code 3. With --merge it
keeps what it changed itself, and takes over the rest.

` + pointHelp + `

Examples:

  debrief playbook promote run-1 --to default --dry-run
  debrief playbook promote run-1 --to default --at 17@ab12cd --merge`
}

// promotion is the output of --json.
type promotion struct {
	Book     book.Book                       `json:"book"`
	Run      book.Book                       `json:"run"`
	At       string                          `json:"at"`             // label of the run's version
	Fork     string                          `json:"fork,omitempty"` // what the run began as
	Was      string                          `json:"was"`            // label of the playbook's version before
	Changes  []history.Difference            `json:"changes"`
	Left     []history.Difference            `json:"left"` // the playbook's own, and what the run has instead
	Moved    []book.BulletID                 `json:"moved"`
	Renamed  map[book.BulletID]book.BulletID `json:"renamed"`
	Version  uint64                          `json:"version,omitempty"` // that it made
	Label    string                          `json:"label,omitempty"`
	Promoted bool                            `json:"promoted"`

	ops   []book.Op
	began *book.Playbook // the playbook before
	now   *book.Playbook // and after
}

// Run implements the command.
func (p *promoteBook) Run(ctx context.Context, c *app.Common) error {
	to := book.Book(p.To)
	if err := to.Validate(); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--to: %w", err))
	}
	if p.From == p.To {
		return app.Exit(app.ExitUsage, fmt.Errorf("--to: %s is the run's own playbook: name another one", p.To))
	}
	s, err := p.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	store := natskv.New(s.JetStream())
	run, target := &openBook{s, store, book.Book(p.From)}, &openBook{s, store, to}
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
			if err := writeJSON(console.Stdout, plan); err != nil {
				return err
			}
		}
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q has changed since the run began (%s): --merge takes over what it has not changed itself; nothing was changed",
			to, some(plan.Moved)))
	case len(plan.ops) == 0 || p.DryRun:
		return p.done(plan, "Nothing was changed.")
	}
	if err := p.promote(ctx, target, plan); err != nil {
		return err
	}
	return p.done(plan, fmt.Sprintf("Playbook %q is at version %s.", to, plan.Label))
}

// plan is what is to be taken over.
func (p *promoteBook) plan(ctx context.Context, run, target *openBook) (*promotion, error) {
	known, err := run.store.Logged(ctx)
	if err != nil {
		return nil, err
	}
	if !contains(known, run.name) {
		return nil, noRun(ctx, run, known)
	}
	fork, whole, err := history.ForkOf(run.store.History(ctx, run.name))
	if err != nil {
		return nil, broken(err)
	}
	at, err := p.version(ctx, run)
	if err != nil {
		return nil, err
	}
	if at.version < whole {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("--at: the run began with version %d, %s is before it", whole, at.label()))
	}
	learned, err := run.store.At(ctx, run.name, at.version)
	if err != nil {
		return nil, broken(err)
	}
	base := new(book.Playbook)
	if contains(known, target.name) { // a new one takes over what the run began with, too
		if base, err = run.store.At(ctx, run.name, whole); err != nil {
			return nil, broken(err)
		}
	}
	began, label, err := target.at(ctx, "")
	if err != nil {
		return nil, err
	}
	with := history.Promote(base, learned, began)
	none := []history.Difference{} // a list in JSON, also when it is empty
	plan := &promotion{
		Book: target.name, Run: run.name, At: at.label(), Was: label,
		Changes: append(none, history.Between(began, with.After)...), Left: append(none, with.Left...), Moved: []book.BulletID{},
		Renamed: with.Renamed, ops: with.Ops, began: began, now: with.After,
	}
	if whole > 0 {
		plan.Fork = fork.String()
	}
	for _, d := range with.Moved {
		plan.Moved = append(plan.Moved, d.ID())
	}
	return plan, nil
}

// version is the one that is asked for.
func (p *promoteBook) version(ctx context.Context, run *openBook) (moment, error) {
	if p.At != "" {
		return run.moment(ctx, p.At)
	}
	if best, err := run.moment(ctx, bestVersion); err == nil {
		return best, nil
	}
	return run.moment(ctx, "newest")
}

// noRun says which runs there are.
func noRun(ctx context.Context, run *openBook, known []book.Book) error {
	var runs []string
	for _, b := range known {
		if _, whole, err := history.ForkOf(run.store.History(ctx, b)); err == nil && whole > 0 {
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
		if contains(known, book.Book(name)) {
			runs = append(runs, name)
		}
	}
	slices.Sort(runs)
	if runs = slices.Compact(runs); len(runs) == 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("there is no run %q here, nor any other: 'debrief replay' makes one", run.name))
	}
	return app.Exit(app.ExitUsage, fmt.Errorf("there is no run %q here; name one of these: %s", run.name, strings.Join(runs, ", ")))
}

// promote asks for what is planned. It is refused if what it is about is not as it was shown, or, unless it is a merge, if
// anything is not.
func (p *promoteBook) promote(ctx context.Context, target *openBook, plan *promotion) error {
	ch := change{Author: p.Author, Reason: p.Reason}
	if ch.Reason == "" {
		ch.Reason = fmt.Sprintf("promotion of %s at %s", plan.Run, plan.At)
	}
	seen := plan.began.Version()
	state := plan.began.Clone()
	for ops := range slices.Chunk(plan.ops, perEdit) {
		e := &events.Edit{Ops: ops, Expect: expected(state, ops)}
		if !p.Merge {
			e.Seen = &seen
		}
		d, err := ch.ask(ctx, target, e)
		if err != nil {
			return err
		}
		if _, err := state.Apply(&book.Delta{Version: state.Version() + 1, Ops: ops}); err != nil {
			return err
		}
		seen, plan.Version, plan.Label, plan.Promoted = d.Version, d.Version, book.Label(d.Version, d.Chain), true
	}
	return nil
}

// expected is how the bullets that operations are about are before them; one that is not there has no text.
func expected(p *book.Playbook, ops []book.Op) []events.Expectation {
	var all []events.Expectation
	once := map[book.BulletID]bool{}
	for _, op := range ops {
		if once[op.Bullet] {
			continue
		}
		once[op.Bullet] = true
		was := events.Expectation{Bullet: op.Bullet}
		if b := p.Bullet(op.Bullet); b != nil {
			was.Section, was.Content = b.Section, b.Content
		}
		all = append(all, was)
	}
	return all
}

func (plan *promotion) print() {
	since := "in all"
	if plan.Fork != "" {
		since = "since it began as " + plan.Fork
	}
	console.Printf("What %s at %s learned %s, in playbook %q:\n\n", plan.Run, plan.At, since, plan.Book)
	_ = showDifferences(plan.Changes, "", false)
	for _, id := range slices.Sorted(maps.Keys(plan.Renamed)) {
		console.Printf("%s becomes %s: the playbook has used its id.\n", id, plan.Renamed[id])
	}
	if len(plan.Left) > 0 {
		console.Printf("%s left behind, where the playbook has it otherwise:\n", plural(len(plan.Left), "bullet"))
		for _, d := range plan.Left {
			console.Printf("  %s  %s → stays: %s\n", d.ID(), inShort(d.Is), inShort(d.Was))
		}
	}
}

// inShort is a bullet in a few words.
func inShort(b *book.Bullet) string {
	if b == nil {
		return "gone"
	}
	return inLine(fmt.Sprintf("%q%s", b.Content, traits(b)), 60)
}

// some names bullets, the first few of them.
func some(ids []book.BulletID) string {
	const most = 10
	if len(ids) <= most {
		return joined(ids)
	}
	return fmt.Sprintf("%s and %d more", joined(ids[:most]), len(ids)-most)
}

func (p *promoteBook) done(plan *promotion, text string) error {
	if p.JSON {
		return writeJSON(console.Stdout, plan)
	}
	console.Println(console.Block(text))
	return nil
}
