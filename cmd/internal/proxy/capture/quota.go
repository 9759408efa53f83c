package capture

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/streams"
)

// ErrQuota is returned for a run beyond the quota of its owner.
var ErrQuota = errors.New("too many open runs of this token")

// ErrFull is returned for a run while the bucket of open runs is full.
var ErrFull = errors.New("too many open runs")

// quota limits the stored values of open runs, for one owner and in total. A sweep counts the values of all gateways. Until the next
// sweep, each gateway adds valuesOfRun for a run that it begins. The bucket has its own limit: see refused. quota is safe for concurrent use.
type quota struct {
	mu     sync.Mutex
	values map[string]int // stored values by owner
	all    int            // stored values of all owners
	full   time.Time      // no run begins until then, because the bucket is full
}

const valuesOfRun = 4 // average number of values of an open run: the run itself, its block, references, large calls

// storeFailed is the code of the server for a message beyond the limit of a stream. The client has no name for it.
const storeFailed jetstream.ErrorCode = 10077

const fullPause = 5 * time.Second // time without new runs after the bucket refused a value

func newQuota() *quota { return &quota{values: map[string]int{}} }

// add counts a new run of an owner, or returns ErrQuota or ErrFull.
func (q *quota) add(owner string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case time.Now().Before(q.full) || q.all+valuesOfRun > streams.MaxOpen:
		return ErrFull
	case q.values[owner]+valuesOfRun > streams.MaxOpenOfOwner:
		return ErrQuota
	}
	q.values[owner] += valuesOfRun
	q.all += valuesOfRun
	return nil
}

// remove counts the end of a run of an owner.
func (q *quota) remove(owner string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(valuesOfRun, q.values[owner])
	q.all -= n
	q.values[owner] -= n
	if q.values[owner] == 0 {
		delete(q.values, owner)
	}
}

// set replaces the counts by those of a sweep.
func (q *quota) set(values map[string]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.values, q.all = values, 0
	for _, n := range values {
		q.all += n
	}
}

// refused records an error of the bucket, and reports whether the bucket is full.
func (q *quota) refused(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != storeFailed {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.full = time.Now().Add(fullPause)
	return true
}

// countValues returns the number of stored values of an open run with a block: the run, the block, references and parts.
func (r *run) countValues() int {
	return 2 + len(r.Slots) + len(r.Attempts) + max(0, r.Calls-len(r.Parts))
}
