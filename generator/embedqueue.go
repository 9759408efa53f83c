package generator

import (
	"context"
	"sync"
	"time"

	"debrief/events"
	"debrief/playbook/recall"
)

// embedQueue holds the items of an index that wait for an embedding. It embeds them in the background, oldest first,
// and retries without limit. Until then the items are found by words, and no request waits for an embedder.
type embedQueue struct {
	embeddings *embeddingCache
	retry      time.Duration
	// load returns the item of a key with its text, or nil if the vector is no longer needed.
	load func(ctx context.Context, key string) (*recall.Item, error)
	// store receives an item with its vector.
	store func(recall.Item)

	mu      sync.Mutex
	keys    []string        // the queue, oldest first
	queued  map[string]bool // the set of keys in the queue
	pending bool            // items are queued or being embedded
	added   chan struct{}   // gets an element after add, to wake run
	idle    chan struct{}   // closed while pending is false
}

// newEmbedQueue returns an empty queue. The caller must call run.
func newEmbedQueue(
	embeddings *embeddingCache, retry time.Duration,
	load func(context.Context, string) (*recall.Item, error), store func(recall.Item),
) *embedQueue {
	q := &embedQueue{
		embeddings: embeddings, retry: retry, load: load, store: store,
		queued: make(map[string]bool), added: make(chan struct{}, 1), idle: make(chan struct{}),
	}
	close(q.idle)
	return q
}

// add queues a key. It does nothing if the key is queued already.
func (q *embedQueue) add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued[key] {
		return
	}
	if !q.pending {
		q.pending, q.idle = true, make(chan struct{})
	}
	q.queued[key] = true
	q.keys = append(q.keys, key)
	select {
	case q.added <- struct{}{}:
	default: // run will wake already
	}
}

// whenIdle returns a channel that is closed when nothing is pending.
func (q *embedQueue) whenIdle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.idle
}

// run embeds items until ctx ends. If the embedder rejects a batch, one text may be the cause: run moves the batch to the end of the queue and
// embeds single texts, and larger batches again as long as they succeed. After a rejected single text it waits for the retry delay.
func (q *embedQueue) run(ctx context.Context) {
	limit := embedBatch // number of texts in the next batch
	for ctx.Err() == nil {
		keys := q.next(limit)
		if len(keys) == 0 {
			select {
			case <-q.added:
			case <-ctx.Done():
			}
			continue
		}
		err := q.embed(ctx, keys)
		if err == nil {
			limit = min(2*limit, embedBatch)
			continue
		}
		limit = 1
		for _, key := range keys {
			q.add(key)
		}
		if len(keys) == 1 && ctx.Err() == nil {
			q.embeddings.log.Warn().Err(err).Str("item", keys[0]).Msg("embed item: retrying later, using words only")
			_ = events.Sleep(ctx, q.retry)
		}
	}
}

// embedTimeout bounds one background call of an embedder.
const embedTimeout = time.Minute

// embed computes and stores the vectors of keys.
func (q *embedQueue) embed(ctx context.Context, keys []string) error {
	var items []*recall.Item
	var texts []string
	for _, key := range keys {
		i, err := q.load(ctx, key)
		if err != nil {
			return err
		}
		if i != nil {
			items, texts = append(items, i), append(texts, i.Text)
		}
	}
	if len(items) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, embedTimeout)
	defer cancel()
	vectors, err := q.embeddings.get(ctx, texts)
	if err != nil {
		return err
	}
	for k, i := range items {
		i.Vector, i.Model = vectors[k], q.embeddings.modelName(vectors[k])
		q.store(*i)
	}
	return nil
}

// next removes up to limit keys from the front of the queue and returns them. If there are none, the queue becomes idle.
func (q *embedQueue) next(limit int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(limit, len(q.keys))
	keys := q.keys[:n:n]
	q.keys = q.keys[n:]
	for _, key := range keys {
		delete(q.queued, key) // so that a change during the embedding queues the key again
	}
	if n == 0 && q.pending {
		q.pending, q.keys = false, nil
		close(q.idle)
	}
	return keys
}
