package capture

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/playbook"
)

// isPending reports whether a response is still to come: the model works in the background, and the client polls for its reply.
func isPending(c *Call, r *modelapi.Reply) bool {
	return c.Background && r.ID != "" && r.Finish == modelapi.FinishNone
}

// PendingCall is a call whose response is created in the background. It has the methods of an ActiveCall that store the reply.
type PendingCall struct {
	Run     events.ID
	store   *Store
	call    *Call // has only the caller and the playbook
	attempt attempt
}

// Poll returns the call that waits for a response, or nil if no open run of the caller's owner has such a call.
func (s *Store) Poll(ctx context.Context, caller events.Caller, book playbook.Book, response string) (*PendingCall, error) {
	call := &Call{Caller: caller, Book: book}
	key := call.keys().key(kindResponse, response)
	found, err := s.lookup(ctx, &s.closed, call.owns, key)
	if err != nil {
		return nil, fmt.Errorf("find the run of response %.80q: %w", response, err)
	}
	for _, c := range found[key].runs {
		if a := c.attemptAt(c.call); c.isOpen() && a != nil && a.State == inFlight {
			return &PendingCall{Run: c.ID, store: s, call: call, attempt: *a}, nil
		}
	}
	return nil, nil
}

// Finish stores the reply of a pending call. It ignores a reply that is still pending, and a poll that failed.
func (p *PendingCall) Finish(ctx context.Context, reply *modelapi.Reply, status int) error {
	pollFailed := status >= 300 && reply.Finish != modelapi.FinishFailed
	if reply.Finish == modelapi.FinishNone || pollFailed {
		return nil
	}
	stored, err := p.part(ctx)
	if err != nil {
		return fmt.Errorf("read a call of run %s: %w", p.Run, err)
	}
	stored.setReply(reply, status)
	e := callEnd{run: p.Run, part: stored}
	key := ""
	if reply.Complete() {
		key = p.call.keys().reply(p.attempt.Chain, reply.Calls, reply.Text)
		e.references = []referenceWrite{p.store.openReference(key, reference{Run: p.Run, Call: p.attempt.Call})}
	}
	if err := p.store.putEnd(ctx, e, func(r *run) { r.endAttempt(p.attempt.ID, key, reply, status, time.Now()) }); err != nil {
		return fmt.Errorf("store a call of run %s: %w", p.Run, err)
	}
	return nil
}

// part returns a copy of the stored part of the call, or a new part if none is stored. It returns errClosed if the run does not exist.
func (p *PendingCall) part(ctx context.Context) (*part, error) {
	r, err := p.store.latest(ctx, p.Run, nil)
	if err != nil {
		return nil, err
	}
	parts, _, err := p.store.parts(ctx, r.run)
	if err != nil {
		return nil, err
	}
	for _, c := range parts {
		if c.Call == p.attempt.Call && c.Try == p.attempt.Try {
			own := *c
			return &own, nil
		}
	}
	return &part{Call: p.attempt.Call, Try: p.attempt.Try, Begun: time.Now()}, nil
}

// Wait returns nil, because the beginning of the call is stored.
func (p *PendingCall) Wait(context.Context) error { return nil }

// Failed returns nil, because the beginning of the call is stored.
func (p *PendingCall) Failed() error { return nil }

// Hold returns false: the client need not wait, because it can poll again.
func (p *PendingCall) Hold() bool { return false }
