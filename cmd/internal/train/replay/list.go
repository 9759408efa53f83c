package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
)

// RunState is the stored progress of a run. Its playbook has the name of the run. The functions that read it set Working and Report, which are
// empty in the stored record.
type RunState struct {
	Book     playbook.Book    `json:"book"`
	Mode     Mode             `json:"mode"`
	From     string           `json:"from,omitempty"` // playbook and version that the run began with
	Settings []report.Setting `json:"settings"`
	Data     []report.Data    `json:"data"`
	Working  bool             `json:"working"` // a process works on the run
	Started  time.Time        `json:"started"`
	Ended    time.Time        `json:"ended,omitzero"`
	Resumed  int              `json:"resumed"`
	Seconds  float64          `json:"seconds"` // working time of all processes
	Epoch    int              `json:"epoch"`
	Step     int              `json:"step"`
	Version  uint64           `json:"playbook_version"`
	Curating report.Usage     `json:"curator_usage"` // usage of the Curator's models, from the log
	// Report is the result of a run that has ended. A list of runs has none.
	Report *report.Report `json:"report,omitempty"`
}

// ErrRunNotFound is returned for a run that is not stored.
var ErrRunNotFound = errors.New("run not found")

// ListRuns returns the stored runs, newest first.
func ListRuns(ctx context.Context, js jetstream.JetStream) ([]RunState, error) {
	stream, err := js.Stream(ctx, "KV_"+events.BucketRuns)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	prefix := "$KV." + events.BucketRuns + "."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	kv, err := openBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	var all []RunState
	for subject := range info.State.Subjects {
		name := playbook.Book(strings.TrimPrefix(subject, prefix))
		if name.Validate() != nil { // the key has a dot: it is the report of a run
			continue
		}
		r, err := readState(ctx, kv, name)
		if errors.Is(err, ErrRunNotFound) { // deleted since the list was read
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b RunState) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Book, b.Book)) })
	return all, nil
}

// ReadRun returns the stored run with the name of its playbook and its report, or ErrRunNotFound.
func ReadRun(ctx context.Context, js jetstream.JetStream, name playbook.Book) (*RunState, error) {
	kv, err := openBucket(ctx, js)
	if err != nil {
		return nil, err
	}
	out, err := readState(ctx, kv, name)
	if err != nil || out.Ended.IsZero() {
		return out, err
	}
	out.Report, err = storedReport(ctx, kv, string(name))
	return out, err
}

// openBucket opens the bucket with the runs.
func openBucket(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, events.BucketRuns)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", events.BucketRuns, err)
	}
	return kv, nil
}

// readState returns a stored run without its report.
func readState(ctx context.Context, kv jetstream.KeyValue, name playbook.Book) (*RunState, error) {
	entry, err := kv.Get(ctx, string(name))
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return nil, fmt.Errorf("%s: %w", name, ErrRunNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", name, err)
	}
	var r record
	if err := json.Unmarshal(entry.Value(), &r); err != nil {
		return nil, fmt.Errorf("read run %s: %w", name, err)
	}
	out := &r.RunState
	out.Book = name // the records of earlier versions of the program lack it
	if r.Owner == nil {
		return out, nil
	}
	silent, err := sinceWrite(ctx, kv, entry)
	out.Working = err == nil && !r.Owner.hasExpired(silent)
	return out, err
}

// reportKey returns the key of the report of a run in the bucket. It is the key of no run, because the name of a run has no dot.
func reportKey(run string) string { return run + ".report" }

// keepReport stores the figures of a run that has ended, for the console. It leaves out the texts of samples and bullets, because a
// person may ask to erase them. It stores nothing if the report is larger than limit, the size of a message. The folder of the run has
// the whole report.
func (s *state) keepReport(ctx context.Context, r report.Report, limit int64) error {
	r.Wrong.First = []report.WrongAnswer{}
	r.Bullets = []report.Bullet{}
	r.Losses = []report.Loss{}
	if r.Against != nil {
		counts := *r.Against
		counts.Here, counts.There = []string{}, []string{}
		r.Against = &counts
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if err := errors.Join(json.NewEncoder(z).Encode(&r), z.Close()); err != nil {
		return fmt.Errorf("encode report of run %q: %w", s.name, err)
	}
	if int64(out.Len()) > limit {
		return nil
	}
	if _, err := s.kv.Put(ctx, reportKey(s.name), out.Bytes()); err != nil {
		return fmt.Errorf("store report of run %q: %w", s.name, err)
	}
	return nil
}

// storedReport returns the figures of a run, nil if none are stored.
func storedReport(ctx context.Context, kv jetstream.KeyValue, run string) (*report.Report, error) {
	entry, err := kv.Get(ctx, reportKey(run))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read report of run %s in bucket %s: %w", run, events.BucketRuns, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(entry.Value()))
	r := new(report.Report)
	if err == nil {
		err = json.NewDecoder(z).Decode(r)
	}
	if err != nil {
		return nil, fmt.Errorf("read report of run %s: %w", run, err)
	}
	return r, nil
}
