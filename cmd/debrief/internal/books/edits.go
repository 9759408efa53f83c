package books

import (
	"context"
	"fmt"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/edits"
	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/versions"
	"debrief/events"
	"debrief/events/redact"

	book "debrief/playbook"
)

type addBullet struct {
	change
	Content string `arg:"" help:"Text of the bullet."`
	Section string `help:"Section of the bullet." default:"others"`
}

// Help implements kong.HelpProvider.
func (*addBullet) Help() string {
	return `Examples:

  debrief playbook add "Ask for the invoice number first."
  debrief playbook add "Round at the end." --section formulas --reason bank`
}

// Run implements the command.
func (a *addBullet) Run(ctx context.Context, c *app.Common) error {
	content, err := book.CleanContent(a.Content)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	b, err := a.Open(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := a.ask(ctx, b, &events.Edit{Ops: []book.Op{edits.Add(content, a.Section)}})
	if err != nil {
		return err
	}
	return a.done(b, d, "Added %v.", d.Added)
}

type editBullet struct {
	change
	Bullet  bulletArg `arg:"" help:"Id of the bullet."`
	Content string    `help:"New text of the bullet." placeholder:"TEXT"`
	Section string    `help:"New section of the bullet." placeholder:"NAME"`
	Read    string    `help:"Version that you read: refuse the edit if the bullet changed since. Default: newest." placeholder:"VERSION"`
}

// Help implements kong.HelpProvider.
func (*editBullet) Help() string {
	return `Examples:

  debrief playbook edit misc-00001 --content "Round at the end."
  debrief playbook edit misc-00001 --section formulas
  debrief playbook edit misc-00001 --content "Round at the end." --read 17`
}

// Run implements the command.
func (ed *editBullet) Run(ctx context.Context, c *app.Common) error {
	if ed.Content == "" && ed.Section == "" {
		return app.Exit(app.ExitUsage, fmt.Errorf("--content, --section: at least one required"))
	}
	content := ed.Content
	if content != "" {
		var err error
		if content, err = book.CleanContent(content); err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--content: %w", err))
		}
	}
	b, err := ed.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	was, err := b.Expect(ctx, ed.Read, ed.Bullet.id())
	if err != nil {
		return err
	}
	op := edits.Update(was[0], content, ed.Section)
	d, err := ed.ask(ctx, b, &events.Edit{Ops: []book.Op{op}, Expect: was})
	if err != nil {
		return err
	}
	return ed.done(b, d, "Changed %s.", op.Bullet)
}

type removeBullet struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
	Read    string      `help:"Version that you read: refuse if a bullet changed since. Default: newest." placeholder:"VERSION"`
}

// Help implements kong.HelpProvider.
func (*removeBullet) Help() string {
	return `Examples:

  debrief playbook remove misc-00001
  debrief playbook remove misc-00001 misc-00002 --read 17 --reason outdated`
}

// Run implements the command.
func (r *removeBullet) Run(ctx context.Context, c *app.Common) error {
	return r.applyToEach(ctx, c, r.Bullets, r.Read, "Removed", func(id book.BulletID) book.Op {
		return book.Op{Kind: book.Remove, Bullet: id}
	})
}

type pinBullet struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
	Off     bool        `help:"Unpin the bullets."`
}

// Help implements kong.HelpProvider.
func (*pinBullet) Help() string {
	return `A pinned bullet is not pruned, and edits cannot remove it or merge it away.

Examples:

  debrief playbook pin misc-00001 misc-00002
  debrief playbook pin misc-00001 --off`
}

// Run implements the command.
func (p *pinBullet) Run(ctx context.Context, c *app.Common) error {
	verb := "Pinned"
	if p.Off {
		verb = "Unpinned"
	}
	return p.applyToEach(ctx, c, p.Bullets, "", verb, func(id book.BulletID) book.Op {
		return book.Op{Kind: book.Pin, Bullet: id, Pinned: !p.Off}
	})
}

// applyToEach submits one edit with one operation for each bullet.
func (ch *change) applyToEach(ctx context.Context, c *app.Common, bullets []bulletArg, read, verb string, op func(book.BulletID) book.Op) error {
	b, err := ch.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	e := new(events.Edit)
	if e.Expect, err = b.Expect(ctx, read, ids(bullets)...); err != nil {
		return err
	}
	for _, id := range ids(bullets) {
		e.Ops = append(e.Ops, op(id))
	}
	d, err := ch.ask(ctx, b, e)
	if err != nil {
		return err
	}
	return ch.done(b, d, "%s %s.", verb, explain.JoinIDs(ids(bullets)))
}

type mergeBullets struct {
	change
	Keep    bulletArg   `arg:"" help:"Id of the bullet that remains."`
	Others  []bulletArg `arg:"" help:"Ids of the bullets to merge into the first, with their votes."`
	Content string      `help:"New text of the merged bullet. Default: unchanged." placeholder:"TEXT"`
	Read    string      `help:"Version that you read: refuse if a bullet changed since. Default: newest." placeholder:"VERSION"`
}

// Help implements kong.HelpProvider.
func (*mergeBullets) Help() string {
	return `Examples:

  debrief playbook merge misc-00001 misc-00002
  debrief playbook merge misc-00001 misc-00002 --content "Round to cents."`
}

// Run implements the command.
func (m *mergeBullets) Run(ctx context.Context, c *app.Common) error {
	b, err := m.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	all := append([]book.BulletID{m.Keep.id()}, ids(m.Others)...)
	was, err := b.Expect(ctx, m.Read, all...)
	if err != nil {
		return err
	}
	content := m.Content
	if content != "" {
		if content, err = book.CleanContent(content); err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--content: %w", err))
		}
	}
	d, err := m.ask(ctx, b, &events.Edit{Ops: []book.Op{edits.Merge(was, content)}, Expect: was})
	if err != nil {
		return err
	}
	return m.done(b, d, "Merged %s into %s.", explain.JoinIDs(all[1:]), all[0])
}

type tagBook struct {
	change
	Name    string `arg:"" help:"Name for the version. An existing name moves to this version."`
	Version string `arg:"" optional:"" help:"Version to name. Default: the newest." default:"newest" placeholder:"POINT"`
}

// Help implements kong.HelpProvider.
func (*tagBook) Help() string {
	return versions.Help + `

Examples:

  debrief playbook tag before-import
  debrief playbook tag release-3 17`
}

// Run implements the command.
func (t *tagBook) Run(ctx context.Context, c *app.Common) error {
	if err := (book.Name{Name: t.Name}).Validate(); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	b, err := t.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	m, err := b.Version(ctx, t.Version)
	if err != nil {
		return err
	}
	e, err := edits.Tag(t.Name, m.Number)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	d, err := t.ask(ctx, b, e)
	if err != nil {
		return err
	}
	return t.done(b, d, "Version %s is %q.", m.Label(), t.Name)
}

type restoreBook struct {
	change
	Version string `arg:"" help:"Version to restore." placeholder:"POINT"`
	Read    string `help:"Newest version that you read: refuse the restore if there is a newer one. Default: any." placeholder:"VERSION"`
}

// Help implements kong.HelpProvider.
func (*restoreBook) Help() string {
	return `Restores the bullets with a new change at the end of the log. The log is not rewritten: restore the version before to undo
it. Content removed by 'debrief playbook forget' stays removed, and ids are not reused.

` + versions.Help + `

Examples:

  debrief playbook restore 17
  debrief playbook restore release-3 --reason "bad feedback since"
  debrief playbook restore 36h --read 42`
}

// Run implements the command.
func (r *restoreBook) Run(ctx context.Context, c *app.Common) error {
	b, err := r.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	m, err := b.Version(ctx, r.Version)
	if err != nil {
		return err
	}
	e := &events.Edit{Restore: &m.Number}
	if r.Read != "" {
		seen, err := b.Version(ctx, r.Read)
		if err != nil {
			return err
		}
		e.BaseVersion = &seen.Number
	}
	d, err := r.ask(ctx, b, e)
	if err != nil {
		return err
	}
	return r.done(b, d, "Restored the bullets of version %s; %d of them changed.", m.Label(), d.Changed)
}

type rebuildBook struct{ change }

// Help implements kong.HelpProvider.
func (*rebuildBook) Help() string {
	return `Generators read the view: one key for each bullet, and a head. The view is derived from the log of changes. A rebuild writes
every key again from the log. The result depends only on the log, and the state hash is the same.

Examples:

  debrief playbook rebuild
  debrief playbook rebuild --book support --reason "after damage"`
}

// Run implements the command.
func (r *rebuildBook) Run(ctx context.Context, c *app.Common) error {
	b, err := r.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := r.ask(ctx, b, &events.Edit{Rebuild: true})
	if err != nil {
		return err
	}
	p, err := b.Store.PlaybookAt(ctx, b.Name, d.Version)
	if err != nil {
		return versions.LogError(err)
	}
	return r.done(b, d, "Rebuilt the view: %s, state %x.", console.Plural(p.Len(), "bullet"), p.StateHash())
}

type forgetExecutions struct {
	change
	Source    string `help:"Forget the executions from this source, such as 'tau-bench'." placeholder:"NAME"`
	Session   string `help:"Forget the executions of this session." placeholder:"NAME"`
	Execution string `help:"Forget this execution." placeholder:"HANDLE"`
	DryRun    bool   `help:"Only show the changes; with --json as JSON lines, one for each bullet."`
}

// Help implements kong.HelpProvider.
func (*forgetExecutions) Help() string {
	return `Removes bullets, changes of bullets and votes whose only evidence are the matching executions. A bullet with other evidence
as well goes into quarantine until a person reviews it. This is one change in the log, and a later restore does not undo
it. Nothing is erased physically: the log keeps the old entries.

Examples:

  debrief playbook forget --source scraped-forum --dry-run
  debrief playbook forget --execution 1234-ab12cd34 --reason "a prank"`
}

// Run implements the command.
func (f *forgetExecutions) Run(ctx context.Context, c *app.Common) error {
	selector := book.Selector{Source: f.Source, Session: f.Session, Execution: f.Execution}
	redact.Fields(&selector) // stored names are redacted, too
	if selector.Validate() != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--source, --session, --execution: at least one required"))
	}
	b, err := f.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	if f.DryRun {
		return f.preview(ctx, b, selector)
	}
	d, err := f.ask(ctx, b, &events.Edit{Forget: &selector})
	if err != nil {
		return err
	}
	return f.done(b, d, "Forgot %s; %s changed.", &selector, console.Plural(d.Changed, "bullet"))
}

// preview prints the changes that the Curator would make. It changes nothing.
func (f *forgetExecutions) preview(ctx context.Context, b *cli.Playbook, selector book.Selector) error {
	plan, err := edits.PlanForget(ctx, b.Conn, b.Book, selector)
	if err != nil {
		return err
	}
	if f.JSON {
		return showDifferences(plan.Changes, "", true)
	}
	console.Printf("Version %s of the playbook learned from %s of %s. Changes:\n\n", plan.Label, console.Plural(plan.Matched, "reflection"), &selector)
	return showDifferences(plan.Changes, "Nothing was changed.", false)
}
