package events

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"debrief/playbook"
)

// Redaction is a delta whose texts were erased. A reader takes it in the place of the delta, which the stream of deltas no longer has. It
// has the hash of the original delta, so the links of later deltas hold.
type Redaction struct {
	Seq   uint64         `msgpack:"q" json:"seq"`   // of the delta in the stream of deltas
	Chain []byte         `msgpack:"x" json:"chain"` // SHA-256 of the original delta
	Delta playbook.Delta `msgpack:"d" json:"delta"`
}

// Validate returns an error for an invalid field.
func (r *Redaction) Validate() error {
	switch {
	case r.Seq == 0:
		return errors.New("seq: must be at least 1")
	case len(r.Chain) != sha256.Size:
		return fmt.Errorf("chain: must have %d bytes, got %d", sha256.Size, len(r.Chain))
	}
	if err := r.Delta.Validate(); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	return nil
}

// EncodeRedaction returns the payload of the message for a redaction. It returns an error for a redaction that DecodeRedaction would
// reject.
func EncodeRedaction(r *Redaction) ([]byte, error) { return encodeValid("redaction", r) }

// DecodeRedaction returns the redaction of a payload. The caller checks the headers first, with CheckSchema.
func DecodeRedaction(data []byte) (*Redaction, error) {
	r := new(Redaction)
	if err := Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("decode redaction: %w", err)
	}
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("decode redaction: %w", err)
	}
	return r, nil
}
