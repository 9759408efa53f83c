package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
)

// item is one message in progress.
type item struct {
	// mu of inFlight guards the fields of this group.
	msg            jetstream.Msg // the newest delivery
	latestDelivery int           // number of the newest delivery
	uncounted      bool          // the newest delivery does not count as an attempt so far
	inGroup        bool          // the newest delivery is an attempt in a group, see groupSizes
	groupAttempts  int           // number of attempts in groups, including the newest delivery
	redelivered    bool          // the server redelivered the message while this worker had it

	// The goroutine that processes the item owns the other fields. It sets attemptKnown and d.Attempt under mu, because others read them.
	initialDelivery int  // number of the delivery that created the item
	attemptKnown    bool // d.Attempt is final: the stored record was read, or none is expected
	d               Delivery
	span            trace.Span // nil if tracing is disabled
	result          *Result    // of the handler, or an error from before it; nil until there is one. A hold keeps a result without an error
	storedEvents    int        // number of result.Events that are stored
	firstMsg        *nats.Msg  // the first of result.Events as a stored message, for the reply; nil until it is stored
	firstReceipt    Receipt    // the receipt of firstMsg
	inDoubt         bool       // a publish failed without an answer: the event may be stored

	disposition disposition // the latest disposition
	err         error       // the error that led to the disposition
}

// inFlight lists the messages in progress and keeps them alive.
type inFlight struct {
	*runner
	mu    sync.Mutex
	items map[uint64]*item // by stream sequence
	bytes int              // size of their payloads
}

// size returns the number of messages in progress and the size of their payloads.
func (f *inFlight) size() (messages, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.items), f.bytes
}

// add adds an item and returns nil. The server may redeliver a message that the worker still has, for example because it lost the
// in-progress acks in a restart. Then add records the new delivery in the old item, and returns that item. From then on only the new
// delivery can be acknowledged.
func (f *inFlight) add(it *item) (old *item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old = f.items[it.d.Seq]; old != nil {
		old.msg = it.msg
		old.latestDelivery = it.latestDelivery
		old.redelivered = true
		return old
	}
	f.startSpan(it)
	f.items[it.d.Seq] = it
	f.bytes += len(it.msg.Data())
	return nil
}

// keepAlive sends an in-progress ack for every message in progress, three times in each ack wait, so that the server does not redeliver it.
func (f *inFlight) keepAlive(ctx context.Context) {
	t := time.NewTicker(f.policy.AckWait / 3)
	defer t.Stop()
	var msgs []jetstream.Msg
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		msgs = msgs[:0]
		f.mu.Lock()
		for _, it := range f.items {
			msgs = append(msgs, it.msg)
		}
		f.mu.Unlock()
		for _, m := range msgs { // fails for a message that was acknowledged meanwhile, which is harmless
			if err := m.InProgress(); err != nil {
				f.log.Debug().Err(err).Msg("keep alive")
			}
		}
		clear(msgs)
	}
}

// mayBeShared reports whether another worker may have, or have had, the message of an item: the event was published or delivered before, or
// the server has redelivered the message.
func (f *inFlight) mayBeShared(it *item) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return it.d.Repeat || it.redelivered
}

// remove removes an item and returns its newest message.
func (f *inFlight) remove(it *item) jetstream.Msg {
	f.mu.Lock()
	m := it.msg
	if f.items[it.d.Seq] == it { // otherwise it was removed before
		delete(f.items, it.d.Seq)
		f.bytes -= len(m.Data()) // all deliveries of a message have the same size
	}
	f.mu.Unlock()
	f.wakeUp()
	return m
}

// message returns the newest delivery of an item.
func (f *inFlight) message(it *item) jetstream.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	return it.msg
}

// itemLog returns a logger whose lines name the delivery.
func (f *inFlight) itemLog(it *item) zerolog.Logger {
	m := f.message(it)
	_, book, _ := events.ParseSubject(m.Subject())
	return f.log.With().Str(events.LogTrace, events.TraceID(it.d.Trace)).Str(events.LogEvent, messageID(m.Headers())).
		Str(events.LogBook, string(book)).Uint64(events.LogSeq, it.d.Seq).Logger()
}
