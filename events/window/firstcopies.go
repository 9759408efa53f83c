package window

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natserr"
	"debrief/playbook"
)

// Effect is an effect that must happen once for each id. The stored hashes include the values, so they must not change.
type Effect string

// The effects.
const (
	EffectTurn     Effect = "turn"     // store an execution, and add it to its session
	EffectReceipt  Effect = "receipt"  // store feedback
	EffectNote     Effect = "noted"    // store the note and the run of a reflection
	EffectFeedback Effect = "judgment" // use the first feedback on a sample
	EffectControl  Effect = "control"  // assign a session to an arm of the control share; the record is the arm and not a sequence
)

// The ids of a book are distributed over at most 65,536 keys, because the server needs memory for each key. A value is a list of entries: 8
// bytes of the hash of the id, 8 bytes of the record, which is mostly a sequence, and 4 bytes of the day of the entry. Entries expire after
// the age limit of the bucket, which setup keeps at least as high as the age limits of the events. With a million ids a value has about 15
// entries.
const (
	recordAt       = 8            // offset of the record in an entry
	dayAt          = recordAt + 8 // offset of the day
	copyEntryBytes = dayAt + 4

	maxCopyAttempts = 20
)

// retention is the age limit of the bucket of states, in whole days. It is safe for concurrent use.
type retention struct {
	mu     sync.Mutex
	days   uint32
	readAt time.Time
}

// rereadAfter is the time after which the limit is read again, because an operator may change it.
const rereadAfter = time.Hour

// entryDays returns the days for which an entry of first copies is kept. Without an age limit, or if reading it fails, it keeps all.
func (s *Store) entryDays(ctx context.Context) uint32 {
	s.retention.mu.Lock()
	defer s.retention.mu.Unlock()
	if time.Since(s.retention.readAt) < rereadAfter {
		return s.retention.days
	}
	s.retention.days, s.retention.readAt = math.MaxUint32, time.Now()
	info, err := s.js.Stream(ctx, states.stream())
	if err != nil {
		return s.retention.days
	}
	if age := info.CachedInfo().Config.MaxAge; age > 0 {
		s.retention.days = uint32(age/(24*time.Hour)) + 1 // an entry has the day of its message, and not the time
	}
	return s.retention.days
}

// firstCopies is the value of a key: the first copies of some ids.
type firstCopies struct {
	Entries []byte `msgpack:"e"`
}

// ClaimFirstCopy records the message at sequence seq as the first copy of an event for an effect, unless a copy is recorded, and reports
// whether it is the first copy. Of several copies exactly one is the first, and repeated calls give the same result. Records expire with the
// age limit of the bucket.
func (s *Store) ClaimFirstCopy(ctx context.Context, b playbook.Book, effect Effect, id events.ID, seq uint64) (bool, error) {
	first, err := s.LoadOrStoreFirst(ctx, b, effect, id, seq)
	return err == nil && first == seq, err
}

// LoadOrStoreFirst returns the record of the first copy of an event for an effect: the one that an earlier call has stored, else record, which it
// stores. After an error it returns 0.
func (s *Store) LoadOrStoreFirst(ctx context.Context, b playbook.Book, effect Effect, id events.ID, record uint64) (uint64, error) {
	err := b.Validate()
	first := uint64(0)
	if err == nil {
		first, err = s.loadOrStoreFirst(ctx, b, effect, id, record)
	}
	if err != nil {
		return 0, fmt.Errorf("look up the first %s of %.80q in book %q: %w", effect, string(id), string(b), err)
	}
	return first, nil
}

// FirstCopy returns the recorded sequence of the first copy of an event, or 0 without a record. It records nothing. An event without a record
// may have copies.
func (s *Store) FirstCopy(ctx context.Context, b playbook.Book, effect Effect, id events.ID) (uint64, error) {
	err := b.Validate()
	stored := new(firstCopies)
	key, hash := copyKey(b, effect, id)
	if err == nil {
		stored, _, err = s.readFirstCopies(ctx, key)
	}
	if err != nil {
		return 0, fmt.Errorf("look up the first %s of %.80q in book %q: %w", effect, string(id), string(b), err)
	}
	seq, _ := stored.find(hash)
	return seq, nil
}

// copyKey returns the key that has the record of an event, and the hash of the event in it.
func copyKey(b playbook.Book, effect Effect, id events.ID) (key string, hash [8]byte) {
	sum := sha256.Sum256([]byte(string(effect) + "\x00" + string(id)))
	return events.FirstCopiesKey(b, binary.BigEndian.Uint16(sum[:])), [8]byte(sum[2:10])
}

func (s *Store) loadOrStoreFirst(ctx context.Context, b playbook.Book, effect Effect, id events.ID, record uint64) (uint64, error) {
	key, hash := copyKey(b, effect, id)
	for try := range maxCopyAttempts {
		stored, revision, err := s.readFirstCopies(ctx, key)
		if err != nil {
			return 0, err
		}
		if recorded, known := stored.find(hash); known {
			return recorded, nil
		}
		stored.add(hash, record, time.Now(), s.entryDays(ctx))
		m, err := encode(states, key, stored)
		if err != nil {
			return 0, err
		}
		err = s.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision))
		if err == nil {
			return record, nil
		}
		if !natserr.IsConflict(err) {
			return 0, err
		}
		if err := events.Sleep(ctx, rand.N(time.Duration(try+1)*time.Millisecond)); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("conflict with other writers in each of %d attempts", maxCopyAttempts)
}

// readFirstCopies reads a key and its revision. A damaged value counts as empty, but not the value of a newer program.
func (s *Store) readFirstCopies(ctx context.Context, key string) (*firstCopies, uint64, error) {
	m, err := s.last(ctx, states, key)
	if err != nil || m == nil {
		return new(firstCopies), 0, err
	}
	if m.Deleted() {
		return new(firstCopies), m.Seq, nil
	}
	f, err := decode[firstCopies](*m)
	if errors.Is(err, events.ErrNewerSchema) {
		return nil, 0, err
	}
	if err != nil || len(f.Entries)%copyEntryBytes != 0 {
		f = new(firstCopies)
	}
	return f, m.Seq, nil
}

// find returns the record in the entry with a hash.
func (f *firstCopies) find(hash [8]byte) (record uint64, known bool) {
	for e := f.Entries; len(e) > 0; e = e[copyEntryBytes:] {
		if [8]byte(e) == hash {
			return binary.BigEndian.Uint64(e[recordAt:]), true
		}
	}
	return 0, false
}

// add appends an entry, and removes entries that are older than a number of days.
func (f *firstCopies) add(hash [8]byte, record uint64, now time.Time, days uint32) {
	today := uint32(now.Unix() / (24 * 60 * 60))
	kept := make([]byte, 0, len(f.Entries)+copyEntryBytes)
	for e := f.Entries; len(e) > 0; e = e[copyEntryBytes:] {
		day := binary.BigEndian.Uint32(e[dayAt:])
		if today-min(today, day) <= days { // another clock may have written a later day
			kept = append(kept, e[:copyEntryBytes]...)
		}
	}
	kept = append(kept, hash[:]...)
	kept = binary.BigEndian.AppendUint64(kept, record)
	f.Entries = binary.BigEndian.AppendUint32(kept, today)
}
