package natskv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/playbook"
)

// Stray is a message on a book's subject in DELTAS that is not part of the book's log: it cannot be decoded, or it does
// not follow the delta before it. Readers skip it.
type Stray struct {
	Seq  uint64    `json:"sequence"`
	Size int       `json:"bytes"`
	Time time.Time `json:"time"` // when the server stored it
	Why  string    `json:"why"`
	// Newer is set if a newer program wrote it. Such a message is only skipped where the log went on without it.
	Newer bool `json:"newer_schema,omitempty"`

	hash  []byte
	ours  bool            // it has the header of our messages
	delta *playbook.Delta // nil where it cannot be decoded
}

// candidate is a message on a book's subject before it is known to be part of the log.
type candidate struct {
	*Record
	stored time.Time
	ours   bool  // it has the header of our messages
	err    error // why the record has no delta, or one that this program does not know
}

// readCandidate decodes a message. A delta of a newer schema may come with its links: those have not changed.
func readCandidate(m direct.Message) *candidate {
	sum := sha256.Sum256(m.Data)
	c := &candidate{Record: &Record{Seq: m.Seq, Chain: sum[:], Size: len(m.Data)}, stored: m.Stored()}
	if c.err = events.CheckSchema(m.Header); c.err != nil {
		return c
	}
	c.ours = true
	d, err := events.DecodeDelta(m.Data)
	if c.err = err; d != nil {
		c.Delta = *d
	}
	return c
}

// logCursor is a position in a book's log, with the messages after it that do not follow. A log is a chain: each
// delta names the sequence and the hash of the one before it, and a writer stores it only if it has read all that is
// on the subject. So of two messages that claim the same place the log goes on with one, and the other is a stray.
type logCursor struct {
	book    playbook.Book
	version uint64
	seq     uint64 // of the last delta, 0 for none
	chain   []byte
	end     uint64 // the last sequence that was read, strays included; a compare-and-swap expects it
	endHash []byte // of that message
	open    []Stray
	judged  int // how many of open are known to be strays
	// anchor, if not 0, is the sequence of a delta that is known to be part of the log. Reading begins with it.
	anchor uint64
	// found receives the strays that are certain; nil ignores them.
	found func(Stray)
}

// startAt is a cursor that begins with a delta whose sequence is known and whose hash is not.
func startAt(b playbook.Book, seq uint64) *logCursor {
	return &logCursor{book: b, anchor: seq, end: max(seq, 1) - 1}
}

// take moves the cursor over the next message. It reports whether that is the next delta of the log.
func (c *logCursor) take(m *candidate) (bool, error) {
	c.end, c.endHash = m.Seq, m.Chain
	anchored := c.anchor > 0 && c.seq == 0
	if anchored && (m.Seq != c.anchor || m.err != nil) {
		return false, fmt.Errorf("playbook %q: the log does not hold the delta at sequence %d: %w", c.book, c.anchor, ErrBrokenLog)
	}
	why := m.err
	if why == nil && !anchored {
		why = c.follows(m.Record)
	}
	if why != nil {
		c.open = append(c.open, c.stray(m, why))
		return false, nil
	}
	c.version, c.seq, c.chain = m.Version, m.Seq, m.Chain
	c.settle()
	return true, nil
}

// settle reports the open messages as strays: the log went on without them.
func (c *logCursor) settle() {
	for _, s := range c.open {
		if c.found != nil {
			c.found(s)
		}
	}
	c.open, c.judged = nil, 0
}

func (c *logCursor) follows(r *Record) error {
	if r.Version != c.version+1 || r.PrevSeq != c.seq || !bytes.Equal(r.PrevChain, c.chain) {
		return fmt.Errorf("delta %d does not follow version %s at sequence %d", r.Version, playbook.Label(c.version, c.chain), c.seq)
	}
	return nil
}

// cut moves the cursor back to a message, nil for none, that is the last on the subject after strays were removed. It
// reports false if the log lost a message that was read.
func (c *logCursor) cut(m *direct.Message) bool {
	if m == nil {
		m = new(direct.Message)
	}
	sum := sha256.Sum256(m.Data)
	i := slices.IndexFunc(c.open, func(s Stray) bool { return s.Seq == m.Seq && bytes.Equal(s.hash, sum[:]) })
	if i < 0 && (m.Seq != c.seq || c.seq > 0 && !bytes.Equal(c.chain, sum[:])) {
		return false
	}
	c.open, c.judged, c.end, c.endHash = c.open[:i+1], 0, m.Seq, sum[:]
	return true
}

// stray is a message that is not the next delta.
func (c *logCursor) stray(m *candidate, why error) Stray {
	s := Stray{Seq: m.Seq, Size: m.Size, Time: m.stored, Why: why.Error(), hash: m.Chain, ours: m.ours}
	if m.Version > 0 {
		s.delta = &m.Delta
	}
	s.Newer = errors.Is(why, events.ErrNewerSchema) && (s.delta == nil || c.follows(m.Record) == nil)
	return s
}

// judge decides about the messages after the last delta, at the end of the log. They are strays, unless
//
//   - a newer program wrote one: ErrNewerSchema;
//   - the view's head names one, or one names a delta before it that is missing or damaged: ErrBrokenLog. What followed
//     that delta may be genuine, and to skip it would shorten the log.
//
// A cursor whose own last delta is gone from the log is ErrBrokenLog, too.
func (s *Store) judge(ctx context.Context, c *logCursor) error {
	if i := slices.IndexFunc(c.open, func(s Stray) bool { return s.Newer }); i >= 0 {
		return fmt.Errorf("playbook %q stops at version %d: the message at sequence %d of stream %s is of a newer program, start that one: %w",
			c.book, c.version, c.open[i].Seq, events.StreamDeltas, events.ErrNewerSchema)
	}
	if c.seq > 0 {
		last, err := s.deltaOfLeader(ctx, map[string]any{"seq": c.seq})
		if err != nil {
			return err
		}
		if !last.is(c.book, c.chain) {
			return c.gone()
		}
	}
	h, _, err := s.readHead(ctx, c.book)
	if err != nil {
		return err
	}
	if h != nil {
		if i := slices.IndexFunc(c.open, func(s Stray) bool { return s.Seq == h.Seq }); i >= 0 {
			return c.broken(c.open[i], "the view holds it")
		}
	}
	for i, stray := range c.open {
		lost, err := s.namesLost(ctx, c, i)
		if err != nil {
			return err
		}
		if lost {
			return c.broken(stray, fmt.Sprintf("it names a delta at sequence %d, which is missing or damaged", stray.delta.PrevSeq))
		}
	}
	return nil
}

// gone is the error of a log that lost a delta that was read.
func (c *logCursor) gone() error {
	return fmt.Errorf("playbook %q: the log does not hold version %s, which it did: %w", c.book, playbook.Label(c.version, c.chain), ErrBrokenLog)
}

// broken is the error of a log that does not go on where it should.
func (c *logCursor) broken(s Stray, why string) error {
	return fmt.Errorf("playbook %q: the message at sequence %d does not follow version %s at %d (%s), and it is not a stray: %s: %w",
		c.book, s.Seq, playbook.Label(c.version, c.chain), c.seq, s.Why, why, ErrBrokenLog)
}

// namesLost reports whether an open message is a delta that follows one which is missing or damaged: at the sequence that
// it names there is nothing, or in the place of the next delta a message of ours that cannot be decoded. A server does not
// give out a record that was altered on its disk, so a delta that is there is whole.
func (s *Store) namesLost(ctx context.Context, c *logCursor, i int) (bool, error) {
	d := c.open[i].delta
	if d == nil || d.Version <= c.version+1 || d.PrevSeq <= c.seq || d.PrevSeq >= c.open[i].Seq ||
		d.Version-c.version-1 > d.PrevSeq-c.seq { // more deltas than there are sequences
		return false, nil
	}
	before := slices.IndexFunc(c.open, func(s Stray) bool { return s.Seq == d.PrevSeq })
	if before >= 0 {
		lost := &c.open[before]
		return lost.ours && lost.delta == nil && d.Version == c.version+2, nil
	}
	m, err := s.deltaOfLeader(ctx, map[string]any{"seq": d.PrevSeq})
	return m == nil, err // a message that is there is of another book
}

// candidates calls fn for each message on a book's subject from a sequence on. A second goroutine decodes ahead of fn: of
// a long log that is most of the work.
func (s *Store) candidates(ctx context.Context, b playbook.Book, from uint64, fn func(*candidate) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ahead := make(chan []*candidate, 4)
	var err error // of the goroutine, to be read when ahead is closed
	go func() {
		defer close(ahead)
		err = s.decode(ctx, b, from, ahead)
	}()
	for all := range ahead {
		for _, m := range all {
			if err := fn(m); err != nil {
				stop()
				for range ahead { // until the other goroutine has ended
				}
				return err
			}
		}
	}
	return err
}

// aheadRecords is how many messages the decoding goroutine hands over at a time.
const aheadRecords = 64

// decode sends the messages of a book, and also those before one that is an error.
func (s *Store) decode(ctx context.Context, b playbook.Book, from uint64, to chan<- []*candidate) error {
	var all []*candidate
	send := func() error {
		select {
		case to <- all:
			all = nil
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := s.scan(ctx, events.StreamDeltas, events.KindDelta.Subject(b), from, func(m direct.Message) error {
		if all = append(all, readCandidate(m)); len(all) < aheadRecords {
			return nil
		}
		return send()
	})
	if len(all) == 0 {
		return err
	}
	return errors.Join(send(), err)
}

// deltas moves a cursor to the end of the log and calls fn for each delta, in order. Strays are skipped.
func (s *Store) deltas(ctx context.Context, c *logCursor, fn func(*Record) error) error {
	err := s.candidates(ctx, c.book, c.end+1, func(m *candidate) error {
		next, err := c.take(m)
		if err != nil || !next {
			return err
		}
		return fn(m.Record)
	})
	if err != nil || len(c.open) == c.judged {
		return err
	}
	if err := s.judge(ctx, c); err != nil {
		return err
	}
	c.judged = len(c.open)
	return nil
}

// storedDelta is a message of DELTAS as the stream's leader has it.
type storedDelta struct {
	Subject string `json:"subject"`
	Seq     uint64 `json:"seq"`
	Data    []byte `json:"data"`
}

// is reports whether a message, nil for none, is the delta of a book with this hash.
func (m *storedDelta) is(b playbook.Book, chain []byte) bool {
	if m == nil || m.Subject != events.KindDelta.Subject(b) {
		return false
	}
	sum := sha256.Sum256(m.Data)
	return bytes.Equal(sum[:], chain)
}

// deltaOfLeader reads a message of DELTAS from the stream's leader, nil if it does not exist. The query is that of the
// server's API: a sequence or a subject.
func (s *Store) deltaOfLeader(ctx context.Context, query map[string]any) (*storedDelta, error) {
	wait, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	m, err := denied.Call(wait, s.watch, events.StreamDeltas, func(ctx context.Context) (*nats.Msg, error) {
		return s.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+events.StreamDeltas, req)
	})
	if err != nil {
		return nil, fmt.Errorf("read %v of %s: %w", query, events.StreamDeltas, ownTimeout(ctx, err))
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message storedDelta         `json:"message"`
	}
	switch err := json.Unmarshal(m.Data, &reply); {
	case err != nil:
		return nil, fmt.Errorf("read %v of %s: %w", query, events.StreamDeltas, err)
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case reply.Error != nil:
		return nil, fmt.Errorf("read %v of %s: %w", query, events.StreamDeltas, reply.Error)
	}
	return &reply.Message, nil
}
