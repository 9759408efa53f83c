package backup

import (
	"context"
	"errors"
	"slices"
	"testing"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

func TestSelectStreams(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		short, want []string
		ok          bool
	}{
		{nil, nil, true},
		{[]string{"Deltas", "runs", "blobs"}, []string{events.StreamDeltas, "KV_" + events.BucketRuns, "OBJ_" + events.BucketBlobs, events.StreamRedactions}, true},
		{[]string{"deltas", "delta"}, nil, false},
		{[]string{""}, nil, false},
	} {
		got, err := SelectStreams(test.short)
		if !slices.Equal(got, test.want) || (err == nil) != test.ok {
			t.Errorf("%q: got %v, error %v", test.short, got, err)
		}
	}
}

// fakeStore has playbooks with a severity of their findings.
type fakeStore struct {
	severity map[playbook.Book]deltalog.Severity
	err      error
}

func (f fakeStore) BooksWithLog(context.Context) (all []playbook.Book, err error) {
	for name := range f.severity {
		all = append(all, name)
	}
	slices.Sort(all)
	return all, nil
}

func (f fakeStore) Verify(_ context.Context, b playbook.Book) (*deltalog.Verification, error) {
	v := &deltalog.Verification{Book: b}
	if s := f.severity[b]; s != "" {
		v.Findings = []deltalog.Finding{{Severity: s}}
	}
	return v, f.err
}

func TestVerifyPlaybooks(t *testing.T) {
	t.Parallel()
	books := map[playbook.Book]deltalog.Severity{"a": "", "b": deltalog.Broken, "c": "other", "d": deltalog.Broken}
	for _, test := range []struct {
		name    string
		stream  string
		err     error
		n       int
		damaged []string
	}{
		{"with log", events.StreamDeltas, nil, 4, []string{"b", "d"}},
		{"without log", events.StreamTasks, nil, 0, nil},
		{"unreachable", events.StreamDeltas, errors.New("timeout"), 0, nil},
	} {
		m := &Manifest{Streams: []Stream{{Name: test.stream}}}
		all, damaged, err := m.VerifyPlaybooks(t.Context(), fakeStore{books, test.err})
		if !errors.Is(err, test.err) || len(all) != test.n || !slices.Equal(damaged, test.damaged) {
			t.Errorf("%s: got %d playbooks, damaged %v, error %v", test.name, len(all), damaged, err)
		}
	}
}
