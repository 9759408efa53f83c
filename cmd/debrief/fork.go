package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/history"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

type forkBook struct {
	onBook
	To string `arg:"" help:"The new playbook." placeholder:"NEW"`
	At string `help:"How it was: a version, a time or a name; see 'debrief playbook diff --help'." default:"newest" placeholder:"POINT"`
}

// Run implements the command.
func (f *forkBook) Run(ctx context.Context, c *app.Common) error {
	to := book.Book(f.To)
	if err := to.Validate(); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	b, err := f.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	known, err := b.store.Logged(ctx)
	if err != nil {
		return err
	}
	if contains(known, to) {
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q is there already: choose another name", to))
	}
	at, err := b.moment(ctx, f.At)
	if err != nil {
		return err
	}
	var whole uint64
	err = b.curated(ctx, func() (err error) {
		whole, err = fork(ctx, b.session, b.name, at, to)
		return err
	})
	if err != nil {
		return err
	}
	if whole == 0 {
		console.Printf("Playbook %q at version %s is empty: there is nothing to copy.\n", b.name, at.label())
		return nil
	}
	p, err := b.store.At(ctx, to, whole)
	if err != nil {
		return broken(err)
	}
	console.Printf("Playbook %q is a copy of %q at version %s: %s.\n", to, b.name, at.label(), plural(p.Len(), "bullet"))
	return nil
}

// fork makes a book that begins as a copy of another one as it was at a version: its bullets, with all that is known of
// them, and its gate. It returns the version at which the copy is whole, 0 where there is nothing to copy. Called again
// for the same books and version it goes on where it was, also after the new book has learned something. The Curator has
// to run.
func fork(ctx context.Context, s *session, from book.Book, at moment, to book.Book) (uint64, error) {
	store := natskv.New(s.JetStream())
	source, err := store.At(ctx, from, at.version)
	if err != nil {
		return 0, broken(err)
	}
	origin := history.Fork{Of: from, At: at.label()}
	done, err := coveredIn(ctx, store, to)
	if err != nil {
		return 0, err
	}
	if is, _, err := history.ForkOf(store.History(ctx, to)); err != nil {
		return 0, broken(err)
	} else if len(done) > 0 && is != origin {
		return 0, app.Exit(app.ExitRefused, fmt.Errorf("playbook %q is there already, and is no %s: choose another name", to, origin))
	}
	for _, e := range forkEdits(origin, source, to) {
		if done[string(e.ID)] {
			continue
		}
		if err := askForFork(ctx, s, store, e); err != nil {
			return 0, fmt.Errorf("fork %s: %w", from, err)
		}
	}
	_, whole, err := history.ForkOf(store.History(ctx, to))
	return whole, broken(err)
}

// forkEdits are the edits of a fork. Their ids are the same whenever they are asked for.
func forkEdits(origin history.Fork, source *book.Playbook, to book.Book) []*events.Edit {
	var edits []*events.Edit
	edit := func() *events.Edit {
		e := &events.Edit{
			ID:     events.Hash("fork", string(origin.Of), origin.At, string(to), fmt.Sprint(len(edits))),
			Author: history.Forker, Reason: origin.String(), Created: time.Now().UTC(),
		}
		e.Book = to
		edits = append(edits, e)
		return e
	}
	if mode, set := source.Gate(); set {
		edit().Gate = mode
	}
	for i, b := range source.Sorted() {
		if i%perEdit == 0 && (i > 0 || len(edits) == 0) {
			edit()
		}
		e := edits[len(edits)-1]
		e.Ops = append(e.Ops, book.Op{Kind: book.Put, Bullet: b.ID, Whole: b})
	}
	return edits
}

// coveredIn is the ids of the edits and reflections that a book's log has the effect of.
func coveredIn(ctx context.Context, store *natskv.Store, b book.Book) (map[string]bool, error) {
	done := map[string]bool{}
	err := store.Log(ctx, b, func(r *natskv.Record) error {
		for _, c := range r.Covers {
			done[c.ID] = true
		}
		return nil
	})
	return done, broken(err)
}

// askForFork asks for one edit of a fork and waits until it is done. Who died while it waited may ask again: the edit is
// stored once, and then it is the log that answers.
func askForFork(ctx context.Context, s *session, store *natskv.Store, e *events.Edit) error {
	d, err := request(ctx, s.Conn, e, bus.Marks{Repeat: true})
	if err == nil && len(d.Refused) > 0 {
		return app.Exit(app.ExitRefused, errors.New(strings.Join(d.Refused, "; ")))
	}
	if !errors.Is(err, bus.ErrDuplicate) {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, muchPatience)
	defer cancel()
	for {
		done, err := coveredIn(wait, store, e.Book)
		if done[string(e.ID)] {
			return nil
		}
		if err == nil {
			select {
			case <-wait.Done():
				err = wait.Err()
			case <-time.After(50 * time.Millisecond):
				continue
			}
		}
		if wait.Err() != nil && ctx.Err() == nil {
			return app.Exit(app.ExitUnreachable, fmt.Errorf("no curator worked on it in %s: it is stored and will be done when one runs", muchPatience))
		}
		return err
	}
}
