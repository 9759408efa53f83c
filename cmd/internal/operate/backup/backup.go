// Package backup copies the streams of a pipeline into one file while the pipeline runs. A server restored from that file continues
// from that state: each outcome and vote counts once, as without the restore.
//
// # Contents of a backup
//
// A backup is a tar archive. The first entry, debrief-backup.json, identifies the format. Then follow the server's
// snapshots of the streams, in pieces <stream>/000001 and so on. The last entry, manifest.json, has the positions of
// the roles, and for each stream the message count, the first and last sequence, the configuration and the SHA-256 of
// the snapshot. Snapshots keep sequences, times and headers. Publishing the messages again would not keep them, and the
// floors of deltas, the handles and the votes depend on the sequences. The hashes detect damage, not attacks: an
// attacker who can write the file can also write its manifest.
//
// The view of the playbooks is not included: a Curator writes it from their log.
//
// # Consistency while the pipeline runs
//
// Streams are copied one after the other, so their snapshots have different times. Because of the order, the copies
// differ only as the streams do after a crash:
//
//   - The positions are read first. The effects of messages that were acknowledged before are in the snapshots.
//     Messages that are acknowledged later are redelivered after a restore. The roles then find the effects that the
//     snapshots have, and do not repeat them.
//   - Tasks are copied before executions, so a task that is missing in its snapshot has its execution. Dead letters are
//     copied after the tasks and before all others. If dead letters are requeued during a backup, take another backup.
//   - The deltas are copied before the reflections, and the reflections before the executions. So the backup has
//     everything that a delta or a reflection refers to, and no sequence is used a second time. Payloads are stored
//     before the messages that refer to them, so they are copied last.
//
// A snapshot ends at one sequence, but it lacks messages that are removed during the copy. If a newer value replaces
// an old one, the snapshot may have neither. This is harmless for tasks (acknowledged, and the execution is copied
// later), for vectors (embedded again) and for windows (the oldest entries are missing). The state of runs must be whole,
// so its snapshot is repeated until nothing was removed during it. The manifest has the number of removed messages, and
// a restore accepts no larger loss.
//
// After a restore each stream has a mark (streams.MetadataRestored). With it, roles look up earlier events in the log,
// because the server's de-duplication window is empty.
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
	"debrief/events/natserr"
	"debrief/events/streams"
)

// Streams returns the names of all streams of a backup, in the order of copying.
func Streams() []string {
	return []string{
		"KV_" + events.BucketRuns, events.StreamTasks, events.StreamDead,
		events.StreamDeltas, events.StreamReflections, events.StreamExecutions,
		"KV_" + events.BucketWindow, "KV_" + events.BucketState, "KV_" + events.BucketContexts, "KV_" + events.BucketVectors, "KV_" + events.BucketOpen, "KV_" + events.BucketCaptures,
		"OBJ_" + events.BucketBlobs,
	}
}

// roles maps streams to the role with a position in them. TASKS is a work queue and needs no position.
var roles = map[string]string{
	events.StreamExecutions: events.RoleReflector, events.StreamReflections: events.RoleCurator,
}

// Progress is called with the number of bytes of a stream copied so far.
type Progress func(stream string, bytes int64)

// Create writes a backup of the streams in only, or of all streams if only is empty.
func Create(ctx context.Context, conn *bus.Conn, only []string, program string, out io.Writer, tell Progress) (*Manifest, error) {
	began := time.Now().UTC()
	m := &Manifest{Created: began, Program: program, Server: conn.NATS().ConnectedServerVersion(), Positions: map[string]uint64{}}
	w, err := newWriter(out, began)
	if err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	for _, role := range roles {
		l, err := conn.Consumers.Lag(ctx, role)
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
	m.Duration = time.Since(began)
	if err := w.close(m); err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	return m, nil
}

// runsAttempts limits the snapshots of the runs until nothing is removed during one. The stream is small, and a
// snapshot takes milliseconds. A run writes its state every few samples.
const runsAttempts = 50

// copyStream writes one stream to the archive.
func copyStream(ctx context.Context, conn *bus.Conn, name string, w *writer, tell Progress) (*Stream, error) {
	s := &Stream{Name: name}
	sum := newSum()
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
		if err := s.snapshot(ctx, conn, add); err != nil {
			return nil, err
		}
	} else {
		pieces, err := s.snapshotStable(ctx, conn)
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

// snapshot copies the stream and counts the messages removed meanwhile.
func (s *Stream) snapshot(ctx context.Context, conn *bus.Conn, fn func([]byte) error) (err error) {
	err = natserr.Do(ctx, natserr.WatchOf(conn.JetStream()), s.Name, func(ctx context.Context) (err error) {
		s.Config, s.Server, err = snapshot(ctx, conn.NATS(), s.Name, fn)
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
	added := now.LastSeq - s.State.Last
	s.Removed = s.State.Messages + added - now.Msgs
	return nil
}

// snapshotStable copies the stream into memory. It repeats that until nothing was removed from the stream during a copy.
func (s *Stream) snapshotStable(ctx context.Context, conn *bus.Conn) (pieces [][]byte, err error) {
	for range runsAttempts {
		pieces = nil
		err := s.snapshot(ctx, conn, func(data []byte) error {
			pieces = append(pieces, data)
			return nil
		})
		if err != nil || s.Removed == 0 {
			return pieces, err
		}
	}
	return nil, fmt.Errorf("changed during each of %d snapshots: repeat the backup when fewer runs are active", runsAttempts)
}

// Verify reads a whole backup and returns its manifest, or a *InvalidError.
func Verify(in io.Reader) (*Manifest, error) { return walk(in, nil) }

// NotEmptyError is returned if streams to restore are not empty.
type NotEmptyError struct{ Streams []string }

func (e *NotEmptyError) Error() string {
	return "streams are not empty: " + strings.Join(e.Streams, ", ")
}

// Restore creates the streams of a verified backup. Existing streams of these names must be empty; with replace they
// are deleted with their contents. An interrupted restore leaves some streams behind: repeat it with replace.
//
// Restore changes nothing and returns an error if the configuration of a stream differs from this program's. A forged
// file could otherwise make the server republish messages into the log of the playbooks.
func Restore(ctx context.Context, conn *bus.Conn, m *Manifest, in io.ReadSeeker, replicas int, replace bool, tell Progress) error {
	if err := m.checkConfigs(); err != nil {
		return err
	}
	if err := deleteStreams(ctx, conn, m, replace); err != nil {
		return err
	}
	r := &restoring{conn: conn, manifest: m, replicas: replicas, tell: tell, done: map[string]bool{}}
	for attempt := 1; ; attempt++ {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := r.restoreRest(ctx, in)
		var refused *apiError
		isLeftover := errors.As(err, &refused) && refused.ErrCode == codeRestoreFailed // see restoreAttempts
		if !isLeftover || attempt == restoreAttempts {
			return err
		}
		if err := conn.JetStream().DeleteStream(ctx, r.current); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("delete stream %s: %w", r.current, err)
		}
		select {
		case <-time.After(restorePause << attempt):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A server removes the files of a deleted stream in the background. If the stream is restored and deleted again before that ends,
// nats-server 2.15.2 leaves its files in place (filestore.go, Delete), and the next restore reports "expected sequence does not
// match store". After another deletion and a pause the restore succeeds.
const (
	restoreAttempts = 5
	restorePause    = 50 * time.Millisecond // doubled after each attempt
)

// restoring is a restore of several streams in progress.
type restoring struct {
	conn     *bus.Conn
	manifest *Manifest
	replicas int
	tell     Progress
	done     map[string]bool // streams that were restored
	current  string          // the stream that is being restored
}

// restoreRest reads a backup and restores the streams that are not restored yet. It writes the pieces of a stream to a pipe, from which
// restoreOne reads in a goroutine.
func (r *restoring) restoreRest(ctx context.Context, in io.Reader) error {
	var result chan error   // result of restoreOne for the current stream
	var pipe *io.PipeWriter // nil before the first stream, and after the end of a stream
	var sent int64          // bytes of the current stream
	finish := func(err error) error {
		if pipe == nil {
			return nil
		}
		pipe.CloseWithError(err) // nil ends the stream
		pipe = nil
		err = <-result
		r.done[r.current] = err == nil
		return err
	}
	r.current = ""
	_, err := walk(in, func(name string, data []byte) error {
		if name != r.current {
			if err := finish(nil); err != nil {
				return err
			}
			if r.done[name] {
				return nil
			}
			i := slices.IndexFunc(r.manifest.Streams, func(s Stream) bool { return s.Name == name })
			if i < 0 {
				return damaged("changed since the verification")
			}
			var out *io.PipeReader
			out, pipe = io.Pipe()
			r.current = name
			sent = 0
			result = make(chan error, 1)
			go func() {
				err := restoreOne(ctx, r.conn, r.manifest, &r.manifest.Streams[i], out, r.replicas)
				out.CloseWithError(firstErr(err, io.ErrClosedPipe))
				result <- err
			}()
		}
		sent += int64(len(data))
		if r.tell != nil {
			r.tell(name, sent)
		}
		if _, err := pipe.Write(data); err != nil {
			return finish(err)
		}
		return nil
	})
	return errors.Join(err, finish(err))
}

// checkConfigs returns an error for a stream configuration that is not this program's.
func (m *Manifest) checkConfigs() error {
	for _, s := range m.Streams {
		if err := streams.CheckConfig(s.Name, s.Config, s.State.Bytes); err != nil {
			return damaged("configuration of stream %s: %v", s.Name, err)
		}
	}
	return nil
}

// deleteStreams deletes the streams to restore. Without replace it returns an error if one of them is not empty.
func deleteStreams(ctx context.Context, conn *bus.Conn, m *Manifest, replace bool) error {
	js := conn.JetStream()
	var names, existing, notEmpty []string
	for _, s := range m.Streams {
		names = append(names, s.Name)
	}
	if m.hasPlaybooks() {
		names = append(names, viewStream)
	}
	for _, name := range names {
		old, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open stream %s: %w", name, err)
		}
		existing = append(existing, name)
		if old.CachedInfo().State.Msgs > 0 {
			notEmpty = append(notEmpty, name)
		}
	}
	if len(notEmpty) > 0 && !replace {
		return &NotEmptyError{notEmpty}
	}
	for _, name := range existing {
		if err := js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("delete stream %s: %w", name, err)
		}
	}
	return nil
}

// viewStream is the stream of the view, which is computed from the log of the playbooks.
const viewStream = "KV_" + events.BucketPlaybook

// hasPlaybooks reports whether the backup has the log of the playbooks.
func (m *Manifest) hasPlaybooks() bool {
	return slices.ContainsFunc(m.Streams, func(s Stream) bool { return s.Name == events.StreamDeltas })
}

// restoreOne restores one stream, and the durable of its role at its position.
func restoreOne(ctx context.Context, conn *bus.Conn, m *Manifest, s *Stream, in io.Reader, replicas int) error {
	config, err := configFor(s, replicas)
	if err != nil {
		return damaged("%s: configuration: %v", s.Name, err)
	}
	got, err := natserr.Call(ctx, natserr.WatchOf(conn.JetStream()), s.Name, func(ctx context.Context) (State, error) {
		return restore(ctx, conn.NATS(), s.Name, config, s.Server, in)
	})
	if err != nil {
		return fmt.Errorf("restore stream %s: %w", s.Name, err)
	}
	if !s.matches(got) {
		return fmt.Errorf("restore stream %s: the server has %d messages up to sequence %d, the backup has %d up to %d",
			s.Name, got.Messages, got.Last, s.State.Messages, s.State.Last)
	}
	if role := roles[s.Name]; role != "" {
		return conn.Consumers.CreateAfter(ctx, role, m.Positions[role])
	}
	return nil
}

// matches reports whether a restored stream has the messages of the backup, except those that were removed during its snapshot, and
// those that have expired since.
func (s *Stream) matches(restored State) bool {
	if restored.Last != s.State.Last || restored.Messages > s.State.Messages {
		return false
	}
	expired := restored.Messages < s.State.Messages && restored.First > s.State.First
	return expired || s.State.Messages-restored.Messages <= s.Removed
}

// Replicas returns the number of replicas of the stream.
func (s *Stream) Replicas() int {
	var config struct {
		Replicas int `json:"num_replicas"`
	}
	_ = json.Unmarshal(s.Config, &config) // Restore returns an error for an invalid configuration
	return max(config.Replicas, 1)
}

// configFor returns the configuration of a stream with a number of replicas and the mark of a restored stream. It
// keeps fields that are unknown to this program.
func configFor(s *Stream, replicas int) (json.RawMessage, error) {
	config := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(s.Config))
	d.UseNumber() // a float would lose digits of the limits
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
	meta[streams.MetadataRestored] = fmt.Sprint(s.State.Last)
	config["metadata"] = meta
	return json.Marshal(config)
}
