package propose

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"math"
	"slices"

	"debrief/events"
)

// A model overlooks reflections if one request contains a hundred of them. In the published measurement of ACE in batches,
// accuracy fell from 87.0 % to 72.5 %. With √n groups and each reflection in two groups it did not fall
// (kayba-ai/agentic-context-engine, deduplicated parallel learning). Fewer than 30 need no groups: 8 insights took four calls, and their
// groups made 12 proposals for 5 lessons, which the fourth call had to compare.
const (
	maxPerCall          = 29 // reflections in a single request; larger batches are split into groups
	groupsPerReflection = 2  // groups that contain each reflection
	maxParallelCalls    = 8  // parallel requests of one batch
)

// assignGroups divides reflections into groups and returns the indexes of the members of each group. The groups and their
// order depend only on the ids, so the same batch gives the same groups in every order of arrival.
func assignGroups(ids []events.ID) [][]int {
	n := len(ids)
	if n <= maxPerCall {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return [][]int{all}
	}
	hashes := make([][sha256.Size]byte, n)
	order := make([]int, n)
	for i, id := range ids {
		order[i] = i
		hashes[i] = sha256.Sum256([]byte("deal " + id))
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(bytes.Compare(hashes[a][:], hashes[b][:]), cmp.Compare(a, b))
	})
	g := groupCount(n)
	groups := make([][]int, g)
	// Each pass deals the shuffled reflections to the groups in rows, one for each group. The first pass shifts each row by 1 to g-1 groups, so
	// that two reflections that share a group in one pass are mostly separated in the other. A reflection is in the first half of one group and
	// in the second half of another one, because a model may overlook the end of a list.
	for pass := range groupsPerReflection {
		for pos, i := range order {
			shift := 0
			if row := pos / g; pass == 0 {
				shift = 1 + row%(g-1)
			}
			to := (pos + shift) % g
			groups[to] = append(groups[to], i)
		}
	}
	return groups
}

// groupCount returns the number of groups for more than maxPerCall reflections.
func groupCount(reflections int) int { return int(math.Ceil(math.Sqrt(float64(reflections)))) }

// Calls returns the number of model calls for a batch of reflections with lessons: one for each group, and one that compares the groups.
func Calls(reflections int) int {
	switch {
	case reflections == 0:
		return 0
	case reflections <= maxPerCall:
		return 1
	}
	return groupCount(reflections) + 1
}

// CallTokens is a typical number of tokens of a call about a small playbook, for estimates before the call.
const CallTokens = 2000
