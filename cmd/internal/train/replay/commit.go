package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/train/report"
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
	send := func(o bus.PublishOptions) chan editReply {
		replied := make(chan editReply, 1)
		requests.Go(func() {
			o.Repeat = true
			d, err := request.Edit(requestCtx, r.conn, e, o)
			if err == nil {
				r.state.addCuratorUsage(report.UsageOf(d.Usage))
			}
			replied <- editReply{d, err}
		})
		return replied
	}
	replied := send(bus.PublishOptions{}) // nil after a reply
	var retry <-chan time.Time            // nil unless the edit is requested again
	stalled := time.After(stallTime)
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case answer := <-replied:
			// Two errors do not end the commit. ErrDuplicate: an earlier request gets the reply, and the log shows when the edit is
			// applied. DeadLetterError: the tracker reads the dead letter, and deadReason below has its reason if it is final.
			err := answer.err
			if err != nil && !errors.Is(err, bus.ErrDuplicate) && !errors.As(err, new(*bus.DeadLetterError)) {
				return nil, fmt.Errorf("learn: %s: %w", e.Reason, err)
			}
			decision = answer.decision
			replied = nil
			if err != nil {
				retry = time.After(resendAfter)
			}
		case <-retry:
			replied = send(bus.PublishOptions{Copy: int(time.Now().UnixNano())})
		case <-stalled:
			r.sendStall(events.RoleCurator)
		case <-time.After(pollInterval):
		}
		applied, err := r.awaitApplied(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if applied && replied != nil {
			decision = lateDecision(ctx, replied)
		}
		if applied {
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

// lateDecision waits for the reply to an edit that the log has, up to stallTime, because only the reply has the model usage. It returns nil
// without a reply.
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
