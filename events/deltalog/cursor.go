package deltalog

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
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// Stray is a message on a book's subject in DELTAS that is not part of the book's log. It cannot be decoded, or it does
// not continue the log. Readers skip it.
type Stray struct {
	Seq    uint64    `json:"seq"`
	Size   int       `json:"bytes"`
	Time   time.Time `json:"time"` // when the server stored it
	Reason string    `json:"reason"`
	// Newer is set if the message has a newer schema. Readers skip such a message only if a later delta continues the log
	// without it.
	Newer bool `json:"newer_schema,omitempty"`

	hash      []byte
	hasSchema bool            // it has a supported schema header
	delta     *playbook.Delta // nil if it cannot be decoded
}

// candidate is a message on a book's subject that may be part of the log.
type candidate struct {
	*Record
	stored    time.Time
	hasSchema bool  // it has a supported schema header
	err       error // set if the delta cannot be decoded or has an unknown operation
}

// newCandidate decodes a message. It decodes none with a newer schema in its header. If only an operation is of a newer schema, the delta
// still has its links, which are the same in every schema.
func newCandidate(m direct.Message) *candidate {
	sum := sha256.Sum256(m.Data)
	c := &candidate{Record: &Record{Seq: m.Seq, Chain: sum[:], Size: len(m.Data)}, stored: m.Stored()}
	c.err = events.CheckSchema(m.Header)
	if c.err != nil {
		return c
	}
	c.hasSchema = true
	d, err := events.DecodeDelta(m.Data)
	c.err = err
	if d != nil {
		c.Delta = *d
	}
	return c
}

// logCursor is a position in a book's log, and the messages after it that do not continue the log. A log is a chain:
// each delta contains the sequence and the hash of the delta before it. A writer stores a delta only after it has read
// every message on the subject. If two messages claim the same position, later deltas continue one of them, and the
// other is a stray.
type logCursor struct {
	book    playbook.Book
	version uint64
	seq     uint64 // of the last delta, 0 for none
	chain   []byte // hash of the last delta
	end     uint64 // sequence of the last message that was read, strays included; expected by the next compare-and-swap
	endHash []byte // hash of the message at end
	// undecided are the messages after the last delta. They are strays, or deltas of a broken log or a newer schema.
	undecided []Stray
	checked   int // number of undecided messages that checkUndecided accepted as strays
	// anchor, if not 0, is the sequence of a delta that is known to be part of the log. Reading begins with it.
	anchor uint64
	// onStray receives each confirmed stray; nil ignores them.
	onStray func(Stray)
}

// startAt returns a cursor that begins with a delta whose sequence is known and whose hash is not; 0 is the beginning of the log.
func startAt(b playbook.Book, seq uint64) *logCursor {
	return &logCursor{book: b, anchor: seq, end: max(seq, 1) - 1}
}

// advance moves the cursor over the next message. It reports whether the message is the next delta of the log.
func (c *logCursor) advance(m *candidate) (bool, error) {
	c.end, c.endHash = m.Seq, m.Chain
	isAnchor := c.anchor > 0 && c.seq == 0 // the first message must be the anchor, whose links are unknown
	if isAnchor && (m.Seq != c.anchor || m.err != nil) {
		return false, fmt.Errorf("playbook %q: the log does not contain the delta at sequence %d: %w", c.book, c.anchor, errGap)
	}
	reason := m.err
	if reason == nil && !isAnchor {
		reason = c.follows(m.Record)
	}
	if reason != nil {
		c.undecided = append(c.undecided, c.newStray(m, reason))
		return false, nil
	}
	c.version = m.Version
	c.seq, c.chain = m.Seq, m.Chain
	c.confirmStrays()
	return true, nil
}

// confirmStrays reports the undecided messages as strays, because the log continues without them.
func (c *logCursor) confirmStrays() {
	for _, s := range c.undecided {
		if c.onStray != nil {
			c.onStray(s)
		}
	}
	c.undecided, c.checked = nil, 0
}

// follows returns an error if a delta is not the next one of the log.
func (c *logCursor) follows(r *Record) error {
	if r.Version != c.version+1 || r.PrevSeq != c.seq || !bytes.Equal(r.PrevChain, c.chain) {
		return fmt.Errorf("delta %d does not follow version %s at sequence %d", r.Version, playbook.VersionLabel(c.version, c.chain), c.seq)
	}
	return nil
}

// rewind moves the cursor back to m after strays were removed. m is the last message on the subject, nil if the subject is empty.
// rewind reports false if the log lost a delta that was read.
func (c *logCursor) rewind(m *direct.Message) bool {
	if m == nil {
		m = new(direct.Message)
	}
	sum := sha256.Sum256(m.Data)
	i := slices.IndexFunc(c.undecided, func(s Stray) bool { return s.Seq == m.Seq && bytes.Equal(s.hash, sum[:]) })
	isLastDelta := m.Seq == c.seq && (c.seq == 0 || bytes.Equal(c.chain, sum[:]))
	if i < 0 && !isLastDelta {
		return false
	}
	c.undecided, c.checked = c.undecided[:i+1], 0 // none if m is the last delta
	c.end, c.endHash = m.Seq, sum[:]
	return true
}

// newStray describes a message that is not the next delta, for the reason.
func (c *logCursor) newStray(m *candidate, reason error) Stray {
	s := Stray{Seq: m.Seq, Size: m.Size, Time: m.stored, Reason: reason.Error(), hash: m.Chain, hasSchema: m.hasSchema}
	if m.Version > 0 {
		s.delta = &m.Delta
	}
	mayBeNext := s.delta == nil || c.follows(m.Record) == nil
	s.Newer = mayBeNext && errors.Is(reason, events.ErrNewerSchema)
	return s
}

// checkUndecided checks the messages after the last delta when the end of the log is reached. It returns nil if they
// are strays. Otherwise it returns
//
//   - ErrNewerSchema if a newer program wrote one of them;
//   - ErrBrokenLog if the view's head refers to one, or if one follows a delta that is missing or damaged. Such a message
//     may be genuine, and skipping it would shorten the log;
//   - ErrBrokenLog if the log no longer contains the last delta of the cursor.
func (s *Store) checkUndecided(ctx context.Context, c *logCursor) error {
	if i := slices.IndexFunc(c.undecided, func(s Stray) bool { return s.Newer }); i >= 0 {
		return fmt.Errorf("playbook %q stops at version %d: a newer program wrote the message at sequence %d of stream %s; upgrade this program: %w",
			c.book, c.version, c.undecided[i].Seq, events.StreamDeltas, events.ErrNewerSchema)
	}
	if c.seq > 0 {
		ok, err := s.hasDelta(ctx, c.book, c.seq, c.chain)
		if err != nil {
			return err
		}
		if !ok {
			return c.lostDeltaError()
		}
	}
	h, _, err := s.readHead(ctx, c.book)
	if err != nil {
		return err
	}
	if h != nil {
		if i := slices.IndexFunc(c.undecided, func(s Stray) bool { return s.Seq == h.Seq }); i >= 0 {
			return c.brokenError(c.undecided[i], "the view contains it")
		}
	}
	for i, stray := range c.undecided {
		lost, err := s.followsLost(ctx, c, i)
		if err != nil {
			return err
		}
		if lost {
			return c.brokenError(stray, fmt.Sprintf("it follows the delta at sequence %d, which is missing or damaged", stray.delta.PrevSeq))
		}
	}
	return nil
}

// lostDeltaError is returned if the log lost a delta that was read.
func (c *logCursor) lostDeltaError() error {
	return fmt.Errorf("playbook %q: the log no longer contains version %s: %w", c.book, playbook.VersionLabel(c.version, c.chain), errGap)
}

// brokenError is returned if an undecided message is not a stray.
func (c *logCursor) brokenError(s Stray, evidence string) error {
	return fmt.Errorf("playbook %q: the message at sequence %d does not follow version %s at %d (%s), and it is not a stray: %s: %w",
		c.book, s.Seq, playbook.VersionLabel(c.version, c.chain), c.seq, s.Reason, evidence, errGap)
}

// followsLost reports whether an undecided message is a delta that follows a missing or damaged one. In that case the message
// at the sequence of its predecessor does not exist, or has a schema header and cannot be decoded. A server does not deliver a
// record that was altered on its disk, so a delivered delta is intact.
func (s *Store) followsLost(ctx context.Context, c *logCursor, i int) (bool, error) {
	d := c.undecided[i].delta
	if d == nil || d.Version <= c.version+1 {
		return false, nil
	}
	isBetween := c.seq < d.PrevSeq && d.PrevSeq < c.undecided[i].Seq // its predecessor is after the end of the log and before itself
	if !isBetween {
		return false, nil
	}
	missing := d.Version - c.version - 1
	if missing > d.PrevSeq-c.seq { // each missing delta had a sequence after the end of the log, d.PrevSeq at most
		return false, nil
	}
	before := slices.IndexFunc(c.undecided, func(s Stray) bool { return s.Seq == d.PrevSeq })
	if before >= 0 { // one message cannot stand for several missing deltas
		lost := &c.undecided[before]
		return lost.hasSchema && lost.delta == nil && missing == 1, nil
	}
	m, err := s.leaderDelta(ctx, map[string]any{"seq": d.PrevSeq})
	return m == nil, err // an existing message belongs to another book
}

// scanLog calls fn in order for each message on a book's subject, starting at a sequence. A redaction takes the place of its delta, which an
// erasure removed.
func (s *Store) scanLog(ctx context.Context, b playbook.Book, from uint64, fn func(*candidate) error) error {
	q := direct.Query{Subject: events.KindDelta.Subject(b), From: from}
	redactions := &overlay{s: s, book: b, from: from}
	var stopped error // the error of fn
	err := s.direct.Read(ctx, events.StreamDeltas, q, func(m direct.Message) error {
		all, err := redactions.next(ctx, newCandidate(m))
		if err != nil {
			return err
		}
		for _, c := range all {
			if stopped = fn(c); stopped != nil {
				return stopped
			}
		}
		return nil
	})
	if stopped != nil {
		return stopped
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", q.Subject, err)
	}
	return nil
}

// errGap is an ErrBrokenLog whose cause may be a delta that this read has missed. readDeltas then reads again.
var errGap = fmt.Errorf("%w", ErrBrokenLog)

// errStop ends a read early. The function that reads returns it, and its caller treats it as success.
var errStop = errors.New("stop reading")

// rereads is the number of further attempts to read a log in which a delta is missing. A replica that lags may have deleted a delta
// before it has the redaction.
const rereads = 3

// readDeltas moves a cursor to the end of the log and calls fn for each delta, in order. It skips strays.
func (s *Store) readDeltas(ctx context.Context, c *logCursor, fn func(*Record) error) error {
	for try := 1; ; try++ {
		err := s.readDeltasOnce(ctx, c, fn)
		if !errors.Is(err, errGap) || try > rereads {
			return err
		}
		c.restart()
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// restart moves a cursor back to the last delta that was read.
func (c *logCursor) restart() {
	c.end, c.endHash = c.seq, c.chain
	if c.seq == 0 && c.anchor > 0 {
		c.end = c.anchor - 1
	}
	c.undecided, c.checked = nil, 0
}

func (s *Store) readDeltasOnce(ctx context.Context, c *logCursor, fn func(*Record) error) error {
	err := s.scanLog(ctx, c.book, c.end+1, func(m *candidate) error {
		next, err := c.advance(m)
		if err != nil || !next {
			return err
		}
		return fn(m.Record)
	})
	if err != nil {
		return err
	}
	if len(c.undecided) == c.checked { // none, or checkUndecided has accepted all of them before
		return nil
	}
	if err := s.checkUndecided(ctx, c); err != nil {
		return err
	}
	c.checked = len(c.undecided)
	return nil
}

// replyTimeout bounds the wait for a reply of the stream's leader. After it the error is nats.ErrTimeout, so that the
// caller can distinguish a silent server from its own deadline.
const replyTimeout = 5 * time.Second

// storedDelta is a message of DELTAS, read from the stream's leader.
type storedDelta struct {
	Subject string `json:"subject"`
	Seq     uint64 `json:"seq"`
	Data    []byte `json:"data"`
}

// matches reports whether the message is the delta of a book with this hash. A nil message matches nothing.
func (m *storedDelta) matches(b playbook.Book, chain []byte) bool {
	if m == nil || m.Subject != events.KindDelta.Subject(b) {
		return false
	}
	sum := sha256.Sum256(m.Data)
	return bytes.Equal(sum[:], chain)
}

// leaderDelta reads a message of DELTAS from the stream's leader. It returns nil if the message does not exist. The query
// is the request of the server's API: "seq" or "last_by_subj".
func (s *Store) leaderDelta(ctx context.Context, query map[string]any) (*storedDelta, error) {
	wait, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	req, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	m, err := natserr.Call(wait, s.watch, events.StreamDeltas, func(ctx context.Context) (*nats.Msg, error) {
		return s.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+events.StreamDeltas, req)
	})
	if err != nil {
		return nil, fmt.Errorf("read %v of %s: %w", query, events.StreamDeltas, natserr.AsTimeout(ctx, err))
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
