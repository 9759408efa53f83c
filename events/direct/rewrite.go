package direct

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/natserr"
)

// This file removes the bytes of deleted and replaced messages from the files of a stream.
//
// A server does not overwrite a message that a newer message of its subject replaces, that a purge removes or that expires. The bytes
// stay until all other messages of the file are gone too, or until the server compacts a file that is mostly unused. The streams of
// buckets deny the deletion that overwrites a message. So Rewrite copies every message that is left to the end of the stream, after it
// has begun a new file. The server then removes the old files, because nothing in them is left.
//
// Limits:
//
//   - A copy is a new message: its age starts again, and so does the age limit of the stream. A message with its own time to live
//     keeps its end.
//   - The run writes each message again, and 9 MB of filler. 100,000 messages of 500 bytes took 7 seconds on two busy cores, and 20,000
//     messages of a stream with several messages of a subject took 6.
//   - A file that holds marks of removed messages is removed by the server's next check of its files, within two minutes.
//   - The files are unlinked and not overwritten. The servers of a cluster also have the messages in their Raft logs until these are
//     compacted. A removed file that a snapshot of the file system or a backup has is not reached.
//   - With encryption at rest the files are removed in the same way.

const (
	// fillBytes is more than the largest file of a stream, so that the messages after the filler are in another file than those before.
	fillBytes = 9 << 20
	// fillMessage is the size of one message of the filler.
	fillMessage = 512 << 10
	// inFlight is the number of copies without an acknowledgement.
	inFlight = 256
	// ackTimeout limits the wait for an acknowledgement.
	ackTimeout = 10 * time.Second
	// tries is the number of attempts to copy a subject that other writers change.
	tries = 20
	// minPause and maxPause limit the random pause before the next attempt.
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// headerCopied has the sequence of the original of a copy, in a stream with several messages of a subject. With it a later run restores
// the order if a run ended between two copies.
const headerCopied = "Debrief-Copied"

// errChanged is returned when other writers change a subject again and again.
var errChanged = errors.New("other writers change it all the time")

// Rewrite copies all messages of a stream to new files and returns their number. The stream must have one pattern of subjects that ends in
// ".>", and a limit of messages for each subject, as every bucket. Other writers may write to it meanwhile: a message that was replaced
// is not copied. The user needs the rights to publish to the subjects, and to purge the stream if it keeps several messages of a subject.
// Rewrite may be called again after it was interrupted.
func Rewrite(ctx context.Context, js jetstream.JetStream, name string) (copied int, err error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("rewrite stream %s: %w", name, err)
	}
	cfg := stream.CachedInfo().Config
	if len(cfg.Subjects) != 1 || !strings.HasSuffix(cfg.Subjects[0], ">") || cfg.MaxMsgsPerSubject < 1 {
		return 0, fmt.Errorf("rewrite stream %s: requires one pattern of subjects that ends in .>, and a limit of messages for each subject", name)
	}
	watch := natserr.WatchOf(js)
	r := &rewriter{js: js, watch: watch, reader: NewReader(js.Conn(), watch), stream: stream, name: name, prefix: strings.TrimSuffix(cfg.Subjects[0], ">")}
	if err := r.run(ctx, cfg.MaxMsgsPerSubject > 1); err != nil {
		return r.copied, fmt.Errorf("rewrite stream %s: %w", name, err)
	}
	return r.copied, nil
}

type rewriter struct {
	js     jetstream.JetStream
	watch  *natserr.Watch
	reader *Reader
	stream jetstream.Stream
	name   string
	prefix string // of its subjects

	end     uint64 // first sequence of the filler: every message before it is copied
	pending []pendingCopy
	copied  int
}

// pendingCopy is a copy without an acknowledgement.
type pendingCopy struct {
	subject string
	ack     jetstream.PubAckFuture
}

// run copies all messages. hasHistory means that the stream keeps several messages of a subject.
func (r *rewriter) run(ctx context.Context, hasHistory bool) error {
	if err := r.fill(ctx); err != nil {
		return err
	}
	if hasHistory {
		return r.copySubjects(ctx)
	}
	err := r.read(ctx, r.prefix+">", func(m Message) error {
		if m.Seq >= r.end || m.Subject == r.filler() {
			return nil
		}
		return r.copyLast(ctx, m)
	})
	if err != nil {
		return err
	}
	return r.await(ctx)
}

func (r *rewriter) filler() string { return r.prefix + "_filler" }

// fill publishes the filler and removes it. All of it is marked as deleted, so that no reader of a bucket sees it.
func (r *rewriter) fill(ctx context.Context) error {
	size := min(fillMessage, int(r.js.Conn().MaxPayload()/2))
	data := make([]byte, size)
	for sent := 0; sent < fillBytes; sent += size {
		_, _ = rand.Read(data) // never fails
		ack, err := r.publishFiller(ctx, data)
		if err != nil {
			return err
		}
		if r.end == 0 {
			r.end = ack.Sequence
		}
	}
	ack, err := r.publishFiller(ctx, nil)
	if err != nil {
		return err
	}
	return r.purge(ctx, r.filler(), ack.Sequence+1)
}

// publishFiller publishes a message of the filler.
func (r *rewriter) publishFiller(ctx context.Context, data []byte) (*jetstream.PubAck, error) {
	return r.js.PublishMsg(ctx, &nats.Msg{Subject: r.filler(), Data: data, Header: nats.Header{"KV-Operation": {"DEL"}}})
}

func (r *rewriter) read(ctx context.Context, subject string, fn func(Message) error) error {
	return r.reader.Read(ctx, r.name, Query{Subject: subject}, fn)
}

// copyLast publishes a copy of the only message of its subject, unless another one has replaced it. It waits only if there are too many
// copies without an acknowledgement. The copies keep the order of the stream.
func (r *rewriter) copyLast(ctx context.Context, m Message) error {
	msg := copyOf(m)
	if msg == nil {
		return nil
	}
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(m.Seq, 10))
	ack, err := r.js.PublishMsgAsync(msg)
	if err != nil {
		return err
	}
	r.pending = append(r.pending, pendingCopy{m.Subject, ack})
	if len(r.pending) < inFlight {
		return nil
	}
	return r.await(ctx)
}

// await waits for the acknowledgements of all copies.
func (r *rewriter) await(ctx context.Context) error {
	timeout := time.NewTimer(ackTimeout)
	defer timeout.Stop()
	for _, p := range r.pending {
		err := natserr.Do(ctx, r.watch, p.subject, func(ctx context.Context) error {
			select {
			case <-p.ack.Ok():
				r.copied++
				return nil
			case err := <-p.ack.Err():
				return err
			case <-timeout.C:
				return nats.ErrTimeout
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil && !natserr.IsConflict(err) { // a conflict: it has been replaced
			return err
		}
	}
	r.pending = r.pending[:0]
	return nil
}

// copySubjects copies the subjects of a stream with several messages of a subject, one after another.
func (r *rewriter) copySubjects(ctx context.Context) error {
	subjects := map[string]bool{}
	err := r.read(ctx, r.prefix+">", func(m Message) error {
		if m.Seq < r.end && m.Subject != r.filler() {
			subjects[m.Subject] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for subject := range subjects {
		if err := r.copySubject(ctx, subject); err != nil {
			return err
		}
	}
	return nil
}

// copySubject copies the messages of a subject in their order and removes the originals. If another writer adds a message meanwhile, it
// starts again. That writer may be another run, which copies the same subject: then one of them pauses longer and finds the work done.
func (r *rewriter) copySubject(ctx context.Context, subject string) error {
	pause := minPause
	for range tries {
		all, err := r.messages(ctx, subject)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(m message) bool { return m.Seq < r.end }) { // all of them are in the new files
			return nil
		}
		before := r.copied
		first, err := r.copyAll(ctx, all)
		if err == nil {
			return r.purge(ctx, subject, first)
		}
		if !natserr.IsConflict(err) {
			return err
		}
		r.copied = before // the next attempt copies all of them again
		select {
		case <-time.After(mathrand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
	return fmt.Errorf("copy %s: %w", subject, errChanged)
}

// message is a message of a subject with several.
type message struct {
	Message
	original uint64 // sequence of the original, if it is a copy; else its own
}

// messages returns the messages of a subject in the order of their originals, each once.
func (r *rewriter) messages(ctx context.Context, subject string) (all []message, err error) {
	err = r.read(ctx, subject, func(m Message) error {
		original, err := strconv.ParseUint(m.Header.Get(headerCopied), 10, 64)
		if err != nil {
			original = m.Seq
		}
		all = append(all, message{m, original})
		return nil
	})
	slices.SortStableFunc(all, func(a, b message) int { return cmp.Compare(a.original, b.original) })
	return all, err
}

// copyAll publishes the messages of a subject again, and returns the sequence of the first copy. It returns a conflict if the subject
// has changed since they were read.
func (r *rewriter) copyAll(ctx context.Context, all []message) (first uint64, err error) {
	last, copied := uint64(0), map[uint64]bool{}
	for i := range all {
		last = max(last, all[i].Seq)
	}
	for i := range all {
		msg := copyOf(all[i].Message)
		if msg == nil || copied[all[i].original] {
			continue
		}
		copied[all[i].original] = true
		msg.Header.Set(headerCopied, strconv.FormatUint(all[i].original, 10))
		ack, err := r.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(last))
		if err != nil {
			return 0, err
		}
		if first == 0 {
			first = ack.Sequence
		}
		last = ack.Sequence
		r.copied++
	}
	return first, nil
}

// purge removes the messages of a subject before a sequence; 0 removes nothing.
func (r *rewriter) purge(ctx context.Context, subject string, before uint64) error {
	if before == 0 {
		return nil
	}
	return natserr.Do(ctx, r.watch, r.name, func(ctx context.Context) error {
		return r.stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(before))
	})
}

// copyOf returns a message to publish, without the headers that the server has added or that belonged to the first publish. It returns
// nil if the time to live of the message has ended.
func copyOf(m Message) *nats.Msg {
	msg := &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header{}}
	for name, values := range m.Header {
		if !strings.HasPrefix(name, "Nats-") {
			msg.Header[name] = values
		}
	}
	if ttl := m.Header.Get(jetstream.MsgTTLHeader); ttl != "" {
		left, ok := remaining(ttl, time.Since(m.Stored()))
		if !ok {
			return nil
		}
		msg.Header.Set(jetstream.MsgTTLHeader, left)
	}
	return msg
}

// remaining returns a time to live after a part of it has passed, and whether there is any left. It returns a text that is neither a
// duration nor a number of seconds unchanged, such as "never".
func remaining(ttl string, passed time.Duration) (string, bool) {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		d, err = time.ParseDuration(ttl + "s")
	}
	if err != nil {
		return ttl, true
	}
	d = (d - passed).Round(time.Second)
	return d.String(), d > 0
}

// Overwrite deletes a message, and the server overwrites its bytes, unless it encrypts its store. It returns false for a message that
// does not exist: it has expired, or another process has removed it.
func Overwrite(ctx context.Context, stream jetstream.Stream, seq uint64) (removed bool, err error) {
	err = stream.SecureDeleteMsg(ctx, seq)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // the client hides why
		if _, missing := stream.GetMsg(ctx, seq); errors.Is(missing, jetstream.ErrMsgNotFound) {
			return false, nil
		}
	}
	return false, fmt.Errorf("overwrite message %d of stream %s: %w", seq, stream.CachedInfo().Config.Name, err)
}
