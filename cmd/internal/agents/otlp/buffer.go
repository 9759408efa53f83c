package otlp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/events/redact"
	"debrief/events/window"
	"debrief/playbook"
)

// Limits of a trace. Each gateway counts only what it has received itself, so with several gateways a trace may have as much from each.
const (
	maxSpans = 10_000
	maxBytes = 16 << 20
	// maxWaitingSpans and maxWaitingBytes limit the traces of a gateway that wait for their end. It asks clients to send more later.
	maxWaitingSpans = 50 * maxSpans
	maxWaitingBytes = 16 * maxBytes

	maxSpan = 768 << 10 // a message of NATS has at most 1 MiB
	maxPart = 768 << 10 // bytes of the spans in one message
)

// Config are the settings of a Store. A zero field has its default.
type Config struct {
	Quiet time.Duration // a trace with its root is read after this time without new spans; default: 30 s
	Limit time.Duration // a trace is read at the latest this time after its first span; default: 10 min
	Log   zerolog.Logger
	// LeadingScore returns the name of the score that counts in a book if an evaluation has several. Nil: none.
	LeadingScore func(context.Context, playbook.Book) (string, error)
	// Count counts the results: ResultReported and others. Nil disables it. Calls may be concurrent.
	Count func(result string)
}

// Reporter stores executions and feedback. It returns the same execution for reports with the same run id.
type Reporter interface {
	Report(ctx context.Context, r *events.Report) (*events.StoredReply, error)
	Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error)
}

// Store keeps the spans of traces until they are complete, in the bucket of open runs, which any number of gateways share. It is safe for
// concurrent use. These are the keys:
//
//	t.d.<trace>.<hash>  spans of one request; a repeated request has the same key
//	t.h.<trace>.<0|1>   whose the trace is, and when spans came last; 1 for requests with the root of the trace
//
// Spans are stored before the head, and both before the client gets its answer. To close a trace, a gateway reads its spans, reports its
// runs and deletes its keys. Another one repeats these steps if the first one dies: the reports have the same run ids.
type Store struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	events   *bus.Reader
	windows  *window.Store
	watch    *natserr.Watch
	reporter Reporter
	cfg      Config

	warnings rate.Sometimes
	mu       sync.Mutex
	traces   map[events.ID]*traceCounts // by trace, for the limits
	total    traceCounts                // sum of traces
}

// traceCounts counts what this gateway received of a trace.
type traceCounts struct {
	spans, bytes int
	first, last  time.Time
}

// add adds the spans and bytes of other, or subtracts them if sign is -1.
func (r *traceCounts) add(sign int, other *traceCounts) {
	r.spans += sign * other.spans
	r.bytes += sign * other.bytes
}

// New returns a store for a connection. The bucket must exist. Call Run to close traces.
func New(conn *bus.Conn, reporter Reporter, cfg Config) *Store {
	if cfg.Quiet <= 0 {
		cfg.Quiet = 30 * time.Second
	}
	if cfg.Limit <= 0 {
		cfg.Limit = 10 * time.Minute
	}
	if cfg.Count == nil {
		cfg.Count = func(string) {}
	}
	js := conn.JetStream()
	return &Store{
		nc: conn.NATS(), js: js, events: conn.Events, windows: window.New(conn.NATS(), js), watch: natserr.WatchOf(js), reporter: reporter, cfg: cfg,
		warnings: rate.Sometimes{Interval: time.Minute}, traces: map[events.ID]*traceCounts{},
	}
}

const (
	stream  = "KV_" + events.BucketOpen
	subject = "$KV." + events.BucketOpen + ".t." // and the rest of the key
)

// part has the spans of one request. Its first fields have the names of the fields of an open run, because an erasure finds both by them.
type part struct {
	ID      events.ID     `msgpack:"id" redact:"-"` // key of the trace
	Owner   string        `msgpack:"owner" redact:"-"`
	User    string        `msgpack:"user,omitempty" redact:"id"`
	Book    playbook.Book `msgpack:"book" redact:"-"`
	Session string        `msgpack:"session,omitempty" redact:"id"`
	Started time.Time     `msgpack:"started"`          // when the spans came
	Spans   [][]byte      `msgpack:"spans" redact:"-"` // protobuf, with secrets replaced
}

// head says whose a trace is.
type head struct {
	ID     events.ID     `msgpack:"id"`
	Owner  string        `msgpack:"owner"`
	Book   playbook.Book `msgpack:"book"`
	Caller events.Caller `msgpack:"caller"`
	Trace  string        `msgpack:"trace"` // in hexadecimal
	First  time.Time     `msgpack:"first"` // when this gateway received the first span
	Last   time.Time     `msgpack:"last"`  // and the last one
	Root   bool          `msgpack:"root"`  // the request had the root
}

// keyOf returns the key of a trace. Equal ids of two owners or playbooks are two traces.
func keyOf(owner string, b playbook.Book, trace string) events.ID {
	return events.Hash("otlp", owner, string(b), trace)
}

// traceSpans are the spans of one trace in a request.
type traceSpans struct {
	head
	user, session string
	spans         [][]byte
}

// Put stores the spans of a request. It returns after the server has stored them. Spans beyond the limits of their trace are refused.
func (s *Store) Put(ctx context.Context, caller events.Caller, b playbook.Book, spans []span, refused *refusals) error {
	if !s.hasRoom() {
		return fmt.Errorf("more than %d spans or %d MiB wait for the end of their traces: send them again", maxWaitingSpans, maxWaitingBytes>>20)
	}
	now := time.Now().UTC()
	byTrace := map[string]*traceSpans{}
	var traces []*traceSpans // in the order of the request
	for _, sp := range spans {
		t := byTrace[sp.trace]
		if t == nil {
			t = &traceSpans{head: head{ID: keyOf(caller.Owner, b, sp.trace), Owner: caller.Owner, Book: b, Caller: caller, Trace: sp.trace, Last: now}}
			byTrace[sp.trace] = t
			traces = append(traces, t)
		}
		if !s.countSpan(t.ID, len(sp.data), now) {
			refused.add(fmt.Sprintf("spans beyond the limit of a trace: %d spans, %d bytes", maxSpans, maxBytes))
			continue
		}
		t.spans = append(t.spans, sp.data)
		t.user, t.session = cmp.Or(t.user, sp.user), cmp.Or(t.session, sp.session)
		t.Root = t.Root || sp.root
	}
	err := s.putParts(ctx, traces)
	if err == nil {
		err = s.putHeads(ctx, traces)
	}
	if err != nil { // the client sends the spans again
		s.uncount(traces)
	}
	return err
}

// putParts stores the spans of traces.
func (s *Store) putParts(ctx context.Context, traces []*traceSpans) error {
	var acks []jetstream.PubAckFuture
	for _, t := range traces {
		for _, data := range parts(t.spans) {
			p := &part{ID: t.ID, Owner: t.Owner, User: t.user, Book: t.Book, Session: t.session, Started: t.Last, Spans: data}
			redact.Fields(p)
			ack, err := s.publish(fmt.Sprintf("d.%s.%s", t.ID, hashOf(data)), p)
			if err != nil {
				return err
			}
			acks = append(acks, ack)
		}
	}
	return awaitAcks(ctx, acks)
}

// putHeads stores the heads of the traces that have spans.
func (s *Store) putHeads(ctx context.Context, traces []*traceSpans) error {
	var acks []jetstream.PubAckFuture
	for _, t := range traces {
		if len(t.spans) == 0 {
			continue
		}
		t.First = s.firstOf(t.ID, t.Last)
		withRoot := 0
		if t.Root {
			withRoot = 1
		}
		ack, err := s.publish(fmt.Sprintf("h.%s.%d", t.ID, withRoot), &t.head)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	return awaitAcks(ctx, acks)
}

// publish sends a value of a key to the server. It does not wait for the acknowledgement.
func (s *Store) publish(keyRest string, value any) (jetstream.PubAckFuture, error) {
	data, err := events.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	return s.js.PublishMsgAsync(&nats.Msg{Subject: subject + keyRest, Header: events.SchemaHeader(), Data: data})
}

// awaitAcks waits until the server has stored messages.
func awaitAcks(ctx context.Context, acks []jetstream.PubAckFuture) error {
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("store spans: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("store spans: %w", ctx.Err())
		}
	}
	return nil
}

// parts divides spans into messages.
func parts(spans [][]byte) (all [][][]byte) {
	size := 0
	for _, data := range spans {
		if len(all) == 0 || size+len(data) > maxPart {
			all, size = append(all, nil), 0
		}
		last := len(all) - 1
		all[last] = append(all[last], data)
		size += len(data)
	}
	return all
}

// hashOf returns an id of spans.
func hashOf(spans [][]byte) events.ID {
	h := sha256.New()
	for _, data := range spans {
		_, _ = fmt.Fprintf(h, "%d:", len(data))
		_, _ = h.Write(data)
	}
	return events.Hash("otlp spans", string(h.Sum(nil)))
}

// countSpan counts a span of a trace, and returns true, unless the trace is at a limit.
func (s *Store) countSpan(key events.ID, size int, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.traces[key]
	if r == nil {
		r = &traceCounts{first: now}
		s.traces[key] = r
	}
	if r.spans >= maxSpans || r.bytes+size > maxBytes {
		return false
	}
	one := &traceCounts{spans: 1, bytes: size}
	r.add(1, one)
	s.total.add(1, one)
	r.last = now
	return true
}

// uncount subtracts spans that were counted but not stored.
func (s *Store) uncount(traces []*traceSpans) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range traces {
		r := s.traces[t.ID]
		if r == nil {
			continue
		}
		counted := &traceCounts{spans: len(t.spans)}
		for _, data := range t.spans {
			counted.bytes += len(data)
		}
		r.add(-1, counted)
		s.total.add(-1, counted)
	}
}

// hasRoom reports whether more spans may wait.
func (s *Store) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total.spans < maxWaitingSpans && s.total.bytes < maxWaitingBytes
}

// firstOf returns the time of the first span of a trace that this gateway received.
func (s *Store) firstOf(key events.ID, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.traces[key]; r != nil {
		return r.first
	}
	return now
}

// forget ends the counts of traces that do not wait any more: they were closed, or their spans were not stored within
// storeTimeout.
func (s *Store) forget(now time.Time, waiting map[events.ID]*dueTrace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.traces {
		if waiting[key] == nil && now.Sub(r.last) > storeTimeout {
			s.total.add(-1, r)
			delete(s.traces, key)
		}
	}
}

// read calls fn for the values of keys, which may have wildcards.
func (s *Store) read(ctx context.Context, keys string, fn func(*direct.Message) error) error {
	err := natserr.Do(ctx, s.watch, stream, func(ctx context.Context) error {
		return direct.Read(ctx, s.nc, stream, direct.Query{Subject: subject + keys}, func(m direct.Message) error {
			if m.Deleted() {
				return nil
			}
			return fn(&m)
		})
	})
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("bucket %s does not exist, or no server stores it: %w", events.BucketOpen, err)
	}
	return err
}

// deleteMarker returns a delete marker of a key.
func deleteMarker(name string) *nats.Msg {
	m := &nats.Msg{Subject: name, Header: nats.Header{}}
	m.Header.Set("KV-Operation", "DEL")
	m.Header.Set(jetstream.MsgTTLHeader, time.Minute.String())
	return m
}

// removeHead deletes a head, unless it was written since it was read.
func (s *Store) removeHead(ctx context.Context, m *direct.Message) error {
	_, err := s.js.PublishMsg(ctx, deleteMarker(m.Subject), jetstream.WithExpectLastSequencePerSubject(m.Seq))
	if err != nil {
		return fmt.Errorf("delete the head of a trace: %w", err)
	}
	return nil
}

// remove deletes keys. A key that is not deleted because of an error expires.
func (s *Store) remove(ctx context.Context, subjects []string) error {
	var acks []jetstream.PubAckFuture
	for _, name := range subjects {
		ack, err := s.js.PublishMsgAsync(deleteMarker(name))
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	return awaitAcks(ctx, acks)
}
