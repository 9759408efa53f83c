package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/versions"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// maxLog is the number of versions of a playbook that stay in memory. A list of older ones reads the log.
const maxLog = 20_000

// versionLog has the newest versions of a playbook in memory. A read costs only the new deltas.
type versionLog struct {
	seq   uint64        // of the last delta
	items []versionItem // oldest first, without names
	names []playbook.Name
}

// add adds the next record of the log.
func (l *versionLog) add(r *deltalog.Record) error {
	for _, n := range r.Names { // a name belongs to the version that got it last
		l.names = slices.DeleteFunc(l.names, func(o playbook.Name) bool { return o.Name == n.Name })
		l.names = append(l.names, n)
	}
	if l.seq = r.Seq; len(l.items) == maxLog {
		l.items = slices.Clone(l.items[maxLog/4:])
	}
	l.items = append(l.items, newVersionItem(explain.Change{Record: r}))
	return nil
}

// page returns at most limit versions below end, newest first. Ok is false if it needs versions that are not in memory.
func (l *versionLog) page(end uint64, limit int) (all []versionItem, ok bool) {
	at, _ := slices.BinarySearchFunc(l.items, end, func(v versionItem, end uint64) int { return int(int64(v.Version) - int64(end)) })
	all = slices.Clone(l.items[max(0, at-limit):at])
	slices.Reverse(all)
	for i := range all {
		for _, n := range l.names {
			if n.Version == all[i].Version {
				all[i].Names = append(all[i].Names, n.Name)
			}
		}
	}
	return all, len(all) == limit || len(l.items) == 0 || l.items[0].Version == 1
}

// versions returns at most limit versions of a playbook below end, newest first, and the number of its newest version. Ok is false if
// they are not in memory.
func (s *books) versions(ctx context.Context, name playbook.Book, end uint64, limit int) (all []versionItem, newest uint64, ok bool, err error) {
	b := s.take(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	for try := range 2 {
		if b.log == nil {
			b.log = new(versionLog)
		}
		err = s.store.DeltasAfter(ctx, name, b.log.seq, b.log.add)
		if err == nil || !errors.Is(err, deltalog.ErrBrokenLog) || try > 0 {
			break
		}
		b.log = nil // the server may have lost the end of the log: read the rest from its beginning
	}
	if err != nil {
		b.log = nil
		return nil, 0, false, versions.LogError(err)
	}
	if len(b.log.items) == 0 {
		s.forget(name)
		return nil, 0, false, notFound(fmt.Sprintf("playbook %q: not found", name))
	}
	all, ok = b.log.page(end, limit)
	return all, b.log.items[len(b.log.items)-1].Version, ok, nil
}
