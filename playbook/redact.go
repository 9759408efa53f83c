package playbook

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// RedactedVersion names a delta whose texts were erased. The log has a redaction in place of this delta, see package deltalog.
type RedactedVersion struct {
	Version uint64 `msgpack:"v" json:"version"`
	Sum     []byte `msgpack:"s" json:"sha256"` // SHA-256 of the payload of the redaction
	// ErasedSelector is Selector.Erased of the delta's Forget, which is 0 unless the names of this selector were erased.
	ErasedSelector uint64 `msgpack:"n,omitempty" json:"selector,omitempty"`
}

// Validate returns an error for an invalid field.
func (r *RedactedVersion) Validate() error {
	switch {
	case r.Version == 0:
		return fmt.Errorf("version: must be at least 1")
	case len(r.Sum) != sha256.Size:
		return fmt.Errorf("sha256: must have %d bytes, got %d", sha256.Size, len(r.Sum))
	case r.ErasedSelector > r.Version:
		return fmt.Errorf("selector: must be at most the version %d, got %d", r.Version, r.ErasedSelector)
	}
	return nil
}

// ErasedText replaces a text that was erased. For the content of a bullet see ErasedContent.
const ErasedText = "[erased]"

// ErasedContent returns the replacement of a content, such as "[erased] 12.0": it was first set by operation 0 of version 12. Two erased
// contents therefore stay different from each other.
func ErasedContent(version uint64, op int) string {
	return ErasedText + " " + strconv.FormatUint(version, 10) + "." + strconv.Itoa(op)
}

// IsErased reports whether a text replaces one that was erased.
func IsErased(text string) bool {
	position, ok := strings.CutPrefix(text, ErasedText)
	return ok && strings.Trim(position, " .0123456789") == ""
}

// WithoutNames returns a selector without its user and session. number is the field Erased of the result.
func (s Selector) WithoutNames(number uint64) Selector {
	s.User, s.Session, s.Erased = "", "", number
	return s
}

// HasNames reports whether the selector names a user or a session.
func (s *Selector) HasNames() bool { return s.User != "" || s.Session != "" }

// eraseNames removes the names from the selectors whose deltas were redacted. So the state is the same as that of a fold of the redacted log. It does
// not change slices of earlier copies.
func (a *Admission) eraseNames(redacted []RedactedVersion) {
	for i := range redacted {
		r := &redacted[i]
		if r.ErasedSelector == 0 {
			continue
		}
		all := make([]Forgotten, len(a.Forgotten))
		for k, f := range a.Forgotten {
			if f.Version == r.Version {
				f.Selector = f.Selector.WithoutNames(r.ErasedSelector)
			}
			all[k] = f
		}
		a.Forgotten = all
	}
}
