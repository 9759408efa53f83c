package auditor

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// The types of this file repeat those parts of the wire format of events that the audit and the pages need. Field names are MessagePack keys.

type feedback struct {
	ID        string  `msgpack:"id"`
	Execution string  `msgpack:"execution"` // its handle
	Outcome   outcome `msgpack:"outcome"`
}

type reflection struct {
	ID          string  `msgpack:"id"`
	Execution   string  `msgpack:"execution"`
	Feedback    string  `msgpack:"feedback"`
	Handle      string  `msgpack:"handle"`       // <sequence>-<hex> of the execution
	FeedbackSeq uint64  `msgpack:"feedback_seq"` // 0 without feedback
	Suspect     string  `msgpack:"suspect"`
	Outcome     outcome `msgpack:"outcome"`
	Tags        []struct {
		ID  string `msgpack:"id"`
		Tag string `msgpack:"tag"`
	} `msgpack:"tags"`
}

type edit struct {
	ID string `msgpack:"id"`
}

type letter struct {
	Role     string    `msgpack:"role"`
	Reason   string    `msgpack:"reason"`
	Subject  string    `msgpack:"subject"`
	Stream   string    `msgpack:"stream"`
	Seq      uint64    `msgpack:"seq"` // in that stream
	Data     []byte    `msgpack:"data"`
	Time     time.Time `msgpack:"time"`
	Attempts int       `msgpack:"attempts"`

	at uint64 // the sequence of the letter
}

type head struct {
	Version uint64 `msgpack:"v"`
	Chain   []byte `msgpack:"x"`
	Count   int    `msgpack:"n"`
	Partial bool   `msgpack:"p"`
	Recent  []struct {
		ID   string `msgpack:"i"`
		Data []byte `msgpack:"d"`
	} `msgpack:"d"`
}

func decode[T any](data []byte) (*T, error) {
	v := new(T)
	if err := msgpack.Unmarshal(data, v); err != nil {
		return nil, err
	}
	return v, nil
}

// unpacked returns data without its compression, if it has one.
func unpacked(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// hash derives an id from parts: 16 bytes of the SHA-256 over the parts, each after its length.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// executionID is the id of the first execution of a task.
func executionID(book, task string) string { return hash("execution", book, "", task, "0") }

// handleOf returns the second part of the handle of an execution.
func handleOf(id string) string {
	b, _ := base64.RawURLEncoding.DecodeString(id)
	return hex.EncodeToString(append(b, 0, 0, 0, 0)[:4])
}

// seqOf returns the sequence in a handle, or 0.
func seqOf(handle string) uint64 {
	number, _, _ := strings.Cut(handle, "-")
	seq, _ := strconv.ParseUint(number, 10, 64)
	return seq
}
