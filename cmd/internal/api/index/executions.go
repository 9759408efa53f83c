package index

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"debrief/cmd/internal/operate/metrics"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// maxRows is the number of executions of all playbooks that lists find without reading the stream.
const maxRows = 250_000

// Executions is the index of the stored executions of all playbooks: the fields that lists filter by, and their results. It is safe for
// concurrent use.
type Executions struct {
	conn   *bus.Conn
	prices *metrics.PriceTable // nil: the cost of a run is that of its event

	mu       sync.RWMutex
	results  map[playbook.Book]*results
	compared comparison
	seq      uint64 // last sequence that was read
	rows     []row  // oldest first
	maxRows  int
	dropped  bool // rows older than the first were dropped

	// revised has the outcomes after feedback by the sequence of the execution, also of dropped rows: later feedback replaces them in the sums.
	revised map[uint64]events.Outcome
}

func newExecutions(conn *bus.Conn, table *metrics.PriceTable) *Executions {
	return &Executions{
		conn: conn, prices: table, results: map[playbook.Book]*results{}, compared: newComparison(), maxRows: maxRows, revised: map[uint64]events.Outcome{},
	}
}

// add adds a stored execution, or feedback.
func (x *Executions) add(ctx context.Context, s bus.Stored) error {
	switch e := s.Event.(type) {
	case *events.Execution:
		x.addExecution(s.Seq, e)
	case *events.Feedback:
		if err := x.revise(ctx, e); err != nil {
			return err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seq = s.Seq
	return nil
}

// row has the fields of an execution that lists filter by.
type row struct {
	seq         uint64
	started     time.Time
	label       events.Label
	book        playbook.Book
	owner, user string
	session     string
	run, task   string
	shown       []unique.Handle[playbook.BulletID]
}

// newRow returns the row of an execution, with its outcome as stored.
func newRow(seq uint64, e *events.Execution) row {
	r := row{
		seq: seq, started: e.Started, label: e.Outcome.Label, book: e.Book, owner: e.Owner, user: e.User,
		session: e.Session, run: e.RunID, task: e.Origin.Task, shown: make([]unique.Handle[playbook.BulletID], len(e.Shown)),
	}
	for i, b := range e.Shown {
		r.shown[i] = unique.Make(b.ID)
	}
	return r
}

// addExecution adds an execution. Above the limit it drops the oldest quarter of the rows.
func (x *Executions) addExecution(seq uint64, e *events.Execution) {
	r := newRow(seq, e)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resultsOf(e.Book).add(e)
	x.compared.add(e, x.prices.Cost(e.Model, e.Usage))
	if len(x.rows) == x.maxRows {
		x.rows, x.dropped = slices.Clone(x.rows[x.maxRows/4:]), true
	}
	x.rows = append(x.rows, r)
}

// Filter selects executions of a playbook. Empty fields select all.
type Filter struct {
	Book      playbook.Book
	Owner     *string // nil: all owners
	Session   string  // name of the session
	Run       string
	Task      string // label
	User      string
	InSession bool // only executions of a session
	Bullet    playbook.BulletID
	Label     events.Label
	Before    time.Time
	Doubted   bool     // only executions whose outcome the Reflector doubts; the index does not know them
	Words     []string // all in the question or the answer, in lower case; the index does not know them
}

// OnlyWords reports whether the filter looks for words in all executions, so that a scan of the stream is faster than the index.
func (f *Filter) OnlyWords() bool {
	return len(f.Words) > 0 && f.Session == "" && f.Run == "" && f.Task == "" && f.User == "" && f.Bullet == ""
}

// selects reports whether the execution of a row matches, except for Words and Doubted.
func (f *Filter) selects(r *row) bool {
	return r.book == f.Book &&
		(f.Owner == nil || r.owner == *f.Owner) &&
		(f.User == "" || r.user == f.User) &&
		(f.Session == "" || r.session == f.Session) &&
		(!f.InSession || r.session != "") &&
		(f.Run == "" || r.run == f.Run) &&
		(f.Task == "" || r.task == f.Task) &&
		(f.Label == "" || r.label == f.Label) &&
		(f.Before.IsZero() || r.started.Before(f.Before)) &&
		(f.Bullet == "" || slices.ContainsFunc(r.shown, func(id unique.Handle[playbook.BulletID]) bool { return id.Value() == f.Bullet }))
}

// hasWords reports whether an execution has all words of the filter.
func (f *Filter) hasWords(e *events.Execution) bool {
	return len(f.Words) == 0 || containsAll(strings.ToLower(e.Question+"\n"+e.Answer), f.Words)
}

// Range returns the sequences that the index covers: from first, up to and including last. first is 0 if no row was dropped. Both are 0 for an
// empty index.
func (x *Executions) Range() (first, last uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.dropped {
		first = x.rows[0].seq
	}
	return first, x.seq
}

// Find returns the sequences of at most n executions that match, except for words and doubts, below end, newest first. The next call gets next
// as its end. next is 0 after the oldest execution.
func (x *Executions) Find(f *Filter, end uint64, n int) (found []uint64, next uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	endRow, _ := x.rowAt(end)
	for i := endRow - 1; i >= 0; i-- {
		r := &x.rows[i]
		if !f.selects(r) {
			continue
		}
		found = append(found, r.seq)
		if len(found) == n {
			return found, r.seq
		}
	}
	return found, 0
}

// Counts returns the number of executions of each playbook that the index has read.
func (x *Executions) Counts() map[playbook.Book]int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := map[playbook.Book]int{}
	for b, r := range x.results {
		all[b] = r.total.Executions
	}
	return all
}

// session is a session in the index.
type session struct {
	last       uint64 // sequence of the last execution
	executions int
}

// newestSessions returns the n sessions that match and have the newest executions, newest first. Sessions of two owners with the same name are
// two sessions.
func (x *Executions) newestSessions(f *Filter, n int) []session {
	x.mu.RLock()
	defer x.mu.RUnlock()
	indices := map[[2]string]int{} // in all, by owner and name
	all := []session{}
	for i := range slices.Backward(x.rows) {
		r := &x.rows[i]
		if !f.selects(r) {
			continue
		}
		key := [2]string{r.owner, r.session}
		known, ok := indices[key]
		switch {
		case ok:
			all[known].executions++
		case len(all) < n:
			indices[key] = len(all)
			all = append(all, session{r.seq, 1})
		}
	}
	return all
}

// rowAt returns the index of the row of a sequence. If there is none, it returns the index of the first later row, and false.
func (x *Executions) rowAt(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(x.rows, seq, func(r row, seq uint64) int { return cmp.Compare(r.seq, seq) })
}

// Read reads the stored executions and feedback that the index does not have. It must not be called concurrently.
func (x *Executions) Read(ctx context.Context) error {
	_, newest := x.Range()
	return x.conn.Events.Scan(ctx, events.StreamExecutions, ">", newest+1, func(s bus.Stored) error { return x.add(ctx, s) })
}

// reread reads all stored executions and feedback again. last is the last sequence of the stream, whose message may be removed.
func (x *Executions) reread(ctx context.Context, last uint64) error {
	fresh := newExecutions(x.conn, x.prices)
	fresh.maxRows = x.maxRows
	if err := fresh.Read(ctx); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.results = fresh.results
	x.compared = fresh.compared
	x.rows = fresh.rows
	x.dropped = fresh.dropped
	x.revised = fresh.revised
	x.seq = max(fresh.seq, last)
	return nil
}

// Corrected returns the outcome of an execution after feedback, without its texts. It returns nil without feedback on the outcome, and for
// feedback that the index has not read yet.
func (x *Executions) Corrected(seq uint64) *events.Outcome {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if o, ok := x.revised[seq]; ok {
		return &o
	}
	return nil
}
