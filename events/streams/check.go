package streams

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ConfigError is returned if the configuration of a stream does not fit. Only an operator may change it.
type ConfigError struct {
	Stream string
	Field  string // the setting, as in the JSON of the server; empty if another stream has the subjects
	Err    error
}

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// FieldRollup is the setting that allows rollups, the only one that 'debrief setup' corrects. FieldSealed is the setting of a stream
// that an operator has closed for ever: it can still be read.
const (
	FieldRollup = "allow_rollup_hdrs"
	FieldSealed = "sealed"
)

// UnsealFix tells an operator how to unseal a stream.
const UnsealFix = "no setting opens it again: run 'debrief backup create', delete the stream, and run 'debrief backup restore'"

// Check compares a stream with the wanted configuration. It returns a *ConfigError if the stream does not
// fit.
func Check(got, want jetstream.StreamConfig) error {
	mismatch := func(field, format string, args ...any) error {
		return &ConfigError{got.Name, field, fmt.Errorf("stream %s "+format, append([]any{got.Name}, args...)...)}
	}
	for _, s := range want.Subjects {
		if !slices.Contains(got.Subjects, s) {
			return mismatch("subjects", "lacks subject %s: created by another program", s)
		}
	}
	switch {
	case got.Sealed:
		return mismatch(FieldSealed, "is sealed and accepts no messages: %s", UnsealFix)
	case got.Retention != want.Retention:
		return mismatch("retention", "has retention %s, want %s: created by another program", got.Retention, want.Retention)
	case want.AllowAtomicPublish && !got.AllowAtomicPublish:
		return mismatch("allow_atomic", "does not allow atomic batches: set allow_atomic")
	case got.AllowRollup && !want.AllowRollup:
		return mismatch(FieldRollup, "allows rollups, by which a writer of one message removes all others: run 'debrief setup'")
	case want.AllowMsgTTL && !got.AllowMsgTTL:
		return mismatch("allow_msg_ttl", "does not allow messages that expire: set allow_msg_ttl")
	case want.AllowMsgTTL && got.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return mismatch("max_msgs_per_subject", "keeps %d messages of a subject, want %d: set max_msgs_per_subject", got.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	case !got.AllowDirect:
		return mismatch("allow_direct", "does not allow direct gets: set allow_direct")
	}
	return nil
}

// minAge is the shortest retention that CheckConfig accepts.
const minAge = time.Hour

// operatorFields are the configuration fields that an operator may change. CheckConfig also checks the limits among
// them.
var operatorFields = []string{"description", "num_replicas", "placement", "metadata", "compression", "duplicate_window", "max_age", "max_bytes"}

// CheckConfig compares a stream's configuration, in the JSON of the server, with the one that Open creates. The error
// names the first field that differs. bytes is the size of the stream, the smallest allowed max_bytes.
func CheckConfig(name string, config []byte, bytes uint64) error {
	all := append(All(1), Blobs(1))
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
