package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/train/report"
	"debrief/events"
)

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
