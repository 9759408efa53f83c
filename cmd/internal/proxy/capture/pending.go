package capture

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/direct"
	"debrief/events/redact"
	"debrief/playbook"
)

// isPending reports whether a response is still to come: the model works in the background, and the client polls for its reply.
func isPending(c *Call, r *modelapi.Reply) bool {
	return c.Background && r.ID != "" && r.Finish == modelapi.FinishNone
}

// Pending is a call whose response is created in the background.
type Pending struct {
	Run     events.ID
	store   *Store
	call    *Call // has only the owner and the playbook
	attempt attempt
}

// Poll returns the call that waits for a response, or nil if no open run of the owner has such a call.
func (s *Store) Poll(ctx context.Context, owner string, book playbook.Book, response string) (*Pending, error) {
	lists, _, err := s.candidates(ctx, &s.closed, owner, keys{owner, book}.of(ofResponse, response))
	if err != nil {
		return nil, fmt.Errorf("find the run of response %.80q: %w", response, err)
	}
	for _, c := range lists[0] {
		if a := c.known(c.call); c.open() && a != nil && a.State == inFlight {
			return &Pending{Run: c.ID, store: s, call: &Call{Owner: owner, Book: book}, attempt: *a}, nil
		}
	}
	return nil, nil
}

// Finish stores the reply of a pending call. A reply that is still pending changes nothing, and neither does a poll that failed.
func (p *Pending) Finish(ctx context.Context, reply *modelapi.Reply, status int) error {
	pollFailed := status >= 300 && reply.Finish != modelapi.FinishFailed
	if reply.Finish == modelapi.FinishNone || pollFailed {
		return nil
	}
	stored, err := p.part(ctx)
	if err != nil {
		return fmt.Errorf("read a call of run %s: %w", p.Run, err)
	}
	key := ""
	stored.Finish = reply.Finish
	stored.Status = status
	stored.Usage = reply.Usage
	stored.Ended = time.Now()
	stored.Complete = reply.Complete()
	if stored.Complete {
		key = p.call.keys().reply(p.attempt.Chain, reply.Calls, reply.Text)
		stored.Reply = newItem(modelapi.Item{Role: modelapi.RoleAssistant, Text: reply.Text, Calls: reply.Calls})
	}
	stored.shrink()
	redact.Fields(stored)
	if err := p.storePart(ctx, stored, key); err != nil {
		return fmt.Errorf("store a call of run %s: %w", p.Run, err)
	}
	_, err = p.store.update(ctx, p.Run, nil, func(r *run) error {
		if stored.small() {
			r.addPart(stored)
		}
		r.end(p.attempt.ID, key, reply, status, time.Now())
		return nil
	})
	return err
}

// part returns a copy of the stored part of the call, or a new part if none is stored.
func (p *Pending) part(ctx context.Context) (*part, error) {
	found, err := p.store.runs(ctx, []events.ID{p.Run})
	if err != nil {
		return nil, err
	}
	stored := &part{Number: p.attempt.Call, Attempt: p.attempt.Number, Begun: time.Now()}
	if r := found[p.Run].run; r != nil {
		for _, c := range r.Parts {
			if c.Number == stored.Number && c.Attempt == stored.Attempt {
				own := *c
				return &own, nil
			}
		}
	}
	err = p.store.open.last(ctx, []string{stored.key(p.Run)}, func(m *direct.Message) error {
		if c, err := decode[part](m); err == nil && c != nil {
			stored = c
		}
		return nil
	})
	return stored, err
}

func (p *Pending) storePart(ctx context.Context, stored *part, key string) error {
	if !stored.small() {
		if _, err := p.store.open.put(ctx, stored.key(p.Run), stored, openTTL); err != nil {
			return err
		}
	}
	if key == "" {
		return nil
	}
	return p.store.refer(ctx, reference{Run: p.Run, Call: p.attempt.Call}, []write{{&p.store.open, key, string(p.Run), openTTL}})
}

// Wait returns nil, because the beginning of the call is stored.
func (p *Pending) Wait(context.Context) error { return nil }

// Hold returns false: the client need not wait, because it can poll again.
func (p *Pending) Hold() bool { return false }
