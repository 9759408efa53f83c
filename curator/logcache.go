package curator

import (
	"context"
	"errors"

	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// maxCachedLog is the maximum size of a log, in encoded bytes, that is kept in memory. Decoded it takes about three times
// as much.
const maxCachedLog = 32 << 20

// logCache keeps the log of a book, so that consecutive edits which fold the whole log read and decode it once. The zero
// value is empty.
type logCache struct {
	deltas   []*playbook.Delta
	seq      uint64 // of the last delta
	size     int    // encoded bytes
	tooLarge bool   // the log is larger than maxCachedLog: it is read each time
}

// history returns the log of a book up to its end, for package history. Its functions do not change deltas.
func (c *logCache) history(ctx context.Context, store *deltalog.Store, b playbook.Book) history.Log {
	return func(fn func(*playbook.Delta) error) error {
		if err := c.read(ctx, store, b); err != nil {
			return err
		}
		if c.tooLarge {
			return store.History(ctx, b)(fn)
		}
		for _, d := range c.deltas {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	}
}

// read continues to read the log up to its end.
func (c *logCache) read(ctx context.Context, store *deltalog.Store, b playbook.Book) error {
	if c.tooLarge {
		return nil
	}
	cached := c.seq > 0
	err := store.DeltasAfter(ctx, b, c.seq, func(r *deltalog.Record) error {
		if cached && len(r.Redacted) > 0 {
			return errRedacted
		}
		if c.size += r.Size; c.size > maxCachedLog {
			return errTooLarge
		}
		c.deltas, c.seq = append(c.deltas, &r.Delta), r.Seq
		return nil
	})
	switch {
	case errors.Is(err, errTooLarge):
		*c = logCache{tooLarge: true}
		return nil
	case errors.Is(err, errRedacted): // the cache has texts that were erased
		*c = logCache{}
		return c.read(ctx, store, b)
	}
	return err
}

var errRedacted = errors.New("texts of the log were erased")

var errTooLarge = errors.New("the log is too large for the memory")
