package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natserr"
	"debrief/events/streams"
	"debrief/playbook"
)

// Consumers has the durable consumers of the roles. A consumer knows which messages of its stream the role has handled. It
// outlives the programs of the role, so it can be read while none runs. Consumers is safe for concurrent use.
type Consumers struct {
	*link
	letters *DeadLetters
}

// bind opens the consumer of a role. It also returns the last sequence of its stream that came from a backup, or 0.
func (c *Consumers) bind(ctx context.Context, role string) (jetstream.Consumer, uint64, error) {
	cons, err := c.open(ctx, role)
	if err != nil {
		return nil, 0, err
	}
	s, err := c.streamInfo(ctx, streams.Input(role))
	if err != nil {
		return nil, 0, err
	}
	text := s.Config.Metadata[streams.MetadataRestored]
	if text == "" {
		return cons, 0, nil
	}
	restored, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("stream %s: metadata %s: %w", streams.Input(role), streams.MetadataRestored, err)
	}
	return cons, restored, nil
}

// info returns the state of the consumer of a role, or nil if the role never ran.
func (c *Consumers) info(ctx context.Context, role string) (*jetstream.ConsumerInfo, error) {
	cons, err := c.js.Consumer(ctx, streams.Input(role), role)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read consumer %s: %w", role, natserr.AsTimeout(ctx, err))
	}
	return cons.CachedInfo(), nil
}

// CreateAfter creates the consumer of a role so that it starts after the sequence floor. It is for a restore: the role had acknowledged
// everything up to that sequence before the backup. It returns an error if the consumer exists.
func (c *Consumers) CreateAfter(ctx context.Context, role string, floor uint64) error {
	existing, err := c.info(ctx, role)
	if err != nil {
		return err
	}
	if existing != nil {
		return fmt.Errorf("create consumer %s of %s: already exists", role, streams.Input(role))
	}
	cfg := c.config(role)
	if floor > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, floor+1
	}
	if _, err := c.js.CreateConsumer(ctx, streams.Input(role), cfg); err != nil {
		return fmt.Errorf("create consumer %s of %s: %w", role, streams.Input(role), natserr.AsTimeout(ctx, err))
	}
	return nil
}

// Create creates the missing consumers of all roles, so that the roles need no right to do so.
func (c *Consumers) Create(ctx context.Context) error {
	for _, role := range streams.Roles {
		if _, err := c.open(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// Plan returns what Create would do: the steps have the names of the consumers.
func (c *Consumers) Plan(ctx context.Context) (all []streams.Step, err error) {
	for _, role := range streams.Roles {
		want := c.config(role)
		step := streams.Step{Stream: "consumer " + role + " of " + streams.Input(role)}
		existing, err := c.info(ctx, role)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, err
		}
		if existing == nil {
			step.Create = true
		} else {
			step.Changes = consumerChanges(existing.Config, want)
		}
		if step.Create || len(step.Changes) > 0 {
			all = append(all, step)
		}
	}
	return all, nil
}

// consumerChanges returns the settings of a consumer that differ from the wanted ones. It compares only the settings that adapt changes.
func consumerChanges(got, want jetstream.ConsumerConfig) (all []streams.Change) {
	for _, x := range []struct {
		name     string
		from, to any
	}{
		{"ack_wait", got.AckWait, want.AckWait},
		{"max_deliver", got.MaxDeliver, want.MaxDeliver},
		{"max_ack_pending", got.MaxAckPending, want.MaxAckPending},
	} {
		if x.from != x.to {
			all = append(all, streams.Change{Setting: x.name, From: fmt.Sprint(x.from), To: fmt.Sprint(x.to)})
		}
	}
	return all
}

// config returns the configuration of a role's consumer.
func (c *Consumers) config(role string) jetstream.ConsumerConfig {
	want := jetstream.ConsumerConfig{
		Durable: role, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.policy.ackWait(role), MaxDeliver: streams.MaxDeliver, MaxAckPending: c.policy.MaxAckPending,
	}
	if role == events.RoleCurator {
		want.MaxAckPending = c.policy.MaxAckPendingCurator
	}
	return want
}

// open opens the consumer of a role. It creates a missing consumer, and updates one that differs from the policy.
func (c *Consumers) open(ctx context.Context, role string) (jetstream.Consumer, error) {
	cons, err := c.js.Consumer(ctx, streams.Input(role), role)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		cons, err = c.js.CreateOrUpdateConsumer(ctx, streams.Input(role), c.config(role))
		err = explainMissing("the consumer", err)
	case err == nil:
		cons, err = c.adapt(ctx, role, cons)
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", role, streams.Input(role), natserr.AsTimeout(ctx, err))
	}
	return cons, nil
}

// adapt changes an existing consumer to the policy. If this user may not change it, adapt only logs a warning.
func (c *Consumers) adapt(ctx context.Context, role string, cons jetstream.Consumer) (jetstream.Consumer, error) {
	cfg, want := cons.CachedInfo().Config, c.config(role)
	if len(consumerChanges(cfg, want)) == 0 {
		return cons, nil
	}
	cfg.AckWait = want.AckWait
	cfg.MaxDeliver = want.MaxDeliver
	cfg.MaxAckPending = want.MaxAckPending
	changed, err := c.js.UpdateConsumer(ctx, streams.Input(role), cfg)
	if natserr.IsDenied(err) {
		c.log.Warn().Str("role", role).Msg("the consumer's policy differs, and this user may not change it: run 'debrief setup' as the operator")
		return cons, nil
	}
	return changed, err
}

// Lag describes how far a role is behind.
type Lag struct {
	Pending     uint64 `json:"pending"`        // not delivered yet
	InFlight    int    `json:"in_flight"`      // delivered, not acknowledged
	Redelivered int    `json:"redelivered"`    // of InFlight, delivered more than once
	Floor       uint64 `json:"ack_floor"`      // all messages up to this stream sequence are acknowledged
	Last        uint64 `json:"last_delivered"` // highest stream sequence that was delivered
}

// Idle reports whether no message is pending or in flight.
func (l Lag) Idle() bool { return l.Pending == 0 && l.InFlight == 0 }

// Pending has the messages of a role that are not delivered yet.
type Pending struct {
	All   uint64        // of all playbooks
	Books []BookPending // of the requested playbooks, in their order
}

// BookPending has the messages of one playbook that are not delivered yet.
type BookPending struct {
	Messages uint64
	Oldest   time.Time // when the oldest of them was stored; zero if there is none
}

// Pending returns the messages of a role that are not delivered yet, in all and for each of the playbooks. It needs a few requests for
// each playbook. If the role never ran, all messages of its stream are pending.
func (c *Consumers) Pending(ctx context.Context, role string, books []playbook.Book) (Pending, error) {
	lag, err := c.Lag(ctx, role)
	if err != nil {
		return Pending{}, err
	}
	pending := Pending{All: lag.Pending, Books: make([]BookPending, len(books))}
	for i, b := range books {
		ofBook := &pending.Books[i]
		for _, subject := range inputSubjects(role, b) {
			found, err := c.direct.Count(ctx, streams.Input(role), subject, lag.Last+1)
			if err != nil {
				return Pending{}, fmt.Errorf("count messages of %s: %w", subject, err)
			}
			ofBook.Messages += found.Messages
			if found.Messages > 0 && (ofBook.Oldest.IsZero() || found.Oldest.Before(ofBook.Oldest)) {
				ofBook.Oldest = found.Oldest
			}
		}
	}
	return pending, nil
}

// inputSubjects returns the subjects of the messages of a playbook that a role consumes. No message is on two of them.
func inputSubjects(role string, b playbook.Book) []string {
	switch role {
	case events.RoleGenerator:
		return events.TaskSubjects(b)
	case events.RoleReflector:
		return []string{events.KindExecution.Subject(b), events.KindFeedback.Subject(b)}
	}
	return []string{events.KindReflection.Subject(b), events.KindEdit.Subject(b)}
}

// Lag returns the lag of a role. If the role never ran, all messages of its stream are pending.
func (c *Consumers) Lag(ctx context.Context, role string) (Lag, error) {
	i, err := c.info(ctx, role)
	if err != nil {
		return Lag{}, err
	}
	if i != nil {
		return lagOf(i), nil
	}
	s, err := c.streamInfo(ctx, streams.Input(role))
	if err != nil {
		return Lag{}, err
	}
	return Lag{Pending: s.State.Msgs}, nil
}

// Idle reports whether a role has acknowledged all messages of its stream. The pending count of a consumer may lack the
// newest messages, so Idle compares the last delivered sequence with the end of the stream.
func (c *Consumers) Idle(ctx context.Context, role string) (bool, error) {
	s, err := c.streamInfo(ctx, streams.Input(role))
	if err != nil {
		return false, err
	}
	l, err := c.Lag(ctx, role)
	if err != nil {
		return false, err
	}
	allDelivered := l.Last >= s.State.LastSeq || s.State.Msgs == 0
	return l.Idle() && allDelivered, nil
}

func lagOf(i *jetstream.ConsumerInfo) Lag {
	return Lag{
		Pending: i.NumPending, InFlight: i.NumAckPending, Redelivered: i.NumRedelivered,
		Floor: i.AckFloor.Stream, Last: i.Delivered.Stream,
	}
}

// maxReclaim bounds the number of messages of a role that are reclaimed, starting after its ack floor. The server
// redelivers later messages after their ack wait.
const maxReclaim = 1 << 17

const reclaimTimeout = 5 * time.Second

// Reclaim makes the server redeliver all unacknowledged messages of all roles at once, without the rest of their ack
// wait or backoff. Call it only after a start of the server, when no worker that had taken them runs any more.
// Otherwise work is done twice. A reclaimed message counts as redelivered.
//
// Reclaim sends a nak in the name of the lost worker. From the subject of a nak the server reads only two sequences. The first names
// a message of the stream: the nak has no effect if that message is not in flight. The second names a delivery of the consumer: it
// must be between the ack floor and the last delivery.
func (c *Consumers) Reclaim(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, reclaimTimeout)
	defer stop()
	for _, role := range streams.Roles {
		if err := c.reclaimRole(ctx, role); err != nil {
			return fmt.Errorf("reclaim messages of %s in %s: %w", role, streams.Input(role), natserr.AsTimeout(ctx, err))
		}
	}
	return nil
}

func (c *Consumers) reclaimRole(ctx context.Context, role string) error {
	i, err := c.info(ctx, role)
	if err != nil || i == nil || i.NumAckPending == 0 {
		return err
	}
	first, last := i.AckFloor.Stream+1, min(i.Delivered.Stream, i.AckFloor.Stream+maxReclaim)
	ack := func(seq uint64) string {
		return fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", streams.Input(role), role, seq, i.Delivered.Consumer, time.Now().UnixNano())
	}
	for seq := first; seq < last; seq++ {
		if err := c.nc.Publish(ack(seq), nakPayload); err != nil {
			return err
		}
	}
	_, err = c.nc.RequestWithContext(ctx, ack(last), nakPayload) // the server handles them in order, so this answer confirms all
	return err
}

var nakPayload = []byte("-NAK")
