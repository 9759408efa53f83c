package window

import (
	"cmp"
	"context"
	"fmt"

	"debrief/events"
	"debrief/playbook"
)

// PutSummary stores the summary of a session's older turns. It replaces the previous one.
func (s *Store) PutSummary(ctx context.Context, b playbook.Book, owner, session string, v *events.Summary) error {
	err := validate(b, owner, session)
	if err == nil {
		err = s.put(ctx, states, events.SummaryKey(b, owner, session), v)
	}
	if err != nil {
		return fmt.Errorf("store the summary of %s: %w", sessionName(b, session), err)
	}
	return nil
}

// Summary returns the summary of a session's older turns. It is empty if none was stored.
func (s *Store) Summary(ctx context.Context, b playbook.Book, owner, session string) (*events.Summary, error) {
	err := validate(b, owner, session)
	var v *events.Summary
	if err == nil {
		v, _, err = load[events.Summary](ctx, s, states, events.SummaryKey(b, owner, session))
	}
	if err != nil {
		return nil, fmt.Errorf("read the summary of %s: %w", sessionName(b, session), err)
	}
	return cmp.Or(v, new(events.Summary)), nil
}
