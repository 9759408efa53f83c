package index

import (
	"cmp"
	"context"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"debrief/cmd/internal/operate/metrics"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// maxRows is the number of executions of all playbooks that lists find without reading the stream.
const maxRows = 500_000

// Executions is the index of the stored executions of all playbooks: the fields that lists filter by, their results, and the errors of
// tools that agents repeat. It is safe for concurrent use.
type Executions struct {
	conn   *bus.Conn
	prices *metrics.PriceTable // nil: the cost of a run is that of its event
	errors knownErrors

	mu        sync.RWMutex
	results   map[playbook.Book]*results
	compared  comparison
	seq       uint64 // last sequence that was read
	reflected uint64 // last sequence of a reflection that was read
	rows      []row  // oldest first
	maxRows   int
	dropped   bool // rows older than the first were dropped

	// The following have the sequences of executions as keys. Entries of dropped rows are dropped with the rows.
	revised map[uint64]events.Outcome // outcomes after feedback, also of dropped rows: later feedback replaces them in the sums
	doubts  map[uint64]doubt          // of the Reflector about the outcome
}

// doubt is the reason why the Reflector doubts the outcome of an execution. After a loss of data another execution can have its sequence.
type doubt struct {
	handle events.Handle
	reason string
}

func newExecutions(conn *bus.Conn, table *metrics.PriceTable) *Executions {
	return &Executions{
		conn: conn, prices: table, errors: newKnownErrors(), results: map[playbook.Book]*results{}, compared: newComparison(), maxRows: maxRows,
		revised: map[uint64]events.Outcome{}, doubts: map[uint64]doubt{},
	}
}

// add adds a stored execution, or feedback.
func (x *Executions) add(ctx context.Context, s bus.Stored) error {
	switch e := s.Event.(type) {
	case *events.Execution:
		x.errors.add(e)
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

// row has the fields of an execution that lists filter by. Texts are hashes: a list reads the executions that it finds and checks them, so
// a collision of hashes only costs time.
type row struct {
	seq         uint64
	book        uint64
	owner, user uint64
	session     uint64
	run, task   uint64
	started     int64 // nanoseconds since 1970
	label       events.Label
	shown       []uint32 // shorter hashes of the bullets
}

var seed = maphash.MakeSeed()

func hash(s string) uint64 { return maphash.String(seed, s) }

func bulletHash(id playbook.BulletID) uint32 { return uint32(hash(string(id))) }

// addExecution adds an execution. Above the limit it drops the oldest quarter of the rows.
func (x *Executions) addExecution(seq uint64, e *events.Execution) {
	r := row{
		seq: seq, book: hash(string(e.Book)), owner: hash(e.Owner), user: hash(e.User),
		session: hash(e.Session), run: hash(e.RunID), task: hash(e.Origin.Task),
		started: e.Started.UnixNano(), label: e.Outcome.Label,
	}
	for _, b := range e.Shown {
		r.shown = append(r.shown, bulletHash(b.ID))
	}
	r.shown = slices.Clip(r.shown)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resultsOf(e.Book).add(e)
	x.compared.add(e, x.prices.Cost(e.Model, e.Usage))
	if len(x.rows) == x.maxRows {
		x.rows, x.dropped = slices.Clone(x.rows[x.maxRows/4:]), true
		first := x.rows[0].seq
		maps.DeleteFunc(x.doubts, func(seq uint64, _ doubt) bool { return seq < first })
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
	Doubted   bool // only executions whose outcome the Reflector doubts; the index alone knows them
	// Words must all be in the question or the answer, in lower case. The index does not know them.
	Words []string
}

// OnlyWords reports whether the filter looks for words in all executions, so that a scan of the stream is faster than the index.
func (f *Filter) OnlyWords() bool {
	return len(f.Words) > 0 && !f.Doubted && f.Session == "" && f.Run == "" && f.Task == "" && f.User == "" && f.Bullet == ""
}

// Matches reports whether an execution of the playbook matches.
func (f *Filter) Matches(e *events.Execution) bool {
	return (f.Owner == nil || e.Owner == *f.Owner) &&
		(f.User == "" || e.User == f.User) &&
		(f.Session == "" || e.Session == f.Session) &&
		(!f.InSession || e.Session != "") &&
		(f.Run == "" || e.RunID == f.Run) &&
		(f.Task == "" || e.Origin.Task == f.Task) &&
		(f.Label == "" || e.Outcome.Label == f.Label) &&
		(f.Before.IsZero() || e.Started.Before(f.Before)) &&
		(f.Bullet == "" || slices.ContainsFunc(e.Shown, func(b events.ShownBullet) bool { return b.ID == f.Bullet })) &&
		(len(f.Words) == 0 || containsAll(strings.ToLower(e.Question+"\n"+e.Answer), f.Words))
}

// rowFilter is a filter of rows. The row wanted has the hashes of the fields that the filter sets.
type rowFilter struct {
	*Filter
	wanted    row
	bullet    uint32 // hash
	noSession uint64 // hash of ""
}

func newRowFilter(f *Filter) *rowFilter {
	w := row{
		book: hash(string(f.Book)), user: hash(f.User), session: hash(f.Session), run: hash(f.Run), task: hash(f.Task),
		started: f.Before.UnixNano(), label: f.Label,
	}
	if f.Owner != nil {
		w.owner = hash(*f.Owner)
	}
	return &rowFilter{Filter: f, wanted: w, bullet: bulletHash(f.Bullet), noSession: hash("")}
}

// selects reports whether the execution of a row may match the filter.
func (f *rowFilter) selects(r *row) bool {
	w := &f.wanted
	return r.book == w.book &&
		(f.Owner == nil || r.owner == w.owner) &&
		(f.User == "" || r.user == w.user) &&
		(f.Session == "" || r.session == w.session) &&
		(!f.InSession || r.session != f.noSession) &&
		(f.Run == "" || r.run == w.run) &&
		(f.Task == "" || r.task == w.task) &&
		(f.Label == "" || r.label == w.label) &&
		(f.Before.IsZero() || r.started < w.started) &&
		(f.Bullet == "" || slices.Contains(r.shown, f.bullet))
}

// Range returns the sequences that the index covers for a filter: from first, up to and including last. last is 0 for an empty index.
func (x *Executions) Range(f *Filter) (first, last uint64) {
	if f.Doubted { // a scan of the stream finds no doubts: the index covers every sequence
		return 0, math.MaxInt64
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.dropped {
		first = x.rows[0].seq
	}
	return first, x.seq
}

// Find returns the sequences of at most n executions that may match, below end, newest first. The next call gets next as its end. next is 0
// after the oldest execution.
func (x *Executions) Find(f *Filter, end uint64, n int) (found []uint64, next uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if f.Doubted {
		return x.findDoubted(end, n)
	}
	filter := newRowFilter(f)
	endRow, _ := x.rowAt(end)
	for i := endRow - 1; i >= 0; i-- {
		r := &x.rows[i]
		if !filter.selects(r) {
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
		all[b] = r.total.byArm().Executions
	}
	return all
}

// session is a session in the index.
type session struct {
	last       uint64 // sequence of the last execution
	executions int
}

// newestSessions returns the n sessions of a playbook that have the newest executions, newest first. A nil owner means all owners. Sessions of
// two owners with the same name are two sessions.
func (x *Executions) newestSessions(b playbook.Book, owner *string, n int) []session {
	x.mu.RLock()
	defer x.mu.RUnlock()
	book, noSession := hash(string(b)), hash("")
	indices := map[[2]uint64]int{} // in all, by the hashes of owner and name
	all := []session{}
	for _, r := range slices.Backward(x.rows) {
		if r.book != book || r.session == noSession {
			continue
		}
		if owner != nil && r.owner != hash(*owner) {
			continue
		}
		key := [2]uint64{r.owner, r.session}
		i, ok := indices[key]
		switch {
		case ok:
			all[i].executions++
		case len(all) < n:
			indices[key] = len(all)
			all = append(all, session{r.seq, 1})
		}
	}
	return all
}

// addDoubt adds a stored reflection. A reflection without a doubt ends the doubt of an earlier reflection on the same execution: it is a
// reflection on later feedback.
func (x *Executions) addDoubt(s bus.Stored) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reflected = s.Seq
	r, ok := s.Event.(*events.Reflection)
	if !ok {
		return nil
	}
	seq, _, err := r.Handle.Parse()
	switch {
	case err != nil: // the reflection has no handle of a stored execution
	case r.LabelSuspect == "" || !x.mayExist(seq):
		delete(x.doubts, seq)
	default:
		x.doubts[seq] = doubt{r.Handle, r.LabelSuspect}
	}
	return nil
}

// mayExist reports whether the index has the execution at a sequence, or has not read that far.
func (x *Executions) mayExist(seq uint64) bool {
	_, found := x.rowAt(seq)
	return found || seq > x.seq
}

// rowAt returns the index of the row of a sequence. If there is none, it returns the index of the first later row, and false.
func (x *Executions) rowAt(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(x.rows, seq, func(r row, seq uint64) int { return cmp.Compare(r.seq, seq) })
}

// ReadDoubts reads the stored reflections, for an index that does not run.
func (x *Executions) ReadDoubts(ctx context.Context) error {
	return x.conn.Events.ReadStored(ctx, events.StreamReflections, ">", x.addDoubt)
}

// findDoubted is Find for the executions of all playbooks whose outcome the Reflector doubts.
func (x *Executions) findDoubted(end uint64, n int) (found []uint64, next uint64) {
	seqs := slices.DeleteFunc(slices.Sorted(maps.Keys(x.doubts)), func(seq uint64) bool { return !x.mayExist(seq) })
	i, _ := slices.BinarySearch(seqs, end)
	found = seqs[max(0, i-n):i]
	slices.Reverse(found)
	if i > n { // there are older ones
		next = found[n-1]
	}
	return found, next
}

// Read reads the stored executions and feedback that the index does not have. It must not be called concurrently.
func (x *Executions) Read(ctx context.Context) error {
	_, newest := x.Range(&Filter{})
	return x.conn.Events.Scan(ctx, events.StreamExecutions, ">", newest+1, func(s bus.Stored) error { return x.add(ctx, s) })
}

// reread reads all stored executions and feedback again. last is the last sequence of the stream, whose message may be removed.
func (x *Executions) reread(ctx context.Context, last uint64) error {
	fresh := newExecutions(x.conn, x.prices)
	fresh.maxRows = x.maxRows
	if err := fresh.Read(ctx); err != nil {
		return err
	}
	x.replace(fresh, last)
	return nil
}

// replace takes over what a fresh index has read, and forgets the doubts about executions that are not stored any more.
func (x *Executions) replace(fresh *Executions, last uint64) {
	x.errors.replace(&fresh.errors)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.results = fresh.results
	x.compared = fresh.compared
	x.rows = fresh.rows
	x.dropped = fresh.dropped
	x.revised = fresh.revised
	x.seq = max(fresh.seq, last)
	maps.DeleteFunc(x.doubts, func(seq uint64, _ doubt) bool { return !x.mayExist(seq) })
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

// Doubt returns the reason why the Reflector doubts the outcome of an execution, or "".
func (x *Executions) Doubt(handle events.Handle) string {
	seq, _, _ := handle.Parse()
	x.mu.RLock()
	defer x.mu.RUnlock()
	if d := x.doubts[seq]; d.handle == handle {
		return d.reason
	}
	return ""
}

// forgetDoubts removes all doubts. The next reading of the reflections begins with the first one.
func (x *Executions) forgetDoubts() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.doubts)
	x.reflected = 0
}
