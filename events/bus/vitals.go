package bus

import (
	"slices"
	"sync"
	"time"
)

// Vitals count what a role has done in this process. What it has not done yet is zero.
type Vitals struct {
	Role      string        `json:"role"`
	Started   time.Time     `json:"started"`
	Calls     uint64        `json:"calls"`      // of the handler that went well: what fails takes as long as it likes, and says nothing of what is usual
	Took      time.Duration `json:"took_ns"`    // by all of them
	P50       time.Duration `json:"p50_ns"`     // of the last calls, at most durationsKept
	P95       time.Duration `json:"p95_ns"`     // of the same
	Stored    uint64        `json:"stored"`     // deliveries of which events were stored
	Handled   uint64        `json:"handled"`    // deliveries settled without: there was nothing to learn, or a curator's delta has it
	Retried   uint64        `json:"retried"`    // deliveries given back after an error
	Dead      uint64        `json:"dead"`       // dead letters
	Deltas    uint64        `json:"deltas"`     // applied to a playbook
	Rejected  uint64        `json:"rejected"`   // operations that were asked for and not done
	Taken     time.Time     `json:"taken_at"`   // when a delivery last came
	Settled   time.Time     `json:"settled_at"` // when a delivery last went well
	Learned   time.Time     `json:"learned_at"` // when that last had an effect: events stored, or a delta
	Fruitless uint64        `json:"fruitless"`  // deliveries that went well since
	Buried    uint64        `json:"buried"`     // dead letters since one last went well
}

// durationsKept is how many durations the percentiles are over: enough for a 95th, and little to sort when asked.
const durationsKept = 256

type vitals struct {
	mu    sync.Mutex
	roles []*record
}

type record struct {
	Vitals
	last [durationsKept]time.Duration // a ring
}

// count changes what is counted of a role.
func (v *vitals) count(role string, f func(*record)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.roles, func(r *record) bool { return r.Role == role })
	if i < 0 {
		i = len(v.roles)
		v.roles = append(v.roles, &record{Vitals: Vitals{Role: role}})
	}
	f(v.roles[i])
}

func (r *record) call(d time.Duration) {
	r.last[r.Calls%durationsKept] = d
	r.Calls++
	r.Took += d
}

// settled counts a delivery that went well; stored says that events came of it.
func (r *record) settled(stored bool) {
	r.Settled, r.Buried = time.Now(), 0
	if stored {
		r.Stored++
		r.Learned, r.Fruitless = r.Settled, 0
		return
	}
	r.Handled++
	r.Fruitless++
}

// percentiles are by nearest rank, 0 before the first call.
func (r *record) percentiles() (p50, p95 time.Duration) {
	last := slices.Clone(r.last[:min(r.Calls, durationsKept)])
	if len(last) == 0 {
		return 0, 0
	}
	slices.Sort(last)
	at := func(percent int) time.Duration { return last[(len(last)*percent+99)/100-1] }
	return at(50), at(95)
}

// Applied counts deltas that a role has committed, and the operations that they record as rejected. The bus does not see
// them: they are written by the handler itself.
func (c *Conn) Applied(role string, deltas, rejected int) {
	c.vitals.count(role, func(r *record) {
		r.Deltas += uint64(deltas)
		r.Rejected += uint64(rejected)
		if deltas > 0 {
			r.Learned, r.Fruitless = time.Now(), 0
		}
	})
}

// Vitals are the counts of every role that this connection has run.
func (c *Conn) Vitals() []Vitals {
	c.vitals.mu.Lock()
	defer c.vitals.mu.Unlock()
	all := make([]Vitals, 0, len(c.vitals.roles))
	for _, r := range c.vitals.roles {
		v := r.Vitals
		v.P50, v.P95 = r.percentiles()
		all = append(all, v)
	}
	return all
}
