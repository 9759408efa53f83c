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

// ID names an event: 16 bytes as 22 characters of base64url. It is the event's Nats-Msg-Id, which spares the server a
// copy when something is published twice soon; what counts once, counts once because of the fold, not of that.
type ID string

// Hash is the id made of parts: the first 16 bytes of their SHA-256, each prefixed with its length.
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

// NewID is a random id.
func NewID() ID {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return ID(base64.RawURLEncoding.EncodeToString(b[:]))
}

func (id ID) validate() error {
	if b, err := base64.RawURLEncoding.DecodeString(Beginning(string(id), 64)); err != nil || len(b) != 16 {
		return fmt.Errorf("id: %.80q is not 16 bytes of base64url", string(id))
	}
	return nil
}

// Handle is how people and programs name a stored event: "<stream sequence>-<8 hex of its id>". The sequence finds it
// with one direct get, the rest tells that it is the one that was meant.
type Handle string

// NewHandle is the handle of the event with this id, stored at this sequence.
func NewHandle(seq uint64, id ID) Handle {
	return Handle(strconv.FormatUint(seq, 10) + "-" + id.tail())
}

func (id ID) tail() string {
	b, _ := base64.RawURLEncoding.DecodeString(string(id))
	return hex.EncodeToString(append(b, 0, 0, 0, 0)[:4])
}

// Parse is the handle's sequence, and a check that an event found there is the one meant.
func (h Handle) Parse() (seq uint64, is func(ID) bool, err error) {
	num, tail, ok := strings.Cut(string(h), "-")
	if ok = ok && len(num) <= 20 && len(tail) == 8; ok { // else the error would keep a copy of what is no number
		seq, err = strconv.ParseUint(num, 10, 64)
	}
	if !ok || err != nil || seq == 0 { // a stream begins at 1
		return 0, nil, fmt.Errorf("handle %.80q: want <sequence>-<8 hex digits>, such as 17-ab12cd34", string(h))
	}
	return seq, func(id ID) bool { return id.tail() == tail }, nil
}

// Short is the 8 hex digits that an id has in a handle: enough for a name that people type.
func Short(id ID) string { return id.tail() }
