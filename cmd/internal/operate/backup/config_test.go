package backup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/jsm.go"

	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestRestoreUsesOwnConfig: of the configuration in a backup, only limits have an effect.
func TestRestoreUsesOwnConfig(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	original := create(t, conn)
	for name, c := range map[string]struct {
		stream, field string
		value         any
		accepted      bool
	}{
		"a description":              {"EXECUTIONS", "description", "another", false},
		"a shorter retention":        {"EXECUTIONS", "max_age", 24 * time.Hour, true},
		"a size":                     {"EXECUTIONS", "max_bytes", 1 << 30, true},
		"republish into the log":     {"EXECUTIONS", "republish", map[string]any{"src": "debrief.execution.>", "dest": "debrief.delta.b"}, false},
		"a source":                   {"DELTAS", "sources", []any{map[string]any{"name": "EXECUTIONS"}}, false},
		"a mirror":                   {"DELTAS", "mirror", map[string]any{"name": "EXECUTIONS"}, false},
		"one message at most":        {"DELTAS", "max_msgs", 1, false},
		"one message of each book":   {"DELTAS", "max_msgs_per_subject", 1, false},
		"another subject":            {"DELTAS", "subjects", []any{"debrief.delta.*", "debrief.execution.*"}, false},
		"a subject transform":        {"EXECUTIONS", "subject_transform", map[string]any{"src": ">", "dest": "debrief.delta.b"}, false},
		"the oldest are dropped":     {"DELTAS", "discard", "old", false},
		"in memory":                  {"DELTAS", "storage", "memory", false},
		"no acknowledgements":        {"REFLECTIONS", "no_ack", true, false},
		"sealed":                     {"REFLECTIONS", "sealed", true, false},
		"small messages alone":       {"REFLECTIONS", "max_msg_size", 10, false},
		"a name of another stream":   {"REFLECTIONS", "name", "DELTAS", false},
		"may be purged":              {"DELTAS", "deny_purge", false, false},
		"counters instead of values": {"KV_state", "allow_msg_counter", true, false},
		"a longer history":           {"KV_state", "max_msgs_per_subject", 5, false},
		"what nobody knows yet":      {"OBJ_blobs", "forward_everything", "debrief.delta.b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "backup")
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			m, err := Verify(dir)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, c.stream, jsm.SnapshotMetaFile)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var meta map[string]map[string]any
			if err := json.Unmarshal(data, &meta); err != nil {
				t.Fatal(err)
			}
			meta["config"][c.field] = c.value
			if data, err = json.Marshal(meta); err != nil {
				t.Fatal(err)
			}
			want, err := m.configs(1)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := m.configs(1)
			if err != nil {
				t.Fatal(err)
			}
			if same := reflect.DeepEqual(got, want); same == c.accepted {
				t.Errorf("%s of %s has an effect: %t, want %t", c.field, c.stream, !same, c.accepted)
			}
		})
	}
}
