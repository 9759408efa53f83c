package playbook

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// RedactedVersion names a delta of a log whose texts were erased. The log has a redaction in place of that delta, see package deltalog.
type RedactedVersion struct {
	Version uint64 `msgpack:"v" json:"version"`
	Sum     []byte `msgpack:"s" json:"sha256"` // SHA-256 of the payload of the redaction
	// Selector is the number of the selector in the delta, if its names were erased; see Selector.Erased.
	Selector uint64 `msgpack:"n,omitempty" json:"selector,omitempty"`
}

// Validate returns an error for an invalid field.
func (r *RedactedVersion) Validate() error {
	switch {
	case r.Version == 0:
		return fmt.Errorf("version: must be at least 1")
	case len(r.Sum) != sha256.Size:
		return fmt.Errorf("sha256: must have %d bytes, got %d", sha256.Size, len(r.Sum))
	case r.Selector > r.Version:
		return fmt.Errorf("selector: must be at most the version %d, got %d", r.Version, r.Selector)
	}
	return nil
}

// ErasedText is in the place of a text that was erased. The content of a bullet begins with it, and has the place in the log of the first
// operation with the content: then two contents of a bullet stay different from each other.
const ErasedText = "[erased]"

// ErasedContent returns the content in place of one that was erased. The content was first set by an operation of a version, counted
// from 0.
func ErasedContent(version uint64, op int) string {
	return ErasedText + " " + strconv.FormatUint(version, 10) + "." + strconv.Itoa(op)
}

// IsErased reports whether a text is in the place of one that was erased.
func IsErased(text string) bool { return strings.HasPrefix(text, ErasedText) }

// WithoutNames returns a selector without its user and session. number is the first version in which the selector was used.
func (s Selector) WithoutNames(number uint64) Selector {
	s.User, s.Session, s.Erased = "", "", number
	return s
}

// HasNames reports whether the selector names a user or a session.
func (s *Selector) HasNames() bool { return s.User != "" || s.Session != "" }

// eraseNames removes the names of the selectors whose deltas were redacted, so that the state is that of a fold of the redacted log. It
// does not change slices of earlier copies.
func (a *Admission) eraseNames(redacted []RedactedVersion) {
	for i := range redacted {
		r := &redacted[i]
		if r.Selector == 0 {
			continue
		}
		all := make([]Forgotten, len(a.Forgotten))
		for k, f := range a.Forgotten {
			if f.Version == r.Version {
				f.Selector = f.Selector.WithoutNames(r.Selector)
			}
			all[k] = f
		}
		a.Forgotten = all
	}
}
