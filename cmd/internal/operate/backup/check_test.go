package backup

import (
	"context"
	"encoding/json"
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
		{[]string{"Deltas", "runs", "blobs"}, []string{events.StreamDeltas, "KV_" + events.BucketRuns, "OBJ_" + events.BucketBlobs}, true},
		{[]string{"deltas", "delta"}, nil, false},
		{[]string{""}, nil, false},
	} {
		got, err := SelectStreams(test.short)
		if !slices.Equal(got, test.want) || (err == nil) != test.ok {
			t.Errorf("%q: got %v, error %v", test.short, got, err)
		}
	}
}

func TestCheckReplicas(t *testing.T) {
	t.Parallel()
	manifest := func(replicas string) *Manifest {
		return &Manifest{Streams: []Stream{
			{Name: "TASKS", Config: json.RawMessage(`{"num_replicas":1}`)},
			{Name: "DELTAS", Config: json.RawMessage(`{"num_replicas":` + replicas + `}`)},
		}}
	}
	for _, test := range []struct {
		name string
		had  string
		get  Replicas
		want *FewerReplicasError
	}{
		{"three of three", "3", Replicas{Number: 3}, nil},
		{"one of three", "3", Replicas{Number: 1}, &FewerReplicasError{Backup: 3, Got: 1}},
		{"one of three, allowed", "3", Replicas{Number: 1, AllowFewer: true}, nil},
		{"one of three, embedded", "3", Replicas{Number: 1, Embedded: true}, nil},
		{"three of one", "1", Replicas{Number: 3}, nil},
		{"none of one", "1", Replicas{}, &FewerReplicasError{Backup: 1}},
	} {
		err := manifest(test.had).CheckReplicas(test.get)
		var got *FewerReplicasError
		if errors.As(err, &got) != (test.want != nil) || got != nil && *got != *test.want {
			t.Errorf("%s: got %v, want %v", test.name, err, test.want)
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
