package auditor

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// The types of this file repeat those parts of the wire format that the audit needs. Field names are MessagePack keys.

// run is an execution.
type run struct {
	Book string `msgpack:"-"`

	ID      string  `msgpack:"id"`
	Run     string  `msgpack:"run_id"`
	Owner   string  `msgpack:"owner"`
	Session string  `msgpack:"session"`
	Purpose string  `msgpack:"purpose"`
	Pinned  bool    `msgpack:"pinned"`
	Outcome outcome `msgpack:"outcome"`
	Control *struct {
		Held  bool `msgpack:"h"`
		Share int  `msgpack:"s"` // of 1000
	} `msgpack:"control"`
	Usage struct {
		Input   int     `msgpack:"i"`
		Output  int     `msgpack:"o"`
		Dollars float64 `msgpack:"d"`
	} `msgpack:"usage"`
	Took int64 `msgpack:"took"` // nanoseconds

	Question string `msgpack:"question"`
	Answer   string `msgpack:"answer"`
	Version  uint64 `msgpack:"version"`
	Steps    []any  `msgpack:"steps"`
}

type outcome struct {
	Score     float64 `msgpack:"score"`
	Label     string  `msgpack:"label"`
	Inferred  bool    `msgpack:"inferred"`
	Violation bool    `msgpack:"violation"`
	Feedback  string  `msgpack:"feedback"`
}

// isRated reports whether the outcome is known and was reported.
func (o outcome) isRated() bool { return o.label() != "" && !o.Inferred }

// replaces reports whether the outcome of feedback replaces another one. An inferred outcome replaces no reported one.
func (o outcome) replaces(other outcome) bool {
	return o.label() != "" && (!o.Inferred || !other.isRated())
}

// label returns the label of an outcome, "" for an unknown one.
func (o outcome) label() string {
	switch {
	case o.Violation:
		return "failure"
	case o.Label == "unknown":
		return ""
	case o.Label == "" && o.Score >= 1:
		return "success"
	case o.Label == "" && o.Score > 0:
		return "partial"
	}
	return o.Label
}

// score returns the score of an outcome.
func (o outcome) score() float64 {
	switch {
	case o.Violation:
		return 0
	case o.Label == "success" && o.Score == 0:
		return 1
	case o.Label == "partial" && o.Score == 0:
		return 0.5
	}
	return o.Score
}

type feedback struct {
	ID        string  `msgpack:"id"`
	Execution string  `msgpack:"execution"` // its handle
	Outcome   outcome `msgpack:"outcome"`
}

type reflection struct {
	Execution   string `msgpack:"execution"`
	Feedback    string `msgpack:"feedback"`
	Handle      string `msgpack:"handle"`       // <sequence>-<hex> of the execution
	FeedbackSeq uint64 `msgpack:"feedback_seq"` // 0 without feedback
	Tags        []struct {
		ID  string `msgpack:"id"`
		Tag string `msgpack:"tag"`
	} `msgpack:"tags"`
}

type edit struct {
	ID string `msgpack:"id"`
}

type letter struct {
	Role    string    `msgpack:"role"`
	Reason  string    `msgpack:"reason"`
	Subject string    `msgpack:"subject"`
	Stream  string    `msgpack:"stream"`
	Seq     uint64    `msgpack:"seq"` // in that stream
	Data    []byte    `msgpack:"data"`
	Time    time.Time `msgpack:"time"`
}

// change is a delta.
type change struct {
	Version   uint64     `msgpack:"v"`
	PrevSeq   uint64     `msgpack:"q"`
	PrevChain []byte     `msgpack:"x"`
	Covers    []support  `msgpack:"c"`
	Ops       []changeOp `msgpack:"o"`
	Change    string     `msgpack:"g"`
	More      bool       `msgpack:"m"`
	Forgets   *struct{}  `msgpack:"d"`
	Author    string     `msgpack:"a"`
	Time      time.Time  `msgpack:"t"`
}

// support names an event whose whole effect is in the delta.
type support struct {
	ID  string `msgpack:"i"`
	Seq uint64 `msgpack:"s"` // of the reflection or edit, in REFLECTIONS
}

type changeOp struct {
	Kind    string   `msgpack:"k"`
	Bullet  string   `msgpack:"b"`
	Section string   `msgpack:"s"`
	When    string   `msgpack:"i"`
	Content string   `msgpack:"c"`
	Status  string   `msgpack:"u"`
	Pinned  bool     `msgpack:"p"`
	Sources []string `msgpack:"z"`
	Whole   *record  `msgpack:"w"`
	Helpful int      `msgpack:"h"`
	Harmful int      `msgpack:"m"`
	Neutral int      `msgpack:"n"`
	Was     string   `msgpack:"q"`
	Support []int    `msgpack:"f"`
}

// record is a bullet, with the fields that a version states.
type record struct {
	ID      string `msgpack:"id"`
	Section string `msgpack:"section"`
	When    string `msgpack:"when"`
	Content string `msgpack:"content"`
	Helpful int    `msgpack:"helpful"`
	Harmful int    `msgpack:"harmful"`
	Neutral int    `msgpack:"neutral"`
	Status  string `msgpack:"status"`
	Pinned  bool   `msgpack:"pinned"`
}

// equal reports whether two records are the same. The empty status is active.
func (b record) equal(other record) bool {
	b.Status = cmp.Or(b.Status, "active")
	other.Status = cmp.Or(other.Status, "active")
	return b == other
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

// seqOf returns the sequence in a handle, or 0.
func seqOf(handle string) uint64 {
	number, _, _ := strings.Cut(handle, "-")
	seq, _ := strconv.ParseUint(number, 10, 64)
	return seq
}
