package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/report"
	"debrief/events"
)

// record is the value of a run's key in the bucket.
type record struct {
	Format      int              `json:"format"`
	Fingerprint string           `json:"fingerprint"`
	Mode        Mode             `json:"mode"`
	Settings    []report.Setting `json:"settings"`
	Data        []report.Data    `json:"data"`
	From        string           `json:"from,omitempty"`

	Owner *owner `json:"owner,omitempty"` // who is at work

	Begun   time.Time `json:"begun"`
	Ended   time.Time `json:"ended,omitzero"`
	Resumed int       `json:"resumed"`
	Seconds float64   `json:"seconds"` // that a runner was at work
	Epoch   int       `json:"epoch"`
	Step    int       `json:"step"`
	Version uint64    `json:"playbook_version"`
	// Curating is what the Curator's models were asked, as far as its decisions have said.
	Curating report.Usage `json:"curating"`
	// Source is what a run over recorded executions is over.
	Source *sourced `json:"source,omitempty"`
}

// owner is a process that runs a run. Others leave the run alone while it gives signs of life.
type owner struct {
	ID   events.ID `json:"id"`
	Host string    `json:"host"`
	PID  int       `json:"pid"`
	Beat time.Time `json:"beat"`
}

// How often an owner gives a sign of life, and after how long without one it is thought dead.
const (
	beatEvery = 3 * time.Second
	deadAfter = 15 * time.Second
)

// dead reports whether an owner works no more that has been silent for so long. A process of this machine can be looked for.
func (o *owner) dead(silent time.Duration) bool {
	if host, err := os.Hostname(); err == nil && host == o.Host && o.PID != os.Getpid() && gone(o.PID) {
		return true
	}
	return silent > deadAfter
}

// silence is how long ago an entry was written, by the server's clock alone: an owner's clock, and ours, may be wrong.
func silence(ctx context.Context, kv jetstream.KeyValue, entry jetstream.KeyValueEntry) (time.Duration, error) {
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

// gone reports whether a process of this machine has ended. One that was killed stays a zombie where nobody waits for
// it, as in containers whose first process reaps none.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // pid (name) state …, and a name may hold a bracket
	end := bytes.LastIndex(stat, []byte(") "))
	return err == nil && end >= 0 && bytes.HasPrefix(stat[end+2:], []byte("Z"))
}

// InUseError says that another process is at work on the run.
type InUseError struct {
	Name   string
	Host   string
	PID    int
	Silent time.Duration // since its last sign of life
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("run %q is being run by process %d on %s, which gave a sign of life %s ago: wait for it, or choose another --name",
		e.Name, e.PID, e.Host, e.Silent.Round(time.Second))
}

// OtherError says that a run of this name is over other data, or has other settings.
type OtherError struct {
	Name  string
	Diffs []string
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("there is a run %q already, and it is another one (%s): nothing was changed; choose another --name", e.Name, strings.Join(e.Diffs, "; "))
}

// ExpiredError says that a run has ended and that not all is stored any more that it was made of.
type ExpiredError struct{ Name string }

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("run %q has ended, and what it was made of has expired since: its report is where it was written then; choose another --name to run it again", e.Name)
}

// errTaken ends a run whose key somebody else has written.
var errTaken = errors.New("another process has taken the run over")

// state is the run's key while this process owns it.
type state struct {
	kv   jetstream.KeyValue
	name string
	lost context.CancelCauseFunc
	stop context.CancelFunc
	done sync.WaitGroup

	owner events.ID // this process

	mu       sync.Mutex
	record   record
	revision uint64
	began    time.Time
	before   float64 // seconds of earlier processes
	over     bool    // the run had ended before
}

// take makes this process the owner of a run, begun now or interrupted before.
func take(ctx context.Context, js jetstream.JetStream, r *run, lost context.CancelCauseFunc) (*state, error) {
	kv, err := js.KeyValue(ctx, events.BucketRuns)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", events.BucketRuns, err)
	}
	s := &state{kv: kv, name: r.Name, lost: lost, began: time.Now()}
	want := record{
		Format: report.Format, Fingerprint: fingerprint(r.Config, r.Sets, r.Options), Mode: r.Mode, Settings: r.Settings, Data: r.Sets.Data(), From: r.From,
	}
	entry, err := kv.Get(ctx, r.Name)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		if err := r.unused(ctx); err != nil {
			return nil, err
		}
		s.record = want
		s.record.Begun = s.began.UTC()
	case err != nil:
		return nil, fmt.Errorf("read run %q: %w", r.Name, err)
	default:
		if err := json.Unmarshal(entry.Value(), &s.record); err != nil {
			return nil, fmt.Errorf("read run %q: %w", r.Name, err)
		}
		if s.record.Fingerprint != want.Fingerprint {
			return nil, &OtherError{r.Name, differences(&s.record, &want)}
		}
		if o := s.record.Owner; o != nil {
			silent, err := silence(ctx, kv, entry)
			if err != nil {
				return nil, err
			}
			if !o.dead(silent) {
				return nil, &InUseError{r.Name, o.Host, o.PID, silent}
			}
		}
		s.revision, s.before, s.over = entry.Revision(), s.record.Seconds, !s.record.Ended.IsZero()
		if !s.over {
			s.record.Resumed++
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.record.Owner = &owner{ID: events.NewID(), Host: host, PID: os.Getpid()}
	s.owner = s.record.Owner.ID
	if err := s.write(ctx); err != nil {
		if errors.Is(err, errTaken) {
			return nil, &InUseError{r.Name, "another machine", 0, 0}
		}
		// It may have been stored all the same, and nobody is to wait for us.
		return nil, errors.Join(err, s.letGo(context.WithoutCancel(ctx)))
	}
	beat, stop := context.WithCancel(ctx)
	s.stop = stop
	s.done.Go(func() { s.beat(beat) })
	return s, nil
}

// unused makes sure that the run's book is nobody's.
func (r *run) unused(ctx context.Context) error {
	known, err := r.store.Logged(ctx)
	if err != nil {
		return err
	}
	for _, b := range known {
		if b == r.book {
			return &OtherError{r.Name, []string{"a playbook of this name exists"}}
		}
	}
	return nil
}

// differences say how a stored run is another one than the one that is asked for.
func differences(is, want *record) []string {
	var all []string
	differ := func(name, a, b string) {
		if a != b {
			all = append(all, fmt.Sprintf("%s: %s there, %s here", name, orNone(a), orNone(b)))
		}
	}
	there := map[string]string{}
	for _, s := range is.Settings {
		there[s.Name] = s.Value
	}
	for _, s := range want.Settings {
		differ(s.Name, there[s.Name], s.Value)
		delete(there, s.Name)
	}
	for name, value := range there {
		differ(name, value, "")
	}
	files := map[string]report.Data{}
	for _, d := range is.Data {
		files[d.Set] = d
	}
	for _, d := range want.Data { // that there is none of a set the settings say
		if was, both := files[d.Set]; both && was != d {
			all = append(all, fmt.Sprintf("%s: other data than %s", d.Set, was.File))
		}
	}
	differ("from", is.From, want.From)
	differ("mode", string(is.Mode), string(want.Mode))
	if len(all) == 0 {
		all = append(all, "other settings or data")
	}
	return all
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// write stores the record as a sign of life, if nobody else has.
func (s *state) write(ctx context.Context) error {
	s.record.Owner.Beat = time.Now().UTC()
	s.record.Seconds = s.before + time.Since(s.began).Seconds()
	return s.put(ctx)
}

// put stores the record, if nobody else has.
func (s *state) put(ctx context.Context) error {
	data, err := json.Marshal(&s.record)
	if err != nil {
		return fmt.Errorf("write run %q: %w", s.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		revision, err := s.kv.Update(ctx, s.name, data, s.revision) // of a key that is not there yet it is 0
		if err == nil {
			s.revision = revision
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return fmt.Errorf("write run %q: %w", s.name, err)
		}
		// What stands there may be ours: stored, though its answer did not reach us.
		entry, err := s.kv.Get(ctx, s.name)
		if err != nil {
			return fmt.Errorf("read run %q: %w", s.name, err)
		}
		var is record
		if json.Unmarshal(entry.Value(), &is) != nil || is.Owner == nil || is.Owner.ID != s.owner || entry.Revision() == s.revision {
			return fmt.Errorf("write run %q: %w", s.name, errTaken)
		}
		s.revision = entry.Revision()
	}
}

// beat gives signs of life until the context ends, or the run is somebody else's.
func (s *state) beat(ctx context.Context) {
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
		if errors.Is(err, errTaken) {
			s.lost(err)
			return
		}
	}
}

// sourced is what the run found when it began, nil where that was never noted.
func (s *state) sourced() *sourced {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Source
}

// found stores what the run is over before anything is made of it.
func (s *state) found(ctx context.Context, is *sourced) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Source = is
	return s.write(ctx)
}

// reached notes how far the run is. It is written with the next sign of life.
func (s *state) reached(epoch, step int, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step >= s.record.Step {
		s.record.Epoch, s.record.Step, s.record.Version = epoch, step, version
	}
}

// spent adds what a Curator's models were asked.
func (s *state) spent(u report.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.record.Curating
	c.Calls, c.InputTokens, c.OutputTokens, c.Dollars = c.Calls+u.Calls, c.InputTokens+u.InputTokens, c.OutputTokens+u.OutputTokens, c.Dollars+u.Dollars
}

func (s *state) curating() report.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Curating
}

// release lets go of the run, as one that is done or that others may go on with.
func (s *state) release(ctx context.Context, done bool) error {
	s.stop()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if done && s.record.Ended.IsZero() {
		s.record.Ended = time.Now().UTC()
	}
	if s.over { // looking at it again took no time of its own
		s.began = time.Now()
	}
	s.record.Seconds = s.before + time.Since(s.began).Seconds()
	return s.letGo(ctx)
}

// letGo stores the record without an owner. What somebody else has taken over is left to them.
func (s *state) letGo(ctx context.Context) error {
	s.record.Owner = nil
	if err := s.put(ctx); !errors.Is(err, errTaken) {
		return err
	}
	return nil
}
