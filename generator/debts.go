package generator

import (
	"context"
	"slices"
	"sync"
	"time"

	"debrief/playbook/recall"
)

// debts are the items of an index that are owed a vector, because there was none to be had when they came. They are paid
// in the background, the oldest first, and for as long as it takes: until then items are found by their words, and
// nobody waits for an embedder.
type debts struct {
	vectors *vectors
	retry   time.Duration
	// item is the item of a key with its text, nil where nobody wants its vector any more.
	item func(ctx context.Context, key string) (*recall.Item, error)
	// put takes an item with its vector.
	put func(recall.Item)

	mu    sync.Mutex
	owed  []string        // keys, oldest first
	known map[string]bool // of those
	busy  bool            // something is owed, or being paid
	more  chan struct{}   // something was added
	paid  chan struct{}   // closed while nothing is owed
}

func newDebts(v *vectors, retry time.Duration, item func(context.Context, string) (*recall.Item, error), put func(recall.Item)) *debts {
	d := &debts{
		vectors: v, retry: retry, item: item, put: put,
		known: make(map[string]bool), more: make(chan struct{}, 1), paid: make(chan struct{}),
	}
	close(d.paid)
	return d
}

// owe adds a key.
func (d *debts) owe(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[key] {
		return
	}
	if !d.busy {
		d.busy, d.paid = true, make(chan struct{})
	}
	d.known[key] = true
	d.owed = append(d.owed, key)
	select {
	case d.more <- struct{}{}:
	default:
	}
}

// settled is closed when nothing is owed any more.
func (d *debts) settled() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paid
}

// work pays until the context ends. Where the embedder refuses several texts fewer are tried, because one of them may be
// what it cannot take; where it refuses a single one, that goes to the end of the queue and all wait for a while.
func (d *debts) work(ctx context.Context) {
	for most := embedBatch; ctx.Err() == nil; {
		keys := d.take(most)
		if len(keys) == 0 {
			select {
			case <-d.more:
			case <-ctx.Done():
			}
			continue
		}
		switch err := d.pay(ctx, keys); {
		case err == nil:
			most = min(2*most, embedBatch)
		case len(keys) > 1:
			d.giveBack(keys, false)
			most = len(keys) / 2
		case ctx.Err() == nil:
			d.vectors.log.Warn().Err(err).Str("item", keys[0]).Msg("no embedding for now, it is found by words")
			d.giveBack(keys, true)
			most = 1
			select {
			case <-time.After(d.retry):
			case <-ctx.Done():
			}
		}
	}
}

// embedTimeout bounds one call of an embedder that nobody waits for.
const embedTimeout = time.Minute

// pay makes the vectors of these keys.
func (d *debts) pay(ctx context.Context, keys []string) error {
	var items []*recall.Item
	var texts []string
	for _, key := range keys {
		i, err := d.item(ctx, key)
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
	made, err := d.vectors.of(ctx, texts)
	if err != nil {
		return err
	}
	for k, i := range items {
		i.Vector, i.Model = made[k], d.vectors.model(made[k])
		d.put(*i)
	}
	return nil
}

// take takes keys off the front of the queue. Without any, all is paid.
func (d *debts) take(most int) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(most, len(d.owed))
	keys := d.owed[:n:n]
	d.owed = d.owed[n:]
	for _, key := range keys {
		delete(d.known, key) // it may change while it is being paid, and is owed another one then
	}
	if n == 0 && d.busy {
		d.busy, d.owed = false, nil
		close(d.paid)
	}
	return keys
}

// giveBack puts keys back: to the front of the queue, or last to its end.
func (d *debts) giveBack(keys []string, last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return d.known[key] })
	for _, key := range keys {
		d.known[key] = true
	}
	if last {
		d.owed = append(d.owed, keys...)
	} else {
		d.owed = slices.Concat(keys, d.owed)
	}
}
