package bus

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// blobConfig returns the configuration of the object store's stream, as the client of JetStream creates it.
func blobConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: blobStream, Description: "payloads too large for a message", Subjects: []string{blobPrefix + ".C.>", blobPrefix + ".M.>"},
		MaxAge: keepBlobs, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, AllowRollup: true, AllowDirect: true, Replicas: replicas,
	}
}

// minAge is the shortest retention that CheckConfig accepts.
const minAge = time.Hour

// operatorFields are the configuration fields that an operator may change. CheckConfig also checks the limits among
// them.
var operatorFields = []string{"description", "num_replicas", "placement", "metadata", "compression", "duplicate_window", "max_age", "max_bytes"}

// CheckConfig compares a stream's configuration, in the JSON of the server, with the one that Open creates. The error
// names the first field that differs. Bytes is the size of the stream, the smallest allowed max_bytes.
func CheckConfig(name string, config []byte, bytes uint64) error {
	all := append(streams(1), blobConfig(1))
	i := slices.IndexFunc(all, func(c jetstream.StreamConfig) bool { return c.Name == name })
	if i < 0 {
		return fmt.Errorf("unknown stream %q", name)
	}
	var got, want map[string]any
	if err := json.Unmarshal(config, &got); err != nil {
		return err
	}
	ours, err := json.Marshal(all[i])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(ours, &want); err != nil {
		return err
	}
	fields := maps.Clone(want)
	maps.Copy(fields, got)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		gotValue, wantValue := normalizeField(got[field]), normalizeField(want[field])
		if !slices.Contains(operatorFields, field) && !reflect.DeepEqual(gotValue, wantValue) {
			return fmt.Errorf("%s: must be %s, got %.200s", field, formatField(wantValue), formatField(gotValue))
		}
	}
	if age, ok := normalizeField(got["max_age"]).(float64); ok && age < float64(minAge) {
		return fmt.Errorf("max_age: must be at least %s, got %s", minAge, time.Duration(age))
	}
	if limit, ok := normalizeField(got["max_bytes"]).(float64); ok && limit < float64(bytes) {
		return fmt.Errorf("max_bytes: must be at least the %d bytes that the stream holds, got %.0f", bytes, limit)
	}
	return nil
}

// normalizeField returns nil for a value that means the same as a missing field. The server writes only some defaults.
func normalizeField(v any) any {
	switch v := v.(type) {
	case bool:
		if !v {
			return nil
		}
	case string:
		if v == "" || v == "none" {
			return nil
		}
	case float64:
		if v == 0 || v == -1 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

// formatField returns a value as JSON, and "unset" for nil.
func formatField(v any) string {
	if v == nil {
		return "unset"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
