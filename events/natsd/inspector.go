package natsd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// checkpointInterval is the time between checkpoints. After a crash, losses since the last checkpoint are not detected.
const checkpointInterval = 10 * time.Second

// inspectTimeout limits one inspection of all streams.
const inspectTimeout = 20 * time.Second

// maxDetails is the maximum number of deleted messages of a stream whose details are requested: the server lists all of them
// or none.
const maxDetails = 50_000

// inspector compares the store of a server with the checkpoint of the previous run, recreates damaged consumers,
// and writes checkpoints.
type inspector struct {
	s   *Server
	dir string
	nc  *nats.Conn
	js  jetstream.JetStream

	stop chan struct{}
	done sync.WaitGroup
}

// inspectStore examines the store and starts to write checkpoints.
func (s *Server) inspectStore(dir string) (*inspector, error) {
	nc, err := s.Connect()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	in := &inspector{s: s, dir: dir, nc: nc, js: js, stop: make(chan struct{})}
	if err := in.inspect(readCheckpoint(dir), false); err != nil {
		nc.Close()
		return nil, fmt.Errorf("examine the streams in %s: %w", dir, err)
	}
	in.done.Go(func() {
		t := time.NewTicker(checkpointInterval)
		defer t.Stop()
		for {
			select {
			case <-in.stop:
				return
			case <-t.C:
				in.report(in.inspect(nil, false))
			}
		}
	})
	return in, nil
}

// close writes the last checkpoint. The other connections of this process are closed by then.
func (in *inspector) close() {
	close(in.stop)
	in.done.Wait()
	isAlone := in.waitForOthers()
	in.report(in.inspect(nil, isAlone))
	in.nc.Close()
}

// waitForOthers waits up to 500 ms for the other connections to close, and reports whether they have.
func (in *inspector) waitForOthers() bool {
	for range 50 {
		if in.s.srv.Load().NumClients() <= 1 {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func (in *inspector) report(err error) {
	if err != nil && in.s.config.OnError != nil {
		in.s.config.OnError(fmt.Sprintf("examine the streams: %v", err))
	}
}

// inspect writes a checkpoint of all streams. If earlier is not nil, it records losses since then as damage. It writes no checkpoint if it
// cannot record a loss, so that the next start finds the loss again. exact is set if no other connection is open, so that nothing can be
// stored or acknowledged after the checkpoint.
func (in *inspector) inspect(earlier *checkpoint, exact bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	now := &checkpoint{Exact: exact, Streams: map[string]*streamCheckpoint{}}
	if earlier != nil {
		if err := in.dropDamagedViews(ctx, earlier); err != nil {
			return err
		}
	}
	streams := in.js.ListStreams(ctx)
	for i := range streams.Info() {
		saved, err := in.inspectStream(ctx, i, earlier)
		if err != nil {
			return err
		}
		now.Streams[i.Config.Name] = saved
	}
	if err := streams.Err(); err != nil {
		return err
	}
	if earlier != nil {
		for name, previous := range earlier.Streams {
			if now.Streams[name] != nil {
				continue
			}
			text := fmt.Sprintf("does not exist any more: it had %d messages up to sequence %d", previous.Messages, previous.Last)
			if err := in.add(Damage{Stream: name, Text: text}); err != nil {
				return err
			}
		}
	}
	return now.write(in.dir)
}

// inspectStream returns the checkpoint of a stream, and records the losses that the server reports. If earlier is not nil, it also records
// losses since then, and recreates damaged consumers.
func (in *inspector) inspectStream(ctx context.Context, i *jetstream.StreamInfo, earlier *checkpoint) (*streamCheckpoint, error) {
	s, err := in.js.Stream(ctx, i.Config.Name)
	if err != nil {
		return nil, err
	}
	// This is read before the state below. An ack in between lowers the state too, so the checkpoint expects one message fewer than it
	// could. In the other order, it would expect one too many, and the next start could report a loss.
	inFlight, err := unacknowledged(ctx, s, i.Config.Retention)
	if err != nil {
		return nil, err
	}
	i, err = infoWithLost(ctx, s)
	if err != nil {
		return nil, err
	}
	var previous *streamCheckpoint
	isExact := false
	if earlier != nil {
		previous, isExact = earlier.Streams[i.Config.Name], earlier.Exact
		if err := in.recreate(ctx, s, i, previous, isExact); err != nil {
			return nil, err
		}
	}
	if text := lost(i, previous, isExact); text != "" {
		if err := in.add(Damage{Stream: i.Config.Name, Text: text}); err != nil {
			return nil, err
		}
	}
	saved := &streamCheckpoint{
		Messages: i.State.Msgs - min(i.State.Msgs, inFlight), Last: i.State.LastSeq,
		FirstTime: i.State.FirstTime, Consumers: map[string]*consumerCheckpoint{},
	}
	consumers := s.ListConsumers(ctx)
	for c := range consumers.Info() {
		if c.Config.Durable != "" {
			saved.Consumers[c.Name] = &consumerCheckpoint{c.Config, c.AckFloor.Stream}
		}
	}
	return saved, consumers.Err()
}

// infoWithLost returns the state of a stream with its lost messages, which the server lists with the deleted ones. If too many messages
// are deleted, it returns the state without the lost messages.
func infoWithLost(ctx context.Context, s jetstream.Stream) (*jetstream.StreamInfo, error) {
	if i := s.CachedInfo(); i.State.NumDeleted > maxDetails {
		return i, nil
	}
	return s.Info(ctx, jetstream.WithDeletedDetails(true))
}

// unacknowledged returns the number of messages of a work queue that are delivered and not acknowledged yet, and 0 for other
// streams. A message is removed from a work queue by its ack, which may arrive after the last checkpoint. So these messages
// are no loss if they are missing later.
func unacknowledged(ctx context.Context, s jetstream.Stream, retention jetstream.RetentionPolicy) (n uint64, err error) {
	if retention != jetstream.WorkQueuePolicy {
		return 0, nil
	}
	consumers := s.ListConsumers(ctx)
	for c := range consumers.Info() {
		n += uint64(c.NumAckPending)
	}
	return n, consumers.Err()
}

// addRepaired records damage without a loss of messages.
func (in *inspector) addRepaired(stream, format string, args ...any) error {
	return in.add(Damage{Stream: stream, Text: fmt.Sprintf(format, args...), Repaired: true})
}

func (in *inspector) add(d Damage) error {
	d.Time = time.Now().UTC()
	if err := addDamage(in.dir, d); err != nil {
		return fmt.Errorf("record the damage of stream %s: %w", d.Stream, err)
	}
	return nil
}

// consumerState is what the store and the checkpoint have of a durable consumer. Each part may be missing.
type consumerState struct {
	name   string
	saved  *consumerCheckpoint     // in the checkpoint
	loaded *jetstream.ConsumerInfo // as the server has loaded it
	dir    string                  // the directory of its files
}

// recreate recreates durable consumers with unreadable or outdated state. They continue after the last checkpoint,
// so messages that were acknowledged since then are redelivered. exact is the field Exact of the checkpoint.
func (in *inspector) recreate(ctx context.Context, s jetstream.Stream, i *jetstream.StreamInfo, previous *streamCheckpoint, exact bool) error {
	states, err := in.consumerStates(ctx, s, i.Config.Name, previous)
	if err != nil {
		return err
	}
	for _, c := range states {
		isNew := c.saved == nil // a loaded consumer that is not saved was created after the checkpoint
		if c.loaded != nil && (isNew || intact(c.loaded.AckFloor.Stream, c.saved.Floor, i.State, exact)) {
			continue
		}
		if c.loaded != nil { // its state is outdated
			err = s.DeleteConsumer(ctx, c.name)
		} else if c.dir != "" { // the server could not read its files
			c.saved, err = in.setAside(i.Config.Name, c.dir, c.saved)
		}
		if err == nil && c.saved != nil {
			err = in.recreateConsumer(ctx, s, i, c.name, c.saved)
		} else if err == nil {
			err = in.addRepaired(i.Config.Name, "the files of consumer %s are unreadable; its role creates it again, and all messages are redelivered", c.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consumerStates returns the consumers of a stream that the store or its checkpoint has, by name. previous may be nil.
func (in *inspector) consumerStates(ctx context.Context, s jetstream.Stream, stream string, previous *streamCheckpoint) (map[string]*consumerState, error) {
	states := map[string]*consumerState{}
	state := func(name string) *consumerState {
		if states[name] == nil {
			states[name] = &consumerState{name: name}
		}
		return states[name]
	}
	dirs, err := glob(in.dir, "jetstream/*/streams/"+stream+"/obs/*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		state(filepath.Base(dir)).dir = dir
	}
	if previous != nil {
		for name, saved := range previous.Consumers {
			state(name).saved = saved
		}
	}
	consumers := s.ListConsumers(ctx)
	for c := range consumers.Info() {
		state(c.Name).loaded = c
	}
	return states, consumers.Err()
}

// intact reports whether the ack floor of a consumer agrees with the recorded one of the checkpoint. The floor can differ after
// a crash, when the checkpoint is not exact.
func intact(floor, recorded uint64, s jetstream.StreamState, exact bool) bool {
	switch {
	case floor == recorded:
		return true
	case recorded > s.LastSeq: // the stream lost its end, and the server moved the floor down to it
		return true
	case floor > recorded: // messages were acknowledged after the checkpoint, or expired: then the server moved the floor up
		return !exact || floor < s.FirstSeq
	}
	return !exact && floor > 0 // the server has stored an older floor; 0 means that it has lost the state
}

// recreateConsumer creates a durable consumer that continues after its checkpoint.
func (in *inspector) recreateConsumer(ctx context.Context, s jetstream.Stream, i *jetstream.StreamInfo, name string, saved *consumerCheckpoint) error {
	config := saved.Config
	config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverAllPolicy, 0
	position := "redelivers the messages of the stream"
	if i.Config.Retention != jetstream.WorkQueuePolicy && saved.Floor > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, min(saved.Floor, i.State.LastSeq)+1
		position = "continues after sequence " + strconv.FormatUint(config.OptStartSeq-1, 10)
	}
	if _, err := s.CreateConsumer(ctx, config); err != nil {
		return fmt.Errorf("recreate consumer %s of %s: %w", name, i.Config.Name, err)
	}
	return in.addRepaired(i.Config.Name, "the state of consumer %s was damaged: it was recreated and %s", name, position)
}

// setAside moves the unreadable files of a consumer to another directory, so that the consumer can be recreated. It returns
// saved; if that is nil, it returns the configuration in these files, or nil if that is unreadable too.
func (in *inspector) setAside(stream, dir string, saved *consumerCheckpoint) (*consumerCheckpoint, error) {
	if saved == nil {
		data, err := os.ReadFile(filepath.Join(dir, "meta.inf"))
		config := new(consumerCheckpoint)
		if err == nil && json.Unmarshal(data, &config.Config) == nil && config.Config.Durable != "" {
			saved = config
		}
	}
	return saved, moveAside(in.dir, dir, stream+"."+filepath.Base(dir))
}

// moveAside moves the files of a stream or a consumer out of the store.
func moveAside(dir, from, name string) error {
	aside := filepath.Join(dir, asideName)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	return os.Rename(from, filepath.Join(aside, fmt.Sprintf("%s.%d", name, time.Now().UnixNano())))
}
