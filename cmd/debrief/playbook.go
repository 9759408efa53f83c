package main

import (
	"context"
	"errors"
	"fmt"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// playbook is the operator's view of books.
type playbook struct {
	Show    showBook    `cmd:"" help:"Show a playbook, as it is or as it was."`
	Log     logBook     `cmd:"" help:"List the changes of a playbook, newest first."`
	Diff    diffBook    `cmd:"" help:"Compare two versions."`
	Tag     tagBook     `cmd:"" help:"Give a version a name."`
	Restore restoreBook `cmd:"" help:"Bring back how the bullets were at a version."`

	Add    addBullet    `cmd:"" help:"Add a bullet."`
	Edit   editBullet   `cmd:"" help:"Change the text of a bullet."`
	Remove removeBullet `cmd:"" help:"Take bullets out."`
	Pin    pinBullet    `cmd:"" help:"Pin bullets: nothing prunes them."`
	Merge  mergeBullets `cmd:"" help:"Make one bullet of several."`
	Refine refineBook   `cmd:"" help:"Clear a playbook up: merge what says the same, retire what does harm. Shows its plan first."`

	Import importBook `cmd:"" help:"Bring in a playbook from a file."`
	Export exportBook `cmd:"" help:"Write a playbook for another system."`

	Fork    forkBook    `cmd:"" help:"Copy a playbook, as it is or as it was, into a new one."`
	Promote promoteBook `cmd:"" help:"Take over what a run over a data set learned."`

	Gate       gateBook   `cmd:"" help:"Show what the gate knows and does next, or turn it off, to shadow or on."`
	Quarantine quarantine `cmd:"" help:"Look through what waits for a person."`

	Why      whyBook      `cmd:"" help:"Explain a bullet, or what came of an execution."`
	Forget   forgetRuns   `cmd:"" help:"Take out what rests on certain executions."`
	Rejected rejectedBook `cmd:"" help:"List what was turned down, merged or dropped, and why."`
	Verify   verifyBook   `cmd:"" help:"Check every hash of the log and of its view."`
	Clean    cleanBook    `cmd:"" help:"Remove messages from the log's stream that are not part of the log."`
	Rebuild  rebuildBook  `cmd:"" help:"Drop the view and fold the log anew."`
}

// onBook are the flags of a command on one playbook.
type onBook struct {
	place
	Book string `help:"Which playbook." default:"default"`
}

// openBook is a playbook within reach.
type openBook struct {
	*session
	store *natskv.Store
	name  book.Book
}

func (o onBook) openBook(ctx context.Context, c *app.Common) (*openBook, error) {
	name, err := bookName(o.Book)
	if err != nil {
		return nil, err
	}
	s, err := o.open(ctx, c.Logger())
	if err != nil {
		return nil, err
	}
	return &openBook{s, natskv.New(s.JetStream()), name}, nil
}

// existing is a playbook that has a version.
func (o onBook) existing(ctx context.Context, c *app.Common) (*openBook, error) {
	b, err := o.openBook(ctx, c)
	if err != nil {
		return nil, err
	}
	known, err := b.store.Known(ctx)
	if err == nil && !contains(known, b.name) {
		err = app.Exit(app.ExitRefused, noBook(b.name, known))
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func contains(known []book.Book, name book.Book) bool {
	for _, k := range known {
		if k == name {
			return true
		}
	}
	return false
}

func noBook(name book.Book, known []book.Book) error {
	if len(known) == 0 {
		return fmt.Errorf("there is no playbook %q here, nor any other: 'debrief learn FILE' makes one, and so do tasks that 'debrief up' works on", name)
	}
	return fmt.Errorf("there is no playbook %q here; name one of these with --book: %v", name, known)
}

// broken is the error of a log that cannot be folded, with what to do about it.
func broken(err error) error {
	if errors.Is(err, natskv.ErrBrokenLog) {
		return app.Exit(app.ExitRefused, err)
	}
	return err
}

type showBook struct {
	onBook
	At     string `help:"How it was: a version, a time or a name; see 'debrief playbook diff --help'." placeholder:"POINT"`
	All    bool   `help:"Also what is not shown to generators: candidates, retired and quarantined bullets."`
	Prompt bool   `help:"Print it as a prompt has it, at most 30 bullets."`
	JSON   bool   `help:"Print JSON."`
}

// shownBook is the output of --json.
type shownBook struct {
	Book      book.Book      `json:"book"`
	Version   uint64         `json:"version"`
	Label     string         `json:"label"`
	StateHash string         `json:"state_hash"`
	Bullets   []*book.Bullet `json:"bullets"`
}

// Run implements the command.
func (sh *showBook) Run(ctx context.Context, c *app.Common) error {
	b, err := sh.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, label, err := b.at(ctx, sh.At)
	if err != nil {
		return err
	}
	bullets := p.Top(p.Len())
	if sh.All {
		bullets = p.Sorted()
	}
	switch {
	case sh.JSON:
		return writeJSON(console.Stdout, shownBook{b.name, p.Version(), label, fmt.Sprintf("%x", p.StateHash()), bullets})
	case sh.Prompt:
		console.Printf("%s", console.Block(book.Render(p.Top(30))))
	default:
		console.Printf("%s\nPlaybook %q at version %s: %d bullets, %d shown to generators. State %x.\n",
			showBullets(bullets), b.name, label, p.Len(), len(p.Top(p.Len())), p.StateHash())
	}
	return nil
}

// at is the playbook at a point, the newest one when that is empty, and its label.
func (b *openBook) at(ctx context.Context, point string) (*book.Playbook, string, error) {
	if point == "" {
		w, err := b.store.Writer(ctx, b.name)
		if err != nil {
			return nil, "", broken(err)
		}
		return w.State().Playbook(), book.Label(w.State().Playbook().Version(), w.State().Chain()), nil
	}
	m, err := b.moment(ctx, point)
	if err != nil {
		return nil, "", err
	}
	p, err := b.store.At(ctx, b.name, m.version)
	return p, m.label(), broken(err)
}
