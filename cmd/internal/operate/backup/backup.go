// Package backup copies the streams of a pipeline into a directory while the pipeline runs. A server restored from that directory
// continues from that state: each outcome and vote counts once, as without the restore.
//
// # Contents of a backup
//
// A backup is a directory. It has one directory for each stream, with the server's snapshot and its configuration as jsm.go
// writes and restores them (the nats command line can read them, too). The file manifest.json is written last. It has the
// positions of the roles, and for each stream the message count, the first and last sequence and the SHA-256 of its files.
// Snapshots keep sequences, times and headers. Publishing the messages again would not keep them, and Delta.Floor, the
// handles and the votes depend on the sequences. The hashes detect damage, not attacks: an attacker who can write the files
// can also write the manifest.
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
//   - Tasks are copied before executions. So a task that the backup lacks has its execution in the backup. Dead letters are
//     copied after the tasks and before all others. If dead letters are requeued during a backup, take another backup.
//   - The deltas are copied before the reflections, and the reflections before the executions. So the backup has
//     everything that a delta or a reflection refers to. After a restore, no new message gets a sequence to which one of
//     them refers. Payloads are stored before the messages that refer to them, so they are copied last.
//
// A snapshot ends at one sequence, but it lacks messages that are removed during the copy. If a newer value replaces
// an old one, the snapshot may have neither. This is harmless for tasks (acknowledged, and the execution is copied
// later), for vectors (embedded again) and for windows (the oldest entries are missing). The progress of runs over data
// sets (KV_runs) must be whole, so its snapshot is repeated until nothing was removed during it. The manifest has the
// number of removed messages, and a restore accepts no larger loss.
//
// After a restore each stream has a mark (streams.MetadataRestored). With it, roles look up earlier events in the log,
// because the server's de-duplication window is empty.
package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/jsm.go"
	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/erasure"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// Streams returns the names of all streams of a backup, in the order of copying.
func Streams() []string {
	return []string{
		"KV_" + events.BucketRuns, events.StreamTasks, events.StreamDead,
		events.StreamDeltas, events.StreamRedactions, // after the deltas: a delta that is missing there has its redaction
		events.StreamReflections, events.StreamExecutions,
		"KV_" + events.BucketWindow, "KV_" + events.BucketState, "KV_" + events.BucketContexts, "KV_" + events.BucketVectors, "KV_" + events.BucketOpen, "KV_" + events.BucketCaptures,
		erasure.Stream, "OBJ_" + events.BucketBlobs,
	}
}

// readers are the roles with a position in a stream, by the name of the stream. TASKS is a work queue and needs no position.
var readers = map[string]string{
	events.StreamExecutions: events.RoleReflector, events.StreamReflections: events.RoleCurator,
}

// serverTimeout is the maximum time without a message from the server.
const serverTimeout = 30 * time.Second

// Sizes of the parts of a snapshot, in bytes. A server that syncs after each message (natsd.Config.Sync) does so for each restored one. It
// gives up a restore if it works for more than 5 s on one chunk, or on one block of the compressed file (nats-server 2.15.2,
// processStreamRestore). So restoreChunk and blockSize are small: a few hundred of our messages. The default for a block is 1 MiB.
const (
	createChunk  = 256 << 10
	restoreChunk = 4 << 10
	blockSize    = 16 << 10
)

// Create copies the streams into a temporary directory, and renames the directory at the end. program is the version of the program.
func (d *Dir) Create(ctx context.Context, conn *bus.Conn, program string) (*Manifest, error) {
	began := time.Now().UTC()
	m := &Manifest{
		Format: formatName, Version: formatVersion, Created: began, Program: program,
		Server: conn.NATS().ConnectedServerVersion(), Positions: map[string]uint64{}, dir: d.Name,
	}
	for _, role := range readers {
		l, err := conn.Consumers.Lag(ctx, role)
		if err != nil {
			return nil, err
		}
		m.Positions[role] = l.Floor
	}
	for _, name := range Streams() {
		s, err := copyStream(ctx, conn, name, filepath.Join(d.tmp, name))
		if err != nil {
			return nil, fmt.Errorf("copy stream %s: %w", name, err)
		}
		m.Streams = append(m.Streams, *s)
	}
	m.Duration = time.Since(began)
	if err := d.publish(m); err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	return m, nil
}

// runsAttempts limits the snapshots of KV_runs until nothing is removed during one. The stream is small, and a snapshot
// takes milliseconds. A run over a data set writes its progress every few samples.
const runsAttempts = 50

// copyStream copies one stream into dir.
func copyStream(ctx context.Context, conn *bus.Conn, name, dir string) (*Stream, error) {
	for range runsAttempts {
		s, err := snapshot(ctx, conn, name, dir)
		if err != nil || s.Removed == 0 || name != "KV_"+events.BucketRuns {
			return s, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("changed during each of %d snapshots: repeat the backup when fewer runs are active", runsAttempts)
}

// snapshot copies one stream into dir and counts the messages removed meanwhile. jsm.go waits without limit for the rest of a
// snapshot, so a timer ends the copy if nothing arrives.
func snapshot(ctx context.Context, conn *bus.Conn, name, dir string) (*Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(serverTimeout, func() {
		cancel(fmt.Errorf("no message from the server for %s: %w", serverTimeout, nats.ErrTimeout))
	})
	defer idle.Stop()
	var received atomic.Uint64
	notify := func(p jsm.SnapshotProgress) { // also called each second, and by several goroutines
		if n := p.BytesReceived(); received.Swap(n) != n {
			idle.Reset(serverTimeout)
		}
	}
	err := call(ctx, conn, name, func(ctx context.Context, manager *jsm.Manager) error {
		stream, err := manager.LoadStream(name)
		if err != nil {
			return err
		}
		_, err = stream.SnapshotToDirectory(ctx, dir, jsm.SnapshotHealthCheck(), jsm.SnapshotChunkSize(createChunk), jsm.SnapshotNotify(notify))
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := shrinkBlocks(dir); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	meta, err := readMetadata(dir)
	if err != nil {
		return nil, err
	}
	after, err := conn.JetStream().Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	now := after.CachedInfo().State
	added := now.LastSeq - meta.State.LastSeq
	s := &Stream{
		Name: name, Messages: meta.State.Msgs, First: meta.State.FirstSeq, Last: meta.State.LastSeq,
		Removed:  meta.State.Msgs + added - now.Msgs, // since the snapshot began
		Replicas: max(meta.Config.Replicas, 1),
	}
	s.Files, s.Size, err = hashFiles(dir)
	return s, err
}

// shrinkBlocks compresses the messages of a snapshot again, in blocks of blockSize.
func shrinkBlocks(dir string) error {
	name, err := jsm.SnapshotDataPath(dir)
	if err != nil {
		return err
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(name+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := s2.NewWriter(out, s2.WriterBlockSize(blockSize))
	_, err = io.Copy(w, s2.NewReader(in))
	if err := errors.Join(err, w.Close(), out.Close(), in.Close()); err != nil { // Windows replaces no open file
		return err
	}
	return os.Rename(name+".new", name)
}

// call calls fn with a client of the server's snapshot API. That client ignores ctx until its timeout. So call does not wait for
// fn after ctx ends, or after the server denies a request about the stream. Then it returns the cause of that, also if fn has a result.
func call(ctx context.Context, conn *bus.Conn, stream string, fn func(context.Context, *jsm.Manager) error) error {
	manager, err := jsm.New(conn.NATS(), jsm.WithTimeout(serverTimeout))
	if err != nil {
		return err
	}
	return natserr.Do(ctx, natserr.WatchOf(conn.JetStream()), stream, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx) // ends the timers of jsm.go
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- fn(ctx, manager) }()
		select {
		case err := <-result:
			if ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	})
}

// NotEmptyError is returned if streams to restore are not empty.
type NotEmptyError struct{ Streams []string }

func (e *NotEmptyError) Error() string {
	return "streams are not empty: " + strings.Join(e.Streams, ", ")
}

// IncompleteError is returned by a restore that has deleted streams and has not created all of them.
type IncompleteError struct{ err error }

func (e *IncompleteError) Error() string { return e.err.Error() }

func (e *IncompleteError) Unwrap() error { return e.err }

// Restore creates the streams of a verified backup. Existing streams of these names must be empty; with replace they
// are deleted with their contents. An interrupted restore returns an *IncompleteError. It leaves some streams behind, and a mark for which
// programs refuse the server (streams.MetadataRestoring): repeat it with replace. The server must have the stream of the mark. After
// any other error all streams are as before.
//
// A server that has erasures keeps its own, which may be newer than those of the backup. The restored data of erased runs is not used, and
// the next run of package erase removes it again.
//
// The configurations of the streams are this program's, with the limits of the backup: a forged backup cannot make the server republish
// messages into the log of the playbooks.
func (m *Manifest) Restore(ctx context.Context, conn *bus.Conn, replicas int, replace bool) error {
	if err := m.keepErasures(ctx, conn); err != nil {
		return err
	}
	configs, err := m.configs(replicas)
	if err != nil {
		return err
	}
	names, err := m.replacedStreams(ctx, conn, replace)
	if err != nil {
		return err
	}
	if err := markRestoring(ctx, conn.JetStream(), time.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	if err := m.replaceStreams(ctx, conn, names, configs); err != nil {
		return &IncompleteError{err}
	}
	return nil
}

// replaceStreams deletes the named streams, creates those of the backup, and removes the mark of the restore.
func (m *Manifest) replaceStreams(ctx context.Context, conn *bus.Conn, names []string, configs []api.StreamConfig) error {
	for _, name := range names {
		if err := deleteStream(ctx, conn, name); err != nil {
			return err
		}
	}
	for i := range m.Streams {
		s := &m.Streams[i]
		if err := m.restoreStream(ctx, conn, s, configs[i]); err != nil {
			return fmt.Errorf("restore stream %s: %w", s.Name, err)
		}
		if role := readers[s.Name]; role != "" {
			if err := conn.Consumers.CreateAfter(ctx, role, m.Positions[role]); err != nil {
				return err
			}
		}
	}
	if err := erasure.NewStore(conn.JetStream()).MarkRestored(ctx); err != nil {
		return fmt.Errorf("mark the erasures: %w", err)
	}
	return markRestoring(ctx, conn.JetStream(), "")
}

// markRestoring sets the mark of a restore that is not complete: the time of its beginning. An empty time removes the mark.
func markRestoring(ctx context.Context, js jetstream.JetStream, began string) error {
	s, err := js.Stream(ctx, streams.Attempts)
	if err != nil {
		return fmt.Errorf("mark the restore: open stream %s: %w", streams.Attempts, err)
	}
	config := s.CachedInfo().Config
	metadata := map[string]string{}
	maps.Copy(metadata, config.Metadata)
	delete(metadata, streams.MetadataRestoring)
	if began != "" {
		metadata[streams.MetadataRestoring] = began
	}
	config.Metadata = metadata
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("mark the restore in stream %s: %w", streams.Attempts, err)
	}
	return nil
}

// keepErasures removes the erasures from the streams to restore if the server has some.
func (m *Manifest) keepErasures(ctx context.Context, conn *bus.Conn) error {
	s, err := conn.JetStream().Stream(ctx, erasure.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open stream %s: %w", erasure.Stream, err)
	}
	if s.CachedInfo().State.Msgs > 0 {
		m.Streams = slices.DeleteFunc(m.Streams, func(s Stream) bool { return s.Name == erasure.Stream })
	}
	return nil
}

// UseErasures takes the erasures of another backup, such as a newer one, in place of those of m.
func (m *Manifest) UseErasures(other *Manifest) error {
	i := slices.IndexFunc(other.Streams, func(s Stream) bool { return s.Name == erasure.Stream })
	if i < 0 {
		return invalid("%s: has no stream %s", other.dir, erasure.Stream)
	}
	newer := other.Streams[i]
	newer.dir = other.dir
	m.Streams = slices.DeleteFunc(m.Streams, func(s Stream) bool { return s.Name == erasure.Stream })
	m.Streams = append(m.Streams, newer)
	return nil
}

// dirOf returns the directory with the files of a stream.
func (m *Manifest) dirOf(s *Stream) string { return filepath.Join(cmp.Or(s.dir, m.dir), s.Name) }

// configs returns the configurations of the streams with a number of replicas and the mark of a restored stream. They are those of this
// program, with the limits, the placement and the compression of the backup.
func (m *Manifest) configs(replicas int) (all []api.StreamConfig, err error) {
	for i := range m.Streams {
		s := &m.Streams[i]
		meta, err := readMetadata(m.dirOf(s))
		if err != nil {
			return nil, invalid("%s/%s: configuration of stream %s: %v", s.Name, jsm.SnapshotMetaFile, s.Name, err)
		}
		config, err := ownConfig(s.Name, replicas)
		if err != nil {
			return nil, err
		}
		config.MaxAge, config.MaxBytes, config.Compression = meta.Config.MaxAge, meta.Config.MaxBytes, meta.Config.Compression
		if config.Discard == api.DiscardOld { // a cache
			config.MaxMsgs = meta.Config.MaxMsgs
		}
		if replicas > 1 {
			config.Placement = meta.Config.Placement
		}
		config.Metadata = map[string]string{streams.MetadataRestored: fmt.Sprint(s.Last)}
		all = append(all, config)
	}
	return all, nil
}

// ownConfig returns the configuration that this program creates a stream with.
func ownConfig(name string, replicas int) (config api.StreamConfig, err error) {
	for _, c := range streams.All(replicas) {
		if c.Name != name {
			continue
		}
		data, err := json.Marshal(c)
		if err != nil {
			return config, err
		}
		return config, json.Unmarshal(data, &config)
	}
	return config, fmt.Errorf("unknown stream %q", name)
}

// replacedStreams returns the names of the streams that a restore deletes. Without replace it returns an error if one of them is not empty.
func (m *Manifest) replacedStreams(ctx context.Context, conn *bus.Conn, replace bool) (names []string, err error) {
	var notEmpty []string
	for _, s := range m.Streams {
		names = append(names, s.Name)
	}
	names = append(names, "KV_"+events.BucketPlaybook) // the view, which is computed from the log
	for _, name := range names {
		old, err := conn.JetStream().Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open stream %s: %w", name, err)
		}
		if old.CachedInfo().State.Msgs > 0 {
			notEmpty = append(notEmpty, name)
		}
	}
	if len(notEmpty) > 0 && !replace {
		return nil, &NotEmptyError{notEmpty}
	}
	return names, nil
}

// deleteStream deletes a stream if it exists.
func deleteStream(ctx context.Context, conn *bus.Conn, name string) error {
	if err := conn.JetStream().DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete stream %s: %w", name, err)
	}
	return nil
}

// A restore is repeated after a deletion and a pause, because of a defect of nats-server 2.15.2. The server removes the files of a deleted
// stream in the background. If the stream is restored and deleted again before that ends, its files stay in place (filestore.go, Delete),
// and the next restore reports "expected sequence does not match store".
const (
	codeRestoreFailed = 10062 // the server could not restore the snapshot
	restoreAttempts   = 5
	restorePause      = 100 * time.Millisecond // doubled after each attempt
)

// restoreStream restores one stream.
func (m *Manifest) restoreStream(ctx context.Context, conn *bus.Conn, s *Stream, config api.StreamConfig) error {
	pause := restorePause
	for attempt := 1; ; attempt++ {
		var got *api.StreamState
		err := call(ctx, conn, s.Name, func(ctx context.Context, manager *jsm.Manager) (err error) {
			_, got, err = manager.RestoreSnapshotFromDirectory(ctx, s.Name, m.dirOf(s),
				jsm.RestoreConfiguration(config), jsm.SnapshotChunkSize(restoreChunk))
			return err
		})
		if err == nil && !s.matches(got, &config) {
			return fmt.Errorf("the server has %d messages up to sequence %d, the backup has %d up to %d", got.Msgs, got.LastSeq, s.Messages, s.Last)
		}
		if !jsm.IsNatsError(err, codeRestoreFailed) || attempt == restoreAttempts {
			return err
		}
		if err := deleteStream(ctx, conn, s.Name); err != nil {
			return err
		}
		if err := events.Sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
}

// matches reports whether a restored stream has the messages of the backup, except those that were removed during its snapshot, and
// those that have expired since. An age limit removes the oldest messages, and a limit of a message itself removes any.
func (s *Stream) matches(restored *api.StreamState, config *api.StreamConfig) bool {
	if restored.LastSeq != s.Last || restored.Msgs > s.Messages {
		return false
	}
	maxMissing := s.Removed
	switch {
	case config.AllowMsgTTL:
		maxMissing = s.Messages
	case config.MaxAge > 0:
		maxMissing += max(restored.FirstSeq, s.First) - s.First
	}
	return s.Messages-restored.Msgs <= maxMissing
}

// metadata is the file that jsm.go writes beside a snapshot.
type metadata struct {
	Config api.StreamConfig `json:"config"`
	State  api.StreamState  `json:"state"`
}

func readMetadata(dir string) (*metadata, error) {
	data, err := os.ReadFile(filepath.Join(dir, jsm.SnapshotMetaFile))
	if err != nil {
		return nil, err
	}
	m := new(metadata)
	return m, json.Unmarshal(data, m)
}
