package deltalog

import (
	"context"
	"fmt"

	"debrief/events/rewrite"
)

// RewriteView makes the bytes of earlier values vanish from the files of the view of all books: a bullet that was removed leaves its text
// there. It needs the rights of the Curator. Rebuild the view of a redacted book first.
func (s *Store) RewriteView(ctx context.Context) error {
	if _, err := rewrite.Stream(ctx, s.js, viewStream); err != nil {
		return fmt.Errorf("remove earlier values from the view: %w", err)
	}
	return nil
}
