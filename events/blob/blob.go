// Package blob stores payloads that are too large for a message, and descriptions of agents, which many messages share. It keeps them in
// an object store of JetStream under the SHA-256 of their content. A blob expires by age.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
)

// The stream of the object store, and the prefix of its subjects.
const (
	Stream = "OBJ_" + events.BucketBlobs
	Prefix = "$O." + events.BucketBlobs
)

// maxSize is the largest blob that Get reads, in bytes.
const maxSize = 64 << 20

// Margin is the highest age of a blob when a message that refers to it is stored. Blobs are kept this much longer than the messages.
const Margin = 24 * time.Hour

// Put writes a blob again if it is older than renewAfter, so that it expires later. PutAgent calls Put again for the same description only after
// repeatAfter. So no blob is older than Margin when a message refers to it.
const (
	renewAfter  = Margin - repeatAfter
	repeatAfter = time.Hour
)

// ErrExpired is returned for a blob that no longer exists.
var ErrExpired = errors.New("payload expired")

// ErrInvalid is returned for a blob that does not have the hash in its name, or is too large to be read.
var ErrInvalid = errors.New("invalid blob")

// IsGone reports whether a blob can no longer be read: it has expired or is damaged.
func IsGone(err error) bool { return errors.Is(err, ErrExpired) || errors.Is(err, ErrInvalid) }

// Store is the object store of an account. It is safe for concurrent use.
type Store struct {
	js     jetstream.JetStream
	watch  *natserr.Watch
	direct *direct.Reader
	agents agents
}

// New returns a Store. A request that the server denies returns a *natserr.DeniedError if js comes from
// natserr.JetStream.
func New(js jetstream.JetStream) *Store {
	watch := natserr.WatchOf(js)
	return &Store{js: js, watch: watch, direct: direct.NewReader(js.Conn(), watch), agents: newAgents()}
}

// Put stores data and returns the name of the blob. It returns only after the server has stored all of it. data is the payload of the
// message on subject, or the description of an agent if subject is empty. An erasure needs the subject to decode the blob after
// the message is gone.
func (s *Store) Put(ctx context.Context, subject string, data []byte) (name string, err error) {
	sum := sha256.Sum256(data)
	name = hex.EncodeToString(sum[:])
	store, err := s.js.ObjectStore(ctx, events.BucketBlobs)
	if err != nil {
		return "", fmt.Errorf("open object store: %w", err)
	}
	err = natserr.Do(ctx, s.watch, Stream, func(ctx context.Context) error {
		// Keep a recent blob: writing it again would delete the chunks while another client reads them.
		if i, err := store.GetInfo(ctx, name); err == nil && time.Since(i.ModTime) < renewAfter {
			return nil
		}
		// The chunks of an old blob expire by age, because not every user may delete them.
		return s.write(ctx, name, subject, data)
	})
	if err != nil {
		return "", fmt.Errorf("put blob %s: %w", name, err)
	}
	return name, nil
}

// subjectKey is the key of the subject in the metadata of a blob.
const subjectKey = "subject"

// chunkSize is the size of the messages that contain a blob, in bytes. The default limit of a server is 1 MiB with headers.
const chunkSize = 256 << 10

// write stores the chunks of a blob and then its description, as PutBytes of an object store does, but without a rollup, which
// the stream refuses. So the descriptions of older copies stay until they expire, and the last one counts.
func (s *Store) write(ctx context.Context, name, subject string, data []byte) error {
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}},
		Bucket:     events.BucketBlobs, NUID: nuid.Next(), Size: uint64(len(data)),
	}
	if subject != "" {
		info.Metadata = map[string]string{subjectKey: subject}
	}
	for chunk := range slices.Chunk(data, chunkSize) {
		if _, err := s.js.Publish(ctx, Prefix+".C."+info.NUID, chunk); err != nil {
			return fmt.Errorf("store chunk %d: %w", info.Chunks, err)
		}
		info.Chunks++
	}
	sum := sha256.Sum256(data)
	info.Digest = "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
	description, err := json.Marshal(&info)
	if err == nil {
		_, err = s.js.Publish(ctx, descriptionOf(name), description)
	}
	return err
}

// errIncomplete is returned for a blob that the leader of the stream has, and that the replica which was read lacks or has only in part.
var errIncomplete = errors.New("not on this replica yet")

// A replica of a cluster may be behind, most of all after a restart. Any replica answers a read, so Get reads again after replicaPause,
// for up to replicaWait.
const (
	replicaWait  = 5 * time.Second
	replicaPause = 50 * time.Millisecond
)

// Get returns the content of a blob. It returns ErrExpired or ErrInvalid if no later call can return it.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	for began := time.Now(); ; {
		data, err := s.read(ctx, name)
		if !errors.Is(err, errIncomplete) || time.Since(began) > replicaWait {
			return data, err
		}
		if events.Sleep(ctx, replicaPause) != nil {
			return nil, err
		}
	}
}

// read reads a blob once. It returns errIncomplete if another replica may have it.
func (s *Store) read(ctx context.Context, name string) ([]byte, error) {
	store, err := s.js.ObjectStore(ctx, events.BucketBlobs)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", natserr.AsTimeout(ctx, err))
	}
	info, err := natserr.Call(ctx, s.watch, Stream, func(ctx context.Context) (*jetstream.ObjectInfo, error) { return store.GetInfo(ctx, name) })
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, s.explainMissing(ctx, name)
	case err != nil:
		return nil, fmt.Errorf("get blob %s: %w", name, natserr.AsTimeout(ctx, err))
	case info.Size > maxSize:
		return nil, fmt.Errorf("%w %s: must be at most %d bytes, got %d", ErrInvalid, name, maxSize, info.Size)
	}
	data, err := s.readChunks(ctx, info)
	isTooLong := errors.Is(err, ErrInvalid)
	if err != nil && !isTooLong {
		return nil, fmt.Errorf("get blob %s: %w", name, natserr.AsTimeout(ctx, err))
	}
	if uint64(len(data)) < info.Size {
		return nil, fmt.Errorf("get blob %s: read %d of %d bytes: %w", name, len(data), info.Size, errIncomplete)
	}
	if sum := sha256.Sum256(data); isTooLong || hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("%w %s: content does not match its name", ErrInvalid, name)
	}
	return data, nil
}

// explainMissing returns ErrExpired for a blob that a replica does not have, or errIncomplete if the leader of the stream has it. Only
// the leader answers about the state of a stream.
func (s *Store) explainMissing(ctx context.Context, name string) error {
	subject := descriptionOf(name)
	info, err := natserr.Call(ctx, s.watch, Stream, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		stream, err := s.js.Stream(ctx, Stream)
		if err != nil {
			return nil, err
		}
		return stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	})
	switch {
	case err != nil:
		return fmt.Errorf("get blob %s: %w", name, natserr.AsTimeout(ctx, err))
	case info.State.Subjects[subject] > 0:
		return fmt.Errorf("get blob %s: %w", name, errIncomplete)
	}
	return fmt.Errorf("blob %s: %w", name, ErrExpired)
}

// descriptionOf returns the subject of the descriptions of a blob.
func descriptionOf(name string) string {
	return Prefix + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// readChunks returns the content of an object. It returns ErrInvalid if the content exceeds the recorded size. It reads
// the chunks directly, because Get of the object store creates a consumer, and a role has no right to create one.
func (s *Store) readChunks(ctx context.Context, info *jetstream.ObjectInfo) (data []byte, err error) {
	err = s.readMessages(ctx, Prefix+".C."+info.NUID, func(m direct.Message) error {
		data = append(data, m.Data...)
		if uint64(len(data)) > info.Size {
			return ErrInvalid
		}
		return nil
	})
	return data, err
}

// All calls fn for each copy of each blob, with the subject that Put was given. The subject of an unreadable copy is empty.
func (s *Store) All(ctx context.Context, fn func(name, subject string)) error {
	return s.readMessages(ctx, Prefix+".M.>", func(m direct.Message) error {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(m.Subject, Prefix+".M."))
		if err == nil {
			fn(string(name), infoOf(m).Metadata[subjectKey])
		}
		return nil
	})
}

// infoOf returns the information in a copy, the zero value if it is unreadable.
func infoOf(m direct.Message) (info jetstream.ObjectInfo) {
	if json.Unmarshal(m.Data, &info) != nil {
		return jetstream.ObjectInfo{}
	}
	return info
}

func (s *Store) readMessages(ctx context.Context, subject string, fn func(direct.Message) error) error {
	return s.direct.Read(ctx, Stream, direct.Query{Subject: subject}, fn)
}

// Messages returns the sequences of all messages of a blob in Stream: its description and its chunks, also of older copies. It is for an
// operator who removes them. A description can name the chunks of another blob, so only chunks with the hash of the blob count.
func (s *Store) Messages(ctx context.Context, name string) (seqs []uint64, err error) {
	var copies []string
	err = s.readMessages(ctx, descriptionOf(name), func(m direct.Message) error {
		seqs = append(seqs, m.Seq)
		if id := infoOf(m).NUID; id != "" && !strings.ContainsAny(id, ".*> ") {
			copies = append(copies, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range copies {
		var chunks []uint64
		sum := sha256.New()
		err := s.readMessages(ctx, Prefix+".C."+id, func(m direct.Message) error {
			chunks = append(chunks, m.Seq)
			_, _ = sum.Write(m.Data) // never fails
			return nil
		})
		if err != nil {
			return nil, err
		}
		if hex.EncodeToString(sum.Sum(nil)) == name {
			seqs = append(seqs, chunks...)
		}
	}
	return seqs, nil
}
