package window

import (
	"context"
	"errors"
	"fmt"

	"debrief/events"
	"debrief/events/natserr"
	"debrief/playbook"
)

const contexts bucket = events.BucketContexts

// ErrContextNotFound is returned for an unknown context id: the context has expired or was never stored.
var ErrContextNotFound = errors.New("unknown context")

// PutContext stores a context for an outside agent until it expires.
func (s *Store) PutContext(ctx context.Context, c *events.ServedContext) error {
	err := validateKey(c.ID)
	if err == nil {
		err = s.put(ctx, contexts, string(c.ID), c)
	}
	if err != nil {
		return fmt.Errorf("store context %.80q: %w", string(c.ID), err)
	}
	return nil
}

// Context returns the context with an id. The id may be any string, because agents send it.
func (s *Store) Context(ctx context.Context, id events.ID) (*events.ServedContext, error) {
	c, err := s.readContext(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read context %.80q: %w", string(id), err)
	}
	return c, nil
}

func (s *Store) readContext(ctx context.Context, id events.ID) (*events.ServedContext, error) {
	if validateKey(id) != nil {
		return nil, ErrContextNotFound
	}
	c, _, err := load[events.ServedContext](ctx, s, contexts, string(id))
	if natserr.IsStreamMissing(ctx, s.js, contexts.stream(), err) { // final: nothing can be read later
		return nil, fmt.Errorf("%w: bucket %s does not exist", ErrContextNotFound, contexts)
	}
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, ErrContextNotFound
	}
	return c, nil
}

func validateKey(id events.ID) error {
	if playbook.Book(id).Validate() != nil { // a book name is a valid key token
		return errors.New("id: not a valid context id")
	}
	return nil
}
