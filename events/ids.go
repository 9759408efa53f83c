package events

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// ID identifies an event: 16 bytes as 22 characters of base64url. It is also the Nats-Msg-Id of the message, so the
// server drops copies that arrive soon after each other. Dropping them only saves work: the delta log ensures that each
// event counts once.
type ID string

// Hash returns the id for a list of parts: the first 16 bytes of the SHA-256 of all parts, each prefixed with its
// length.
func Hash(parts ...string) ID {
	h := sha256.New()
	var size [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	return ID(base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16]))
}

// NewID returns a random id.
func NewID() ID {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return ID(base64.RawURLEncoding.EncodeToString(b[:]))
}

func (id ID) validate() error {
	var b []byte
	if len(id) == 22 {
		b, _ = base64.RawURLEncoding.DecodeString(string(id)) // has fewer bytes after an error, and if it skipped line breaks
	}
	if len(b) != 16 {
		return fmt.Errorf("id: %.80q is not 16 bytes of base64url", string(id))
	}
	return nil
}

// Handle is the public name of a stored event: "<stream sequence>-<8 hex digits of its id>". The sequence finds the
// message with one direct get. The digits confirm that it is the same event.
type Handle string

// NewHandle returns the handle of the event with this id that is stored at this sequence.
func NewHandle(seq uint64, id ID) Handle {
	return Handle(strconv.FormatUint(seq, 10) + "-" + ShortID(id))
}

// ShortID returns the 8 hex digits that an id has in a handle. They are short enough to type. An invalid id has zeros.
func ShortID(id ID) string {
	b, _ := base64.RawURLEncoding.DecodeString(string(id))
	return hex.EncodeToString(append(b, 0, 0, 0, 0)[:4])
}

// Parse returns the sequence of the handle, and a function that reports whether an id matches the handle.
func (h Handle) Parse() (seq uint64, matches func(ID) bool, err error) {
	number, suffix, ok := strings.Cut(string(h), "-")
	hasForm := ok && len(number) <= 20 && len(suffix) == 8 && strings.Trim(suffix, "0123456789abcdef") == ""
	if hasForm {
		seq, err = strconv.ParseUint(number, 10, 64)
	}
	if !hasForm || err != nil || seq == 0 { // a stream begins at 1
		return 0, nil, fmt.Errorf("handle %.80q: want <sequence>-<8 hex digits>, such as 17-ab12cd34", string(h))
	}
	return seq, func(id ID) bool { return ShortID(id) == suffix }, nil
}

// Validate returns the error of Parse.
func (h Handle) Validate() error {
	_, _, err := h.Parse()
	return err
}
