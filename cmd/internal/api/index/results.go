package index

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
)

// Limits of the results of a playbook; see cells.
const (
	maxVersions = 2000
	maxDays     = 400
)

// results are the results of the executions of a playbook: in total, per version and per day.
type results struct {
	total    Cell
	versions cells[uint64]
	days     cells[string]
}

// resultsOf returns the results of a playbook. The caller holds the lock.
func (x *Executions) resultsOf(b playbook.Book) *results {
	r := x.results[b]
	if r == nil {
		r = &results{versions: cells[uint64]{limit: maxVersions}, days: cells[string]{limit: maxDays}}
		x.results[b] = r
	}
	return r
}

// cells returns the cells that count an execution.
func (r *results) cells(e *events.Execution) []*Cell {
	return []*Cell{&r.total, r.versions.cell(e.Version), r.days.cell(e.Started.UTC().Format(time.DateOnly))}
}

// add adds an execution.
func (r *results) add(e *events.Execution) {
	for _, cell := range r.cells(e) {
		cell.Executions++
		cell.Usage = cell.Usage.Add(e.Usage)
	}
	r.addOutcome(e, e.Outcome.Complete(), 1)
}

// addOutcome adds n outcomes of an execution, or removes them if n is negative.
func (r *results) addOutcome(e *events.Execution, o events.Outcome, n int) {
	if !o.Known() {
		return
	}
	for _, cell := range r.cells(e) {
		cell.known += n
		if o.Label == events.Success {
			cell.right += n
		}
		if o.Inferred {
			cell.Inferred += n
		}
	}
}

// revise replaces the outcome of an execution by that of feedback.
func (x *Executions) revise(ctx context.Context, f *events.Feedback) error {
	seq, matches, err := f.Execution.Parse()
	if err != nil || !f.Outcome.Complete().Known() {
		return nil //nolint:nilerr // the feedback names no stored execution, or does not change its outcome
	}
	found, err := x.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Book != f.Book { // it has expired, or the feedback names another book
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	before, ok := x.revised[seq]
	if !ok {
		before = e.Outcome.Complete()
	}
	outcome := before.WithFeedback(f)
	x.revised[seq] = events.Outcome{Label: outcome.Label, Score: outcome.Score, Inferred: outcome.Inferred, Violation: outcome.Violation}
	if i, ok := x.rowAt(seq); ok {
		x.rows[i].label = outcome.Label
	}
	x.compared.revise(e, before, outcome)
	x.resultsOf(e.Book).addOutcome(e, before, -1)
	x.resultsOf(e.Book).addOutcome(e, outcome, 1)
	return nil
}

// Cell has the counts of some executions.
type Cell struct {
	Executions int             `json:"executions"`
	Accuracy   report.Estimate `json:"accuracy" doc:"Share of the outcome success among known outcomes, after feedback, with its 95 % interval (Wilson); n is the number of known outcomes."`
	Inferred   int             `json:"inferred,omitempty" doc:"Known outcomes that the gateway derived from the messages of the run."`
	Usage      chat.Usage      `json:"usage" doc:"Sums of calls, tokens and cost; the cost is that of priced models."`
	Cached     float64         `json:"cached_share" doc:"Share of the input tokens that the provider read from its cache."`

	known, right int
}

// add adds the counts of another cell.
func (c *Cell) add(d *Cell) {
	c.Executions += d.Executions
	c.Inferred += d.Inferred
	c.Usage = c.Usage.Add(d.Usage)
	c.known += d.known
	c.right += d.right
}

// complete returns the cell with its shares.
func (c *Cell) complete() Cell {
	out := *c
	out.Accuracy = report.Share(c.right, c.known)
	if c.Usage.InputTokens > 0 {
		out.Cached = float64(c.Usage.CachedTokens) / float64(c.Usage.InputTokens)
	}
	return out
}

// Point is a part of a curve: the counts of one version or of one day.
type Point struct {
	Version *uint64 `json:"version,omitempty" doc:"Version of the playbook; missing for days and for earlier."`
	Day     string  `json:"day,omitempty" doc:"Day in UTC."`
	Cell
}

// Curve is the development of a playbook's results.
type Curve struct {
	Book     playbook.Book `json:"book"`
	Through  uint64        `json:"through" doc:"Sequence of the last event that is counted."`
	Behind   uint64        `json:"behind" doc:"Number of stored sequences that are not counted yet; above 0 after a start."`
	Total    Cell          `json:"total"`
	Versions []Point       `json:"versions" doc:"Counts per version of the playbook in the prompt, oldest first; version 0 is no playbook."`
	Days     []Point       `json:"days" doc:"Counts per day, oldest first."`
	Earlier  *Cell         `json:"earlier,omitempty" doc:"Counts of the versions before the first in the list."`
}

// Curve returns the curve of a playbook, with at most the newest limit versions and the newest limit days. last is the last sequence of the
// stream.
func (x *Executions) Curve(b playbook.Book, limit int, last uint64) *Curve {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := &Curve{Book: b, Through: x.seq, Behind: last - min(last, x.seq), Versions: []Point{}, Days: []Point{}}
	all := x.results[b]
	if all == nil {
		return out
	}
	out.Total = all.total.complete()
	earlier := all.versions.earlier
	keys := all.versions.keys()
	for i, v := range keys {
		if i < len(keys)-limit {
			earlier.add(all.versions.at[v])
			continue
		}
		out.Versions = append(out.Versions, Point{Version: &v, Cell: all.versions.at[v].complete()})
	}
	if earlier.Executions > 0 {
		earlier = earlier.complete()
		out.Earlier = &earlier
	}
	days := all.days.keys()
	for _, d := range days[max(0, len(days)-limit):] {
		out.Days = append(out.Days, Point{Day: d, Cell: all.days.at[d].complete()})
	}
	return out
}

// cells are the results per version, or per day. At twice the limit, the oldest are merged into earlier, so that limit remain.
type cells[K cmp.Ordered] struct {
	at      map[K]*Cell
	earlier Cell
	merged  K // cells up to this key are merged; zero before the first merge
	limit   int
}

// cell returns the cell that counts a key, and adds a missing one.
func (c *cells[K]) cell(key K) *Cell {
	if s := c.at[key]; s != nil {
		return s
	}
	if len(c.at) >= 2*c.limit {
		c.merge()
	}
	var none K
	if c.merged != none && key <= c.merged {
		return &c.earlier
	}
	if c.at == nil {
		c.at = map[K]*Cell{}
	}
	s := new(Cell)
	c.at[key] = s
	return s
}

// merge merges the oldest cells into earlier.
func (c *cells[K]) merge() {
	for _, k := range c.keys()[:c.limit] {
		c.earlier.add(c.at[k])
		delete(c.at, k)
		c.merged = k
	}
}

func (c *cells[K]) keys() []K { return slices.Sorted(maps.Keys(c.at)) }
