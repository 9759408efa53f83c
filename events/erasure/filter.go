package erasure

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// FilterAge is the time after which a Filter reads new tombstones. Package erase waits longer than this before its last search, so that
// every process knows the tombstone by then.
const FilterAge = 5 * time.Second

// failureAge is how long the error of a read is returned to further callers, so that they do not wait for a silent server one after another.
const failureAge = time.Second

// Filter recognises events of erased runs. It reads the new tombstones at most every FilterAge. It is safe for concurrent use.
type Filter struct {
	js     jetstream.JetStream
	direct *direct.Reader

	reading chan struct{} // has a value while a goroutine reads the bucket
	// Only the reading goroutine uses these fields.
	next       uint64 // first sequence of the bucket that was not read yet
	reconnects uint64 // of the connection at the last read

	mu       sync.Mutex
	read     time.Time                   // when the bucket was read last
	failed   error                       // of the last read that failed
	failedAt time.Time                   // when it failed
	key      hashKey                     // nil without a tombstone
	names    map[string][]scope          // of erased users, sessions and executions, by the hash of the name
	books    map[playbook.Book]time.Time // the erased playbooks, and the times of their tombstones
	runs     runSet                      // the erased runs
}

// scope has the runs to which a tombstone applies.
type scope struct {
	book   playbook.Book // empty: all playbooks
	before time.Time     // the runs that began before this time
}

// NewFilter returns a filter for a connection. It sends no request.
func NewFilter(js jetstream.JetStream) *Filter {
	return &Filter{
		js: js, direct: direct.NewReader(js.Conn(), natserr.WatchOf(js)), reading: make(chan struct{}, 1), next: 1,
		names: map[string][]scope{}, books: map[playbook.Book]time.Time{},
	}
}

// About names the run that an event or a stored value belongs to.
type About struct {
	Book                 playbook.Book
	Owner, User, Session string
	// Runs are the ids and handles of the run.
	Runs []string
	// Began is when the run began; zero if unknown, which counts as before every tombstone.
	Began time.Time
	// Edit is the id of an edit, which belongs to no run.
	Edit string
}

// AboutEvent returns the run of an event. ok is false for an event of no run.
func AboutEvent(e events.Event) (a About, ok bool) {
	switch e := e.(type) {
	case *events.Task:
		first := events.ExecutionID(e.Book, e.Owner, e.ID, 0)
		return About{Book: e.Book, Owner: e.Owner, User: e.User, Session: e.Session, Runs: []string{string(first)}, Began: e.Created}, true
	case *events.Execution:
		runs := []string{string(e.ID), string(e.SampleID())}
		return About{Book: e.Book, Owner: e.Owner, User: e.User, Session: e.Session, Runs: runs, Began: e.Started}, true
	case *events.Reflection:
		runs := []string{string(e.Execution), string(e.SampleID()), string(e.Handle)}
		return About{Book: e.Book, Owner: e.Owner, User: e.User, Session: e.Session, Runs: runs, Began: e.Created}, true
	case *events.Feedback:
		return About{Book: e.Book, Runs: []string{string(e.Execution)}, Began: e.Created}, true
	}
	return About{}, false
}

// AboutOther returns the run o that a reflection or a note was compared with. The run has the owner of the reflection. Its beginning is unknown, but
// before the time reflected, which stands for it. ok is false if o is nil.
func AboutOther(b playbook.Book, owner string, o *events.OtherRun, reflected time.Time) (a About, ok bool) {
	if o == nil {
		return About{}, false
	}
	return About{Book: b, Owner: owner, User: o.User, Session: o.Session, Runs: []string{string(o.Execution)}, Began: reflected}, true
}

// Check returns ErrErased if the event is of an erased run, or may quote one. It returns another error if reading the tombstones failed.
func (f *Filter) Check(ctx context.Context, e events.Event) error {
	about, ok := AboutEvent(e)
	if !ok {
		return nil
	}
	if err := f.refresh(ctx); err != nil {
		return err
	}
	if f.Erased(&about) {
		return ErrErased
	}
	if r, ok := e.(*events.Reflection); ok {
		if other, ok := AboutOther(r.Book, r.Owner, r.OtherRun, r.Created); ok && f.Erased(&other) {
			return ErrErased
		}
	}
	return nil
}

// Erased reports whether something is about an erased run, as far as the filter has read.
func (f *Filter) Erased(a *About) bool {
	_, erased := f.Match(a)
	return erased
}

// Match is Erased, and returns the kind of the first tombstone that applies.
func (f *Filter) Match(a *About) (Kind, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, ok := f.books[a.Book]; ok && a.Began.Before(at) {
		return OfBook, true
	}
	if len(f.key) == 0 {
		return "", false
	}
	if a.User != "" && f.erasedName(f.key.ofUser(a.User), a) {
		return OfUser, true
	}
	if a.Session != "" && (f.erasedName(f.key.ofSession("", a.Session), a) || a.Owner != "" && f.erasedName(f.key.ofSession(a.Owner, a.Session), a)) {
		return OfSession, true
	}
	for _, run := range a.Runs {
		hash := f.key.ofRun(run)
		if f.runs.has(hash) || f.erasedName(hash, &About{Book: a.Book}) { // the tombstone of an execution applies whenever the run began
			return OfExecution, true
		}
	}
	return "", false
}

// erasedName reports whether a tombstone with this hash applies to a run. The caller has the lock.
func (f *Filter) erasedName(hash []byte, a *About) bool {
	for _, s := range f.names[string(hash)] {
		if (s.book == "" || s.book == a.Book) && a.Began.Before(s.before) {
			return true
		}
	}
	return false
}

// refresh reads new tombstones if the last read is older than FilterAge.
func (f *Filter) refresh(ctx context.Context) error {
	if isRecent, err := f.lastRead(); isRecent {
		return err
	}
	if err := f.beginRead(ctx); err != nil {
		return err
	}
	defer f.endRead()
	if isRecent, err := f.lastRead(); isRecent { // another goroutine has just read
		return err
	}
	return f.readNew(ctx)
}

// Refresh reads new tombstones now.
func (f *Filter) Refresh(ctx context.Context) error {
	if err := f.beginRead(ctx); err != nil {
		return err
	}
	defer f.endRead()
	return f.readNew(ctx)
}

// beginRead waits until no other goroutine reads. It returns the error of ctx if ctx ends first.
func (f *Filter) beginRead(ctx context.Context) error {
	select {
	case f.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Filter) endRead() { <-f.reading }

// lastRead returns the error of the last read. isRecent is false if the bucket must be read again.
func (f *Filter) lastRead() (isRecent bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.read) < FilterAge {
		return true, nil
	}
	return time.Since(f.failedAt) < failureAge, f.failed
}

// readNew reads new tombstones, between beginRead and endRead.
func (f *Filter) readNew(ctx context.Context) error {
	began := time.Now()
	if n := f.js.Conn().Stats().Reconnects; n != f.reconnects { // a server that crashed may use the last sequences again
		f.reconnects, f.next = n, 1
	}
	err := f.direct.Read(ctx, Stream, direct.Query{Subject: prefix + ">", From: f.next}, f.add)
	if natserr.IsStreamMissing(ctx, f.js, Stream, err) { // 'debrief setup' has not created it, so nothing was erased
		err = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.read = began
	case ctx.Err() == nil: // else the caller has ended the read
		f.failed, f.failedAt = err, time.Now()
	}
	return err
}

// unreadableError is returned while the bucket has a value that this program cannot read. As it may be a tombstone, work waits. The error has no
// Unwrap: with events.ErrNewerSchema in it, the message would count as one of a newer release.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string     { return "read the erasures: " + e.err.Error() }
func (e *unreadableError) Unavailable() bool { return true }

func (f *Filter) add(m direct.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.addValue(m); err != nil {
		return &unreadableError{err} // the next read begins with this message
	}
	f.next = m.Seq + 1
	return nil
}

func (f *Filter) addValue(m direct.Message) error {
	key := strings.TrimPrefix(m.Subject, prefix)
	switch {
	case m.Deleted() || strings.HasSuffix(key, requestSuffix) || key == keyRestored: // says nothing about a run
	case key == keyOfHashes: // of the hashes in tombstones
		f.key = m.Data
	case strings.Contains(key, runsInfix): // hashes of runs of a tombstone
		return f.runs.add(m.Data)
	default:
		t := new(Tombstone)
		if err := decode(m, t); err != nil {
			return err
		}
		switch t.Kind {
		case OfBook:
			if t.Created.After(f.books[t.Book]) { // an earlier tombstone may have changed after a later one
				f.books[t.Book] = t.Created
			}
		case OfUser, OfSession, OfExecution:
			name, s := string(t.Hash), scope{book: t.Book, before: t.Created}
			if !slices.Contains(f.names[name], s) { // a changed tombstone is read again
				f.names[name] = append(f.names[name], s)
			}
		}
	}
	return nil
}

// runHash is the number of bytes of a hash of a run that a tombstone keeps. With ten million runs two of them have the same
// hash with a probability of one in a million.
const runHash = 12

// runList is a stored list of hashes.
type runList struct {
	Hashes []byte `msgpack:"h"`
}

// runSet is a set of hashes of runs.
type runSet map[[runHash]byte]struct{}

// add adds the hashes of an encoded runList.
func (s *runSet) add(data []byte) error {
	var list runList
	if err := events.Unmarshal(data, &list); err != nil {
		return err
	}
	for ; len(list.Hashes) >= runHash; list.Hashes = list.Hashes[runHash:] {
		s.set(list.Hashes)
	}
	return nil
}

// set adds a hash, of which only the first bytes count.
func (s *runSet) set(hash []byte) {
	if *s == nil {
		*s = runSet{}
	}
	(*s)[[runHash]byte(hash)] = struct{}{}
}

// has reports whether the set has a hash, of which only the first bytes count.
func (s runSet) has(hash []byte) bool {
	_, ok := s[[runHash]byte(hash)]
	return ok
}
