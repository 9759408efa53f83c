package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/train/report"
	"debrief/cmd/internal/train/stats"
	"debrief/events"
	"debrief/playbook"
)

// summarize fills in the report at the end of a run. It returns the operations of the Curator.
func (r *run) summarize(ctx context.Context) ([]report.Operation, error) {
	rep := &r.report
	if err := r.nameVersions(ctx); err != nil {
		return nil, err
	}
	p, err := r.store.PlaybookAt(ctx, r.book, rep.Final.Version)
	if err != nil {
		return nil, err
	}
	used := r.tracker.bulletUsages()
	for _, b := range p.Sorted() {
		row := report.Bullet{
			ID: b.ID, Section: b.Section, Content: b.Content, Status: string(b.Status),
			Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral,
		}
		u := used[b.ID]
		row.Shown, row.Cited, row.Right = u.shown, u.cited, u.right
		rep.Bullets = append(rep.Bullets, row)
	}
	rep.Mode, rep.Settings, rep.Data = string(r.Mode), append(rep.Settings, r.Settings...), r.Sets.Data()
	if r.streams() {
		rep.Data[0].Samples = r.step
	}
	rep.Unlearned = len(r.uncovered)
	rep.Paired = paired(rep, r.samples)
	r.listAnswers()
	operations := r.log.operationsBetween(r.forked, rep.Final.Version)
	for i := range operations {
		if o := &operations[i]; o.Rejected != "" {
			rep.Rejected[string(o.Code)]++
		} else {
			rep.Operations[o.Kind]++
		}
	}
	g, f, models := r.tracker.usage()
	g = g.Plus(r.sourceUsage)
	s := r.state.snapshot()
	rep.Cost = report.Cost{Generator: g, Reflector: f, Curator: s.Curating}
	rep.Run = report.Run{
		Name: r.Name, Book: string(r.book), Model: strings.Join(models, ", "), From: r.From, Begun: s.Started, Ended: s.Ended, Resumed: s.Resumed, Debrief: r.Debrief,
	}
	rep.Timing = report.Timing{Seconds: s.Seconds, Learning: r.learning.Seconds(), Evaluating: r.evaluating.Seconds()}
	rep.Cost.PerBullet = report.NewBulletCost(rep.Cost, s.Seconds, rep.Operations[string(playbook.Add)])
	if s.Seconds > 0 {
		rep.Timing.PerSecond = float64(r.step) / s.Seconds
	}
	return operations, r.state.keepReport(ctx, *rep, r.conn.JetStream().Conn().MaxPayload())
}

// paired compares the answers to the test set before and after the run, sample by sample. Samples without a label in
// either are left out.
func paired(rep *report.Report, samples []report.Sample) *stats.Pair {
	if rep.Before == nil || rep.After == nil {
		return nil
	}
	var before, after []bool
	first := map[int]report.Sample{}
	for i := range samples {
		s := &samples[i]
		if s.Set != Test {
			continue
		}
		b, again := first[s.Index]
		switch {
		case !again:
			first[s.Index] = *s
		case labelled(&b) && labelled(s):
			before, after = append(before, b.Label == events.Success), append(after, s.Label == events.Success)
		}
	}
	p := stats.Paired(before, after)
	return &p
}

// maxNames is the maximum number of names in one edit, far below the size limit of a message.
const maxNames = 1000

// nameVersions gives names to the best version, to the last version of each epoch and to the snapshots. The empty playbook
// needs no name.
func (r *run) nameVersions(ctx context.Context) error {
	rep := &r.report
	var all []playbook.Name
	add := func(name string, version uint64) {
		if version > 0 {
			all = append(all, playbook.Name{Name: name, Version: version})
		}
	}
	add("best", rep.Best.Version)
	for _, e := range rep.Epochs {
		add(fmt.Sprintf("epoch-%d", e.Epoch), e.Book.Version)
	}
	for _, s := range rep.Snapshots {
		add(fmt.Sprintf("step-%d", s.Step), s.Version)
	}
	for names := range slices.Chunk(all, maxNames) {
		id := []string{"names", string(r.book)}
		for _, n := range names {
			id = append(id, n.Name, fmt.Sprint(n.Version))
		}
		edit := &events.Edit{ID: events.Hash(id...), Author: author, Reason: "run " + r.Name + " has ended", Names: names}
		if _, err := r.commit(ctx, edit); err != nil {
			return err
		}
	}
	return nil
}
