package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/events"
	"debrief/events/bus"
)

// author is the author of the edits that a run requests.
const author = "train"

// editReply is the reply to an edit: a decision or an error.
type editReply struct {
	decision *events.EditReply
	err      error
}

// commit has the Curator apply an edit exactly once, and waits until the new version is visible to generators. A second call with the same id
// applies nothing. commit requests the edit, and then polls the log, because the reply may go to an earlier process. The decision is nil if the
// edit was applied before or the reply was lost.
func (r *run) commit(ctx context.Context, e *events.Edit) (decision *events.EditReply, err error) {
	e.Book, e.Created = r.book, time.Now().UTC()
	if applied, err := r.awaitApplied(ctx, e.ID); err != nil || applied {
		return nil, err
	}
	r.edits++
	r.tracker.forgetDead(e.ID) // a resumed run retries an edit that an earlier process lost as a dead letter
	var requests sync.WaitGroup
	defer requests.Wait()
	requestCtx, stop := context.WithCancel(ctx)
	defer stop()
	replied := r.requestEdit(requestCtx, &requests, e, 0) // nil after a reply
	var retry <-chan time.Time                            // nil unless the edit is requested again
	stalled := time.After(stallTime)
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case reply := <-replied:
			decision, replied = reply.decision, nil
			if reply.err != nil {
				if !mayStillApply(reply.err) {
					return nil, fmt.Errorf("learn: %s: %w", e.Reason, reply.err)
				}
				retry = time.After(resendAfter)
			}
		case <-retry:
			replied = r.requestEdit(requestCtx, &requests, e, int(time.Now().UnixNano()))
		case <-stalled:
			r.sendStall(events.RoleCurator)
		case <-time.After(pollInterval):
		}
		applied, err := r.awaitApplied(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		switch {
		case applied && replied != nil:
			return lateDecision(ctx, replied), nil
		case applied:
			return decision, nil
		}
		if err := r.submitter.resubmit(ctx); err != nil {
			return nil, err
		}
		if reason := r.tracker.deadReason(e.ID); reason != "" {
			return nil, fmt.Errorf("learn: %s: %s", e.Reason, reason)
		}
	}
}

// requestEdit requests an edit in a goroutine of the group. The channel gets the reply. A number of a copy other than 0 stores another copy of the
// edit; see bus.PublishOptions.
func (r *run) requestEdit(ctx context.Context, group *sync.WaitGroup, e *events.Edit, copyNumber int) <-chan editReply {
	replied := make(chan editReply, 1)
	group.Go(func() {
		d, err := request.Edit(ctx, r.conn, e, bus.PublishOptions{Repeat: true, Copy: copyNumber})
		replied <- editReply{d, err}
	})
	return replied
}

// mayStillApply reports whether an edit can be applied after its request has failed. After ErrDuplicate, an earlier request gets the reply.
// After a DeadLetterError, the tracker reads the dead letter and has its reason if it is final; see deadReason.
func mayStillApply(err error) bool {
	return errors.Is(err, bus.ErrDuplicate) || errors.As(err, new(*bus.DeadLetterError))
}

// lateDecision waits for the reply to an edit that the log has, up to stallTime, because only the reply has the number of skipped
// reflections. It returns nil without a reply.
func lateDecision(ctx context.Context, replied <-chan editReply) *events.EditReply {
	select {
	case answer := <-replied:
		return answer.decision
	case <-time.After(stallTime):
	case <-ctx.Done():
	}
	return nil
}

// pollInterval is the time between two reads of the log while a reply is missing. resendAfter is the delay before an
// edit is requested again whose reply went to an interrupted process.
const (
	pollInterval = 100 * time.Millisecond
	resendAfter  = 10 * time.Second
)

// awaitApplied reports whether the log has an edit. If so, it waits until the version of the edit is visible to generators.
func (r *run) awaitApplied(ctx context.Context, id events.ID) (bool, error) {
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
