package window

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// Occasion is something that is done once for each id.
type Occasion string

// The occasions.
const (
	Turn     Occasion = "turn"     // an execution becomes a turn of its session
	Noted    Occasion = "noted"    // the lesson of an execution or of feedback becomes a note and a run
	Judgment Occasion = "judgment" // the first feedback on a sample is taken up
)

// The ids of a book are spread over 65,536 keys at most, so that the server's memory does not grow with their number.
// The value of a key is a list of entries: 8 bytes of the id's hash, the sequence, and the day of the entry, after which
// it expires like everything in the streams. With a million ids a value has some 15 entries.
const (
	firstEntry = 8 + 8 + 4
	firstDays  = 31
	firstTries = 20
)

// firsts is the value of a key.
type firsts struct {
	Entries []byte `msgpack:"e"`
}

// First reports whether an event that is stored at a sequence is the first of its id for an occasion: of several copies
// exactly one is the first, at each call. A copy that comes after more than 30 days is another first one.
func (s *Store) First(ctx context.Context, b playbook.Book, o Occasion, id events.ID, at uint64) (bool, error) {
	err := b.Validate()
	first := false
	if err == nil {
		first, err = s.first(ctx, b, o, id, at)
	}
	if err != nil {
		return false, fmt.Errorf("look up the first %s of %.80q in book %q: %w", o, string(id), string(b), err)
	}
	return first, nil
}

func (s *Store) first(ctx context.Context, b playbook.Book, o Occasion, id events.ID, at uint64) (bool, error) {
	sum := sha256.Sum256([]byte(string(o) + "\x00" + string(id)))
	key := events.FirstKey(b, binary.BigEndian.Uint16(sum[:]))
	hash := [8]byte(sum[2:10])
	for try := range firstTries {
		stored, revision, err := s.firsts(ctx, key)
		if err != nil {
			return false, err
		}
		if was, known := stored.find(hash); known {
			return was == at, nil
		}
		stored.add(hash, at, time.Now())
		m, err := encode(windows, key, stored)
		if err != nil {
			return false, err
		}
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // the history has no reader
		err = s.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision))
		if err == nil {
			return true, nil
		}
		if !conflict(err) {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(rand.N(time.Duration(try+1) * time.Millisecond)):
		}
	}
	return false, errors.New("the key was written by others each time")
}

// firsts reads a key and its revision. A damaged value counts as an empty one.
func (s *Store) firsts(ctx context.Context, key string) (*firsts, uint64, error) {
	m, err := s.last(ctx, windows, key)
	if err != nil || m == nil {
		return new(firsts), 0, err
	}
	if m.Removed() {
		return new(firsts), m.Seq, nil
	}
	f, err := decode[firsts](*m)
	if err != nil || len(f.Entries)%firstEntry != 0 {
		f = new(firsts)
	}
	return f, m.Seq, nil
}

func (f *firsts) find(hash [8]byte) (at uint64, known bool) {
	for e := f.Entries; len(e) > 0; e = e[firstEntry:] {
		if [8]byte(e) == hash {
			return binary.BigEndian.Uint64(e[8:]), true
		}
	}
	return 0, false
}

// add appends an entry and drops those that have expired.
func (f *firsts) add(hash [8]byte, at uint64, now time.Time) {
	today := uint32(now.Unix() / (24 * 60 * 60))
	kept := make([]byte, 0, len(f.Entries)+firstEntry)
	for e := f.Entries; len(e) > 0; e = e[firstEntry:] {
		if binary.BigEndian.Uint32(e[16:])+firstDays >= today {
			kept = append(kept, e[:firstEntry]...)
		}
	}
	kept = append(kept, hash[:]...)
	kept = binary.BigEndian.AppendUint64(kept, at)
	f.Entries = binary.BigEndian.AppendUint32(kept, today)
}
