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
	"debrief/events/deltalog"
	"debrief/playbook"
)

// author is the author of the edits that a run requests.
const author = "train"

// committer has the Curator apply the edits of a run exactly once.
type committer struct {
	conn      *bus.Conn
	book      playbook.Book
	log       *bookLog
	follow    *deltalog.Follower
	submitter *submitter
	state     *state
	onStall   func(waitsFor string) // may be nil
	*position

	requested int // edits requested by this process
}

// editReply is the reply to an edit: a decision or an error.
type editReply struct {
	decision *events.EditReply
	err      error
}

// commit has the Curator apply an edit exactly once. It can be called again with the same id. The decision is nil if
// the edit was applied before or the reply was lost.
func (c *committer) commit(ctx context.Context, e *events.Edit) (decision *events.EditReply, err error) {
	e.Book, e.Created = c.book, time.Now().UTC()
	if v, err := c.appliedIn(ctx, e.ID); err != nil || v > 0 {
		return nil, c.waitVisible(ctx, v, err)
	}
	c.requested++
	c.submitter.tracker.forgetDead(e.ID) // resuming a run retries an edit that was dead-lettered before
	var requests sync.WaitGroup
	defer requests.Wait()
	requesting, stop := context.WithCancel(ctx)
	defer stop()
	send := func(m bus.PublishOptions) chan editReply {
		replied := make(chan editReply, 1)
		requests.Go(func() {
			d, err := c.request(requesting, e, m)
			replied <- editReply{d, err}
		})
		return replied
	}
	replied := send(bus.PublishOptions{})
	var retry <-chan time.Time
	notice := newStallNotice(c.onStall)
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case answer := <-replied:
			// ErrDuplicate: the edit was requested a moment ago, and the reply goes to that request; the log tells
			// when it is applied. DeadLetterError: the dead letter tells whether to submit another copy.
			err := answer.err
			if err != nil && !errors.Is(err, bus.ErrDuplicate) && !errors.As(err, new(*bus.DeadLetterError)) {
				return nil, fmt.Errorf("learn: %w", err)
			}
			decision = answer.decision
			if replied = nil; err != nil { // without an effect, the edit is requested again
				retry = time.After(resendAfter)
			}
		case <-retry:
			replied = send(bus.PublishOptions{Copy: int(time.Now().UnixNano())})
		case <-time.After(pollInterval):
		}
		v, err := c.appliedIn(ctx, e.ID)
		if err != nil || v > 0 {
			if replied != nil {
				decision = lateDecision(ctx, replied)
			}
			return decision, c.waitVisible(ctx, v, err)
		}
		if err := c.submitter.resubmit(ctx); err != nil {
			return nil, err
		}
		if why := c.submitter.tracker.deadReason(e.ID); why != "" {
			return nil, fmt.Errorf("learn: %s: %s", e.Reason, why)
		}
		notice.check(events.RoleCurator)
	}
}

// lateDecision waits for the reply to an edit that the log covers. It returns nil after stallTime. Only the reply has
// the model usage, which the report lacks without it.
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

// request sends an edit to the Curator and waits for the decision.
func (c *committer) request(ctx context.Context, e *events.Edit, m bus.PublishOptions) (*events.EditReply, error) {
	m.Repeat = true
	d, err := request.Edit(ctx, c.conn, e, m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Reason, err)
	}
	c.state.addCuratorUsage(report.UsageOf(d.Usage))
	return d, nil
}

// appliedIn reads new log records and returns the version in which an edit took effect, 0 before that.
func (c *committer) appliedIn(ctx context.Context, id events.ID) (uint64, error) {
	if v := c.log.editVersions[id]; v > 0 {
		return v, nil
	}
	err := c.log.follow(ctx)
	return c.log.editVersions[id], err
}

// waitVisible waits until a version is visible to generators.
func (c *committer) waitVisible(ctx context.Context, version uint64, err error) error {
	if err != nil {
		return err
	}
	c.version = version
	return c.follow.Wait(ctx, version)
}
