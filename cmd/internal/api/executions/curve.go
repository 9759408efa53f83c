package executions

import (
	"cmp"
	"slices"

	"debrief/events"
	"debrief/playbook"
)

// Point is a part of a curve: the counts of one version or of one day.
type Point struct {
	Version *uint64 `json:"version,omitempty" doc:"Version of the playbook; missing for days and for earlier."`
	Day     string  `json:"day,omitempty" doc:"Day in UTC."`
	Counts
}

// Counts are the counts of all executions, and of the two arms.
type Counts struct {
	Cell
	Inject  *Cell `json:"inject,omitempty" doc:"Executions with a context from the playbook."`
	Observe *Cell `json:"observe,omitempty" doc:"Executions of agents without such a context: mode observe, and reports without a context_id."`
}

// Curve is the development of a playbook's results.
type Curve struct {
	Book     playbook.Book `json:"book"`
	Through  uint64        `json:"through" doc:"Sequence of the last event that is counted."`
	Behind   uint64        `json:"behind" doc:"Number of stored sequences that are not counted yet; above 0 after a start."`
	Total    Counts        `json:"total"`
	Versions []Point       `json:"versions" doc:"Counts per version of the playbook in the prompt, oldest first; version 0 is no playbook."`
	Days     []Point       `json:"days" doc:"Counts per day, oldest first."`
	Earlier  *Counts       `json:"earlier,omitempty" doc:"Counts of versions before the first in the list."`
}

// Curve returns the curve of a playbook with at most limit versions and days, the newest. Last is the last sequence of the stream.
func (x *Index) Curve(b playbook.Book, limit int, last uint64) *Curve {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := &Curve{Book: b, Through: x.seq, Behind: last - min(last, x.seq), Versions: []Point{}, Days: []Point{}}
	all := x.books[b]
	if all == nil {
		return out
	}
	out.Total = all.total.counts()
	earlier := all.versions.earlier
	keys := all.versions.keys()
	for i, v := range keys {
		if i < len(keys)-limit {
			earlier.add(all.versions.at[v])
			continue
		}
		out.Versions = append(out.Versions, Point{Version: &v, Counts: all.versions.at[v].counts()})
	}
	if n := earlier.counts(); n.Executions > 0 {
		out.Earlier = &n
	}
	days := all.days.keys()
	for _, d := range days[max(0, len(days)-limit):] {
		out.Days = append(out.Days, Point{Day: d, Counts: all.days.at[d].counts()})
	}
	return out
}

// cells are the cells of one dimension. The oldest are merged into earlier.
type cells[K cmp.Ordered] struct {
	at      map[K]*split
	earlier split
	merged  K // cells up to this key are merged
	limit   int
}

// split returns the cells of a key.
func (c *cells[K]) split(key K) *split {
	if s := c.at[key]; s != nil {
		return s
	}
	if c.at == nil {
		c.at = map[K]*split{}
	}
	var zero K
	if c.merged != zero && key <= c.merged {
		return &c.earlier
	}
	if len(c.at) >= 2*c.limit {
		keys := c.keys()
		for _, k := range keys[:c.limit] {
			c.earlier.add(c.at[k])
			delete(c.at, k)
			c.merged = k
		}
	}
	s := new(split)
	c.at[key] = s
	return s
}

func (c *cells[K]) keys() []K {
	keys := make([]K, 0, len(c.at))
	for k := range c.at {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// The arms.
const (
	inject = iota
	observe
	other // recorded runs, and tasks without a context
	arms
)

// armOf returns the arm of an execution.
func armOf(e *events.Execution) int {
	switch {
	case e.ContextID != "", e.Manifest != nil:
		return inject
	case e.Origin.FromAgent():
		return observe
	}
	return other
}

// split has a cell for each arm.
type split [arms]Cell

func (s *split) cell(arm int) *Cell { return &s[arm] }

func (s *split) add(t *split) {
	for i := range s {
		s[i].add(&t[i])
	}
}

func (s *split) counts() (n Counts) {
	for i := range s {
		n.add(&s[i])
	}
	n.complete()
	for arm, to := range map[int]**Cell{inject: &n.Inject, observe: &n.Observe} {
		if s[arm].Executions > 0 {
			cell := s[arm]
			cell.complete()
			*to = &cell
		}
	}
	return n
}
