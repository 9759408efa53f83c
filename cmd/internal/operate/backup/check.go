package backup

import (
	"context"

	"debrief/events/deltalog"
)

// Messages returns the number of messages in all streams.
func (m *Manifest) Messages() (n uint64) {
	for _, s := range m.Streams {
		n += s.Messages
	}
	return n
}

// Bytes returns the size of the files of all streams.
func (m *Manifest) Bytes() (n int64) {
	for _, s := range m.Streams {
		n += s.Size
	}
	return n
}

// Replicas returns the largest number of replicas of a stream.
func (m *Manifest) Replicas() (n int) {
	for _, s := range m.Streams {
		n = max(n, s.Replicas)
	}
	return n
}

// VerifyPlaybooks verifies all playbooks of a server after a restore.
func VerifyPlaybooks(ctx context.Context, store *deltalog.Store) (all []*deltalog.Verification, err error) {
	books, err := store.BooksWithLog(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range books {
		v, err := store.Verify(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
