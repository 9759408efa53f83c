package deltalog

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

// coverCheck finds events that the log covers more than once. It keeps all covered ids in memory, 16 bytes each.
type coverCheck struct {
	ids      *index
	repeated map[playbook.CoverKey]*repeatedCover
}

// repeatedCover is an event that is covered more than once, and the versions that cover it.
type repeatedCover struct {
	cover    playbook.Cover
	versions []uint64
}

func newCoverCheck() coverCheck {
	return coverCheck{newIndex("", "", minTail, nil), map[playbook.CoverKey]*repeatedCover{}}
}

// add checks the covers of the next delta of a log.
func (c *coverCheck) add(r *Record) {
	inDelta := make(map[playbook.CoverKey]bool, len(r.Covers))
	for _, cover := range r.Covers {
		key := cover.Key()
		inLog, _ := c.ids.has(key) // an index in memory returns no error
		if inLog || inDelta[key] {
			c.repeated[key] = &repeatedCover{cover: cover}
		}
		inDelta[key] = true
	}
	c.ids.add(r)
}

// reportCovers adds a finding for each event that is covered more than once. If there is one, it reads the log again to
// find the versions.
func (v *verifier) reportCovers(ctx context.Context, s *Store) error {
	repeated := v.covers.repeated
	if len(repeated) == 0 {
		return nil
	}
	err := s.readDeltas(ctx, &logCursor{book: v.Book}, func(r *Record) error {
		if r.Version > v.Version {
			return errUpToDate
		}
		for _, cover := range r.Covers {
			if found := repeated[cover.Key()]; found != nil {
				found.versions = append(found.versions, r.Version)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errUpToDate) && !v.broken { // the error of a broken log is reported already
		return err
	}
	all := slices.SortedFunc(maps.Values(repeated), func(a, b *repeatedCover) int {
		return cmp.Or(slices.Compare(a.versions, b.versions), strings.Compare(a.cover.ID, b.cover.ID))
	})
	for _, found := range all[:min(len(all), maxDifferences)] {
		fix := ""
		if e := found.cover.Evidence; e != nil {
			fix = fmt.Sprintf("; run 'debrief playbook forget --book %s --execution %s' to remove its votes", v.Book, e.Execution)
		}
		v.addFinding(Broken, FindingDuplicate, "%s %s is applied more than once: in versions %s%s", found.cover.Kind(), found.cover.ID, joinVersions(found.versions), fix)
	}
	if more := len(all) - maxDifferences; more > 0 {
		v.addFinding(Broken, FindingDuplicate, "%d more ids are applied more than once", more)
	}
	return nil
}

// joinVersions formats versions as text: "1, 4 and 7".
func joinVersions(versions []uint64) string {
	words := make([]string, len(versions))
	for i, n := range versions {
		words[i] = strconv.FormatUint(n, 10)
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
