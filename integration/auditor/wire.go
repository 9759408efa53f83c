package auditor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// The types below repeat those parts of the wire format that the audit needs. Field names are MessagePack keys.

type execution struct {
	ID      string `msgpack:"id"`
	Task    string `msgpack:"task"`
	Purpose string `msgpack:"purpose"`
}

type feedback struct {
	ID      string `msgpack:"id"`
	Outcome struct {
		Feedback string `msgpack:"feedback"`
	} `msgpack:"outcome"`
}

type reflection struct {
	ID          string `msgpack:"id"`
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
	Role    string              `msgpack:"role"`
	Reason  string              `msgpack:"reason"`
	Subject string              `msgpack:"subject"`
	Stream  string              `msgpack:"stream"`
	Seq     uint64              `msgpack:"seq"`
	Header  map[string][]string `msgpack:"header"`
	Data    []byte              `msgpack:"data"`
	Time    time.Time           `msgpack:"time"`
}

type delta struct {
	Version   uint64  `msgpack:"v"`
	PrevSeq   uint64  `msgpack:"q"`
	PrevChain []byte  `msgpack:"x"`
	Covers    []cover `msgpack:"c"`
	Ops       []op    `msgpack:"o"`
	Change    string  `msgpack:"g"`
	More      bool    `msgpack:"m"`
	Forgets   *struct {
		Source    string `msgpack:"o"`
		Session   string `msgpack:"n"`
		Execution string `msgpack:"x"`
	} `msgpack:"d"`
	Restores *uint64   `msgpack:"b"`
	Author   string    `msgpack:"a"`
	Time     time.Time `msgpack:"t"`
}

// cover names an event whose whole effect is in the delta.
type cover struct {
	ID  string `msgpack:"i"`
	Seq uint64 `msgpack:"s"` // of the reflection or edit, in REFLECTIONS
}

type op struct {
	Kind    string   `msgpack:"k"`
	Bullet  string   `msgpack:"b"`
	Section string   `msgpack:"s"`
	When    string   `msgpack:"i"` // condition of the content, which begins with it
	Content string   `msgpack:"c"`
	Status  string   `msgpack:"u"`
	Pinned  bool     `msgpack:"p"`
	Sources []string `msgpack:"z"`
	Whole   *bullet  `msgpack:"w"`
	Helpful int      `msgpack:"h"`
	Harmful int      `msgpack:"m"`
	Neutral int      `msgpack:"n"`
	Was     string   `msgpack:"q"`
	Support []int    `msgpack:"f"`
}

type bullet struct {
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
