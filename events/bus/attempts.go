package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/streams"
)

// The server counts deliveries; a worker counts attempts. A delivery does not count as an attempt
//
//   - while its message is held,
//   - if the message is released before its handler started,
//   - if the message is released because of a stop or a pause.
//
// The worker stores a record when a hold starts and before it releases a message, so that a crash costs no attempt. Usually
// nothing is stored: without a record every delivery was an attempt.
//
// A batching worker that crashes costs an attempt of every message that it holds, although only one of them may be at
// fault. So the last attempts at a message are in a small group and then alone, see groupSizes. A message is exhausted only after
// all attempts of groupSizes. They follow its ordinary attempts, so it can have more than MaxAttempts. The number of attempts in
// groups is stored before each of them starts. If MaxAttempts is 5 and the worker crashes in each delivery of one message, the
// message has two ordinary attempts and the four of groupSizes:
//
//	delivery  attempt  batch      record
//	1         1        ordinary   none
//	2         2        ordinary   none
//	3         3        16         {delivered: 3, attempts: 3, grouped: 1}
//	4         4        1          {delivered: 4, attempts: 4, grouped: 2}
//	5         5        1          {delivered: 5, attempts: 5, grouped: 3}
//	6         6        1          {delivered: 6, attempts: 6, grouped: 4}
//	7         dead letter

// attemptRecord is the record of one message: of its first Delivered deliveries, Attempts were attempts.
type attemptRecord struct {
	ID            string `json:"id,omitempty"` // id of the message: a new stream uses the same sequences again
	Delivered     int    `json:"delivered"`
	Attempts      int    `json:"attempts"`
	GroupAttempts int    `json:"grouped,omitempty"` // attempts in small batches, see groupSizes
}

// groupSizes are the sizes of the batches of the last attempts at a message. Three attempts are alone, because random kills of
// the worker hardly hit the same message three times. The group of 16 finishes most of the other messages, with fewer commits
// than single messages need.
var groupSizes = []int{16, 1, 1, 1}

// groups returns the last MaxAttempts entries of groupSizes.
func (r *runner) groups() []int { return groupSizes[max(0, len(groupSizes)-r.policy.MaxAttempts):] }

// isExhausted reports whether an item has no attempt left. In a batching worker it also needs all attempts in groups.
func (r *runner) isExhausted(it *item) bool {
	return it.d.Attempt > r.policy.MaxAttempts && (r.worker.Batch <= 1 || it.groupAttempts >= len(r.groups()))
}

// groupSize returns the size of the group in which an item is handled next. It is 0 if the item is handled in an ordinary batch, as in
// its first attempts, or is not handled any more.
func (r *runner) groupSize(it *item) int {
	lastOrdinary := max(1, r.policy.MaxAttempts-len(r.groups())+1) // the first attempt is never in a group
	willBeHandled := it.attemptKnown && it.result == nil && !r.isExhausted(it)
	if r.worker.Batch > 1 && it.d.Attempt > lastOrdinary && willBeHandled {
		return r.groups()[min(it.groupAttempts, len(r.groups())-1)]
	}
	return 0
}

// attemptsBegun returns the number of attempts that were started. An attempt above the limit is not started.
func (r *runner) attemptsBegun(it *item) int { return min(it.d.Attempt, r.policy.MaxAttempts) }

func attemptsSubject(role string, seq uint64) string {
	return "$KV." + events.BucketAttempts + "." + role + "." + strconv.FormatUint(seq, 10)
}

// number returns the number of the attempt that a delivery starts. If 1 of the first 3 deliveries was an attempt, delivery 5 starts
// attempt 3: deliveries after the record are attempts. If the durable was created again, the server counts deliveries from 1 again.
// Then number adds at least one attempt to the record, but never exceeds the server's count.
func (a attemptRecord) number(delivery int) int {
	newDeliveries := max(1, delivery-a.Delivered)
	return max(1, min(delivery, a.Attempts+newDeliveries))
}

// attemptRecords stores and loads the numbers of attempts of a role's messages.
type attemptRecords struct {
	*runner
	flight *inFlight
	order  sync.Mutex // records are published in the order in which they are created
}

// record returns the current record of an item. known is false until the stored record was read.
func (r *attemptRecords) record(it *item) (a attemptRecord, known bool) {
	r.flight.mu.Lock()
	defer r.flight.mu.Unlock()
	a = attemptRecord{ID: it.msg.Headers().Get(nats.MsgIdHdr), Delivered: it.latestDelivery, Attempts: it.d.Attempt, GroupAttempts: it.groupAttempts}
	if it.uncounted { // it.d.Attempt counts the newest delivery, too
		a.Attempts--
		if it.inGroup {
			a.GroupAttempts--
		}
	}
	return a, it.attemptKnown
}

// Limits of a write of records: its duration, and the number of publishes in flight.
const (
	recordTimeout = 2 * time.Second
	recordBatch   = 512
)

// setUncounted sets whether the newest delivery of items is not an attempt, and stores the records.
func (r *attemptRecords) setUncounted(items []*item, uncounted bool) {
	r.flight.mu.Lock()
	for _, it := range items {
		it.uncounted = uncounted
	}
	r.flight.mu.Unlock()
	r.store(items)
}

// beginGroup counts an attempt at items in a group, and stores their records.
func (r *attemptRecords) beginGroup(items []*item) {
	r.flight.mu.Lock()
	for _, it := range items {
		it.inGroup, it.uncounted = true, false
		it.groupAttempts++
	}
	r.flight.mu.Unlock()
	r.store(items)
}

// store stores the records of items. It is best effort: if a write fails, the delivery counts as an attempt.
func (r *attemptRecords) store(items []*item) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.work), recordTimeout)
	defer stop()
	for batch := range slices.Chunk(items, recordBatch) {
		if !r.conn.nc.IsConnected() {
			return
		}
		if err := r.storeBatch(ctx, batch); err != nil {
			r.log.Debug().Err(err).Int("messages", len(items)).Msg("store attempt records")
			return
		}
	}
}

// storeBatch stores records and waits until the server has acknowledged them.
func (r *attemptRecords) storeBatch(ctx context.Context, items []*item) error {
	stored, err := r.publish(items)
	for _, f := range stored {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// publish publishes the records in the order in which they are created. After an error it returns those that it has published.
func (r *attemptRecords) publish(items []*item) (stored []jetstream.PubAckFuture, err error) {
	r.order.Lock()
	defer r.order.Unlock()
	for _, it := range items {
		a, known := r.record(it)
		if !known {
			continue
		}
		data, err := json.Marshal(a)
		if err != nil {
			return stored, err
		}
		f, err := r.conn.js.PublishAsync(attemptsSubject(r.worker.Role, it.d.Seq), data)
		if err != nil {
			return stored, err
		}
		stored = append(stored, f)
	}
	return stored, nil
}

// lookupBatch is the number of messages in one request.
const lookupBatch = 512

// load reads the number of attempts at redelivered items.
func (r *attemptRecords) load(ctx context.Context, items []*item) error {
	var unknown []*item
	for _, it := range items {
		if !it.attemptKnown {
			unknown = append(unknown, it)
		}
	}
	for batch := range slices.Chunk(unknown, lookupBatch) {
		if err := r.loadBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (r *attemptRecords) loadBatch(ctx context.Context, items []*item) error {
	var subjects []string
	bySubject := make(map[string]*item, len(items))
	for _, it := range items {
		subject := attemptsSubject(r.worker.Role, it.d.Seq)
		subjects = append(subjects, subject)
		bySubject[subject] = it
	}
	found := make(map[*item]attemptRecord, len(items))
	err := r.conn.lastPerSubject(ctx, streams.Attempts, subjects, func(m direct.Message) {
		var a attemptRecord
		it := bySubject[m.Subject]
		if err := json.Unmarshal(m.Data, &a); err != nil || it == nil {
			return
		}
		if a.ID == r.flight.message(it).Headers().Get(nats.MsgIdHdr) { // else of an older message with this sequence
			found[it] = a
		}
	})
	if err != nil {
		return fmt.Errorf("read attempt records: %w", err)
	}
	var recounted []*item
	for _, it := range items {
		a := found[it]
		r.flight.mu.Lock()
		it.d.Attempt, it.attemptKnown = a.number(it.initialDelivery), true
		it.groupAttempts = a.GroupAttempts
		r.flight.mu.Unlock()
		if it.initialDelivery <= a.Delivered { // the server counts from 1 again, so the record must change
			recounted = append(recounted, it)
		}
	}
	r.store(recounted)
	return nil
}
