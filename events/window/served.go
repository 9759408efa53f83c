package window

import (
	"context"
	"errors"
	"fmt"

	"debrief/events"
	"debrief/playbook"
)

const contexts bucket = events.BucketContexts

// ErrUnknown is returned when no context with an id is there: it has expired or never was.
var ErrUnknown = errors.New("no such context")

// PutServed keeps a context that was served, until it expires.
func (s *Store) PutServed(ctx context.Context, c *events.Served) error {
	err := validKey(c.ID)
	if err == nil {
		err = s.put(ctx, contexts, string(c.ID), c)
	}
	if err != nil {
		return fmt.Errorf("keep context %.80q: %w", string(c.ID), err)
	}
	return nil
}

// Served is the context that was served under an id. The id may be anything: agents send it.
func (s *Store) Served(ctx context.Context, id events.ID) (*events.Served, error) {
	c, err := s.served(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read context %.80q: %w", string(id), err)
	}
	return c, nil
}

func (s *Store) served(ctx context.Context, id events.ID) (*events.Served, error) {
	if validKey(id) != nil {
		return nil, ErrUnknown
	}
	m, err := s.last(ctx, contexts, string(id))
	if err != nil {
		return nil, err
	}
	if m == nil || m.Removed() {
		return nil, ErrUnknown
	}
	return decode[events.Served](*m)
}

func validKey(id events.ID) error {
	if playbook.Book(id).Validate() != nil { // a book's name is one token of a key too
		return errors.New("id: is not one of ours")
	}
	return nil
}
