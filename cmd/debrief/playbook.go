package main

import (
	"context"
	"fmt"
	"os"

	"debrief/cmd/internal/app"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// playbook is the operator's view of books.
type playbook struct {
	Show showBook `cmd:"" help:"Show a playbook."`
	Edit editBook `cmd:"" help:"Change the text of a bullet."`
}

type showBook struct {
	place
	Book   string `help:"Which playbook." default:"default"`
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
	name, err := bookName(sh.Book)
	if err != nil {
		return err
	}
	s, err := sh.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	store := natskv.New(s.JetStream())
	w, err := store.Writer(ctx, name)
	if err != nil {
		return err
	}
	p := w.State().Playbook()
	if p.Version() == 0 {
		known, err := store.Logged(ctx)
		if err != nil {
			return err
		}
		return app.Exit(app.ExitRefused, noBook(name, known))
	}
	bullets := p.Top(p.Len())
	if sh.All {
		bullets = p.Sorted()
	}
	label := book.Label(p.Version(), w.State().Chain())
	switch {
	case sh.JSON:
		return writeJSON(os.Stdout, shownBook{name, p.Version(), label, fmt.Sprintf("%x", p.StateHash()), bullets})
	case sh.Prompt:
		fmt.Print(book.Render(p.Top(30)))
	default:
		fmt.Printf("%s\nPlaybook %q at version %s: %d bullets, %d shown to generators. State %x.\n",
			showBullets(bullets), name, label, p.Len(), len(p.Top(p.Len())), p.StateHash())
	}
	return nil
}

func noBook(name book.Book, known []book.Book) error {
	if len(known) == 0 {
		return fmt.Errorf("there is no playbook %q here, nor any other: 'debrief learn FILE' makes one, and so do tasks that 'debrief up' works on", name)
	}
	return fmt.Errorf("there is no playbook %q here; name one of these with --book: %v", name, known)
}
