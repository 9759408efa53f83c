package train

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/simulated"
	"debrief/events"
	"debrief/events/bus"
)

// withRoles calls work while roles run, and stops the roles afterwards. The context of work ends with ctx, and when a role fails. The end of
// ctx alone does not stop the roles. withRoles returns the error of work, or else that of the roles: then the results of work are whole.
func withRoles(ctx context.Context, conn *bus.Conn, roles []program.Role, work func(context.Context) error) error {
	rolesCtx, stopRoles := context.WithCancelCause(context.WithoutCancel(ctx))
	workCtx, endWork := context.WithCancelCause(ctx)
	stopped := make(chan error, 1)
	go func() {
		err := program.Run(rolesCtx, conn, roles...)
		endWork(err) // so the error of work names this one
		stopped <- err
	}()
	err := work(workCtx)
	stopRoles(bus.ErrInterrupted) // do not wait for messages in flight
	roleErr := <-stopped
	if err != nil {
		return err
	}
	return roleErr
}

// serverPatience is the longest time for which WaitIdle waits for an answer of the server. A busy server leaves single requests unanswered.
const serverPatience = time.Minute

// WaitIdle waits until each role is idle, one after the other. The roles are in the order of the pipeline. About 50 times a second it calls
// waiting with the lag of the role that it waits for; nil disables the calls. It returns the error of ctx if that ends first.
func WaitIdle(ctx context.Context, conn *bus.Conn, waiting func(role string, lag bus.Lag), roles ...string) error {
	answered := time.Now()
	for _, role := range roles {
		for {
			idle, err := checkIdle(ctx, conn, waiting, role)
			switch {
			case err == nil:
				answered = time.Now()
			case !bus.Unreachable(err) || time.Since(answered) > serverPatience:
				return err
			}
			if idle {
				break
			}
			if err := events.Sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkIdle reports whether a role is idle. If not, it calls waiting, unless that is nil, with the lag of the role.
func checkIdle(ctx context.Context, conn *bus.Conn, waiting func(role string, lag bus.Lag), role string) (idle bool, err error) {
	idle, err = conn.Consumers.Idle(ctx, role)
	if err != nil || idle || waiting == nil {
		return idle, err
	}
	lag, err := conn.Consumers.Lag(ctx, role)
	if err == nil {
		waiting(role, lag)
	}
	return false, err
}

// Each calls do for 0 to n-1, at most limit calls at the same time. After an error it starts no further call. It returns the first error.
func Each(n, limit int, do func(i int) error) error {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(limit)
	for i := 0; i < n && ctx.Err() == nil; i++ { // an error ends ctx
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// Simulate serves the simulated model until the end of this process and returns its settings. The end of ctx does not stop the model,
// because roles may have calls in flight while they stop.
func Simulate(ctx context.Context, m program.Model, o simulated.Options) (program.Model, error) {
	url, _, err := simulated.Serve(context.WithoutCancel(ctx), "", o)
	if err != nil {
		return program.Model{}, fmt.Errorf("start the simulated model: %w", err)
	}
	return program.Model{Model: simulated.Name, BaseURL: url, Timeout: m.Timeout, MaxConcurrent: m.MaxConcurrent}, nil
}

// warnOfMissingData logs what the store of the embedded server lacks: the recorded losses, and the streams that did not exist before the
// command connected, although the store had others. It does nothing for a server of another process.
func warnOfMissingData(ctx context.Context, c *program.Common, flags *cli.ServerFlags, s *cli.Session, connecting time.Time) error {
	if s.Server == nil {
		return nil
	}
	flags.WarnOfDamage(c)
	var created []string
	isOld := false // the store had streams before
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, events.StreamDeltas} {
		stream, err := s.JetStream().Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", name, err)
		}
		if stream.CachedInfo().Created.Before(connecting) {
			isOld = true
		} else {
			created = append(created, name)
		}
	}
	if isOld && len(created) > 0 {
		log := c.Logger()
		log.Warn().Strs("streams", created).Msg("damage: these streams were missing and are now empty; if the restore of a backup was interrupted, repeat it with --replace")
	}
	return nil
}
