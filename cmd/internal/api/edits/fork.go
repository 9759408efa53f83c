package edits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// Fork copies a playbook at a version into a new one: the bullets with all their fields, and the settings. What was forgotten since is
// left out, and a text that is refused today is in quarantine. It returns the version at which the copy is complete, or 0 if the source
// is empty. A repeated call for the same playbooks and version continues an interrupted fork, also after the new playbook has learned
// something. A Curator must run.
func Fork(ctx context.Context, conn *bus.Conn, from book.Book, at explain.Version, to book.Book) (uint64, error) {
	store := deltalog.New(conn.JetStream())
	source, err := store.PlaybookAt(ctx, from, at.Number)
	if err != nil {
		return 0, explain.LogError(err)
	}
	origin := book.Fork{Of: from, At: at.Label()}
	copied, err := curator.ForkSource(ctx, store, origin)
	if err != nil {
		return 0, explain.LogError(err)
	}
	done, err := coveredIDs(ctx, store, to)
	if err != nil {
		return 0, err
	}
	if is, _, err := history.ForkOf(store.History(ctx, to)); err != nil {
		return 0, explain.LogError(err)
	} else if len(done) > 0 && is != origin {
		return 0, program.Exit(program.ExitRefused, fmt.Errorf("playbook %q: already exists and is not a %s: choose another name", to, origin))
	}
	for _, e := range forkEdits(origin, source, copied, to) {
		if done[string(e.ID)] {
			continue
		}
		if err := requestForkEdit(ctx, conn, store, e); err != nil {
			return 0, fmt.Errorf("fork %s: %w", from, err)
		}
	}
	_, whole, err := history.ForkOf(store.History(ctx, to))
	return whole, explain.LogError(err)
}

// forker is the author of the edits that copy a playbook into a new one.
const forker = "debrief"

// forkEdits returns the edits of a fork: the settings of a playbook, and the bullets to copy. Their ids depend only on the arguments, so
// a repeated edit is a duplicate.
func forkEdits(origin book.Fork, source, copied *book.Playbook, to book.Book) []*events.Edit {
	var edits []*events.Edit
	edit := func() *events.Edit {
		e := &events.Edit{
			Book:   to,
			ID:     events.Hash("fork", string(origin.Of), origin.At, string(to), fmt.Sprint(len(edits))),
			Author: forker, Reason: origin.String(), Fork: &origin, Created: time.Now().UTC(),
		}
		edits = append(edits, e)
		return e
	}
	if mode, set := source.Gate(); set {
		edit().Gate = mode
	}
	if a := source.Admission(); a.ReviewsFirst() {
		edit().Review = book.ReviewFirst
	}
	if name := source.LeadingScore(); name != "" {
		edit().LeadingScore = &name
	}
	for i, b := range copied.Sorted() {
		if i%request.PerEdit == 0 && (i > 0 || len(edits) == 0) {
			edit()
		}
		e := edits[len(edits)-1]
		e.Ops = append(e.Ops, book.Op{Kind: book.Put, Bullet: b.ID, PutBullet: b})
	}
	return edits
}

// coveredIDs returns the ids of the edits and reflections that the log of a playbook covers.
func coveredIDs(ctx context.Context, store *deltalog.Store, b book.Book) (map[string]bool, error) {
	done := map[string]bool{}
	err := store.ReadLog(ctx, b, func(r *deltalog.Record) error {
		for _, c := range r.Covers {
			done[c.ID] = true
		}
		return nil
	})
	return done, explain.LogError(err)
}

// requestForkEdit submits one edit of a fork and waits until the log covers it. After a crash the same edit is submitted
// again. The server stores it once and reports a duplicate; requestForkEdit then polls the log.
func requestForkEdit(ctx context.Context, conn *bus.Conn, store *deltalog.Store, e *events.Edit) error {
	_, err := Request(ctx, conn, e, bus.PublishOptions{Repeat: true})
	if !errors.Is(err, bus.ErrDuplicate) {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	for {
		done, err := coveredIDs(wait, store, e.Book)
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
			return program.Exit(program.ExitUnreachable, &NoReplyError{After: bulkTimeout})
		}
		return err
	}
}
