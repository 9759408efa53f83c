package replay

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/train/report"
	"debrief/events"
)

// author is the author of the edits that a run requests.
const author = "train"

// editReply is the reply to an edit: a decision or an error.
type editReply struct {
	decision *events.EditReply
	err      error
}

// commit has the Curator apply an edit exactly once, and waits until the new version is visible to generators. It can be called again
// with the same id. It requests the edit, and polls the log, because a reply may be lost. The decision is nil if the edit was applied
// before or the reply was lost.
func (r *run) commit(ctx context.Context, e *events.Edit) (*events.EditReply, error) {
	e.Book, e.Created = r.book, time.Now().UTC()
	if applied, err := r.applied(ctx, e.ID); err != nil || applied {
		return nil, err
	}
	r.edits++
	r.tracker.forgetDead(e.ID) // resuming a run retries an edit that was dead-lettered before
	requesting, stop := context.WithCancel(ctx)
	defer stop()
	replied := make(chan editReply, 1)
	go func() {
		d, err := request.Edit(requesting, r.conn, e, newCopy())
		replied <- editReply{d, err}
	}()
	var decision *events.EditReply
	var seen time.Time // when the log had the edit
	stalled := time.After(stallTime)
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case answer := <-replied:
			if answer.err != nil {
				return nil, fmt.Errorf("learn: %s: %w", e.Reason, answer.err)
			}
			decision = answer.decision
			r.state.addCuratorUsage(report.UsageOf(decision.Usage))
		case <-stalled:
			r.sendStall(events.RoleCurator)
		case <-time.After(pollInterval):
		}
		applied, err := r.applied(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if applied && seen.IsZero() {
			seen = time.Now()
		}
		// Only the reply has the model usage, which the report lacks without it.
		if applied && (decision != nil || time.Since(seen) > stallTime) {
			return decision, nil
		}
		if reason := r.tracker.deadReason(e.ID); reason != "" {
			return nil, fmt.Errorf("learn: %s: %s", e.Reason, reason)
		}
	}
}

// pollInterval is the time between two reads of the log while a reply is missing.
const pollInterval = 100 * time.Millisecond

// applied reports whether the log has an edit. It then waits until the version of the edit is visible to generators.
func (r *run) applied(ctx context.Context, id events.ID) (bool, error) {
	if r.log.editVersions[id] == 0 {
		if err := r.log.follow(ctx); err != nil {
			return false, err
		}
	}
	version := r.log.editVersions[id]
	if version == 0 {
		return false, nil
	}
	r.version = version
	return true, r.follow.Wait(ctx, version)
}
