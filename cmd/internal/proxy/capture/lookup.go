package capture

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/direct"
)

// lookupResult has the references of one key, and their runs.
type lookupResult struct {
	references []storedReference // oldest first
	runs       []candidate       // that the references name, without those that do not exist anymore
}

// candidate is a run that a reference names, with the call whose reply it names.
type candidate struct {
	revision
	call int // 0 if it names the run itself
}

// lookup returns the references of each key, and their runs with owners that mayRead accepts. It takes two round trips. An empty key has none.
func (s *Store) lookup(ctx context.Context, b *bucket, mayRead func(owner string) bool, keys ...string) (map[string]lookupResult, error) {
	lists := make([][]storedReference, len(keys))
	var reads errgroup.Group
	for i, key := range keys {
		if key != "" {
			reads.Go(func() (err error) {
				lists[i], err = s.references(ctx, b, key)
				return err
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var ids []events.ID
	for _, r := range slices.Concat(lists...) {
		ids = append(ids, r.Run)
	}
	runs, err := s.runs(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[string]lookupResult, len(keys))
	for i, key := range keys {
		f := lookupResult{references: lists[i]}
		for _, ref := range lists[i] {
			if r, ok := runs[ref.Run]; ok && mayRead(r.Owner) {
				f.runs = append(f.runs, candidate{r, ref.Call})
			}
		}
		all[key] = f
	}
	return all, nil
}

// errEnough ends a read.
var errEnough = errors.New("enough references")

// references returns the references of a key, oldest first.
func (s *Store) references(ctx context.Context, b *bucket, key string) ([]storedReference, error) {
	var list []storedReference
	readable := 0
	err := b.read(ctx, key+".*", func(m *direct.Message) error {
		stored := storedReference{token: m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], seq: m.Seq}
		if ref, err := decode[reference](m); err == nil && ref != nil { // a deleted or unreadable one names no run
			stored.reference = *ref
			readable++
		}
		list = append(list, stored)
		if readable >= maxReferences {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return s.recent.merge(b.prefix()+key, list), nil
}

// runs returns the runs with these ids, open or closed. After an error it returns those that it has read and those that this process knows.
func (s *Store) runs(ctx context.Context, ids []events.ID) (map[events.ID]revision, error) {
	runs := make(map[events.ID]revision, len(ids))
	var open, closed []string
	for _, id := range ids {
		if validID(id) && !slices.Contains(open, openKey(id)) {
			open = append(open, openKey(id), blockKey(id))
			closed = append(closed, closedKey(id))
		}
	}
	if len(open) == 0 {
		return runs, nil
	}
	blocks := map[events.ID]*Block{}
	var mu sync.Mutex
	read := func(m *direct.Message) error {
		if id, isBlock := strings.CutPrefix(m.Subject, s.open.prefix()+blockKey("")); isBlock {
			b, err := decode[Block](m)
			if err == nil {
				mu.Lock()
				blocks[events.ID(id)] = b
				mu.Unlock()
			}
			return nil
		}
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
	var reads errgroup.Group
	reads.Go(func() error { return s.open.last(ctx, open, read) })
	reads.Go(func() error { return s.closed.last(ctx, closed, read) })
	err := reads.Wait()
	for id, b := range blocks {
		if r, ok := runs[id]; ok && !r.Closed {
			r.Block = b
		}
	}
	for _, id := range ids { // the server may lack the newest writes of this process
		if r := s.recent.newestRun(id, runs[id]); r.run != nil {
			runs[id] = r
		}
	}
	return runs, err
}

// validID reports whether an id can be a token of a key. The id may be any text of a client.
func validID(id events.ID) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(string(id), func(r rune) bool {
		isAllowed := isLetter(r) || isDigit(r) || r == '-' || r == '_'
		return !isAllowed
	})
}

// StartsOpenConversation reports whether one of the texts is the first question of an open conversation of the owner. Errors count as no.
func (s *Store) StartsOpenConversation(ctx context.Context, c *Call, texts []string) bool {
	var keys []string
	firstCall := new(modelapi.Request) // it continues no reply and no conversation that the provider stores
	for _, text := range texts {
		first := c.keys().start(textChain("").add(&modelapi.Item{Role: modelapi.RoleUser, Text: text}), firstCall)
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
