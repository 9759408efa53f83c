// Package erasure stores which data must no longer exist, and recognises it. A tombstone selects the runs of a person, of a session, of a
// playbook or a single one. What the runs have left in the streams and buckets is removed by package erase, which needs the rights of
// an operator. Every process that publishes or handles events asks a Filter, so that nothing of an erased run returns: not by a client
// that sends it again, nor by a worker that had begun with it, nor from a restored backup.
//
// The bucket "erasures" has these keys:
//
//	key            a random key of the account, for the hashes
//	<id>           the tombstone: hashes of names, and when it was set; kept for ever
//	<id>.request   the names in plain text; removed and overwritten when the data is gone
//	<id>.runs.<n>  hashes of the ids of the erased runs, at most maxRuns each; kept for ever
//	restored       set after a restore, until the data of the erasures is removed again
//
// A hash is an HMAC-SHA-256, so that a name cannot be found by trying names without the key. Whoever can read the bucket has the key.
//
// A tombstone of a person, a session or a playbook applies to runs that began before it. Later runs are new data: erase them again if they
// must go. An erased run stays out for ever, whenever it is sent again. The log of a playbook goes as a whole, with the changes until it is
// removed, because its deltas are linked.
package erasure

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// Stream is the stream of the bucket.
const Stream = "KV_" + events.BucketErasures

const (
	prefix        = "$KV." + events.BucketErasures + "."
	keyOfHashes   = "key"
	keyRestored   = "restored"
	requestSuffix = ".request"
	runsInfix     = ".runs."
)

// ErrErased is the error of an event of an erased run. It was not stored, and no repetition can change that.
var ErrErased = &erasedError{}

type erasedError struct{}

func (*erasedError) Error() string { return "this run was erased: it is not stored again" }

// Invalid and Discard mark the error as one of the event, which no repetition can change.
func (*erasedError) Invalid() bool { return true }
func (*erasedError) Discard() bool { return true }

// Request says which data must go, in plain text: the runs of a user, of a session, one execution, or with none of these fields a
// whole playbook.
type Request struct {
	ID        events.ID     `msgpack:"i" json:"id"`
	Book      playbook.Book `msgpack:"b,omitempty" json:"book,omitempty"` // empty: all playbooks
	User      string        `msgpack:"u,omitempty" json:"user,omitempty" redact:"id"`
	Session   string        `msgpack:"n,omitempty" json:"session,omitempty" redact:"id"`
	Owner     string        `msgpack:"w,omitempty" json:"owner,omitempty" redact:"id"` // of the session: the id of a token; empty: all
	Execution events.Handle `msgpack:"x,omitempty" json:"execution,omitempty"`
	By        string        `msgpack:"a,omitempty" json:"by,omitempty"`
	Created   time.Time     `msgpack:"t" json:"created"`
}

// Validate returns an error that names the field.
func (r *Request) Validate() error {
	n := 0
	for _, name := range []string{r.User, r.Session, string(r.Execution)} {
		if name != "" {
			n++
		}
	}
	switch {
	case n > 1:
		return errors.New("user, session, execution: only one of them can be set")
	case n == 0 && r.Book == "":
		return errors.New("user, session, execution, book: one is required")
	case r.Execution != "" && r.Book == "":
		return errors.New("book: is required with execution")
	case r.Owner != "" && r.Session == "":
		return errors.New("owner: is only for a session")
	}
	if r.Book != "" {
		if err := r.Book.Validate(); err != nil {
			return fmt.Errorf("book: %w", err)
		}
	}
	if r.Execution != "" {
		if _, _, err := r.Execution.Parse(); err != nil {
			return fmt.Errorf("execution: %w", err)
		}
	}
	return events.ValidateOwner(r.Owner)
}

// String says what the request erases.
func (r *Request) String() string {
	in := ""
	if r.Book != "" {
		in = fmt.Sprintf(" in playbook %q", r.Book)
	}
	switch {
	case r.User != "":
		return fmt.Sprintf("user %q%s", r.User, in)
	case r.Session != "":
		return fmt.Sprintf("session %q%s", r.Session, in)
	case r.Execution != "":
		return fmt.Sprintf("execution %s%s", r.Execution, in)
	}
	return fmt.Sprintf("playbook %q", r.Book)
}

// Kind is the kind of data that a tombstone selects. Stored; append only.
type Kind string

// The kinds.
const (
	OfUser      Kind = "user"
	OfSession   Kind = "session"
	OfExecution Kind = "execution"
	OfBook      Kind = "book"
)

// Kind returns the kind of the request.
func (r *Request) Kind() Kind {
	switch {
	case r.User != "":
		return OfUser
	case r.Session != "":
		return OfSession
	case r.Execution != "":
		return OfExecution
	}
	return OfBook
}

// Tombstone is what stays of an erasure. It has no name but that of the playbook.
type Tombstone struct {
	ID      events.ID     `msgpack:"i" json:"id"`
	Kind    Kind          `msgpack:"k" json:"kind"`
	Book    playbook.Book `msgpack:"b,omitempty" json:"book,omitempty"` // empty: all playbooks
	Hash    []byte        `msgpack:"h,omitempty" json:"-"`              // of the name; empty for a playbook
	By      string        `msgpack:"a,omitempty" json:"by,omitempty"`
	Created time.Time     `msgpack:"t" json:"created"`
	// Done is when the data was gone; zero while some of it may be stored.
	Done time.Time `msgpack:"d,omitempty" json:"done,omitzero"`
	// Runs counts the erased runs, and Versions the changes of playbooks whose texts were erased. If several requests are carried out
	// together, one of them has the counts and the gaps of all.
	Runs     int `msgpack:"r,omitempty" json:"runs"`
	Versions int `msgpack:"v,omitempty" json:"redacted_versions"`
	// Gaps are recorded before the messages are removed, so that they do not count as damage.
	Gaps []Gap `msgpack:"g,omitempty" json:"gaps,omitempty"`
}

// Gap counts messages that an erasure has removed from a stream, or was about to remove when it was interrupted.
type Gap struct {
	Stream   string `msgpack:"s" json:"stream"`
	Messages int    `msgpack:"n" json:"messages"`
}

// AddGap adds messages of a stream.
func (t *Tombstone) AddGap(stream string, messages int) {
	for i := range t.Gaps {
		if t.Gaps[i].Stream == stream {
			t.Gaps[i].Messages += messages
			return
		}
	}
	t.Gaps = append(t.Gaps, Gap{Stream: stream, Messages: messages})
}

// Removed returns the number of removed messages of all streams. An interruption can count some of them twice.
func (t *Tombstone) Removed() (n int) {
	for _, g := range t.Gaps {
		n += g.Messages
	}
	return n
}

// Store reads and writes the bucket.
type Store struct {
	js     jetstream.JetStream
	direct *direct.Reader
}

// NewStore returns the store of a connection.
func NewStore(js jetstream.JetStream) *Store {
	return &Store{js: js, direct: direct.NewReader(js.Conn(), natserr.WatchOf(js))}
}

// Add stores a request and its tombstone. From then on every Filter knows it, after FilterAge at the latest.
func (s *Store) Add(ctx context.Context, r *Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := s.put(ctx, string(r.ID)+requestSuffix, r); err != nil {
		return err
	}
	return s.AddTombstone(ctx, r)
}

// AddTombstone stores the tombstone of a stored request if it is missing: the process that stored the request may have been killed before, or may
// not be that far yet.
func (s *Store) AddTombstone(ctx context.Context, r *Request) error {
	key, err := s.key(ctx)
	if err != nil {
		return err
	}
	t := &Tombstone{ID: r.ID, Kind: r.Kind(), Book: r.Book, By: r.By, Created: r.Created}
	switch t.Kind {
	case OfUser:
		t.Hash = key.ofUser(r.User)
	case OfSession:
		t.Hash = key.ofSession(r.Owner, r.Session)
	case OfExecution:
		t.Hash = key.ofRun(string(r.Execution))
	}
	err = s.put(ctx, string(t.ID), t, jetstream.WithExpectLastSequencePerSubject(0))
	if natserr.IsConflict(err) {
		if seq, readErr := s.seqOf(ctx, string(t.ID)); readErr == nil && seq > 0 { // it is stored already; a cluster may refuse a write without reason
			return nil
		}
	}
	return err
}

// Update changes a tombstone. If another process changes it meanwhile, it calls change again with the new state.
func (s *Store) Update(ctx context.Context, id events.ID, change func(*Tombstone)) error {
	for {
		t, seq := new(Tombstone), uint64(0)
		err := s.read(ctx, string(id), func(m direct.Message) error {
			seq = m.Seq
			return decode(m, t)
		})
		if err != nil {
			return err
		}
		if seq == 0 {
			return fmt.Errorf("erasure %s has lost its tombstone", id)
		}
		change(t)
		if err := s.put(ctx, string(id), t, jetstream.WithExpectLastSequencePerSubject(seq)); !natserr.IsConflict(err) {
			return err
		}
	}
}

// maxRuns limits the hashes in one value.
const maxRuns = 20_000

// AddRuns adds runs to a tombstone, unless it has them. runs are their ids and handles.
func (s *Store) AddRuns(ctx context.Context, id events.ID, runs []string) error {
	key, err := s.key(ctx)
	if err != nil {
		return err
	}
	var known runSet
	err = s.read(ctx, string(id)+runsInfix+"*", func(m direct.Message) error { return known.add(m.Data) })
	if err != nil {
		return err
	}
	var added [][]byte
	for _, run := range runs {
		if hash := key.ofRun(run); !known.has(hash) {
			known.set(hash)
			added = append(added, hash[:runHash])
		}
	}
	for part := range slices.Chunk(added, maxRuns) {
		list := runList{Hashes: slices.Concat(part...)}
		if err := s.put(ctx, string(id)+runsInfix+string(events.NewID()), &list); err != nil {
			return err
		}
	}
	return nil
}

// Requests returns the requests whose data may still be stored, oldest first.
func (s *Store) Requests(ctx context.Context) (list []*Request, err error) {
	err = s.read(ctx, "*"+requestSuffix, func(m direct.Message) error {
		r := new(Request)
		if err := decode(m, r); err != nil {
			return err
		}
		list = append(list, r)
		return nil
	})
	return list, err
}

// Tombstones returns all tombstones, oldest first.
func (s *Store) Tombstones(ctx context.Context) (list []*Tombstone, err error) {
	err = s.read(ctx, "*", func(m direct.Message) error { // not the keys with a dot: requests and runs
		if m.Subject == prefix+keyOfHashes || m.Subject == prefix+keyRestored {
			return nil
		}
		t := new(Tombstone)
		if err := decode(m, t); err != nil {
			return err
		}
		list = append(list, t)
		return nil
	})
	return list, err
}

// Gaps returns the number of messages that erasures have removed from each stream. Without the bucket it returns none.
func (s *Store) Gaps(ctx context.Context) (map[string]int, error) {
	all, err := s.Tombstones(ctx)
	if natserr.IsStreamMissing(ctx, s.js, Stream, err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	gaps := map[string]int{}
	for _, t := range all {
		for _, g := range t.Gaps {
			gaps[g.Stream] += g.Messages
		}
	}
	return gaps, nil
}

// MarkRestored records that a backup was restored, so that the data of erased runs may be back. Without erasures it does nothing.
func (s *Store) MarkRestored(ctx context.Context) error {
	all, err := s.Tombstones(ctx)
	if err == nil && len(all) == 0 || natserr.IsStreamMissing(ctx, s.js, Stream, err) {
		return nil
	}
	if err == nil {
		_, err = s.js.Publish(ctx, prefix+keyRestored, nil)
	}
	return err
}

// RestoredSeq returns the sequence of the record of MarkRestored in the stream, 0 if there is none.
func (s *Store) RestoredSeq(ctx context.Context) (uint64, error) { return s.seqOf(ctx, keyRestored) }

// RequestSeq returns the sequence of the request with an id in the stream, 0 if there is none.
func (s *Store) RequestSeq(ctx context.Context, id events.ID) (uint64, error) {
	return s.seqOf(ctx, string(id)+requestSuffix)
}

// seqOf returns the sequence of the value of a key, 0 if there is none.
func (s *Store) seqOf(ctx context.Context, key string) (seq uint64, err error) {
	err = s.read(ctx, key, func(m direct.Message) error {
		seq = m.Seq
		return nil
	})
	return seq, err
}

func (s *Store) put(ctx context.Context, key string, value any, opts ...jetstream.PublishOpt) error {
	data, err := events.Marshal(value)
	if err != nil {
		return err
	}
	if _, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: prefix + key, Header: events.SchemaHeader(), Data: data}, opts...); err != nil {
		return fmt.Errorf("write %s: %w", prefix+key, err)
	}
	return nil
}

// read calls fn for the value of each key that matches a pattern.
func (s *Store) read(ctx context.Context, key string, fn func(direct.Message) error) error {
	return s.direct.Read(ctx, Stream, direct.Query{Subject: prefix + key}, fn)
}

// decode decodes a value into v, a pointer.
func decode(m direct.Message, v any) error {
	err := events.CheckSchema(m.Header)
	if err == nil {
		err = events.Unmarshal(m.Data, v)
	}
	if err != nil {
		return fmt.Errorf("value of %s: %w", m.Subject, err)
	}
	return nil
}

// hashKey is the secret key of an account's hashes.
type hashKey []byte

// key returns the key of the hashes. It creates a missing one.
func (s *Store) key(ctx context.Context) (hashKey, error) {
	for {
		var key hashKey
		err := s.read(ctx, keyOfHashes, func(m direct.Message) error {
			key = m.Data
			return nil
		})
		if err != nil || key != nil {
			return key, err
		}
		fresh := make([]byte, sha256.Size)
		rand.Read(fresh) // never fails
		m := &nats.Msg{Subject: prefix + keyOfHashes, Data: fresh}
		_, err = s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0))
		if err != nil && !natserr.IsConflict(err) { // after a conflict, the next round reads the key of another process
			return nil, fmt.Errorf("create the key of the hashes: %w", err)
		}
	}
}

// sum returns the hash of a list of parts. No two lists have the same input.
func (k hashKey) sum(parts ...string) []byte {
	h := hmac.New(sha256.New, k)
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil)
}

func (k hashKey) ofUser(user string) []byte { return k.sum("user", user) }

func (k hashKey) ofSession(owner, session string) []byte { return k.sum("session", owner, session) }

// ofRun returns the hash of an id or a handle of a run.
func (k hashKey) ofRun(id string) []byte { return k.sum("run", id) }
