package bus

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"debrief/events"
)

// RoleStats are the counters of a role in this process. Times are zero until their first event.
type RoleStats struct {
	Role                 string        `json:"role"`
	Started              time.Time     `json:"started"`
	Calls                uint64        `json:"calls"`                      // successful calls of the handler; the duration of a failed one says little about the usual duration
	TotalDuration        time.Duration `json:"total_duration_ns"`          // total duration of these calls
	P50                  time.Duration `json:"p50_ns"`                     // of the last calls, at most durationsKept of them
	P95                  time.Duration `json:"p95_ns"`                     // of the same
	Stored               uint64        `json:"stored"`                     // deliveries with stored events
	Handled              uint64        `json:"handled"`                    // deliveries acknowledged without stored events: there were none, or the effect is in a delta
	Retried              uint64        `json:"retried"`                    // deliveries redelivered after an error
	Dead                 uint64        `json:"dead_letters"`               // stored dead letters
	Deltas               uint64        `json:"deltas"`                     // deltas applied to a playbook
	Rejected             uint64        `json:"rejected"`                   // operations that were proposed and rejected
	Panics               uint64        `json:"panics"`                     // calls of the handler that panicked
	LastPanic            time.Time     `json:"last_panic_at"`              // last panic
	LastPanicReason      string        `json:"last_panic,omitempty"`       // its value, without texts of a model
	LastDelivery         time.Time     `json:"last_delivery_at"`           // last delivery
	LastSuccess          time.Time     `json:"last_success_at"`            // last success: a delivery that was handled without an error
	LastEffect           time.Time     `json:"last_effect_at"`             // last effect: events stored, or a delta
	SuccessesSinceEffect uint64        `json:"successes_since_effect"`     // successes since the last effect
	DeadSinceSuccess     uint64        `json:"dead_letters_since_success"` // dead letters since the last success
	OutcomesSinceChange  uint64        `json:"outcomes_since_change"`      // outcomes of tasks since a bullet was last added, changed or retired
	FailuresSinceChange  uint64        `json:"failures_since_change"`      // failures among them
	Replies              ReplyStats    `json:"replies"`                    // the last replies of the model
}

// durationsKept is the number of durations behind the percentiles: enough for a 95th, and quick to sort.
const durationsKept = 256

// Stats has the counters of the roles that a connection runs. They start at zero when the connection is opened. Conn.Run counts
// deliveries and calls; the methods with Count are for handlers, because only they know the counts. Stats is safe for concurrent
// use.
type Stats struct {
	mu     sync.Mutex
	roles  []*roleCounters
	stored atomic.Pointer[func(events.Event)]
}

// OnStored sets the function that receives each event that this connection stores, once, after the server has acknowledged it. It does
// not receive copies that the server dropped, and requeued events. It is called concurrently and must not block.
func (s *Stats) OnStored(fn func(events.Event)) { s.stored.Store(&fn) }

// addStored passes a stored event on.
func (s *Stats) addStored(e events.Event) {
	if fn := s.stored.Load(); fn != nil {
		(*fn)(e)
	}
}

type roleCounters struct {
	RoleStats
	last    [durationsKept]time.Duration // a ring buffer
	replies replyWindow
	labels  replyWindow // of the replies on runs with an outcome, see CountLabel
}

// update calls f with the counters of a role, under the lock.
func (s *Stats) update(role string, f func(*roleCounters)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.roles, func(r *roleCounters) bool { return r.Role == role })
	if i < 0 {
		i = len(s.roles)
		s.roles = append(s.roles, &roleCounters{RoleStats: RoleStats{Role: role}})
	}
	f(s.roles[i])
}

func (r *roleCounters) addCall(d time.Duration) {
	r.last[r.Calls%durationsKept] = d
	r.Calls++
	r.TotalDuration += d
}

// addSuccess counts a delivery that was handled without an error. stored is set if events were stored for it.
func (r *roleCounters) addSuccess(stored bool) {
	r.LastSuccess, r.DeadSinceSuccess = time.Now(), 0
	if stored {
		r.Stored++
		r.LastEffect, r.SuccessesSinceEffect = r.LastSuccess, 0
		return
	}
	r.Handled++
	r.SuccessesSinceEffect++
}

// percentiles returns percentiles by nearest rank, 0 before the first call.
func (r *roleCounters) percentiles() (p50, p95 time.Duration) {
	last := slices.Clone(r.last[:min(r.Calls, durationsKept)])
	if len(last) == 0 {
		return 0, 0
	}
	slices.Sort(last)
	at := func(percent int) time.Duration { return last[(len(last)*percent+99)/100-1] }
	return at(50), at(95)
}

// CountDeltas counts deltas that a role has committed, and the operations that they record as rejected. The handler writes
// deltas itself, so the worker cannot count them.
func (s *Stats) CountDeltas(role string, deltas, rejected int) {
	s.update(role, func(r *roleCounters) {
		r.Deltas += uint64(deltas)
		r.Rejected += uint64(rejected)
		if deltas > 0 {
			r.LastEffect, r.SuccessesSinceEffect = time.Now(), 0
		}
	})
}

// CountOutcomes counts the outcomes of tasks that a role has committed, and the failures among them. isChange means that the
// commits also changed a bullet or its standing. Then both counts begin again at 0.
func (s *Stats) CountOutcomes(role string, outcomes, failures int, isChange bool) {
	s.update(role, func(r *roleCounters) {
		if isChange {
			r.OutcomesSinceChange, r.FailuresSinceChange = 0, 0
			return
		}
		r.OutcomesSinceChange += uint64(outcomes)
		r.FailuresSinceChange += uint64(failures)
	})
}

// Roles returns the counters of every role that this connection has run.
func (s *Stats) Roles() []RoleStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]RoleStats, 0, len(s.roles))
	for _, r := range s.roles {
		v := r.RoleStats
		v.P50, v.P95 = r.percentiles()
		v.Replies = r.replies.stats(time.Now()).Add(r.labels.stats(time.Now()))
		all = append(all, v)
	}
	return all
}
