package window

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natserr"
	"debrief/playbook"
)

// Effect is an effect that must happen once for each id.
type Effect string

// The effects.
const (
	EffectTurn     Effect = "turn"     // store an execution, and add it to its session
	EffectReceipt  Effect = "receipt"  // store feedback
	EffectNote     Effect = "noted"    // store the note and the run of a reflection
	EffectFeedback Effect = "judgment" // use the first feedback on a sample
)

// The ids of a book are distributed over at most 65,536 keys, because the server needs memory for each key. A value
// is a list of entries: 8 bytes of the hash of the id, 8 bytes of the sequence, and 4 bytes of the day of the entry. Entries
// expire like the messages of the streams. With a million ids a value has about 15 entries.
const (
	copyEntryBytes  = 8 + 8 + 4
	copyEntryDays   = 31
	maxCopyAttempts = 20
)

// firstCopies is the value of a key: the first copies of some ids.
type firstCopies struct {
	Entries []byte `msgpack:"e"`
}

// keySet is a cache of keys that may drop its content. The zero value is empty. It is safe for concurrent use.
type keySet struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// maxKeySet limits the memory of a keySet to about 10 MB.
const maxKeySet = 1 << 17

func (s *keySet) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.keys[key]
	return ok
}

func (s *keySet) add(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || len(s.keys) >= maxKeySet {
		s.keys = make(map[string]struct{})
	}
	s.keys[key] = struct{}{}
}

// IsFirstCopy reports whether the message at sequence at is the first copy of an event for an effect, and records that if no copy
// is known. Of several copies exactly one is the first, and repeated calls give the same result. Records expire after 30 days.
func (s *Store) IsFirstCopy(ctx context.Context, b playbook.Book, o Effect, id events.ID, at uint64) (bool, error) {
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

// FirstCopy returns the sequence of the first copy that IsFirstCopy recorded for an event, or 0 if it knows none. It is a cache: an
// unknown event may have copies.
func (s *Store) FirstCopy(ctx context.Context, b playbook.Book, o Effect, id events.ID) (uint64, error) {
	err := b.Validate()
	stored := new(firstCopies)
	key, hash := copyKey(b, o, id)
	if err == nil {
		stored, _, err = s.readFirstCopies(ctx, key)
	}
	if err != nil {
		return 0, fmt.Errorf("look up the first %s of %.80q in book %q: %w", o, string(id), string(b), err)
	}
	at, _ := stored.find(hash)
	return at, nil
}

// copyKey returns the key that has the record of an event, and the hash of the event in it.
func copyKey(b playbook.Book, o Effect, id events.ID) (key string, hash [8]byte) {
	sum := sha256.Sum256([]byte(string(o) + "\x00" + string(id)))
	return events.FirstCopiesKey(b, binary.BigEndian.Uint16(sum[:])), [8]byte(sum[2:10])
}

func (s *Store) first(ctx context.Context, b playbook.Book, o Effect, id events.ID, at uint64) (bool, error) {
	key, hash := copyKey(b, o, id)
	for try := range maxCopyAttempts {
		stored, revision := new(firstCopies), uint64(0)
		if s.written.has(key) { // an unknown key is probably new: skip the read
			var err error
			stored, revision, err = s.readFirstCopies(ctx, key)
			if err != nil {
				return false, err
			}
			if recorded, known := stored.find(hash); known {
				return recorded == at, nil
			}
		}
		stored.add(hash, at, time.Now())
		m, err := encode(states, key, stored)
		if err != nil {
			return false, err
		}
		err = s.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision))
		s.written.add(key)
		if err == nil {
			return true, nil
		}
		if !natserr.IsConflict(err) {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(rand.N(time.Duration(try+1) * time.Millisecond)):
		}
	}
	return false, fmt.Errorf("conflict with other writers in each of %d attempts", maxCopyAttempts)
}

// readFirstCopies reads a key and its revision. A damaged value counts as empty.
func (s *Store) readFirstCopies(ctx context.Context, key string) (*firstCopies, uint64, error) {
	m, err := s.last(ctx, states, key)
	if err != nil || m == nil {
		return new(firstCopies), 0, err
	}
	if m.Deleted() {
		return new(firstCopies), m.Seq, nil
	}
	f, err := decode[firstCopies](*m)
	if err != nil || len(f.Entries)%copyEntryBytes != 0 {
		f = new(firstCopies)
	}
	return f, m.Seq, nil
}

// find returns the sequence in the entry with a hash.
func (f *firstCopies) find(hash [8]byte) (at uint64, known bool) {
	for e := f.Entries; len(e) > 0; e = e[copyEntryBytes:] {
		if [8]byte(e) == hash {
			return binary.BigEndian.Uint64(e[8:]), true
		}
	}
	return 0, false
}

// add appends an entry and removes expired ones.
func (f *firstCopies) add(hash [8]byte, at uint64, now time.Time) {
	today := uint32(now.Unix() / (24 * 60 * 60))
	kept := make([]byte, 0, len(f.Entries)+copyEntryBytes)
	for e := f.Entries; len(e) > 0; e = e[copyEntryBytes:] {
		if binary.BigEndian.Uint32(e[16:])+copyEntryDays >= today {
			kept = append(kept, e[:copyEntryBytes]...)
		}
	}
	kept = append(kept, hash[:]...)
	kept = binary.BigEndian.AppendUint64(kept, at)
	f.Entries = binary.BigEndian.AppendUint32(kept, today)
}
