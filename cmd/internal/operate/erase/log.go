package erase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/erasure"
	"debrief/playbook"
	"debrief/playbook/history"
)

// author is the author of the changes of an erasure in the logs.
const author = "erasure"

// searchLogs adds the runs that the logs of the playbooks have evidence of, and what the playbooks must forget.
func (e *Eraser) searchLogs(ctx context.Context, f *found) error {
	books, err := e.logs.BooksWithLog(ctx)
	if err != nil {
		return fmt.Errorf("list playbooks: %w", err)
	}
	f.books = books
	for _, b := range books {
		e.progress(fmt.Sprintf("search the log of playbook %q", b))
		var edits []bookEdit
		err := e.logs.ReadLog(ctx, b, func(r *deltalog.Record) error {
			for i := range r.Covers {
				c := &r.Covers[i]
				e.addEvidence(b, &r.Delta, c.Evidence, f)
				if c.Evidence == nil {
					edits = append(edits, bookEdit{b, c.ID})
				}
			}
			if r.Author == author && r.Forget != nil {
				for _, edit := range edits {
					f.handled[edit] = true
				}
				edits = nil
			}
			return nil
		})
		if errors.Is(err, deltalog.ErrBrokenLog) { // 'debrief playbook verify' says so; the streams are erased all the same
			continue
		}
		if err != nil {
			return fmt.Errorf("search the log of playbook %q: %w", b, err)
		}
	}
	return nil
}

// addEvidence adds an execution that a delta covers, if it is erased and its texts are still in the log.
func (e *Eraser) addEvidence(b playbook.Book, d *playbook.Delta, x *playbook.Evidence, f *found) {
	if x == nil || playbook.IsErased(x.Excerpt) {
		return
	}
	a := aboutEvidence(b, d.Time, x)
	kind, erased := e.filter.Match(&a)
	if !erased || kind == erasure.OfBook {
		return
	}
	f.addRun(&a, nil)
	selector := playbook.Selector{Execution: x.Execution}
	switch kind {
	case erasure.OfUser:
		selector = playbook.Selector{User: x.User}
	case erasure.OfSession:
		selector = playbook.Selector{Session: x.Session, Owner: x.Owner}
	}
	f.forgets[bookSelector{b, selector}] = true
}

// aboutEvidence returns what evidence is about. Its run began before the delta.
func aboutEvidence(b playbook.Book, learned time.Time, x *playbook.Evidence) erasure.About {
	return erasure.About{Book: b, Owner: x.Owner, User: x.User, Session: x.Session, Runs: []string{x.Execution, x.Sample}, Began: learned}
}

// eraseLogs forgets the found runs, and replaces the deltas that have their texts. It also completes the work of an interrupted call. It
// returns the number of replaced deltas.
func (e *Eraser) eraseLogs(ctx context.Context, f *found) (versions int, err error) {
	selectors := make([]bookSelector, 0, len(f.forgets))
	for s := range f.forgets {
		selectors = append(selectors, s)
	}
	slices.SortFunc(selectors, func(a, b bookSelector) int {
		return strings.Compare(string(a.book)+a.selector.String(), string(b.book)+b.selector.String())
	})
	for _, s := range selectors {
		e.progress(fmt.Sprintf("forget in playbook %q, which needs a curator", s.book))
		if err := e.edit(ctx, &events.Edit{Book: s.book, Forget: &s.selector}); err != nil {
			return 0, fmt.Errorf("forget in playbook %q: %w", s.book, err)
		}
	}
	for _, b := range f.books {
		n, err := e.redactLog(ctx, b)
		versions += n
		if errors.Is(err, deltalog.ErrBrokenLog) {
			continue
		}
		if err != nil {
			return versions, fmt.Errorf("erase texts of playbook %q: %w", b, err)
		}
	}
	return versions, nil
}

// redactLog replaces the deltas of a playbook that have texts of erased runs.
func (e *Eraser) redactLog(ctx context.Context, b playbook.Book) (versions int, err error) {
	isErased, err := e.erasedEvidence(ctx, b)
	if err != nil {
		return 0, err
	}
	redactor, err := history.NewRedactor(e.logs.History(ctx, b), isErased)
	if err != nil {
		return 0, err
	}
	all, err := e.logs.Redact(ctx, b, redactor.Redact)
	if err != nil {
		return 0, err
	}
	for list := range slices.Chunk(all, events.MaxRedact) {
		e.progress(fmt.Sprintf("erase the texts of %d versions of playbook %q, which needs a curator", len(list), b))
		if err := e.edit(ctx, &events.Edit{Book: b, Redact: list}); err != nil {
			return 0, err
		}
	}
	removed, err := e.logs.RemoveRedacted(ctx, b)
	if err != nil || removed == 0 {
		return len(all), err
	}
	return len(all), e.edit(ctx, &events.Edit{Book: b, Rebuild: true}) // the bytes of removed bullets leave the view
}

// erasedEvidence returns a function that reports whether the execution of a piece of evidence is erased.
func (e *Eraser) erasedEvidence(ctx context.Context, b playbook.Book) (func(*playbook.Evidence) bool, error) {
	erased := map[string]bool{}
	err := e.logs.ReadLog(ctx, b, func(r *deltalog.Record) error {
		for i := range r.Covers {
			if x := r.Covers[i].Evidence; x != nil {
				a := aboutEvidence(b, r.Time, x)
				if kind, ok := e.filter.Match(&a); ok && kind != erasure.OfBook { // else the whole log goes
					erased[x.Execution] = true
				}
			}
		}
		return nil
	})
	return func(x *playbook.Evidence) bool { return erased[x.Execution] }, err
}

// edit sends an edit and waits for the curator. A refused edit is an error.
func (e *Eraser) edit(ctx context.Context, edit *events.Edit) error {
	edit.ID, edit.Author, edit.Created = events.NewID(), author, time.Now().UTC()
	reply, err := bus.Request[events.EditReply](ctx, e.conn, edit, bus.PublishOptions{})
	if err != nil {
		return err
	}
	return reply.Err()
}
