package contrast

import (
	"bytes"
	"cmp"
	"slices"
)

// stratum is a range of positions with runs of one task and one agent that have both outcomes.
type stratum struct {
	start, end uint32
	successes  int
	half       uint8
}

// matrix holds the runs of informative strata by candidate. The position of a run depends on the set of runs and not
// on the order of Add: positions are sorted by stratum, then by cells.
type matrix struct {
	strata  []stratum
	of      []uint32 // stratum by position
	success []bool   // outcome by position
	columns []column

	ids, leftOut  int // distinct candidates in the data; those beyond MaxCandidates
	largest       int // runs of the largest stratum
	tasks, repeat int // informative tasks; strata with two runs or more
}

// column is one test. Its entries are sorted, each twice the position of a run that could follow the candidates,
// plus one if it did. It has only strata in which some of these runs did and some did not.
type column struct {
	ids     []ID
	entries []uint32
}

func (d *Data) matrix() *matrix {
	m := &matrix{}
	order := m.arrange(d)
	kept := m.choose(d, order)
	m.columns = merge(m.transpose(d, order, kept))
	return m
}

// arrange fills the strata and returns the runs by position.
func (m *matrix) arrange(d *Data) []uint32 {
	total, good := make([]int, len(d.keys)), make([]int, len(d.keys))
	for _, r := range d.runs {
		total[r.stratum]++
		if r.success {
			good[r.stratum]++
		}
	}
	keys := make([]uint32, 0, len(d.keys))
	for i := range d.keys {
		if total[i] > 1 {
			m.repeat++
		}
		if good[i] > 0 && good[i] < total[i] {
			keys = append(keys, uint32(i))
		}
	}
	slices.SortFunc(keys, func(a, b uint32) int {
		x, y := &d.keys[a], &d.keys[b]
		return cmp.Or(bytes.Compare(x.task[:], y.task[:]), bytes.Compare(x.agent[:], y.agent[:]))
	})
	m.divide(d, keys, total, good)
	return m.place(d, keys)
}

// divide creates the strata and gives each task to the half that has fewer runs so far, in order of the hashes.
func (m *matrix) divide(d *Data, keys []uint32, total, good []int) {
	var weight [2]int
	var pos uint32
	var half uint8
	for i, k := range keys {
		if i == 0 || d.keys[k].task != d.keys[keys[i-1]].task {
			m.tasks++
			half = 0
			if weight[1] < weight[0] {
				half = 1
			}
		}
		weight[half] += total[k]
		end := pos + uint32(total[k])
		m.strata = append(m.strata, stratum{start: pos, end: end, successes: good[k], half: half})
		m.largest = max(m.largest, total[k])
		pos = end
	}
}

// place returns the runs of the strata by position.
func (m *matrix) place(d *Data, keys []uint32) []uint32 {
	rank := make([]int, len(d.keys)) // zero: no informative stratum
	for i, k := range keys {
		rank[k] = i + 1
	}
	var order []uint32
	for i, r := range d.runs {
		if rank[r.stratum] > 0 {
			order = append(order, uint32(i))
		}
	}
	slices.SortFunc(order, func(a, b uint32) int {
		x, y := &d.runs[a], &d.runs[b]
		return cmp.Or(cmp.Compare(rank[x.stratum], rank[y.stratum]), cmp.Compare(x.cells, y.cells))
	})
	m.of, m.success = make([]uint32, len(order)), make([]bool, len(order))
	for pos, i := range order {
		m.of[pos], m.success[pos] = uint32(rank[d.runs[i].stratum]-1), d.runs[i].success
	}
	return order
}

// choose returns the candidates to consider, in ascending order. It looks at no outcome of a single run, so the
// choice does not favour any result.
func (m *matrix) choose(d *Data, order []uint32) []ID {
	seen := make([]bool, d.bound)
	for _, r := range d.runs {
		for c := range r.cells.All() {
			seen[c>>1] = true
		}
	}
	counts := make([][2]uint32, d.bound) // did not, did
	for _, i := range order {
		for c := range d.runs[i].cells.All() {
			counts[c>>1][c&1]++
		}
	}
	var ids []ID
	for id := range counts {
		if seen[id] {
			m.ids++
		}
		if min(counts[id][0], counts[id][1]) > 0 {
			ids = append(ids, ID(id))
		}
	}
	if len(ids) > MaxCandidates {
		slices.SortFunc(ids, func(a, b ID) int {
			return cmp.Or(cmp.Compare(min(counts[b][0], counts[b][1]), min(counts[a][0], counts[a][1])), cmp.Compare(a, b))
		})
		m.leftOut = len(ids) - MaxCandidates
		ids = ids[:MaxCandidates]
		slices.Sort(ids)
	}
	return ids
}

// transpose returns a column for each candidate.
func (m *matrix) transpose(d *Data, order []uint32, ids []ID) []column {
	index := make([]int32, d.bound) // zero: not considered
	for i, id := range ids {
		index[id] = int32(i) + 1
	}
	sizes := make([]int, len(ids)+1)
	each := func(visit func(col int, entry uint32)) {
		for pos, i := range order {
			for c := range d.runs[i].cells.All() {
				if col := index[c>>1]; col > 0 {
					visit(int(col)-1, uint32(pos)<<1|c&1)
				}
			}
		}
	}
	each(func(col int, _ uint32) { sizes[col+1]++ })
	for i := range ids {
		sizes[i+1] += sizes[i]
	}
	entries, next := make([]uint32, sizes[len(ids)]), slices.Clone(sizes)
	each(func(col int, e uint32) { entries[next[col]] = e; next[col]++ })
	columns := make([]column, len(ids))
	for i, id := range ids {
		columns[i] = column{ids: []ID{id}, entries: m.varied(entries[sizes[i]:sizes[i+1]:sizes[i+1]])}
	}
	return columns
}

// varied removes the strata in which all runs did the same. It reuses the slice.
func (m *matrix) varied(entries []uint32) []uint32 {
	out := entries[:0]
	for len(entries) > 0 {
		n, did := m.block(entries)
		if did > 0 && did < n {
			out = append(out, entries[:n]...)
		}
		entries = entries[n:]
	}
	return out
}

// block returns the number of entries of the first stratum, and how many of these runs followed the candidate.
func (m *matrix) block(entries []uint32) (n, did int) {
	end := m.strata[m.of[entries[0]>>1]].end
	for n < len(entries) && entries[n]>>1 < end {
		did += int(entries[n] & 1)
		n++
	}
	return n, did
}

// merge joins candidates that have the same entries and removes those without any.
func merge(columns []column) []column {
	groups := map[uint64][]int{}
	var out []column
next:
	for _, c := range columns {
		if len(c.entries) == 0 {
			continue
		}
		h := uint64(len(c.entries))
		for _, e := range c.entries {
			h = (h ^ uint64(e)) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
		for _, g := range groups[h] {
			if slices.Equal(out[g].entries, c.entries) {
				out[g].ids = append(out[g].ids, c.ids...)
				continue next
			}
		}
		groups[h] = append(groups[h], len(out))
		out = append(out, c)
	}
	return out
}
