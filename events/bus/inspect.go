package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
)

// Attach is Open for who only looks: nothing is made, and nothing is known to be there.
func Attach(nc *nats.Conn, o Options) (*Conn, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	watch := denied.New(nc)
	return &Conn{nc: nc, js: denied.JetStream(js, watch), watch: watch, policy: o.Policy.WithDefaults(), log: o.Log}, nil
}

// Fixture is a stream, a bucket or a durable that the pipeline rests on, as the server has it.
type Fixture struct {
	Name    string
	Missing bool
	Err     error // why it could not be looked at, or why we cannot work with it

	Replicas int
	Leader   string   // in a cluster
	Lagging  []string // of its servers, those that are offline or behind

	Messages, Bytes, MaxBytes uint64 // no limit is 0
	At                        time.Time
}

// Inspect looks at every stream and bucket, and at the durable of each role.
func (c *Conn) Inspect(ctx context.Context) (kept, durables []Fixture) {
	for _, want := range append(streams(1), jetstream.StreamConfig{Name: "OBJ_" + events.BucketBlobs}) {
		f := Fixture{Name: want.Name}
		s, err := c.js.Stream(ctx, want.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			f.Missing = true
		case err != nil:
			f.Err = fmt.Errorf("read stream %s: %w", want.Name, unanswered(ctx, err))
		default:
			i := s.CachedInfo()
			if want.Subjects != nil {
				f.Err = usable(i.Config, want)
			}
			f.Replicas, f.At = i.Config.Replicas, i.TimeStamp
			f.Messages, f.Bytes, f.MaxBytes = i.State.Msgs, i.State.Bytes, uint64(max(i.Config.MaxBytes, 0))
			f.peers(i.Cluster)
		}
		kept = append(kept, f)
	}
	for _, role := range roles {
		f := Fixture{Name: role + " of " + source(role)}
		cons, err := c.js.Consumer(ctx, source(role), role)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			f.Missing = true
		case err != nil:
			f.Err = fmt.Errorf("read consumer %s: %w", role, unanswered(ctx, err))
		default:
			i := cons.CachedInfo()
			if i.Config.AckPolicy != jetstream.AckExplicitPolicy || i.Config.DeliverSubject != "" || i.Config.FilterSubject != "" || len(i.Config.FilterSubjects) > 0 {
				f.Err = fmt.Errorf("consumer %s was set up by something else: it has to pull all of %s and to ack each", role, source(role))
			} else if i.Config.MaxDeliver != unlimited {
				f.Err = fmt.Errorf("consumer %s of %s gives up a message after %d deliveries, and the message is lost: run 'debrief setup'", role, source(role), i.Config.MaxDeliver)
			}
			f.peers(i.Cluster)
		}
		durables = append(durables, f)
	}
	return kept, durables
}

// farBehind is how many operations a follower may lack: it is always some behind under load.
const farBehind = 10_000

func (f *Fixture) peers(c *jetstream.ClusterInfo) {
	if c == nil {
		return
	}
	f.Leader = c.Leader
	for _, p := range c.Replicas {
		if p.Offline || p.Lag > farBehind {
			f.Lagging = append(f.Lagging, p.Name)
		}
	}
}
