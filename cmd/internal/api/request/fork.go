package request

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Fork copies a playbook at a version into a new one: the bullets with all their fields, and the settings. It leaves out what was learned
// from executions that were forgotten since. A text that would be refused today goes into quarantine. Fork returns the version at which
// the copy is complete, or 0 if there was nothing to copy. A Curator must run.
//
// A repeated call for the same playbooks and version continues an interrupted fork, also if the new playbook has learned something
// meanwhile.
func Fork(ctx context.Context, conn *bus.Conn, from playbook.Book, at explain.Version, to playbook.Book) (uint64, error) {
	store := deltalog.New(conn.JetStream())
	source, err := store.PlaybookAt(ctx, from, at.Number)
	if err != nil {
		return 0, explain.LogError(err)
	}
	origin := playbook.Fork{Of: from, At: at.Label()}
	kept, err := curator.ForkSource(ctx, store, origin) // without the bullets that were forgotten later
	if err != nil {
		return 0, explain.LogError(err)
	}
	done, err := coveredIDs(ctx, store, to)
	if err != nil {
		return 0, err
	}
	begun, _, err := history.ForkOf(store.History(ctx, to))
	if err != nil {
		return 0, explain.LogError(err)
	}
	if len(done) > 0 && begun != origin {
		return 0, program.Exit(program.ExitRefused, fmt.Errorf("playbook %q: already exists and is not a %s: choose another name", to, origin))
	}
	for _, e := range forkEdits(origin, source, kept, to) {
		if done[string(e.ID)] {
			continue
		}
		// A fork that is continued after a crash submits its last edit again. The server must store the copy, because only its Curator replies; the
		// log has the edit once.
		o := bus.PublishOptions{Repeat: true, Copy: int(time.Now().UnixNano())}
		if _, err := SubmitEdit(ctx, conn, e, o); err != nil {
			return 0, fmt.Errorf("fork %s: %w", from, err)
		}
	}
	_, complete, err := history.ForkOf(store.History(ctx, to))
	return complete, explain.LogError(err)
}

// forker is the author of the edits that copy a playbook into a new one.
const forker = "debrief"

// forkEdits returns the edits of a fork: one for each setting of the source that is not the default, and the kept
// bullets. The ids of the edits depend only on the arguments, so a repeated edit is a duplicate.
func forkEdits(origin playbook.Fork, source, kept *playbook.Playbook, to playbook.Book) []*events.Edit {
	var edits []*events.Edit
	addEdit := func() *events.Edit {
		e := &events.Edit{
			Book:   to,
			ID:     events.Hash("fork", string(origin.Of), origin.At, string(to), fmt.Sprint(len(edits))),
			Author: forker, Reason: origin.String(), Fork: &origin, Created: time.Now().UTC(),
		}
		edits = append(edits, e)
		return e
	}
	if mode, set := source.Gate(); set {
		addEdit().Gate = mode
	}
	a := source.Admission()
	if a.ReviewsFirst() {
		addEdit().Review = playbook.ReviewFirst
	}
	if a.Control != "" {
		addEdit().Control = a.Control
	}
	if name := source.LeadingScore(); name != "" {
		addEdit().LeadingScore = &name
	}
	if judge := source.Judge(); judge.Name != "" {
		addEdit().Judge = &judge
	}
	if about := source.About(); about != (playbook.About{}) {
		addEdit().About = &about
	}
	if len(edits) == 0 {
		addEdit()
	}
	// The bullets of the source decide where an edit ends. So a bullet that is forgotten during an interrupted fork moves no other one into an
	// edit that the log covers already. Bullets that only kept has come last.
	isInSource := func(b *playbook.Bullet) bool { return source.Bullet(b.ID) != nil }
	all := append(source.Sorted(), slices.DeleteFunc(kept.Sorted(), isInSource)...)
	for i, b := range all { // the first bullets go into the edit of the last setting, if there is one
		if i > 0 && i%PerEdit == 0 {
			addEdit()
		}
		if b = kept.Bullet(b.ID); b != nil {
			e := edits[len(edits)-1]
			e.Ops = append(e.Ops, playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: b})
		}
	}
	return slices.DeleteFunc(edits, func(e *events.Edit) bool { return len(e.Ops) == 0 && !e.ChangesSettings() })
}

// coveredIDs returns the ids of the edits and reflections that the log of a playbook covers.
func coveredIDs(ctx context.Context, store *deltalog.Store, b playbook.Book) (map[string]bool, error) {
	done := map[string]bool{}
	err := store.ReadLog(ctx, b, func(r *deltalog.Record) error {
		for _, c := range r.Covers {
			done[c.ID] = true
		}
		return nil
	})
	return done, explain.LogError(err)
}
