package request

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// bestVersion is the name of the best version of a run's playbook.
const bestVersion = "best"

// Promotion is the plan to copy the changes of a run's playbook into another playbook, the target, and its result.
type Promotion struct {
	Book            playbook.Book                           `json:"book"`
	Run             playbook.Book                           `json:"run"`
	At              string                                  `json:"at"`             // label of the run's version
	Fork            string                                  `json:"fork,omitempty"` // playbook and version that the run began with; "" for an empty playbook
	Before          string                                  `json:"before"`         // label of the target's version before the change
	Changes         []history.Difference                    `json:"changes"`
	Conflicts       []history.Difference                    `json:"conflicts"`         // changes that conflict with the target, which keeps its own bullets
	ChangedInTarget []playbook.BulletID                     `json:"moved"`             // bullets of the target that have changed since the run began
	Renamed         map[playbook.BulletID]playbook.BulletID `json:"renamed"`           // new ids of the run's bullets whose ids the target has used
	Version         uint64                                  `json:"version,omitempty"` // of the target after the change
	Label           string                                  `json:"label,omitempty"`
	Promoted        bool                                    `json:"promoted"`
	// NeedsMerge is true if the plan changes something, and the target has changed since the run began.
	NeedsMerge bool `json:"needs_merge,omitempty"`

	ops    []playbook.Op
	before *playbook.Playbook // the target before the change
	after  *playbook.Playbook // the target after the change
}

// PlanPromotion returns the plan to copy the changes of a run at a version into the target. An empty version means the one
// named best, else the newest.
func PlanPromotion(ctx context.Context, store *deltalog.Store, versions Versions, run, target playbook.Book, point string) (*Promotion, error) {
	known, err := store.BooksWithLog(ctx)
	if err != nil {
		return nil, err
	}
	fork, start, err := history.ForkOf(store.History(ctx, run)) // the copy is complete at version start; 0 without a fork
	if err != nil {
		return nil, explain.LogError(err)
	}
	at, err := runVersion(ctx, versions, run, point)
	if err != nil {
		return nil, err
	}
	if at.Number < start {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--at: must be at least %d, the version at the start of the run, got %s", start, at.Label()))
	}
	learned, err := store.PlaybookAt(ctx, run, at.Number)
	if err != nil {
		return nil, explain.LogError(err)
	}
	base := new(playbook.Playbook)
	if slices.Contains(known, target) { // else the base stays empty: a new target also gets the bullets that the run began with
		if base, err = store.PlaybookAt(ctx, run, start); err != nil {
			return nil, explain.LogError(err)
		}
	}
	w, err := store.Writer(ctx, target)
	if err != nil {
		return nil, explain.LogError(err)
	}
	before := w.State().Playbook()
	plan := newPromotion(base, learned, before)
	plan.Book = target
	plan.Run = run
	plan.At = at.Label()
	plan.Before = playbook.VersionLabel(before.Version(), w.State().Chain())
	if start > 0 {
		plan.Fork = fork.String()
	}
	return plan, nil
}

// newPromotion returns the plan to copy the changes from base to learned, two states of the run, into the target.
func newPromotion(base, learned, target *playbook.Playbook) *Promotion {
	result := history.Promote(base, learned, target)
	none := []history.Difference{} // an empty JSON list instead of null
	plan := &Promotion{
		Changes: append(none, history.Diff(target, result.After)...), Conflicts: append(none, result.Skipped...), Renamed: result.Renamed,
		ChangedInTarget: []playbook.BulletID{}, ops: result.Ops, before: target, after: result.After,
	}
	for _, d := range result.ChangedInTarget {
		plan.ChangedInTarget = append(plan.ChangedInTarget, d.ID())
	}
	plan.NeedsMerge = len(plan.ChangedInTarget) > 0 && !plan.IsEmpty()
	return plan
}

// runVersion returns the version of a run to promote.
func runVersion(ctx context.Context, versions Versions, run playbook.Book, point string) (explain.Version, error) {
	if point != "" {
		return versions.Version(ctx, run, point)
	}
	best, err := versions.Version(ctx, run, bestVersion)
	if program.ExitCode(err) == program.ExitRefused { // the run has no version of this name
		return versions.Version(ctx, run, "newest")
	}
	return best, err
}

// IsEmpty reports whether the plan changes nothing.
func (p *Promotion) IsEmpty() bool { return len(p.ops) == 0 }

// ChangedInTargetText lists the first ten of ChangedInTarget, and counts the others.
func (p *Promotion) ChangedInTargetText() string {
	const limit = 10
	ids := p.ChangedInTarget
	if len(ids) <= limit {
		return term.Join(ids)
	}
	return fmt.Sprintf("%s and %d more", term.Join(ids[:limit]), len(ids)-limit)
}

// Reason returns the default reason of the change: the run and its version.
func (p *Promotion) Reason() string { return fmt.Sprintf("promotion of %s at %s", p.Run, p.At) }

// Submit sends the planned operations as edits with send, and records the new version. The Curator refuses an edit if one of its bullets
// has changed since the plan was made. Without merge it also refuses the edit if the target has any other new version.
func (p *Promotion) Submit(merge bool, send func(*events.Edit) (*events.EditReply, error)) error {
	version := p.before.Version() // of the target: the one that was planned for, then that of the newest edit
	state := p.before.Clone()     // the target after the edits so far
	for ops := range slices.Chunk(p.ops, PerEdit) {
		e := &events.Edit{Ops: ops, Expect: expectations(state, ops)}
		if !merge {
			e.BaseVersion = new(version)
		}
		d, err := send(e)
		if err != nil {
			return err
		}
		if _, err := state.Apply(&playbook.Delta{Version: state.Version() + 1, Ops: ops}); err != nil {
			return err
		}
		version = d.Version
		p.Version = version
		p.Label = playbook.VersionLabel(d.Version, d.Chain)
		p.Promoted = true
	}
	return nil
}

// Text formats the changes, the renamed bullets and the conflicts.
func (p *Promotion) Text() string {
	var out strings.Builder
	since := "from an empty playbook"
	if p.Fork != "" {
		since = "since " + p.Fork
	}
	term.Fprintf(&out, "Changes of %s at %s %s, applied to playbook %q:\n\n", p.Run, p.At, since, p.Book)
	term.Fprintln(&out, term.Block(explain.Differences(p.Changes, "")))
	for _, id := range slices.Sorted(maps.Keys(p.Renamed)) {
		term.Fprintf(&out, "%s gets the new id %s: the playbook has used its id.\n", id, p.Renamed[id])
	}
	if len(p.Conflicts) > 0 {
		term.Fprintf(&out, "%s with a conflict, not applied:\n", term.Plural(len(p.Conflicts), "bullet"))
		for _, d := range p.Conflicts {
			term.Fprintf(&out, "  %s  %s → keeps: %s\n", d.ID(), shortBullet(d.After), shortBullet(d.Before))
		}
	}
	return out.String()
}

// shortBullet returns the beginning of a bullet's text.
func shortBullet(b *playbook.Bullet) string {
	if b == nil {
		return "removed"
	}
	return term.OneLine(fmt.Sprintf("%q%s", b.Content, explain.Traits(b)), 60)
}
