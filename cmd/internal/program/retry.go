package program

import (
	"context"
	"errors"
	"time"
)

// retryInterval is the time between two attempts of RetryUnreachable.
const retryInterval = 500 * time.Millisecond

// RetryUnreachable calls open at least once, and again for up to wait while its error has the exit code ExitUnreachable. The
// servers of a new cluster are unreachable until they have elected a leader.
func RetryUnreachable(ctx context.Context, wait time.Duration, open func() error) error {
	deadline := time.Now().Add(wait)
	for {
		err := open()
		if ExitCode(err) != ExitUnreachable || !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(retryInterval):
		}
	}
}
