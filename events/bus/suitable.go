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

// blobConfig is the stream of the object store, as its client creates it.
func blobConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: blobStream, Description: "payloads too large for a message", Subjects: []string{blobPrefix + ".C.>", blobPrefix + ".M.>"},
		MaxAge: keepBlobs, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, AllowRollup: true, AllowDirect: true, Replicas: replicas,
	}
}

// minAge is the shortest retention that CheckConfig accepts.
const minAge = time.Hour

// operatorFields are the fields of a stream's configuration that an operator may set as it suits. The limits in them are
// checked one by one.
var operatorFields = []string{"description", "num_replicas", "placement", "metadata", "compression", "duplicate_window", "max_age", "max_bytes"}

// CheckConfig compares a stream's configuration, as the server writes it in JSON, with the one that this program creates.
// The error names the first field in which they differ. Bytes is how much the stream holds.
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
		is, should := set(got[field]), set(want[field])
		if !slices.Contains(operatorFields, field) && !reflect.DeepEqual(is, should) {
			return fmt.Errorf("%s: must be %s, got %.200s", field, shown(should), shown(is))
		}
	}
	if age, ok := set(got["max_age"]).(float64); ok && age < float64(minAge) {
		return fmt.Errorf("max_age: must be at least %s, got %s", minAge, time.Duration(age))
	}
	if most, ok := set(got["max_bytes"]).(float64); ok && most < float64(bytes) {
		return fmt.Errorf("max_bytes: must be at least %d, which the stream holds, got %.0f", bytes, most)
	}
	return nil
}

// set is a value, or nil where it is the same as none: the server writes some defaults, and others not.
func set(v any) any {
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

// shown is a value as JSON; not set is "unset".
func shown(v any) string {
	if v == nil {
		return "unset"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
