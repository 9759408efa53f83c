// Package backup copies what a pipeline has stored into one file while it runs, and makes a server of that file from which
// the pipeline goes on as if nothing had happened since: what was counted is not counted again, and what was not, is.
//
// # What is in a backup
//
// A tar archive: debrief-backup.json (what this is), then each stream as the server's own snapshot of it, cut into pieces
// <stream>/000001 …, then manifest.json: of each stream its count, first and last sequence, its configuration and the
// SHA-256 of its snapshot, and the positions of the roles. A snapshot keeps sequences, times and headers, which publishing
// everything again would not; the deltas' floors, handles and votes rest on those sequences. The hashes tell damage, not
// malice: whoever can write the file can write its manifest, too.
//
// The view of the playbooks is in it as well, so that a restored server shows at once what it had.
//
// # Why it can be taken while everything runs
//
// Streams are taken one after the other, so they are of different moments. The order makes every difference one that a
// crash makes, too:
//
//   - The positions come first. What was settled by then has its effect in what is taken later; what was settled
//     since is delivered once more after a restore, and found done.
//   - Tasks come before executions: a task that is gone by then has its execution. Dead letters come after the tasks and
//     before all else; who requeues letters during a backup should take another.
//   - The view comes before the deltas, which may be ahead of it as after a crash; the deltas before the reflections and
//     those before the executions, so that everything a delta or a reflection refers to is there and no sequence that they
//     know is given out anew. Payloads, which are stored before what refers to them, come last.
//
// A snapshot ends at one sequence, and yet lacks what is removed while the server copies: a value that a later one took
// the place of is then gone without the later one. That does no harm to a task (it is settled, and its execution copied
// later), to the view (it is made anew from the deltas), to a vector (it is asked for again) and to a window (it lacks its
// oldest). The state of a run is copied again until it stood still. How much was removed is in the manifest, and no more
// than that may be missing after a restore.
//
// After a restore everything in it is marked as perhaps published before (bus.MetadataRestored), so that roles look it up
// in the log itself instead of trusting the server's memory for ids, which is over then.
package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/denied"
)

// Streams are the names of all that is in a backup, in the order in which it is taken.
func Streams() []string {
	return []string{
		"KV_" + events.BucketRuns, events.StreamTasks, events.StreamDead,
		"KV_" + events.BucketPlaybook, events.StreamDeltas, events.StreamReflections, events.StreamExecutions,
		"KV_" + events.BucketWindow, "KV_" + events.BucketContexts, "KV_" + events.BucketVectors, "OBJ_" + events.BucketBlobs,
	}
}

// roles with a position, by the stream that it is in. The tasks are a work queue, which has none: what is left is left.
var roles = map[string]string{
	events.StreamExecutions: events.RoleReflector, events.StreamReflections: events.RoleCurator,
}

// Progress is told how many bytes of which stream have been copied.
type Progress func(stream string, bytes int64)

// Create writes a backup of some streams, or of all where none is named.
func Create(ctx context.Context, conn *bus.Conn, only []string, program string, out io.Writer, tell Progress) (*Manifest, error) {
	began := time.Now().UTC()
	m := &Manifest{Created: began, Program: program, Server: conn.NATS().ConnectedServerVersion(), Positions: map[string]uint64{}}
	w, err := newWriter(out, began)
	if err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	for _, role := range roles {
		l, err := conn.Lag(ctx, role)
		if err != nil {
			return nil, err
		}
		m.Positions[role] = l.Floor
	}
	for _, name := range Streams() {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		s, err := copyStream(ctx, conn, name, w, tell)
		if err != nil {
			return nil, fmt.Errorf("copy stream %s: %w", name, err)
		}
		m.Streams = append(m.Streams, *s)
	}
	m.Took = time.Since(began)
	if err := w.close(m); err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	return m, nil
}

// stillTries is how often the state of runs is copied until nothing of it is removed meanwhile. It is small and takes
// milliseconds; a run writes its state every few samples.
const stillTries = 50

// copyStream writes one stream into the archive.
func copyStream(ctx context.Context, conn *bus.Conn, name string, w *writer, tell Progress) (*Stream, error) {
	s, sum := &Stream{Name: name}, newSum()
	add := func(data []byte) error {
		s.Pieces++
		s.Size += int64(len(data))
		sum.Write(data)
		if tell != nil {
			tell(name, s.Size)
		}
		return w.piece(name, s.Pieces, data)
	}
	if name != "KV_"+events.BucketRuns {
		if err := s.take(ctx, conn, add); err != nil {
			return nil, err
		}
	} else {
		pieces, err := s.takeStill(ctx, conn)
		if err != nil {
			return nil, err
		}
		for _, data := range pieces {
			if err := add(data); err != nil {
				return nil, err
			}
		}
	}
	s.SHA256 = sum.String()
	return s, nil
}

// take copies the stream and notes what was removed from it meanwhile.
func (s *Stream) take(ctx context.Context, conn *bus.Conn, fn func([]byte) error) (err error) {
	err = denied.Do(ctx, denied.Of(conn.JetStream()), s.Name, func(ctx context.Context) (err error) {
		s.Config, s.Server, err = take(ctx, conn.NATS(), s.Name, fn)
		return err
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(s.Server, &s.State); err != nil {
		return err
	}
	after, err := conn.JetStream().Stream(ctx, s.Name)
	if err != nil {
		return err
	}
	now := after.CachedInfo().State
	s.Removed = s.State.Messages + (now.LastSeq - s.State.Last) - now.Msgs
	return nil
}

// takeStill copies the stream into memory, until nothing was removed from it meanwhile.
func (s *Stream) takeStill(ctx context.Context, conn *bus.Conn) (pieces [][]byte, err error) {
	for range stillTries {
		pieces = nil
		err := s.take(ctx, conn, func(data []byte) error {
			pieces = append(pieces, data)
			return nil
		})
		if err != nil || s.Removed == 0 {
			return pieces, err
		}
	}
	return nil, fmt.Errorf("it was written to each of %d times: take the backup again when fewer runs are at work", stillTries)
}

// Verify reads all of a backup and returns its manifest, or a *DamagedError.
func Verify(in io.Reader) (*Manifest, error) { return walk(in, nil) }

// InUseError is returned when streams that a restore would make hold something.
type InUseError struct{ Streams []string }

func (e *InUseError) Error() string {
	return "there is something stored already in " + strings.Join(e.Streams, ", ")
}

// Restore makes streams of a backup that was verified. Streams of the same names must be empty, or else, with replace, are
// deleted with all that is in them. Cut short it leaves some of them made: it is to be done again, with replace.
//
// A stream that is configured otherwise than this program configures it is refused, before anything is touched: a
// forged file could make the server republish into the log of the playbooks.
func Restore(ctx context.Context, conn *bus.Conn, m *Manifest, in io.Reader, replicas int, replace bool, tell Progress) error {
	if err := m.checkConfigs(); err != nil {
		return err
	}
	if err := clearWay(ctx, conn, m, replace); err != nil {
		return err
	}
	// The pieces are read as one stream after the other, while the server takes each.
	var given chan error // of the stream that is being given
	var pipe *io.PipeWriter
	var sent int64
	finish := func(err error) error {
		if pipe == nil {
			return nil
		}
		pipe.CloseWithError(err) // nil is the end
		pipe = nil
		return <-given
	}
	current := ""
	_, err := walk(in, func(name string, data []byte) error {
		if name != current {
			if err := finish(nil); err != nil {
				return err
			}
			i := slices.IndexFunc(m.Streams, func(s Stream) bool { return s.Name == name })
			if i < 0 {
				return damaged("it has changed since it was verified")
			}
			var r *io.PipeReader
			r, pipe = io.Pipe()
			current, sent, given = name, 0, make(chan error, 1)
			go func() {
				err := restoreOne(ctx, conn, m, &m.Streams[i], r, replicas)
				r.CloseWithError(cmpErr(err, io.ErrClosedPipe))
				given <- err
			}()
		}
		sent += int64(len(data))
		if tell != nil {
			tell(name, sent)
		}
		if _, err := pipe.Write(data); err != nil {
			return finish(err)
		}
		return nil
	})
	return errors.Join(err, finish(err))
}

// checkConfigs refuses a stream whose configuration is not this program's.
func (m *Manifest) checkConfigs() error {
	for _, s := range m.Streams {
		if err := bus.CheckConfig(s.Name, s.Config, s.State.Bytes); err != nil {
			return damaged("configuration of stream %s: %v", s.Name, err)
		}
	}
	return nil
}

// clearWay deletes what is in the way, if it may.
func clearWay(ctx context.Context, conn *bus.Conn, m *Manifest, replace bool) error {
	js := conn.JetStream()
	var there, full []string
	for _, s := range m.Streams {
		old, err := js.Stream(ctx, s.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open stream %s: %w", s.Name, err)
		}
		there = append(there, s.Name)
		if old.CachedInfo().State.Msgs > 0 {
			full = append(full, s.Name)
		}
	}
	if len(full) > 0 && !replace {
		return &InUseError{full}
	}
	for _, name := range there {
		if err := js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("delete stream %s: %w", name, err)
		}
	}
	return nil
}

// restoreOne makes one stream, and the durable of its role where that stood.
func restoreOne(ctx context.Context, conn *bus.Conn, m *Manifest, s *Stream, in io.Reader, replicas int) error {
	config, err := configFor(s, replicas)
	if err != nil {
		return damaged("%s: its configuration: %v", s.Name, err)
	}
	got, err := denied.Call(ctx, denied.Of(conn.JetStream()), s.Name, func(ctx context.Context) (State, error) {
		return give(ctx, conn.NATS(), s.Name, config, s.Server, in)
	})
	if err != nil {
		return fmt.Errorf("restore stream %s: %w", s.Name, err)
	}
	if got.Messages != s.State.Messages || got.Last != s.State.Last {
		less := got.Last == s.State.Last && got.Messages < s.State.Messages
		removed := less && s.State.Messages-got.Messages <= s.Removed
		aged := less && got.First > s.State.First // the age of what is in it counts on: some of it may have expired meanwhile
		if !removed && !aged {
			return fmt.Errorf("restore stream %s: the server has %d messages up to %d of it, the backup has %d up to %d",
				s.Name, got.Messages, got.Last, s.State.Messages, s.State.Last)
		}
	}
	if role := roles[s.Name]; role != "" {
		return conn.Resume(ctx, role, m.Positions[role])
	}
	return nil
}

// Replicas is how many servers kept the stream.
func (s *Stream) Replicas() int {
	var config struct {
		Replicas int `json:"num_replicas"`
	}
	_ = json.Unmarshal(s.Config, &config) // the server wrote it; what is no configuration is refused when it is restored
	return max(config.Replicas, 1)
}

// configFor is the configuration of a stream, with as many replicas as are asked for and the mark of what was restored.
// What this program does not know of it is kept.
func configFor(s *Stream, replicas int) (json.RawMessage, error) {
	config := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(s.Config))
	d.UseNumber() // limits do not fit a float
	if err := d.Decode(&config); err != nil {
		return nil, err
	}
	config["num_replicas"] = replicas
	if replicas == 1 {
		delete(config, "placement")
	}
	meta, _ := config["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta[bus.MetadataRestored] = fmt.Sprint(s.State.Last)
	config["metadata"] = meta
	return json.Marshal(config)
}
