package bus

import (
	"slices"
	"sync"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// bookQueues groups the messages of a batching worker by book. Books run in parallel, each with one batch at a time.
type bookQueues struct {
	*runner
	processor *processor

	mu     sync.Mutex
	byBook map[playbook.Book]*bookQueue
}

// bookQueue contains the messages of a book that are in no batch yet.
type bookQueue struct {
	items  []*item
	urgent bool          // one of them is an edit, whose requester waits for the reply
	ready  chan struct{} // signals that the queue has a full batch or is urgent
}

// enqueue adds an item to the queue of its book, and starts processBook if it does not run yet.
func (b *bookQueues) enqueue(it *item) {
	kind, book, _ := events.ParseSubject(it.msg.Subject()) // an invalid subject has the queue of the empty book
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.byBook[book]
	if q == nil {
		q = &bookQueue{ready: make(chan struct{}, 1)}
		b.byBook[book] = q
		b.busy.Go(func() { b.processBook(book, q) })
	}
	q.items = append(q.items, it)
	q.urgent = q.urgent || kind == events.KindEdit
	if len(q.items) == b.worker.Batch || q.urgent {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
}

// processBook processes the queue of a book, batch after batch, until the queue is empty after the linger time. The
// first batch starts at once. A later batch waits until it is full or the linger time has passed, because under load
// larger batches are cheaper. An edit does not wait, because its requester waits for the reply.
func (b *bookQueues) processBook(book playbook.Book, q *bookQueue) {
	for {
		b.slots <- struct{}{}
		started := time.Now()
		batch := b.dequeue(q)
		if b.intake.Err() == nil {
			b.processor.process(batch)
		} else { // another worker gets the messages, once this one can receive none
			<-b.drained
			b.processor.release(batch, 0)
		}
		<-b.slots
		b.linger(q, b.policy.Linger-time.Since(started))
		if b.removeIfEmpty(book, q) {
			return
		}
	}
}

// dequeue returns the next batch. It is empty if a pause or a stop has released the queue.
func (b *bookQueues) dequeue(q *bookQueue) []*item {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(q.items), b.worker.Batch)
	batch := slices.Clone(q.items[:n])
	q.items = q.items[n:]
	if len(q.items) == 0 {
		q.items, q.urgent = nil, false
	}
	select {
	case <-q.ready: // the signal was for this batch
	default:
	}
	return batch
}

// linger waits until the queue has a full batch, an item is urgent, d has passed or the worker stops.
func (b *bookQueues) linger(q *bookQueue, d time.Duration) {
	b.mu.Lock()
	isReady := len(q.items) >= b.worker.Batch || q.urgent
	b.mu.Unlock()
	if isReady || d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.ready:
	case <-b.intake.Done():
	}
}

// removeIfEmpty removes the queue of a book if it is empty. It holds the same lock as enqueue, so that no item is added
// to a removed queue.
func (b *bookQueues) removeIfEmpty(book playbook.Book, q *bookQueue) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(q.items) > 0 {
		return false
	}
	delete(b.byBook, book)
	return true
}

// takeAll removes the messages that are in no batch yet from all queues, and returns them.
func (b *bookQueues) takeAll() (waiting []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.byBook {
		waiting = append(waiting, q.items...)
		q.items = nil
	}
	return waiting
}
