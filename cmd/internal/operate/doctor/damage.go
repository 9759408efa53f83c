package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/erasure"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// Damage describes data that a stream has lost or may have lost.
type Damage struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
	// Lost means that the data is lost. Otherwise an operator may have deleted it.
	Lost bool `json:"lost"`
	// Repaired means that no data is lost: a damaged consumer was created again.
	Repaired bool `json:"repaired,omitempty"`
}

func (d Damage) String() string { return fmt.Sprintf("stream %s: %s", d.Stream, d.Text) }

// maxDetails bounds the list of deleted messages that is requested. The server returns them all or none.
const maxDetails = 50_000

// CheckDamage compares the content of each stream with its state. The streams of executions and reflections have no gaps, because
// their messages only expire, oldest first. Messages of other streams can be deleted in any order, so a gap is no damage there.
// CheckDamage reads streams of at most maxRead bytes completely, because the server detects a wrong checksum only when it reads the
// message, which it then skips.
func CheckDamage(ctx context.Context, c *bus.Conn, maxRead uint64) ([]Damage, error) {
	erased, err := erasure.NewStore(c.JetStream()).Gaps(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the erasures: %w", err)
	}
	var all []Damage
	for _, stream := range streams.All(1) {
		found, err := checkStream(ctx, c, stream.Name, maxRead, erased[stream.Name])
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// checkStream returns the damage of one stream. erased is the number of messages that erasures have removed from it. A stream that does not
// exist has no damage.
func checkStream(ctx context.Context, c *bus.Conn, name string, maxRead uint64, erased int) ([]Damage, error) {
	s, err := c.JetStream().Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", name, natserr.AsTimeout(ctx, err))
	}
	before := s.CachedInfo().State
	isRead := before.Bytes <= maxRead
	readable := uint64(0)
	if isRead {
		if readable, err = countReadable(ctx, c, name); err != nil {
			return nil, err
		}
	}
	var opts []jetstream.StreamInfoOpt
	if before.NumDeleted <= maxDetails {
		opts = append(opts, jetstream.WithDeletedDetails(true)) // with the messages that the server lost
	}
	info, err := s.Info(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", name, natserr.AsTimeout(ctx, err))
	}
	after := info.State
	all := damageOf(info, erased)
	isUnchanged := after.Msgs == before.Msgs && after.LastSeq == before.LastSeq // so readable must be the number of messages
	if isRead && isUnchanged && after.Lost == nil && readable < before.Msgs {
		text := fmt.Sprintf("%d of %d messages are damaged and unreadable", before.Msgs-readable, before.Msgs)
		all = append(all, Damage{Stream: name, Text: text, Lost: true})
	}
	role := consumerOf(name)
	if role == "" {
		return all, nil
	}
	lag, err := c.Consumers.Lag(ctx, role)
	if err != nil {
		return nil, err
	}
	if lag.Last > after.LastSeq {
		text := fmt.Sprintf("ends at sequence %d, but sequence %d was delivered to the %s", after.LastSeq, lag.Last, role)
		all = append(all, Damage{Stream: name, Text: text, Lost: true})
	}
	return all, nil
}

// countReadable returns the number of readable messages of a stream.
func countReadable(ctx context.Context, c *bus.Conn, stream string) (n uint64, err error) {
	err = readerOf(c).Read(ctx, stream, direct.Query{Subject: ">"}, func(direct.Message) error { n++; return nil })
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return n, nil
}

// damageOf returns the damage that the state of a stream shows. erased is the number of messages that erasures have removed from it.
func damageOf(info *jetstream.StreamInfo, erased int) (all []Damage) {
	s := info.State
	name := info.Config.Name
	if l := s.Lost; l != nil {
		all = append(all, Damage{Stream: name, Text: fmt.Sprintf("the server lost %d messages, %d bytes", len(l.Msgs), l.Bytes), Lost: true})
	}
	addMissing := func(format string, args ...any) {
		all = append(all, Damage{Stream: name, Text: fmt.Sprintf(format, args...)})
	}
	// The log may have gaps: an operator may delete strays, which are messages that the log does not continue. The chain of hashes shows a
	// lost delta.
	isLog := name == events.StreamDeltas
	if !isLog && name != events.StreamExecutions && name != events.StreamReflections {
		return all
	}
	if s.NumDeleted > erased && s.Msgs > 0 && !isLog {
		addMissing("%d messages between sequence %d and %d are missing: deleted or lost", s.NumDeleted, s.FirstSeq, s.LastSeq)
	}
	age := info.Config.MaxAge
	expired := func(since time.Time) bool { return age > 0 && time.Since(since) >= age }
	isRestored := info.Config.Metadata[streams.MetadataRestored] != ""
	mayLackFirst := isLog || isRestored || erased > 0 // strays were deleted, a backup had fewer messages, or the first were erased
	switch {
	case s.Msgs == 0 && s.LastSeq > 0 && erased == 0 && !expired(s.LastTime):
		addMissing("all messages up to sequence %d are missing, but the last one has not expired: purged or lost", s.LastSeq)
	case s.Msgs > 0 && s.FirstSeq > 1 && !mayLackFirst && !expired(info.Created):
		addMissing("the messages up to sequence %d are missing, but the stream is too young for them to have expired: deleted or lost", s.FirstSeq-1)
	}
	return all
}

// consumerOf returns the role whose durable reads a stream of executions or reflections, or "" for another stream.
func consumerOf(stream string) string {
	switch stream {
	case events.StreamExecutions:
		return events.RoleReflector
	case events.StreamReflections:
		return events.RoleCurator
	}
	return ""
}
