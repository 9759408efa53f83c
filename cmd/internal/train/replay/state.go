package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/events/natserr"
	"debrief/playbook"
)

// record is the value of a run's key in the bucket.
type record struct {
	RunState
	Format      int          `json:"format"`
	Fingerprint string       `json:"fingerprint"`
	Owner       *owner       `json:"owner,omitempty"`  // nil if no process works on the run
	Source      *sourceRange `json:"source,omitempty"` // of a run in the mode Executions
}

// owner is the process that works on a run. No other process may work on it until the lease of the owner expires.
type owner struct {
	ID   events.ID `json:"id"` // new for each process
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	Beat time.Time `json:"heartbeat"`
}

// The interval of the owner's heartbeat, and the time without a heartbeat after which the lease expires.
const (
	beatEvery = 3 * time.Second
	deadAfter = 15 * time.Second
)

// hasExpired reports whether the lease has expired: the time without a heartbeat is too long, or the process has exited. Only a process of this
// machine can be checked.
func (o *owner) hasExpired(silent time.Duration) bool {
	host, err := os.Hostname()
	isOfThisMachine := err == nil && host == o.Host
	isOther := o.PID != os.Getpid()
	return silent > deadAfter || isOfThisMachine && isOther && hasExited(o.PID)
}

// hasExited reports whether a process of this machine has ended. On Windows it returns false: the caller then waits until the lease expires.
func hasExited(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// sinceWrite returns the age of an entry by the server's clock, because the clock of the owner or of this process may be wrong.
func sinceWrite(ctx context.Context, kv jetstream.KeyValue, entry jetstream.KeyValueEntry) (time.Duration, error) {
	status, err := kv.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("read bucket %s: %w", events.BucketRuns, err)
	}
	b, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return 0, fmt.Errorf("read bucket %s: got a %T", events.BucketRuns, status)
	}
	return max(b.StreamInfo().TimeStamp.Sub(entry.Created()), 0), nil
}

// InUseError is returned when another process works on the run. Without a Host, that process began to work on it at this moment.
type InUseError struct {
	Name   string
	Host   string
	PID    int
	Silent time.Duration // time since its last heartbeat
}

func (e *InUseError) Error() string {
	if e.Host == "" {
		return fmt.Sprintf("run %q: in use by another process: wait for it, or choose another --name", e.Name)
	}
	return fmt.Sprintf("run %q: in use by process %d on %s, last heartbeat %s ago: wait for it, or choose another --name",
		e.Name, e.PID, e.Host, e.Silent.Round(time.Second))
}

// ConflictError is returned when a run of this name has other data or other settings.
type ConflictError struct {
	Name  string
	Diffs []string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("run %q exists with other settings or data (%s): nothing was changed; choose another --name", e.Name, strings.Join(e.Diffs, "; "))
}

// ExpiredError is returned when a run has ended and some of its events have expired since.
type ExpiredError struct{ Name string }

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("run %q has ended, and its events have expired since: use the report written at that time, or choose another --name to run it again", e.Name)
}

// errOwnerChanged ends a run whose key another process has written.
var errOwnerChanged = errors.New("another process has taken over the run")

// state is the run's key while this process owns it.
type state struct {
	kv     jetstream.KeyValue
	name   string
	owner  events.ID               // this process
	ended  bool                    // the run had ended before this process
	cancel context.CancelCauseFunc // ends the run
	stop   context.CancelFunc      // ends the heartbeat
	done   sync.WaitGroup          // of the heartbeat

	mu             sync.Mutex
	record         record
	revision       uint64    // of the key; 0 for a new key
	began          time.Time // start of the work of this process
	earlierSeconds float64   // working time of earlier processes
}

// acquire makes this process the owner of a run that is new, was interrupted or has ended.
func acquire(ctx context.Context, js jetstream.JetStream, r *run, cancel context.CancelCauseFunc) (*state, error) {
	kv, err := openBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	s := &state{kv: kv, name: r.Name, cancel: cancel, began: time.Now()}
	requested := record{
		RunState: RunState{Book: r.book, Mode: r.Mode, From: r.From, Settings: r.Settings, Data: r.Sets.Data()},
		Format:   report.Format, Fingerprint: fingerprint(r.Config, r.Sets, r.Options),
	}
	entry, err := kv.Get(ctx, r.Name)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		if err := checkUnused(ctx, r.store, r.book); err != nil {
			return nil, err
		}
		s.record = requested
		s.record.Started = s.began.UTC()
	case err != nil:
		return nil, fmt.Errorf("read run %q: %w", r.Name, err)
	default:
		if err := json.Unmarshal(entry.Value(), &s.record); err != nil {
			return nil, fmt.Errorf("read run %q: %w", r.Name, err)
		}
		if s.record.Fingerprint != requested.Fingerprint {
			return nil, &ConflictError{r.Name, differences(&s.record, &requested)}
		}
		if o := s.record.Owner; o != nil {
			silent, err := sinceWrite(ctx, kv, entry)
			if err != nil {
				return nil, err
			}
			if !o.hasExpired(silent) {
				return nil, &InUseError{Name: r.Name, Host: o.Host, PID: o.PID, Silent: silent}
			}
		}
		s.revision = entry.Revision()
		s.earlierSeconds = s.record.Seconds
		s.ended = !s.record.Ended.IsZero()
		if !s.ended {
			s.record.Resumed++
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.record.Owner = &owner{ID: events.NewID(), Host: host, PID: os.Getpid()}
	s.owner = s.record.Owner.ID
	err = s.write(ctx)
	switch {
	case errors.Is(err, errOwnerChanged):
		return nil, &InUseError{Name: r.Name}
	case err != nil: // the record may be stored nevertheless, and the next process would wait for this one
		return nil, errors.Join(err, s.clearOwner(context.WithoutCancel(ctx)))
	}
	heartbeatCtx, stop := context.WithCancel(ctx)
	s.stop = stop
	s.done.Go(func() { s.heartbeat(heartbeatCtx) })
	return s, nil
}

// checkUnused returns an error if a playbook with the name of the run exists.
func checkUnused(ctx context.Context, store *deltalog.Store, name playbook.Book) error {
	known, err := store.BooksWithLog(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(known, name) {
		return &ConflictError{string(name), []string{"a playbook of this name exists"}}
	}
	return nil
}

// differences lists the differences between a stored run and the requested run.
func differences(stored, requested *record) []string {
	all := report.Differences(stored.Settings, requested.Settings, stored.Data, requested.Data)
	if stored.From != requested.From {
		all = append(all, fmt.Sprintf("from: %s there, %s here", cmp.Or(stored.From, "nothing"), cmp.Or(requested.From, "nothing")))
	}
	if stored.Mode != requested.Mode {
		all = append(all, fmt.Sprintf("mode: %s there, %s here", stored.Mode, requested.Mode))
	}
	if len(all) == 0 {
		all = append(all, "other settings or data")
	}
	return all
}

// write stores the record with a new heartbeat. It returns errOwnerChanged if another process has written the key. The caller holds the lock.
func (s *state) write(ctx context.Context) error {
	s.record.Owner.Beat = time.Now().UTC()
	s.record.Seconds = s.seconds()
	return s.put(ctx)
}

// put stores the record. It returns errOwnerChanged if another process has written the key. The caller holds the lock.
func (s *state) put(ctx context.Context) error {
	data, err := json.Marshal(&s.record)
	if err != nil {
		return fmt.Errorf("write run %q: %w", s.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		revision, failed := s.kv.Update(ctx, s.name, data, s.revision) // the revision of a new key is 0
		if failed == nil {
			s.revision = revision
			return nil
		}
		if !natserr.IsConflict(failed) {
			return fmt.Errorf("write run %q: %w", s.name, failed)
		}
		entry, err := s.kv.Get(ctx, s.name)
		if err != nil {
			return fmt.Errorf("read run %q: %w", s.name, err)
		}
		// A record of this process with a newer revision is from an earlier write whose reply was lost: write again with that revision.
		var stored record
		isOwn := json.Unmarshal(entry.Value(), &stored) == nil && stored.Owner != nil && stored.Owner.ID == s.owner
		isKnown := entry.Revision() == s.revision
		switch {
		case !isOwn:
			return fmt.Errorf("write run %q: %w", s.name, errOwnerChanged)
		case isKnown: // a cluster may refuse a write without reason, and a replica may return an old record
			return fmt.Errorf("write run %q: %w", s.name, failed)
		}
		s.revision = entry.Revision()
	}
}

// heartbeat renews the lease until the context ends or another process takes over the run.
func (s *state) heartbeat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		err := s.write(ctx)
		s.mu.Unlock()
		if errors.Is(err, errOwnerChanged) {
			s.cancel(err)
			return
		}
	}
}

// sourceRange returns the range of executions that the run began with, nil if it is not recorded yet.
func (s *state) sourceRange() *sourceRange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Source
}

// setSourceRange stores the range of executions before the first of them is processed.
func (s *state) setSourceRange(ctx context.Context, source *sourceRange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Source = source
	return s.write(ctx)
}

// setProgress records the progress of the run. The next heartbeat stores it.
func (s *state) setProgress(at position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.step >= s.record.Step { // a resumed run repeats its first steps
		s.record.Epoch = at.epoch
		s.record.Step = at.step
		s.record.Version = at.version
	}
}

// setCuratorUsage records the model usage of the Curator so far. The next heartbeat stores it.
func (s *state) setCuratorUsage(u report.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Curating = u
}

// release gives up the ownership of the run. If done is set, the run has ended; else another process can resume it.
func (s *state) release(ctx context.Context, done bool) error {
	s.stop()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if done && s.record.Ended.IsZero() {
		s.record.Ended = time.Now().UTC()
	}
	s.record.Seconds = s.seconds()
	return s.clearOwner(ctx)
}

// clearOwner stores the record without an owner. If another process has taken over the run, it changes nothing and returns nil.
func (s *state) clearOwner(ctx context.Context) error {
	s.record.Owner = nil
	if err := s.put(ctx); !errors.Is(err, errOwnerChanged) {
		return err
	}
	return nil
}

// snapshot returns the record of the run as if the run ended now. A run that had ended before keeps its times.
func (s *state) snapshot() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.record
	rec.Seconds = s.seconds()
	if !s.ended {
		rec.Ended = time.Now().UTC()
	}
	return rec
}

// seconds returns the working time of all processes. A process that reads the results of an ended run adds none. The caller holds the lock.
func (s *state) seconds() float64 {
	if s.ended {
		return s.earlierSeconds
	}
	return s.earlierSeconds + time.Since(s.began).Seconds()
}
