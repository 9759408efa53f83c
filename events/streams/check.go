package streams

import (
	"fmt"
	"slices"

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

// FieldSealed is the setting of a stream that an operator has closed for ever: it can still be read.
const FieldSealed = "sealed"

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
		return mismatch("allow_rollup_hdrs", "allows rollups, by which a writer of one message removes all others: unset allow_rollup_hdrs")
	case want.AllowMsgTTL && !got.AllowMsgTTL:
		return mismatch("allow_msg_ttl", "does not allow messages that expire: set allow_msg_ttl")
	case want.AllowMsgTTL && got.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return mismatch("max_msgs_per_subject", "keeps %d messages of a subject, want %d: set max_msgs_per_subject", got.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	case !got.AllowDirect:
		return mismatch("allow_direct", "does not allow direct gets: set allow_direct")
	}
	return nil
}
