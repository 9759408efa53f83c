package capture

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/direct"
)

// candidate is a run that a reference names, with the call whose reply it names.
type candidate struct {
	revision
	call int
}

// found are the references of a key, oldest first.
type found struct {
	tokens []string    // the last token of each stored key: see write
	refs   []reference // of the same length
}

// maxReferences is the number of references of one key that are read. So of the runs that began with equal texts, only this many are
// found.
const maxReferences = 32

// errEnough ends a read.
var errEnough = errors.New("enough references")

// candidates returns for each key the runs of the owner that its references name, oldest first, and the references themselves. An
// empty key has none. It takes two round trips.
func (s *Store) candidates(ctx context.Context, b *bucket, owner string, keys ...string) (lists [][]candidate, all []found, err error) {
	all = make([]found, len(keys))
	errs := make([]error, len(keys))
	var reads sync.WaitGroup
	for i, key := range keys {
		if key != "" {
			reads.Go(func() { all[i], errs[i] = s.references(ctx, b, key) })
		}
	}
	reads.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	refs := make([][]reference, len(keys))
	for i := range all {
		refs[i] = all[i].refs
	}
	lists, err = s.resolve(ctx, refs)
	for i := range lists {
		lists[i] = slices.DeleteFunc(lists[i], func(c candidate) bool { return c.Owner != owner })
	}
	return lists, all, err
}

// references returns the references of a key.
func (s *Store) references(ctx context.Context, b *bucket, key string) (f found, err error) {
	seqs := map[string]uint64{}
	err = b.read(ctx, key+".*", func(m *direct.Message) error {
		token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		seqs[token] = m.Seq
		if r, err := decode[reference](m); err == nil && r != nil { // an unreadable one names no run
			f.tokens, f.refs = append(f.tokens, token), append(f.refs, *r)
		}
		if len(f.refs) >= maxReferences {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return s.recent.merge(b.prefix()+key, f, seqs), err
}

// freeSlot returns a token for another reference of a key: an unused one, or that of the oldest reference.
func (f *found) freeSlot(random int) string {
	if len(f.tokens) >= maxReferences {
		return f.tokens[0]
	}
	for i := range maxReferences {
		if slot := strconv.Itoa((random + i) % maxReferences); !slices.Contains(f.tokens, slot) {
			return slot
		}
	}
	return f.tokens[0]
}

// Quotes reports whether one of the texts is the first question of an open conversation of the owner. Errors count as no.
func (s *Store) Quotes(ctx context.Context, c *Call, texts []string) bool {
	var keys []string
	for _, text := range texts {
		first := c.keys().start(textChain("").add(&modelapi.Item{Role: modelapi.RoleUser, Text: text}), new(modelapi.Request))
		if s.recent.namesOpenRun(s.open.prefix() + first) {
			return true
		}
		keys = append(keys, first+".*")
	}
	found := false
	_ = s.open.last(ctx, keys, func(m *direct.Message) error {
		found = found || !m.Deleted()
		return nil
	})
	return found
}

// resolve returns the runs of references. Runs that do not exist anymore are left out.
func (s *Store) resolve(ctx context.Context, refs [][]reference) ([][]candidate, error) {
	var ids []events.ID
	for _, list := range refs {
		for _, ref := range list {
			if !slices.Contains(ids, ref.Run) {
				ids = append(ids, ref.Run)
			}
		}
	}
	runs, err := s.runs(ctx, ids)
	if err != nil {
		return nil, err
	}
	lists := make([][]candidate, len(refs))
	for i, list := range refs {
		for _, ref := range list {
			if r, ok := runs[ref.Run]; ok {
				lists[i] = append(lists[i], candidate{r, ref.Call})
			}
		}
	}
	return lists, nil
}

// runs returns the runs with these ids, open or closed.
func (s *Store) runs(ctx context.Context, ids []events.ID) (map[events.ID]revision, error) {
	runs := make(map[events.ID]revision, len(ids))
	var open, closed []string
	for _, id := range ids {
		if validID(id) {
			open, closed = append(open, openKey(id)), append(closed, closedKey(id))
		}
	}
	if len(open) == 0 {
		return runs, nil
	}
	var mu sync.Mutex
	read := func(m *direct.Message) error {
		r, err := decode[run](m)
		if err != nil || r == nil { // an unreadable run is lost
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if old, ok := runs[r.ID]; !ok || !old.Closed { // a closed run is newer than the open one
			runs[r.ID] = revision{r, m.Seq}
		}
		return nil
	}
	var closedErr error
	var other sync.WaitGroup
	other.Go(func() { closedErr = s.closed.last(ctx, closed, read) })
	openErr := s.open.last(ctx, open, read)
	other.Wait()
	for _, id := range ids {
		if r := s.recent.run(id, runs[id]); r.run != nil {
			runs[id] = r
		}
	}
	return runs, errors.Join(openErr, closedErr)
}

// validID reports whether an id can be a token of a key. The id may be any text of a client.
func validID(id events.ID) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(string(id), func(r rune) bool {
		isAllowed := isLetter(r) || isDigit(r) || r == '-' || r == '_'
		return !isAllowed
	})
}
