package natsd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2/maybe"
	"github.com/nats-io/nats.go/jetstream"
)

// checkpointName is the file with the last checkpoint of a directory.
const checkpointName = "debrief.marks"

// checkpoint contains the positions of streams and consumers at the last inspection. The next start compares the
// store with it.
type checkpoint struct {
	// Exact is set if nothing was written or acknowledged afterwards, because the server was stopped immediately.
	Exact   bool                         `json:"exact"`
	Streams map[string]*streamCheckpoint `json:"streams"`
}

// streamCheckpoint is the position of a stream.
type streamCheckpoint struct {
	Messages  uint64                         `json:"messages"` // without those in flight, if the stream is a work queue
	Last      uint64                         `json:"last"`
	FirstTime time.Time                      `json:"first_time"`
	Consumers map[string]*consumerCheckpoint `json:"consumers"`
}

// consumerCheckpoint is the position of a durable consumer.
type consumerCheckpoint struct {
	Config jetstream.ConsumerConfig `json:"config"`
	Floor  uint64                   `json:"floor"` // all messages up to this stream sequence were acknowledged
}

// readCheckpoint returns the last checkpoint. It is empty if the file is missing or damaged: then there is nothing to compare
// with.
func readCheckpoint(dir string) *checkpoint {
	c := &checkpoint{Streams: map[string]*streamCheckpoint{}}
	data, err := os.ReadFile(filepath.Join(dir, checkpointName))
	if err != nil || json.Unmarshal(data, c) != nil || c.Streams == nil {
		return &checkpoint{Streams: map[string]*streamCheckpoint{}}
	}
	return c
}

func (c *checkpoint) write(dir string) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return maybe.WriteFile(filepath.Join(dir, checkpointName), data, 0o600)
}

// lost describes the messages that a stream has lost since the checkpoint, or that its server reports as lost. It returns "" if
// the stream lost nothing. before is nil if the checkpoint does not contain the stream. exact is the field Exact of the checkpoint.
func lost(i *jetstream.StreamInfo, before *streamCheckpoint, exact bool) string {
	s := i.State
	hasFewer := before != nil && s.LastSeq == before.Last && s.Msgs < before.Messages
	switch {
	case s.Lost != nil && len(s.Lost.Msgs) > 0:
		n := len(s.Lost.Msgs)
		return fmt.Sprintf("the server lost %d messages, from sequence %d to %d (%d bytes)", n, s.Lost.Msgs[0], s.Lost.Msgs[n-1], s.Lost.Bytes)
	case before != nil && s.LastSeq < before.Last:
		return fmt.Sprintf("ends at sequence %d, but had reached %d: up to %d messages are lost", s.LastSeq, before.Last, before.Last-s.LastSeq)
	case hasFewer && exact && !expired(i, before):
		return fmt.Sprintf("contains %d messages up to sequence %d, but had %d: %d are lost", s.Msgs, s.LastSeq, before.Messages, before.Messages-s.Msgs)
	case s.Lost != nil:
		return fmt.Sprintf("the server lost messages, including %d bytes of an incomplete one; %d messages up to sequence %d remain", s.Lost.Bytes, s.Msgs, s.LastSeq)
	}
	return ""
}

// expired reports whether messages may have expired since the checkpoint.
func expired(i *jetstream.StreamInfo, before *streamCheckpoint) bool {
	return i.Config.MaxAge > 0 && time.Since(before.FirstTime) > i.Config.MaxAge
}
