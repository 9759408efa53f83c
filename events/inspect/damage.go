package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/denied"
	"debrief/events/direct"
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

// CheckDamage compares the content of each stream with its state. The streams of executions, reflections and deltas have no
// gaps, because their messages only expire, oldest first. Messages of work queues, buckets and dead letters can be
// deleted in any order, so only a loss that the server reports counts there. CheckDamage reads streams of at most read bytes
// completely. Only then does the server detect some damage; it skips a message with a wrong checksum.
func CheckDamage(ctx context.Context, c *bus.Conn, read uint64) ([]Damage, error) {
	var all []Damage
	for _, want := range append(streams.All(1), streams.Blobs(1)) {
		s, err := c.JetStream().Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open stream %s: %w", want.Name, natserr.AsTimeout(ctx, err))
		}
		before := *s.CachedInfo()
		counted := before.State.Bytes <= read
		readable, err := countReadable(ctx, c, want.Name, counted)
		if err != nil {
			return nil, err
		}
		var opts []jetstream.StreamInfoOpt
		if s.CachedInfo().State.NumDeleted <= maxDetails {
			opts = append(opts, jetstream.WithDeletedDetails(true)) // these include lost messages
		}
		i, err := s.Info(ctx, opts...)
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", want.Name, natserr.AsTimeout(ctx, err))
		}
		all = append(all, damageOf(i)...)
		if was := before.State; counted && i.State.Lost == nil && i.State.Msgs == was.Msgs && i.State.LastSeq == was.LastSeq && readable < was.Msgs {
			all = append(all, Damage{Stream: want.Name, Text: fmt.Sprintf("%d of %d messages are damaged and unreadable", was.Msgs-readable, was.Msgs), Lost: true})
		}
		if role := consumerOf(want.Name); role != "" {
			lag, err := c.Lag(ctx, role)
			if err != nil {
				return nil, err
			}
			if last := i.State.LastSeq; lag.Last > last {
				all = append(all, Damage{Stream: want.Name, Text: fmt.Sprintf("ends at sequence %d, but sequence %d was delivered to the %s", last, lag.Last, role), Lost: true})
			}
		}
	}
	return all, nil
}

// countReadable returns the number of readable messages of a stream, or 0 if read is false.
func countReadable(ctx context.Context, c *bus.Conn, stream string, read bool) (n uint64, err error) {
	if !read {
		return 0, nil
	}
	err = denied.Do(ctx, denied.WatchOf(c.JetStream()), stream, func(ctx context.Context) error {
		n = 0
		return direct.Read(ctx, c.NATS(), stream, direct.Query{Subject: ">"}, func(direct.Message) error { n++; return nil })
	})
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return n, nil
}

// damageOf returns the damage that the state of a stream shows.
func damageOf(i *jetstream.StreamInfo) (all []Damage) {
	add := func(sure bool, format string, args ...any) {
		all = append(all, Damage{Stream: i.Config.Name, Text: fmt.Sprintf(format, args...), Lost: sure})
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
	if s.NumDeleted > 0 && s.Msgs > 0 && i.Config.Name != events.StreamDeltas { // an operator may delete stray deltas; the chain hash shows a lost delta
		add(false, "%d messages between sequence %d and %d are missing: deleted or lost", s.NumDeleted, s.FirstSeq, s.LastSeq)
	}
	age := i.Config.MaxAge
	switch {
	case s.Msgs == 0 && s.LastSeq > 0 && (age == 0 || time.Since(s.LastTime) < age):
		add(false, "all messages up to sequence %d are missing, but the last one has not expired: purged or lost", s.LastSeq)
	case s.Msgs > 0 && s.FirstSeq > 1 && i.Config.Metadata[streams.MetadataRestored] == "" && i.Config.Name != events.StreamDeltas && (age == 0 || time.Since(i.Created) < age):
		add(false, "the messages up to sequence %d are missing, but the stream is too young for them to have expired: deleted or lost", s.FirstSeq-1)
	}
	return all
}

// consumerOf returns the role whose durable reads a stream.
func consumerOf(stream string) string {
	switch stream {
	case events.StreamExecutions:
		return events.RoleReflector
	case events.StreamReflections:
		return events.RoleCurator
	}
	return ""
}
