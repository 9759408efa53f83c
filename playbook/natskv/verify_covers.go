package natskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"debrief/playbook"
)

// coverCheck finds what two deltas cover. It has the ids of a log in an index in memory, 16 bytes each.
type coverCheck struct {
	ids   *index
	twice map[playbook.CoverKey]*repeatedCover
}

// repeatedCover is something that several deltas cover.
type repeatedCover struct {
	cover    playbook.Cover
	versions []uint64
}

func newCoverCheck() coverCheck {
	return coverCheck{newIndex("", "", minTail, nil), map[playbook.CoverKey]*repeatedCover{}}
}

// take takes the next delta of a log.
func (c *coverCheck) take(r *Record) {
	within := make(map[playbook.CoverKey]bool, len(r.Covers))
	for _, cover := range r.Covers {
		key := cover.Key()
		before, _ := c.ids.has(key) // memory can be read
		if before || within[key] {
			c.twice[key] = &repeatedCover{cover: cover}
		}
		within[key] = true
	}
	c.ids.add(r)
}

// endCovers reports what several deltas cover. Only where there is such a thing is the log read again, for the versions.
func (v *verifier) endCovers(ctx context.Context, s *Store) error {
	twice := v.covers.twice
	if len(twice) == 0 {
		return nil
	}
	err := s.deltas(ctx, &logCursor{book: v.Book}, func(r *Record) error {
		if r.Version > v.Version {
			return errUpToDate
		}
		for _, cover := range r.Covers {
			if t := twice[cover.Key()]; t != nil {
				t.versions = append(t.versions, r.Version)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errUpToDate) && !v.broken { // how a broken log ends is reported already
		return err
	}
	all := slices.SortedFunc(maps.Values(twice), func(a, b *repeatedCover) int {
		return cmp.Or(slices.Compare(a.versions, b.versions), strings.Compare(a.cover.ID, b.cover.ID))
	})
	for _, t := range all[:min(len(all), maxDiffer)] {
		cure := ""
		if e := t.cover.Evidence; e != nil {
			cure = fmt.Sprintf(": run 'debrief playbook forget --book %s --execution %s' to take its votes out", v.Book, e.Execution)
		}
		v.find(Broken, "%s %s has its effect more than once, in the versions %s%s", t.cover.Kind(), t.cover.ID, list(t.versions), cure)
	}
	if more := len(all) - maxDiffer; more > 0 {
		v.find(Broken, "%d more ids have their effect more than once", more)
	}
	return nil
}

// list is a list of versions in words.
func list(versions []uint64) string {
	words := make([]string, len(versions))
	for i, n := range versions {
		words[i] = strconv.FormatUint(n, 10)
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
