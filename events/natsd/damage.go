package natsd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2/maybe"
	"github.com/nats-io/nats.go/jetstream"
)

// Damage is a loss of data in the store of an embedded server. The server reports a loss only once, at the start
// that detects it, and then continues with the remaining data. So each loss is recorded in the directory until an
// operator accepts it.
type Damage struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
	// Repaired is set if no message is lost: the damaged consumer was recreated, or the damaged view is computed again.
	Repaired bool `json:"repaired,omitempty"`
}

func (d Damage) String() string { return fmt.Sprintf("stream %s: %s", d.Stream, d.Text) }

const (
	damageName     = "debrief.damage" // a Damage in JSON on each line
	checkpointName = "debrief.marks"  // the positions of streams and consumers
	asideName      = "debrief.aside"  // the directory for the files of damaged consumers and views
)

// ReadDamage returns the recorded damage of a directory that was not accepted yet, oldest first.
func ReadDamage(dir string) (all []Damage, err error) {
	data, err := os.ReadFile(filepath.Join(dir, damageName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var d Damage
		if json.Unmarshal(lines.Bytes(), &d) == nil { // a crash may truncate a line
			all = append(all, d)
		}
	}
	return all, lines.Err()
}

// AcceptDamage removes the damage of these streams from what ReadDamage returns, without names that of all streams.
func AcceptDamage(dir string, streams ...string) error {
	known, err := ReadDamage(dir)
	if err != nil || len(known) == 0 {
		return err
	}
	var left []byte // lines of the file
	for _, d := range known {
		if len(streams) == 0 || slices.Contains(streams, d.Stream) {
			continue
		}
		line, err := json.Marshal(d)
		if err != nil {
			return err
		}
		left = append(append(left, line...), '\n')
	}
	return maybe.WriteFile(filepath.Join(dir, damageName), left, 0o600)
}

// addDamage records a loss, unless it is already recorded.
func addDamage(dir string, d Damage) error {
	known, err := ReadDamage(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(k Damage) bool { return k.Stream == d.Stream && k.Text == d.Text }) {
		return nil
	}
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, damageName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// checkpoint contains the positions of streams and consumers at the last inspection. The next start compares the
// store with it.
type checkpoint struct {
	// Exact is set if nothing was written or acknowledged afterwards, because the server was stopped immediately.
	Exact   bool                         `json:"exact"`
	Streams map[string]*streamCheckpoint `json:"streams"`
}

type streamCheckpoint struct {
	Messages  uint64                         `json:"messages"` // without those in flight, if the stream is a work queue
	Last      uint64                         `json:"last"`
	FirstTime time.Time                      `json:"first_time"`
	Consumers map[string]*consumerCheckpoint `json:"consumers"`
}

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
