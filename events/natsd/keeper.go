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

// markEvery is how often marks are written while the server runs. Older marks find less.
const markEvery = 10 * time.Second

// lookTimeout bounds one look at all streams.
const lookTimeout = 20 * time.Second

// maxDetails is how many deleted messages a stream may have for its details to be asked for, which list them all.
const maxDetails = 50_000

// keeper compares the store of a server with the marks of the run before, recreates damaged consumers, and writes marks.
type keeper struct {
	s   *Server
	dir string
	nc  *nats.Conn
	js  jetstream.JetStream

	stop chan struct{}
	done sync.WaitGroup
}

// keep examines the store and starts to write marks.
func (s *Server) keep(dir string) (*keeper, error) {
	nc, err := s.Connect()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	k := &keeper{s: s, dir: dir, nc: nc, js: js, stop: make(chan struct{})}
	if err := k.look(readMarks(dir), false); err != nil {
		return nil, fmt.Errorf("examine the streams in %s: %w", dir, err)
	}
	k.done.Go(func() {
		t := time.NewTicker(markEvery)
		defer t.Stop()
		for {
			select {
			case <-k.stop:
				return
			case <-t.C:
				k.tell(k.look(nil, false))
			}
		}
	})
	return k, nil
}

// close writes the last marks. Other connections from within the process are closed by then.
func (k *keeper) close() {
	close(k.stop)
	k.done.Wait()
	k.tell(k.look(nil, k.alone()))
	k.nc.Close()
}

// alone waits a moment for the other connections to end, and reports whether they have.
func (k *keeper) alone() bool {
	for range 50 {
		if k.s.srv.Load().NumClients() <= 1 {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func (k *keeper) tell(err error) {
	if err != nil && k.s.config.OnError != nil {
		k.s.config.OnError(fmt.Sprintf("examine the streams: %v", err))
	}
}

// look writes marks of all streams. Losses, compared with the marks before where there are any, become damage.
func (k *keeper) look(before *marks, exact bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	now := &marks{Exact: exact, Streams: map[string]*streamMark{}}
	streams := k.js.ListStreams(ctx)
	for i := range streams.Info() {
		s, err := k.js.Stream(ctx, i.Config.Name)
		if err != nil {
			return err
		}
		if i.State.NumDeleted <= maxDetails {
			if i, err = s.Info(ctx, jetstream.WithDeletedDetails(true)); err != nil { // these include lost messages
				return err
			}
		}
		mark := &streamMark{Messages: i.State.Msgs, Last: i.State.LastSeq, FirstTime: i.State.FirstTime, Consumers: map[string]*consumerMark{}}
		now.Streams[i.Config.Name] = mark
		var was *streamMark
		if before != nil {
			was = before.Streams[i.Config.Name]
			if err := k.recreate(ctx, s, i, was, before.Exact); err != nil {
				return err
			}
		}
		if text := lost(i, was, before != nil && before.Exact); text != "" {
			k.add(i.Config.Name, "%s", text)
		}
		consumers := s.ListConsumers(ctx)
		for c := range consumers.Info() {
			if c.Config.Durable != "" {
				mark.Consumers[c.Name] = &consumerMark{c.Config, c.AckFloor.Stream}
			}
		}
		if err := consumers.Err(); err != nil {
			return err
		}
	}
	if err := streams.Err(); err != nil {
		return err
	}
	if before != nil {
		for name, was := range before.Streams {
			if now.Streams[name] == nil {
				k.add(name, "is gone, with %d messages up to sequence %d", was.Messages, was.Last)
			}
		}
	}
	return now.write(k.dir)
}

func (k *keeper) add(stream, format string, args ...any) {
	k.tell(addDamage(k.dir, Damage{Time: time.Now().UTC(), Stream: stream, Text: fmt.Sprintf(format, args...)}))
}

func (k *keeper) repaired(stream, format string, args ...any) {
	k.tell(addDamage(k.dir, Damage{Time: time.Now().UTC(), Stream: stream, Text: fmt.Sprintf(format, args...), Repaired: true}))
}

// recreate recreates the durables of a stream whose state cannot be read or went back. They continue after the last mark:
// messages that were acknowledged since then are redelivered.
func (k *keeper) recreate(ctx context.Context, s jetstream.Stream, i *jetstream.StreamInfo, was *streamMark, exact bool) error {
	on, err := filepath.Glob(filepath.Join(k.dir, "jetstream", "*", "streams", i.Config.Name, "obs", "*"))
	if err != nil {
		return err
	}
	names := map[string]string{} // the directory of each
	for _, dir := range on {
		names[filepath.Base(dir)] = dir
	}
	if was == nil {
		was = &streamMark{}
	}
	for name := range was.Consumers {
		if _, ok := names[name]; !ok {
			names[name] = "" // its directory is gone
		}
	}
	for name, dir := range names {
		mark := was.Consumers[name]
		c, err := s.Consumer(ctx, name)
		switch {
		case err == nil && mark == nil:
			continue
		case err == nil:
			floor := c.CachedInfo().AckFloor.Stream
			if intact(floor, mark.Floor, i.State, exact) {
				continue
			}
			if err := s.DeleteConsumer(ctx, name); err != nil {
				return err
			}
		case dir != "":
			if mark, err = k.setAside(i.Config.Name, dir, mark); err != nil {
				return err
			}
		}
		if mark == nil {
			k.repaired(i.Config.Name, "the files of consumer %s cannot be read; its role creates it again, and all messages are redelivered", name)
			continue
		}
		if err := k.remake(ctx, s, i, name, mark); err != nil {
			return err
		}
	}
	return nil
}

// intact reports whether the ack floor of a consumer is the one in its mark. After a crash it may
// be somewhat older or newer. The server moves a floor up to the first message of the stream, and down to the last.
func intact(floor, mark uint64, s jetstream.StreamState, exact bool) bool {
	switch {
	case floor == mark, mark > s.LastSeq:
		return true
	case floor > mark:
		return !exact || floor < s.FirstSeq
	}
	return !exact && floor > 0
}

// remake creates a durable that continues after its mark.
func (k *keeper) remake(ctx context.Context, s jetstream.Stream, i *jetstream.StreamInfo, name string, mark *consumerMark) error {
	config, where := mark.Config, "redelivers the messages of the stream"
	config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverAllPolicy, 0
	if i.Config.Retention != jetstream.WorkQueuePolicy && mark.Floor > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, min(mark.Floor, i.State.LastSeq)+1
		where = "continues after sequence " + strconv.FormatUint(config.OptStartSeq-1, 10)
	}
	if _, err := s.CreateConsumer(ctx, config); err != nil {
		return fmt.Errorf("recreate consumer %s of %s: %w", name, i.Config.Name, err)
	}
	k.repaired(i.Config.Name, "the state of consumer %s was damaged: it was recreated and %s", name, where)
	return nil
}

// setAside moves the files of a consumer that the server cannot read, so that it can be recreated. Its configuration comes
// from them where it was not marked.
func (k *keeper) setAside(stream, dir string, mark *consumerMark) (*consumerMark, error) {
	if mark == nil {
		data, err := os.ReadFile(filepath.Join(dir, "meta.inf"))
		config := new(consumerMark)
		if err == nil && json.Unmarshal(data, &config.Config) == nil && config.Config.Durable != "" {
			mark = config
		}
	}
	aside := filepath.Join(k.dir, asideName)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s.%s.%d", stream, filepath.Base(dir), time.Now().UnixNano())
	return mark, os.Rename(dir, filepath.Join(aside, name))
}
