package request

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/events/natserr"
)

// ModelError reports that a role has no model, or one that is of no use until a person changes a setting or the account: it refuses
// every request, or none of its outputs could be used. The messages of the role wait.
type ModelError struct {
	Role   string
	Reason string
}

func (e *ModelError) Error() string {
	return fmt.Sprintf("the %s cannot use its model: %s", e.Role, e.Reason)
}

// modelCheckInterval is the pause between two checks of WithModelCheck.
const modelCheckInterval = 500 * time.Millisecond

// WithModelCheck returns a context whose cause becomes a *ModelError when every worker of one of the roles, in this and in
// other processes, has no model or one that is of no use. Call stop to release the context.
func WithModelCheck(ctx context.Context, conn *bus.Conn, roles ...string) (checked context.Context, stop func()) {
	checked, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		asksOthers := true
		for {
			var reports []liveness.Report // of other processes
			if asksOthers {
				var err error
				reports, err = collectReports(checked, conn)
				asksOthers = err == nil // a user without the right to ask would be denied again
			}
			if err := modelError(conn.Health.Roles(), reports, roles); err != nil {
				end(err)
			}
			if events.Sleep(checked, modelCheckInterval) != nil {
				return
			}
		}
	}()
	return checked, func() { end(nil); <-ended }
}

// collectReports asks all processes for their health. It returns an error at once if the user may not ask.
func collectReports(ctx context.Context, conn *bus.Conn) ([]liveness.Report, error) {
	return natserr.Call(ctx, natserr.WatchOf(conn.JetStream()), events.SubjectHealth, func(ctx context.Context) ([]liveness.Report, error) {
		return liveness.CollectReports(ctx, conn.NATS())
	})
}

// modelError returns the error of the first role that has workers, all without a model or with one that is of no use.
func modelError(own []bus.RoleHealth, reports []liveness.Report, roles []string) error {
	all := slices.Clone(own)
	for _, r := range reports {
		for i := range r.Roles {
			all = append(all, r.Roles[i].RoleHealth)
		}
	}
	for _, role := range roles {
		var refused *ModelError
		usable := false
		for _, h := range all {
			switch {
			case h.Role != role || h.State == bus.Stopped:
			case h.State == bus.Serving: // it only serves contexts, because it has no model
				refused = &ModelError{role, "it runs without one: set its --model"}
			case h.Misconfigured && h.State == bus.Paused: // none of the model's outputs could be used
				refused = &ModelError{role, fmt.Sprintf("%s: choose a model that answers in JSON with --%s-model", h.Reason, role)}
			case h.Misconfigured:
				refused = &ModelError{role, h.Reason}
			default:
				usable = true
			}
		}
		if refused != nil && !usable {
			return refused
		}
	}
	return nil
}
