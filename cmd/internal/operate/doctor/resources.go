package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/events/streams"
)

func readerOf(c *bus.Conn) *direct.Reader {
	return direct.NewReader(c.NATS(), natserr.WatchOf(c.JetStream()))
}

// resource is the state of a stream, a bucket or a durable that the pipeline needs.
type resource struct {
	Name    string
	Missing bool
	Err     error // the error of reading it, or of a configuration that does not fit

	Replicas int
	Leader   string   // name of the leader server, in a cluster
	Lagging  []string // names of the replicas that are offline or behind

	// Of a stream. A maximum of 0 means no limit.
	Messages, MaxMessages, Bytes, MaxBytes uint64
}

// readResources returns the state of every stream and bucket, and of the durable of each role. Each resource that could not be
// read has an error.
func readResources(ctx context.Context, c *bus.Conn) (stored, durables []resource) {
	for _, want := range streams.All(1) {
		stored = append(stored, streamResource(ctx, c, want))
	}
	for _, role := range streams.Roles {
		durables = append(durables, durableResource(ctx, c, role))
	}
	return stored, durables
}

// streamResource returns the state of a stream.
func streamResource(ctx context.Context, c *bus.Conn, want jetstream.StreamConfig) resource {
	r := resource{Name: want.Name}
	s, err := c.JetStream().Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		r.Missing = true
		return r
	}
	if err != nil {
		r.Err = fmt.Errorf("read stream %s: %w", want.Name, natserr.AsTimeout(ctx, err))
		return r
	}
	i := s.CachedInfo()
	r.Err = streams.Check(i.Config, want)
	r.Replicas = i.Config.Replicas
	r.Messages, r.Bytes = i.State.Msgs, i.State.Bytes
	r.MaxMessages, r.MaxBytes = uint64(max(i.Config.MaxMsgs, 0)), uint64(max(i.Config.MaxBytes, 0))
	r.setPeers(i.Cluster)
	return r
}

// durableResource returns the state of the durable of a role.
func durableResource(ctx context.Context, c *bus.Conn, role string) resource {
	stream := streams.Input(role)
	r := resource{Name: role + " of " + stream}
	cons, err := c.JetStream().Consumer(ctx, stream, role)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		r.Missing = true
		return r
	}
	if err != nil {
		r.Err = fmt.Errorf("read consumer %s: %w", role, natserr.AsTimeout(ctx, err))
		return r
	}
	i := cons.CachedInfo()
	hasFilter := i.Config.FilterSubject != "" || len(i.Config.FilterSubjects) > 0
	isPush := i.Config.DeliverSubject != ""
	switch {
	case i.Config.AckPolicy != jetstream.AckExplicitPolicy || isPush || hasFilter:
		r.Err = fmt.Errorf("consumer %s was created by another program: must pull from all subjects of %s with explicit acks", role, stream)
	case i.Config.MaxDeliver != streams.MaxDeliver:
		r.Err = fmt.Errorf("consumer %s of %s loses a message after %d deliveries: max_deliver must be unlimited: run 'debrief setup'", role, stream, i.Config.MaxDeliver)
	case i.Paused:
		r.Err = fmt.Errorf("an operator has paused consumer %s of %s: it gets no messages until 'nats consumer resume %s %s'", role, stream, stream, role)
	}
	r.setPeers(i.Cluster)
	return r
}

// maxPeerLag is the number of operations that a replica may be behind. Under load each replica is somewhat behind.
const maxPeerLag = 10_000

// setPeers sets Leader and Lagging. Without a cluster c is nil.
func (r *resource) setPeers(c *jetstream.ClusterInfo) {
	if c == nil {
		return
	}
	r.Leader = c.Leader
	for _, p := range c.Replicas {
		if p.Offline || p.Lag > maxPeerLag {
			r.Lagging = append(r.Lagging, p.Name)
		}
	}
}
