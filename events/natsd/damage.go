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

	"github.com/nats-io/nats.go/jetstream"
)

// Damage is a loss that was found in the store of an embedded server. The server itself reports a loss once, at the start
// that finds it, and then continues with the rest. So each one is kept in the directory until an operator accepts it.
type Damage struct {
	Time   time.Time `json:"time"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
	// Repaired is set if nothing is lost: the damaged consumer was recreated.
	Repaired bool `json:"repaired,omitempty"`
}

func (d Damage) String() string { return fmt.Sprintf("stream %s: %s", d.Stream, d.Text) }

const (
	damageName = "debrief.damage" // a Damage in JSON on each line
	marksName  = "debrief.marks"  // how far streams and consumers were
	asideName  = "debrief.aside"  // the directory for the files of damaged consumers
)

// ReadDamage returns the damage that was found in the store of a directory and not accepted yet, oldest first.
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
		if json.Unmarshal(lines.Bytes(), &d) == nil { // a line may be cut short by a crash
			all = append(all, d)
		}
	}
	return all, lines.Err()
}

// AcceptDamage forgets the damage that ReadDamage returns.
func AcceptDamage(dir string) error {
	if err := os.Remove(filepath.Join(dir, damageName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// addDamage appends a loss, unless it is known.
func addDamage(dir string, d Damage) error {
	known, err := ReadDamage(dir)
	if err != nil || slices.ContainsFunc(known, func(k Damage) bool { return k.Stream == d.Stream && k.Text == d.Text }) {
		return err
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

// marks are the positions of streams and consumers at the last look. The next start compares its own with them.
type marks struct {
	// Exact is set if nothing was written or acknowledged since: the server was stopped right after.
	Exact   bool                   `json:"exact"`
	Streams map[string]*streamMark `json:"streams"`
}

type streamMark struct {
	Messages  uint64                   `json:"messages"`
	Last      uint64                   `json:"last"`
	FirstTime time.Time                `json:"first_time"`
	Consumers map[string]*consumerMark `json:"consumers"`
}

type consumerMark struct {
	Config jetstream.ConsumerConfig `json:"config"`
	Floor  uint64                   `json:"floor"` // everything at or under this stream sequence was acknowledged
}

func readMarks(dir string) *marks {
	m := &marks{Streams: map[string]*streamMark{}}
	data, err := os.ReadFile(filepath.Join(dir, marksName))
	if err != nil || json.Unmarshal(data, m) != nil || m.Streams == nil { // none yet, or damaged itself: nothing to compare with
		return &marks{Streams: map[string]*streamMark{}}
	}
	return m
}

func (m *marks) write(dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, marksName+".new")
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, marksName))
}

// lost describes the messages that a stream lost since it was marked, or that its server reports as lost. It is empty if
// the stream lost nothing.
func lost(i *jetstream.StreamInfo, was *streamMark, exact bool) string {
	s := i.State
	switch {
	case s.Lost != nil && len(s.Lost.Msgs) > 0:
		n := len(s.Lost.Msgs)
		return fmt.Sprintf("the server lost %d messages, from sequence %d to %d (%d bytes)", n, s.Lost.Msgs[0], s.Lost.Msgs[n-1], s.Lost.Bytes)
	case was != nil && s.LastSeq < was.Last:
		return fmt.Sprintf("ends at sequence %d and had reached %d: up to %d messages are lost", s.LastSeq, was.Last, was.Last-s.LastSeq)
	case was != nil && exact && s.LastSeq == was.Last && s.Msgs < was.Messages && !expired(i, was):
		return fmt.Sprintf("holds %d messages up to sequence %d and held %d: %d are lost", s.Msgs, s.LastSeq, was.Messages, was.Messages-s.Msgs)
	case s.Lost != nil:
		return fmt.Sprintf("the server lost messages, among them %d bytes of an incomplete one, and holds %d up to sequence %d", s.Lost.Bytes, s.Msgs, s.LastSeq)
	}
	return ""
}

// expired reports whether messages may have expired since a stream was marked.
func expired(i *jetstream.StreamInfo, was *streamMark) bool {
	return i.Config.MaxAge > 0 && time.Since(was.FirstTime) > i.Config.MaxAge
}
