package capture

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"debrief/events"
	"debrief/events/direct"
)

// candidate is a run that a reference names, with the call whose reply it names.
type candidate struct {
	revision
	call int
}

// candidates returns the runs of an owner that the references of each key name, oldest first. An empty key names none. The runs
// of all keys need two round trips.
func (s *Store) candidates(ctx context.Context, owner string, keys ...string) ([][]candidate, error) {
	refs := make([][]reference, len(keys))
	errs := make([]error, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		if key != "" {
			all.Go(func() { refs[i], errs[i] = s.references(ctx, key) })
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	found, err := s.resolve(ctx, refs)
	for i := range found {
		found[i] = slices.DeleteFunc(found[i], func(c candidate) bool { return c.Owner != owner })
	}
	return found, err
}

// references returns the history of a key.
func (s *Store) references(ctx context.Context, key string) (refs []reference, err error) {
	last := uint64(0)
	err = s.read(ctx, key, func(m *direct.Message) error {
		last = m.Seq
		if r, err := decode[reference](m); err == nil && r != nil { // an unreadable one names no run
			refs = append(refs, *r)
		}
		return nil
	})
	return s.recent.merge(key, refs, last), err
}

// lastReferences returns the newest reference of each key.
func (s *Store) lastReferences(ctx context.Context, keys []string) ([][]reference, error) {
	refs, last := make([][]reference, len(keys)), make([]uint64, len(keys))
	err := s.last(ctx, keys, func(m *direct.Message) error {
		i := slices.Index(keys, strings.TrimPrefix(m.Subject, prefix))
		if r, err := decode[reference](m); err == nil && r != nil && i >= 0 {
			refs[i], last[i] = []reference{*r}, m.Seq
		}
		return nil
	})
	for i, key := range keys {
		if merged := s.recent.merge(key, refs[i], last[i]); len(merged) > 0 {
			refs[i] = merged[len(merged)-1:]
		}
	}
	return refs, err
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
	found := make([][]candidate, len(refs))
	for i, list := range refs {
		for _, ref := range list {
			if r, ok := runs[ref.Run]; ok {
				found[i] = append(found[i], candidate{r, ref.Call})
			}
		}
	}
	return found, nil
}

// runs returns the runs with these ids, open or closed.
func (s *Store) runs(ctx context.Context, ids []events.ID) (map[events.ID]revision, error) {
	found := make(map[events.ID]revision, len(ids))
	var keys []string
	for _, id := range ids {
		if validID(id) {
			keys = append(keys, openKey(id), closedKey(id))
		}
	}
	err := s.last(ctx, keys, func(m *direct.Message) error {
		r, err := decode[run](m)
		if err != nil || r == nil { // an unreadable run is lost
			return nil
		}
		if old, ok := found[r.ID]; !ok || !old.Closed {
			found[r.ID] = revision{r, m.Seq}
		}
		return nil
	})
	for _, id := range ids {
		if r := s.recent.run(id, found[id]); r.run != nil && !(found[id].run != nil && found[id].Closed) {
			found[id] = r
		}
	}
	return found, err
}

// validID reports whether an id can be a token of a key. Ids of runs always can; a client may send any text.
func validID(id events.ID) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(string(id), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// blocks returns the texts of blocks by their runs. Runs that do not exist anymore are left out.
func (s *Store) blocks(ctx context.Context, places []placement) (map[events.ID]string, error) {
	texts := make(map[events.ID]string, len(places))
	var missing []events.ID
	for _, b := range places {
		if text, ok := s.recent.block(b.Run); ok {
			texts[b.Run] = text
		} else {
			missing = append(missing, b.Run)
		}
	}
	if len(missing) == 0 {
		return texts, nil
	}
	found, err := s.runs(ctx, missing)
	for id, r := range found {
		if r.Block != nil {
			texts[id] = r.Block.Text
			s.recent.putBlock(id, r.Block.Text)
		}
	}
	return texts, err
}
