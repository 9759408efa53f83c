package program

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetryUnreachable(t *testing.T) {
	t.Parallel()
	away, other := Exit(ExitUnreachable, errors.New("no server")), Exit(ExitRefused, errors.New("refused"))
	for _, test := range []struct {
		name           string
		wait           time.Duration
		errs           []error // of the attempts; the last one repeats
		cancel         time.Duration
		attempts, code int
	}{
		{name: "at once", wait: time.Minute, errs: []error{nil}, attempts: 1},
		{name: "no wait", errs: []error{away}, attempts: 1, code: ExitUnreachable},
		{name: "later", wait: time.Minute, errs: []error{away, away, nil}, attempts: 3},
		{name: "refused", wait: time.Minute, errs: []error{away, other}, attempts: 2, code: ExitRefused},
		{name: "never", wait: 2 * time.Second, errs: []error{away}, attempts: 5, code: ExitUnreachable},
		{name: "canceled", wait: time.Minute, errs: []error{away}, cancel: 700 * time.Millisecond, attempts: 2, code: ExitUnreachable},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if test.cancel > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, test.cancel)
				defer stop()
			}
			attempts := 0
			err := RetryUnreachable(ctx, test.wait, func() error {
				attempts++
				return test.errs[min(attempts, len(test.errs))-1]
			})
			if attempts != test.attempts || ExitCode(err) != test.code {
				t.Errorf("%s: got %d attempts, error %v; want %d", test.name, attempts, err, test.attempts)
			}
			if test.cancel > 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got error %v, want that of the context", test.name, err)
			}
		})
	}
}
