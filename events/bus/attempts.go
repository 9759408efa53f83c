package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
)

// The server counts deliveries; a worker counts attempts. A delivery does not count as an attempt while the message is
// held, nor when it is given back before its handler began, or because the worker stops or pauses. The worker stores a
// record of that before it gives the message back, and when a hold begins; so its death then costs no attempt. The
// normal path stores nothing: without a record every delivery was an attempt.

// attemptsStream is the stream of the bucket of these records.
const attemptsStream = "KV_" + events.BucketAttempts

// attempts is the record of one message: of its first Delivered deliveries, Attempts were attempts.
type attempts struct {
	ID        string `json:"id,omitempty"` // of the message: a stream that was deleted counts from 1 again
	Delivered int    `json:"delivered"`
	Attempts  int    `json:"attempts"`
}

func attemptsSubject(role string, seq uint64) string {
	return "$KV." + events.BucketAttempts + "." + role + "." + strconv.FormatUint(seq, 10)
}

// attempt is the number of the attempt that a delivery begins. The server may count from 1 again, after a durable was
// created again: then at least one attempt is added, at most the server's own count.
func (a attempts) attempt(delivery int) int {
	return max(1, min(delivery, a.Attempts+max(1, delivery-a.Delivered)))
}

// attempts returns the current record of an item. Known is false until the stored record was read.
func (r *run) attempts(it *item) (a attempts, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a = attempts{ID: it.msg.Headers().Get(nats.MsgIdHdr), Delivered: it.delivered, Attempts: it.d.Attempt}
	if it.idle {
		a.Attempts--
	}
	return a, it.counted
}

// Bounds of storing records: how long it may take, and how many are on their way at a time.
const (
	recordWait  = 2 * time.Second
	recordBatch = 512
)

// idle sets whether the newest delivery of items counts as an attempt (idle is false), and stores the records.
func (r *run) idle(items []*item, idle bool) {
	r.mu.Lock()
	for _, it := range items {
		it.idle = idle
	}
	r.mu.Unlock()
	r.record(items)
}

// record stores the records of items. It is best effort: without a server, or room, an idle delivery counts as an attempt.
func (r *run) record(items []*item) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.work), recordWait)
	defer stop()
	for len(items) > 0 && r.c.nc.IsConnected() {
		n := min(len(items), recordBatch)
		if err := r.recordSome(ctx, items[:n]); err != nil {
			r.log.Debug().Err(err).Int("messages", len(items)).Msg("record attempts")
			return
		}
		items = items[n:]
	}
}

func (r *run) recordSome(ctx context.Context, items []*item) error {
	stored, err := r.sendRecords(items)
	if err != nil {
		return err
	}
	for _, f := range stored {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// sendRecords publishes the records in the order in which they are made.
func (r *run) sendRecords(items []*item) (stored []jetstream.PubAckFuture, err error) {
	r.records.Lock()
	defer r.records.Unlock()
	for _, it := range items {
		a, known := r.attempts(it)
		if !known {
			continue
		}
		data, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		f, err := r.c.js.PublishAsync(attemptsSubject(r.w.Role, it.d.Seq), data)
		if err != nil {
			return nil, err
		}
		stored = append(stored, f)
	}
	return stored, nil
}

// lookupBatch is how many messages one request asks about.
const lookupBatch = 512

// lookUp reads the number of attempts at redelivered items, and whether they have a dead letter.
func (r *run) lookUp(ctx context.Context, items []*item) error {
	var open []*item
	for _, it := range items {
		if !it.counted {
			open = append(open, it)
		}
	}
	for len(open) > 0 {
		n := min(len(open), lookupBatch)
		if err := r.lookUpSome(ctx, open[:n]); err != nil {
			return err
		}
		open = open[n:]
	}
	return nil
}

func (r *run) lookUpSome(ctx context.Context, items []*item) error {
	var records, letters []string
	at := make(map[string]*item, 2*len(items))
	for _, it := range items {
		record := attemptsSubject(r.w.Role, it.d.Seq)
		records, letters = append(records, record), append(letters, r.letterFilter(it))
		at[record], at[string(r.letterID(it))] = it, it
	}
	found := make(map[*item]attempts, len(items))
	err := r.c.last(ctx, attemptsStream, records, func(m direct.Message) {
		var a attempts
		it := at[m.Subject]
		if err := json.Unmarshal(m.Data, &a); err != nil || it == nil || a.ID != r.message(it).Headers().Get(nats.MsgIdHdr) {
			return // of another message at this sequence
		}
		found[it] = a
	})
	if err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	err = r.c.last(ctx, events.StreamDead, letters, func(m direct.Message) {
		if it := at[lastToken(m.Subject)]; it != nil && !withdrawn(m.Header) {
			it.letter = m.Subject
		}
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	var again []*item
	for _, it := range items {
		a := found[it]
		r.mu.Lock()
		it.d.Attempt, it.counted = a.attempt(it.number), true
		r.mu.Unlock()
		if it.number <= a.Delivered { // the server counts again: from here on, so do we
			again = append(again, it)
		}
	}
	r.record(again)
	return nil
}

// last calls fn for the last message on each of some subjects, which may have wildcards.
func (c *Conn) last(ctx context.Context, stream string, subjects []string, fn func(direct.Message)) error {
	err := denied.Do(ctx, c.watch, stream, func(ctx context.Context) error {
		return direct.Read(ctx, c.nc, stream, direct.Query{Last: subjects}, func(m direct.Message) error {
			fn(m)
			return nil
		})
	})
	return unanswered(ctx, err)
}
