package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
)

// summarize fills in the report at the end of the run and stores its figures. Before, it has the Curator name the versions. It returns the
// operations of the Curator.
func (r *run) summarize(ctx context.Context) ([]report.Operation, error) {
	rep := &r.report
	if err := r.nameVersions(ctx); err != nil {
		return nil, err
	}
	p, err := r.store.PlaybookAt(ctx, r.book, rep.Final.Version)
	if err != nil {
		return nil, err
	}
	rep.Bullets = r.bullets(p)
	rep.Mode = string(r.Mode)
	rep.Settings = append(rep.Settings, r.Settings...)
	rep.Data = r.Sets.Data()
	if r.isStreamed() { // a stream has no size: these are the samples that were read
		rep.Data[0].Samples = r.step
	}
	rep.Unlearned = len(r.uncovered)
	rep.Paired = pairAnswers(rep, r.samples)
	if err := r.listAnswers(ctx); err != nil {
		return nil, err
	}
	operations := r.log.operationsBetween(r.forked, rep.Final.Version) // without copied bullets, and without edits after the run
	for i := range operations {
		if o := &operations[i]; o.Rejected != "" {
			rep.Rejected[string(o.Code)]++
		} else {
			rep.Operations[o.Kind]++
		}
	}
	used := r.tracker.usage()
	s := r.state.snapshot()
	rep.Cost = report.Cost{Generator: used.generator.Plus(r.sourceUsage), Reflector: used.reflector, Curator: s.Curating}
	rep.Run = report.Run{
		Name: r.Name, Book: string(r.book), Model: strings.Join(used.models, ", "), From: r.From, Begun: s.Started, Ended: s.Ended, Resumed: s.Resumed, Debrief: r.Debrief,
	}
	rep.Timing = report.Timing{Seconds: s.Seconds, Learning: r.learning.Seconds(), Evaluating: r.evaluating.Seconds()}
	rep.Cost.PerBullet = report.NewBulletCost(rep.Cost, s.Seconds, rep.Operations[string(playbook.Add)])
	if s.Seconds > 0 {
		rep.Timing.PerSecond = float64(r.step) / s.Seconds
	}
	return operations, r.state.keepReport(ctx, *rep, r.conn.JetStream().Conn().MaxPayload())
}

// bullets returns the bullets of the final playbook with their use in the run.
func (r *run) bullets(p *playbook.Playbook) []report.Bullet {
	rows := []report.Bullet{}
	index := map[playbook.BulletID]int{} // of the bullet's row
	for i, b := range p.Sorted() {
		index[b.ID] = i
		rows = append(rows, report.Bullet{
			ID: b.ID, Section: b.Section, Content: b.Content, Status: string(b.Status),
			Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral,
		})
	}
	for use := range r.bulletUses {
		if use.Set != Train || r.Mode == Executions { // recorded executions have bullets of another playbook
			continue
		}
		for _, id := range use.Shown {
			if i, ok := index[id]; ok {
				rows[i].Shown++
				if use.Label == events.Success {
					rows[i].Right++
				}
			}
		}
		for _, id := range use.Cited {
			if i, ok := index[id]; ok {
				rows[i].Cited++
			}
		}
	}
	return rows
}

// pairAnswers compares the answers to the test set before and after the run, sample by sample. It leaves out a sample that has no label before
// or after. It expects the answers before the run first.
func pairAnswers(rep *report.Report, samples []report.Sample) *report.Pair {
	if rep.Before == nil || rep.After == nil {
		return nil
	}
	var before, after []bool
	firstAnswers := map[int]*report.Sample{} // those before the run, by index
	for i := range samples {
		s := &samples[i]
		if s.Set != Test {
			continue
		}
		first := firstAnswers[s.Index]
		switch {
		case first == nil:
			firstAnswers[s.Index] = s
		case isLabelled(first) && isLabelled(s):
			before = append(before, first.Label == events.Success)
			after = append(after, s.Label == events.Success)
		}
	}
	p := report.Paired(before, after)
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
