package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/events/streams"
	"debrief/playbook"
)

// SelectStreams returns the streams with these names, see streams.NameOf, in the same order. With "deltas", the log of the playbooks, it
// adds the redactions that take the place of erased deltas: without them the log would have gaps.
func SelectStreams(short []string) (names []string, err error) {
	all := Streams()
	for _, want := range short {
		i := slices.IndexFunc(all, func(s string) bool { return streams.NameOf(s) == strings.ToLower(want) })
		if i < 0 {
			return nil, fmt.Errorf("unknown stream %q", want)
		}
		names = append(names, all[i])
	}
	if slices.Contains(names, events.StreamDeltas) && !slices.Contains(names, events.StreamRedactions) {
		names = append(names, events.StreamRedactions)
	}
	return names, nil
}

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

// verifier verifies the logs of playbooks.
type verifier interface {
	BooksWithLog(ctx context.Context) ([]playbook.Book, error)
	Verify(ctx context.Context, b playbook.Book) (*deltalog.Verification, error)
}

// VerifyPlaybooks verifies all playbooks of a server after a restore, and returns the names of the damaged ones. It verifies
// none if the backup does not contain their log.
func (m *Manifest) VerifyPlaybooks(ctx context.Context, store verifier) (all []*deltalog.Verification, damaged []string, err error) {
	if !m.hasPlaybooks() {
		return nil, nil, nil
	}
	books, err := store.BooksWithLog(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range books {
		v, err := store.Verify(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, v)
		if v.Damaged() {
			damaged = append(damaged, string(name))
		}
	}
	return all, damaged, nil
}
