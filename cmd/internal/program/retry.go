package program

import (
	"context"
	"errors"
	"time"
)

// retryInterval is the time between two attempts of RetryUnreachable.
const retryInterval = 500 * time.Millisecond

// RetryUnreachable calls open until its error does not have the exit code ExitUnreachable, for up to wait. It calls open at
// least once. The servers of a new cluster are unreachable until they have elected a leader.
func RetryUnreachable(ctx context.Context, wait time.Duration, open func() error) error {
	for until := time.Now().Add(wait); ; {
		err := open()
		if ExitCode(err) != ExitUnreachable || !time.Now().Before(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(retryInterval):
		}
	}
}
