package main

import (
	"encoding/json"
	"strings"
	"testing"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/backup"
)

// TestARestoreKeepsReplicas: streams that lived on three servers do not come to live on one because nobody thought of it.
func TestARestoreKeepsReplicas(t *testing.T) {
	t.Parallel()
	of := func(replicas string) *backup.Manifest {
		return &backup.Manifest{Streams: []backup.Stream{
			{Name: "TASKS", Config: json.RawMessage(`{"num_replicas":1}`)},
			{Name: "DELTAS", Config: json.RawMessage(`{"num_replicas":` + replicas + `}`)},
		}}
	}
	for _, row := range []struct {
		what, nats, had string
		replicas        int
		fewer           bool
		want            string
	}{
		{"three of three", "nats://somewhere:4222", "3", 3, false, ""},
		{"one of three", "nats://somewhere:4222", "3", 1, false, "say --replicas 3, or --fewer-replicas"},
		{"one of three, as is said", "nats://somewhere:4222", "3", 1, true, ""},
		{"one of three, in a directory", "", "3", 1, false, ""},
		{"three of one", "nats://somewhere:4222", "1", 3, false, ""},
	} {
		b := backupRestore{Fewer: row.fewer, place: place{NATS: app.NATS{NATS: row.nats, Replicas: row.replicas}}}
		err := b.keeps(of(row.had))
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: got %v, want %q", row.what, err, row.want)
		}
	}
}
