package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
)

// Damage is something that a stream should hold and does not.
type Damage struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
	// Sure is set if it was lost. Otherwise an operator may have deleted it.
	Sure bool `json:"lost"`
	// Repaired is set if nothing is lost: the damaged consumer was recreated.
	Repaired bool `json:"repaired,omitempty"`
}

func (d Damage) String() string { return fmt.Sprintf("stream %s: %s", d.Stream, d.Text) }

// maxDetails is how many deleted messages a stream may have for its details to be asked for, which list them all.
const maxDetails = 50_000

// Damage compares the contents of each stream with its own state. The streams of events and deltas
// have no gaps: messages leave them by age, the oldest first. From a work queue, a bucket and the dead letters anything may
// be removed, so there only a loss that the server noticed is damage. Streams of at most that many bytes are read to
// their end: the server notices some damage only then, and leaves out a message whose checksum is wrong.
func (c *Conn) Damage(ctx context.Context, read uint64) ([]Damage, error) {
	var all []Damage
	for _, want := range append(streams(1), blobConfig(1)) {
		s, err := c.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open stream %s: %w", want.Name, unanswered(ctx, err))
		}
		before := *s.CachedInfo()
		counted := before.State.Bytes <= read
		readable, err := c.readable(ctx, want.Name, counted)
		if err != nil {
			return nil, err
		}
		var opts []jetstream.StreamInfoOpt
		if s.CachedInfo().State.NumDeleted <= maxDetails {
			opts = append(opts, jetstream.WithDeletedDetails(true)) // these include lost messages
		}
		i, err := s.Info(ctx, opts...)
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", want.Name, unanswered(ctx, err))
		}
		all = append(all, damage(i)...)
		if was := before.State; counted && i.State.Lost == nil && i.State.Msgs == was.Msgs && i.State.LastSeq == was.LastSeq && readable < was.Msgs {
			all = append(all, Damage{Stream: want.Name, Text: fmt.Sprintf("%d of %d messages are damaged and cannot be read", was.Msgs-readable, was.Msgs), Sure: true})
		}
		if role := consumerOf(want.Name); role != "" {
			lag, err := c.Lag(ctx, role)
			if err != nil {
				return nil, err
			}
			if last := i.State.LastSeq; lag.Last > last {
				all = append(all, Damage{Stream: want.Name, Text: fmt.Sprintf("ends at sequence %d, and the %s was delivered sequence %d", last, role, lag.Last), Sure: true})
			}
		}
	}
	return all, nil
}

// readable counts the messages of a stream that can be read, if it is to be counted.
func (c *Conn) readable(ctx context.Context, stream string, read bool) (n uint64, err error) {
	if !read {
		return 0, nil
	}
	err = denied.Do(ctx, c.watch, stream, func(ctx context.Context) error {
		n = 0
		return direct.Read(ctx, c.nc, stream, direct.Query{Subject: ">"}, func(direct.Message) error { n++; return nil })
	})
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return n, nil
}

// damage lists the messages that a stream lacks.
func damage(i *jetstream.StreamInfo) (all []Damage) {
	add := func(sure bool, format string, args ...any) {
		all = append(all, Damage{Stream: i.Config.Name, Text: fmt.Sprintf(format, args...), Sure: sure})
	}
	s := i.State
	if l := s.Lost; l != nil {
		add(true, "the server lost %d messages, %d bytes", len(l.Msgs), l.Bytes)
	}
	switch i.Config.Name {
	case events.StreamExecutions, events.StreamReflections, events.StreamDeltas:
	default:
		return all
	}
	if s.NumDeleted > 0 && s.Msgs > 0 && i.Config.Name != events.StreamDeltas { // whose strays an operator removes; its chains tell
		add(false, "%d messages between sequence %d and %d are missing: deleted or lost", s.NumDeleted, s.FirstSeq, s.LastSeq)
	}
	age := i.Config.MaxAge
	switch {
	case s.Msgs == 0 && s.LastSeq > 0 && (age == 0 || time.Since(s.LastTime) < age):
		add(false, "all messages up to sequence %d are missing, and the last one is not old enough to have expired: purged or lost", s.LastSeq)
	case s.Msgs > 0 && s.FirstSeq > 1 && i.Config.Metadata[MetadataRestored] == "" && i.Config.Name != events.StreamDeltas && (age == 0 || time.Since(i.Created) < age):
		add(false, "the messages up to sequence %d are missing, and the stream is not old enough for them to have expired: deleted or lost", s.FirstSeq-1)
	}
	return all
}

// consumerOf is the role whose durable reads a stream.
func consumerOf(stream string) string {
	switch stream {
	case events.StreamExecutions:
		return events.RoleReflector
	case events.StreamReflections:
		return events.RoleCurator
	}
	return ""
}
