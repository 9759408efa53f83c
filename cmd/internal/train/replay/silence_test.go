package replay

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
)

// TestUntilAnswered checks that a run survives reads without an answer, but not a server that is gone, and that it repeats no other error.
func TestUntilAnswered(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	silent := fmt.Errorf("read: %w", nats.ErrTimeout)
	for name, test := range map[string]struct {
		errs  func(attempt int) error
		want  error
		calls int
	}{
		"answered":        {func(int) error { return nil }, nil, 1},
		"other error":     {func(int) error { return other }, other, 1},
		"a restart":       {func(n int) error { return map[bool]error{true: silent}[n < 4] }, nil, 4},
		"no server again": {func(int) error { return silent }, nats.ErrTimeout, maxUnanswered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := untilAnswered(t.Context(), func() error { calls++; return test.errs(calls) })
				if !errors.Is(err, test.want) || calls != test.calls {
					t.Errorf("got %v after %d calls, want %v after %d", err, calls, test.want, test.calls)
				}
			})
		})
	}
}
