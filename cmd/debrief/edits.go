package main

import (
	"context"
	"fmt"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/curator"
	"debrief/events"
	"debrief/playbook/history"

	"debrief/events/redact"
	book "debrief/playbook"
)

type addBullet struct {
	change
	Content string `arg:"" help:"What it says."`
	Section string `help:"Where it belongs." default:"others"`
}

// Run implements the command.
func (a *addBullet) Run(ctx context.Context, c *app.Common) error {
	content, err := book.CleanContent(a.Content)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	b, err := a.openBook(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := a.ask(ctx, b, &events.Edit{Ops: []book.Op{{Kind: book.Add, Section: sectionOf(a.Section), Content: content}}})
	if err != nil {
		return err
	}
	return a.done(b, d, "Added %v.", d.Added)
}

type editBullet struct {
	change
	Bullet  bulletArg `arg:"" help:"Id of the bullet."`
	Content string    `help:"The new text." placeholder:"TEXT"`
	Section string    `help:"The new section." placeholder:"NAME"`
	Read    string    `help:"The version at which you read it: the edit is refused, with the difference, if the bullet has changed since. Default: now." placeholder:"VERSION"`
}

// Run implements the command.
func (ed *editBullet) Run(ctx context.Context, c *app.Common) error {
	if ed.Content == "" && ed.Section == "" {
		return app.Exit(app.ExitUsage, fmt.Errorf("--content, --section: want one of them"))
	}
	content := ed.Content
	if content != "" {
		var err error
		if content, err = book.CleanContent(content); err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--content: %w", err))
		}
	}
	b, err := ed.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	was, err := b.expect(ctx, ed.Read, ed.Bullet.id())
	if err != nil {
		return err
	}
	op := book.Op{Kind: book.Update, Bullet: ed.Bullet.id(), Content: content}
	if content == "" {
		op.Content = was[0].Content
	}
	if ed.Section != "" {
		op.Section = sectionOf(ed.Section)
	}
	d, err := ed.ask(ctx, b, &events.Edit{Ops: []book.Op{op}, Expect: was})
	if err != nil {
		return err
	}
	return ed.done(b, d, "Changed %s.", op.Bullet)
}

type removeBullet struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
	Read    string      `help:"The version at which you read them; see 'edit'." placeholder:"VERSION"`
}

// Run implements the command.
func (r *removeBullet) Run(ctx context.Context, c *app.Common) error {
	return r.each(ctx, c, r.Bullets, r.Read, "Removed", func(id book.BulletID) book.Op {
		return book.Op{Kind: book.Remove, Bullet: id}
	})
}

type pinBullet struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
	Off     bool        `help:"Take the pin out."`
}

// Run implements the command.
func (p *pinBullet) Run(ctx context.Context, c *app.Common) error {
	did := "Pinned"
	if p.Off {
		did = "Unpinned"
	}
	return p.each(ctx, c, p.Bullets, "", did, func(id book.BulletID) book.Op {
		return book.Op{Kind: book.Pin, Bullet: id, Pinned: !p.Off}
	})
}

// each asks for one operation on each of some bullets.
func (ch *change) each(ctx context.Context, c *app.Common, bullets []bulletArg, read, did string, op func(book.BulletID) book.Op) error {
	b, err := ch.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	e := new(events.Edit)
	if e.Expect, err = b.expect(ctx, read, ids(bullets)...); err != nil {
		return err
	}
	for _, id := range ids(bullets) {
		e.Ops = append(e.Ops, op(id))
	}
	d, err := ch.ask(ctx, b, e)
	if err != nil {
		return err
	}
	return ch.done(b, d, "%s %s.", did, joined(ids(bullets)))
}

func joined(ids []book.BulletID) string {
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = string(id)
	}
	return strings.Join(text, ", ")
}

type mergeBullets struct {
	change
	Keep    bulletArg   `arg:"" help:"Id of the bullet that stays."`
	Others  []bulletArg `arg:"" help:"Ids of those that go into it, with their votes."`
	Content string      `help:"What the one says. Default: what it says already." placeholder:"TEXT"`
	Read    string      `help:"The version at which you read them; see 'edit'." placeholder:"VERSION"`
}

// Run implements the command.
func (m *mergeBullets) Run(ctx context.Context, c *app.Common) error {
	b, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	all := append([]book.BulletID{m.Keep.id()}, ids(m.Others)...)
	was, err := b.expect(ctx, m.Read, all...)
	if err != nil {
		return err
	}
	op := book.Op{Kind: book.Merge, Bullet: all[0], Sources: all[1:], Content: was[0].Content}
	if m.Content != "" {
		if op.Content, err = book.CleanContent(m.Content); err != nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--content: %w", err))
		}
	}
	d, err := m.ask(ctx, b, &events.Edit{Ops: []book.Op{op}, Expect: was})
	if err != nil {
		return err
	}
	return m.done(b, d, "Merged %s into %s.", joined(all[1:]), all[0])
}

type tagBook struct {
	change
	Name    string `arg:"" help:"The name. One that is there already moves."`
	Version string `arg:"" optional:"" help:"The version. Default: the newest." placeholder:"POINT"`
}

// Help implements kong.HelpProvider.
func (*tagBook) Help() string {
	return pointHelp + `

Examples:

  debrief playbook tag before-import
  debrief playbook tag release-3 17`
}

// Run implements the command.
func (t *tagBook) Run(ctx context.Context, c *app.Common) error {
	if err := (book.Name{Name: t.Name}).Validate(); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if t.Name == "newest" {
		return app.Exit(app.ExitUsage, fmt.Errorf("name %q: stands for the newest version already", t.Name))
	}
	b, err := t.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	point := t.Version
	if point == "" {
		point = "newest"
	}
	m, err := b.moment(ctx, point)
	if err != nil {
		return err
	}
	if m.version == 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("version 0 is always the empty playbook and needs no name"))
	}
	d, err := t.ask(ctx, b, &events.Edit{Names: []book.Name{{Name: t.Name, Version: m.version}}})
	if err != nil {
		return err
	}
	return t.done(b, d, "Version %s is %q.", m.label(), t.Name)
}

type restoreBook struct {
	change
	Version string `arg:"" help:"The version." placeholder:"POINT"`
	Read    string `help:"The newest version that you have seen: the restore is refused if there is a newer one by now. Default: what was learned meanwhile goes as well." placeholder:"VERSION"`
}

// Help implements kong.HelpProvider.
func (*restoreBook) Help() string {
	return `The bullets become what they were, by a new change on top: nothing is rewritten, and restoring the version before
undoes it. What was forgotten since stays forgotten, and ids are not used again.

` + pointHelp
}

// Run implements the command.
func (r *restoreBook) Run(ctx context.Context, c *app.Common) error {
	b, err := r.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	m, err := b.moment(ctx, r.Version)
	if err != nil {
		return err
	}
	e := &events.Edit{Restore: &m.version}
	if r.Read != "" {
		seen, err := b.moment(ctx, r.Read)
		if err != nil {
			return err
		}
		e.Seen = &seen.version
	}
	d, err := r.ask(ctx, b, e)
	if err != nil {
		return err
	}
	return r.done(b, d, "The bullets are as they were at version %s; %d of them changed.", m.label(), d.Changed)
}

type rebuildBook struct{ change }

// Help implements kong.HelpProvider.
func (*rebuildBook) Help() string {
	return `The view is what generators follow: a key for each bullet and a head. The log of changes is the truth. A rebuild
writes every key anew from the log; it asks no model and no clock, and the state hash is the same.`
}

// Run implements the command.
func (r *rebuildBook) Run(ctx context.Context, c *app.Common) error {
	b, err := r.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := r.ask(ctx, b, &events.Edit{Rebuild: true})
	if err != nil {
		return err
	}
	p, err := b.store.At(ctx, b.name, d.Version)
	if err != nil {
		return broken(err)
	}
	return r.done(b, d, "The view is written anew: %d bullets, state %x.", p.Len(), p.StateHash())
}

type forgetRuns struct {
	change
	Source    string `help:"Executions that come from there, such as 'tau-bench'." placeholder:"NAME"`
	Session   string `help:"Executions of this session." placeholder:"NAME"`
	Execution string `help:"This execution." placeholder:"HANDLE"`
	DryRun    bool   `help:"Only show what would change."`
}

// Help implements kong.HelpProvider.
func (*forgetRuns) Help() string {
	return `What rests on the matching executions alone goes: bullets, changes of bullets, votes. A bullet that something else
has changed or confirmed as well goes into quarantine until a person looks at it. The forgetting is a change of its own
in the log; no later restore brings back what it took out. It erases nothing physically: the log keeps what was.

Examples:

  debrief playbook forget --source scraped-forum --dry-run
  debrief playbook forget --execution 1234-ab12cd34 --reason "a prank"`
}

// Run implements the command.
func (f *forgetRuns) Run(ctx context.Context, c *app.Common) error {
	what := book.Selector{Source: f.Source, Session: f.Session, Execution: f.Execution}
	redact.Fields(&what) // as the names are stored
	if what.Validate() != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--source, --session, --execution: want at least one of them"))
	}
	b, err := f.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	if f.DryRun {
		return f.plan(ctx, b, what)
	}
	d, err := f.ask(ctx, b, &events.Edit{Forget: &what})
	if err != nil {
		return err
	}
	return f.done(b, d, "Forgot what rests on %s; %s changed.", &what, plural(d.Changed, "bullet"))
}

// plan shows what would change, computed as the Curator would; it changes nothing.
func (f *forgetRuns) plan(ctx context.Context, b *openBook, what book.Selector) error {
	now, label, err := b.at(ctx, "")
	if err != nil {
		return err
	}
	log := b.store.History(ctx, b.name)
	if err := curator.ResolveSample(ctx, b.Conn, log, &what); err != nil {
		return err
	}
	then, err := history.Without(log, what)
	if err != nil {
		return broken(err)
	}
	if then.Matched == 0 {
		return app.Exit(app.ExitRefused, fmt.Errorf("nothing in the playbook rests on %s", &what))
	}
	differences := history.Between(now, then.Playbook)
	if f.JSON {
		return showDifferences(differences, "", true)
	}
	console.Printf("The playbook at version %s learned from %s of %s. To forget that would be:\n\n", label, plural(then.Matched, "reflection"), &what)
	return showDifferences(differences, "Nothing was changed.", false)
}

// sectionOf returns the stored form of a section. A secret is replaced first: Section changes the characters that identify it.
func sectionOf(text string) string { return book.Section(redact.ID(text)) }
