package learning

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/sample"
	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/stats"
	"debrief/curator"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"

	book "debrief/playbook"
)

// Some of the reflections repeat the lessons of others.
const (
	manyReflections = 100
	manyLessons     = 75
	attention       = 24 // insights that the model uses from one prompt
)

var batchSizes = []int{3, 10, 30, 100}

type retentionRow struct {
	Part     string         `json:"part"`
	Batch    int            `json:"batch"`
	Control  bool           `json:"one_call_for_all"`
	Kept     stats.Estimate `json:"lessons_kept"`
	Distinct int            `json:"distinct_lessons"`
	Extra    float64        `json:"other_bullets"`
	Calls    float64        `json:"calls_per_batch"`
	Allowed  float64        `json:"calls_allowed"` // √n + 2
	Seeds    int            `json:"seeds"`
}

// retention measures how many lessons of a hundred reflections are kept, by the size of the batches.
func (b *Bench) retention(ctx context.Context, log zerolog.Logger) (*table.Table, error) {
	seeds := min(b.Seeds, 10)
	s := &table.Table{
		Title: fmt.Sprintf("Retention: lessons kept of %d distinct ones in %d reflections, by how many are curated at once, %d seeds; the model takes in %d of one call",
			manyLessons, manyReflections, seeds, attention),
		Head: "at once\tkept\t95 %\tother bullets\tcalls a batch\tallowed (√n+2)\t",
	}
	var inThrees, inOne retentionRow
	met := true
	for _, size := range batchSizes {
		row := retentionRow{Part: "retention", Batch: size, Distinct: manyLessons, Seeds: seeds, Allowed: math.Sqrt(float64(size)) + 2}
		var kept []float64
		for seed := range seeds {
			r, err := curateMany(ctx, uint64(seed+1), size, log)
			if err != nil {
				return nil, err
			}
			kept = append(kept, float64(r.kept))
			row.Extra += float64(r.extra) / float64(seeds)
			row.Calls += float64(r.calls) / float64(r.batches) / float64(seeds)
		}
		row.Kept = stats.Mean(kept)
		s.Row(row, "%d\t%.1f\t%.1f to %.1f\t%.1f\t%.2f\t%.1f\t", size, row.Kept.Mean, row.Kept.Low, row.Kept.High, row.Extra, row.Calls, row.Allowed)
		met = met && row.Calls <= row.Allowed
		if size == batchSizes[0] {
			inThrees = row
		}
		inOne = row
		b.say("retention: %d at once", size)
	}
	control, err := oneCall(ctx, seeds)
	if err != nil {
		return nil, err
	}
	s.Row(control, "control: one call for all\t%.1f\t%.1f to %.1f\t%.1f\t%.2f\t\t", control.Kept.Mean, control.Kept.Low, control.Kept.High, control.Extra, control.Calls)
	s.Goal(inOne.Kept.Mean >= inThrees.Kept.Mean, "100 at once keep what threes keep", "%.1f against %.1f", inOne.Kept.Mean, inThrees.Kept.Mean)
	s.Goal(met, "at most √n + 2 calls a batch", "%.2f for %d", inOne.Calls, inOne.Batch)
	s.Goal(control.Kept.Mean < inThrees.Kept.Mean, "the control loses lessons", "%.1f", control.Kept.Mean)
	return s, nil
}

// lessonsOf returns the lessons of a seed.
func lessonsOf(seed uint64) []string {
	texts := sample.New(seed)
	lessons := make([]string, manyLessons)
	for i := range lessons {
		lessons[i] = texts.Advice()
	}
	return lessons
}

// reflectionsOf returns reflections with the lessons of a seed. Some lessons occur twice.
func reflectionsOf(b book.Book, seed uint64) []*events.Reflection {
	lessons := lessonsOf(seed)
	all := make([]*events.Reflection, manyReflections)
	for i := range all {
		text := lessons[i*7%manyReflections%manyLessons]
		all[i] = reflectionOn(b, fmt.Sprintf("run-%d-%d", seed, i), text)
		all[i].Question = sample.New(seed + uint64(i)).Question()
	}
	return all
}

func reflectionOn(b book.Book, task, lesson string) *events.Reflection {
	id := events.ExecutionID(b, "", task, 0)
	r := &events.Reflection{
		ID: events.ReflectionID(id, "", "bench"), Execution: id, Handle: events.NewHandle(1, id), Reflector: "bench",
		Outcome: events.Outcome{Label: events.Failure}, KeyInsight: lesson, Created: time.Now().UTC(),
		Lessons: []events.Lesson{{Section: "desk rules", Content: lesson}},
	}
	r.Book = b
	return r
}

// retained is the result for the reflections of one seed.
type retained struct{ kept, extra, calls, batches int }

// curateMany sends reflections to a curator in batches of size. A first edit keeps the curator busy until all
// reflections wait, so that every batch except the last is full.
func curateMany(ctx context.Context, seed uint64, size int, log zerolog.Logger) (r retained, err error) {
	const busy = "Whoever reads this keeps the book busy for a moment."
	asked, together := make(chan struct{}), make(chan struct{})
	s, err := schooling{
		model: simulated.Options{Seed: seed, MaxInsights: attention}, noCurator: true,
		beforeCurating: func(ctx context.Context, p chat.Prompt) error {
			if !strings.Contains(p.Messages[len(p.Messages)-1].Text, busy) {
				return nil
			}
			select {
			case <-asked: // it is in the playbook now, or this loop polls again
				return nil
			default:
			}
			close(asked)
			select {
			case <-together:
			case <-ctx.Done():
			}
			return ctx.Err()
		},
	}.open(ctx, log)
	if err != nil {
		return r, err
	}
	defer func() {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}()
	const name = book.Book("many")
	if _, err := s.session.Publish(ctx, reflectionOn(name, "busy", busy), bus.PublishOptions{}); err != nil {
		return r, err
	}
	s.work(ctx, curator.New(s.curator, curator.Config{MaxBatch: size}))
	select {
	case <-asked:
	case <-ctx.Done():
		return r, ctx.Err()
	}
	for _, ref := range reflectionsOf(name, seed) {
		if _, err := s.session.Publish(ctx, ref, bus.PublishOptions{}); err != nil {
			return r, err
		}
	}
	for {
		lag, err := s.session.Lag(ctx, events.RoleCurator)
		if err != nil {
			return r, err
		}
		if lag.InFlight == manyReflections+1 {
			break
		}
		if err := pause(ctx); err != nil {
			return r, err
		}
	}
	close(together)
	if err := s.WaitIdle(ctx, events.RoleCurator); err != nil {
		return r, err
	}
	w, err := s.store.Writer(ctx, name)
	if err != nil {
		return r, err
	}
	err = s.store.ReadLog(ctx, name, func(rec *deltalog.Record) error {
		if !rec.Delta.More && len(rec.Delta.Covers) > 0 {
			r.batches++
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.batches-- // the busy one
	r.calls = int(s.curator.Calls.Load()) - 1
	for _, lesson := range lessonsOf(seed) {
		if w.State().Playbook().FindByContent(lesson) != nil {
			r.kept++
		}
	}
	r.extra = w.State().Playbook().Len() - r.kept - 1
	return r, nil
}

// pause waits between two polls.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

// oneCall is the control: all reflections are in one prompt, and the reply is applied without changes.
func oneCall(ctx context.Context, seeds int) (retentionRow, error) {
	row := retentionRow{Part: "retention", Batch: manyReflections, Control: true, Distinct: manyLessons, Seeds: seeds, Calls: 1}
	var kept []float64
	for seed := range seeds {
		m := &sample.Model{Direct: simulated.NewDirect(simulated.Options{Seed: uint64(seed + 1), MaxInsights: attention})}
		out, _, err := propose.Ask(ctx, m, propose.Request{Reflections: reflectionsOf("many", uint64(seed+1))})
		if err != nil {
			return row, err
		}
		said := make(map[string]bool)
		for _, p := range out.Proposals {
			said[p.Op.Content] = true
		}
		n := 0
		for _, lesson := range lessonsOf(uint64(seed + 1)) {
			if said[lesson] {
				n++
			}
		}
		kept = append(kept, float64(n))
	}
	row.Kept = stats.Mean(kept)
	return row, nil
}
