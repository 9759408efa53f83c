package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
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
	rep.Unlearned = len(r.uncovered)
	rep.Paired = pairAnswers(rep, r.samples)
	if err := r.listAnswers(ctx); err != nil {
		return nil, err
	}
	operations := slices.DeleteFunc(r.log.operations, func(o report.Operation) bool { // copied bullets, and edits after the run
		return o.Version <= r.forked || o.Version > rep.Final.Version
	})
	for i := range operations {
		if o := &operations[i]; o.Rejected != "" {
			rep.Rejected[string(o.Code)]++
		} else {
			rep.Operations[o.Kind]++
		}
	}
	used := r.tracker.usage()
	r.state.setCuratorUsage(r.log.usage(rep.Final.Version)) // without edits after the run
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
			ID: b.ID, Section: b.Section, Content: b.Content, Status: string(b.Status), Next: gate.Waits(b.Status, gate.RowOf(p, b)),
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

// listAnswers adds to the report the wrong answers of the main measurement, and the number of all answers of each model.
func (r *run) listAnswers(ctx context.Context) error {
	texts := r.store.Texts()
	models := map[string]*report.ModelAnswers{}
	set, phase := r.mainMeasurement()
	wrong := report.WrongAnswers{Set: set, Phase: phase, First: []report.WrongAnswer{}}
	for i := range r.samples {
		s := &r.samples[i]
		if s.Lost == "" {
			countAnswer(models, s)
		}
		if s.Set != set || s.Phase != phase || !isLabelled(s) {
			continue
		}
		wrong.Of++
		if s.Label == events.Success {
			continue
		}
		wrong.Wrong++
		if len(wrong.First) < report.MaxWrong {
			a := r.answers[i] // not nil, because the sample has a label
			shown := a.shownBullets()
			if err := texts.Fill(ctx, r.book, a.version, shown); err != nil {
				return err
			}
			wrong.First = append(wrong.First, report.WrongAnswer{Sample: *s, Bullets: shown, Cited: a.cited})
		}
	}
	r.report.Wrong = wrong
	for _, name := range slices.Sorted(maps.Keys(models)) {
		r.report.Models = append(r.report.Models, *models[name])
	}
	return nil
}

// countAnswer counts an answer for its model.
func countAnswer(models map[string]*report.ModelAnswers, s *report.Sample) {
	name := cmp.Or(s.Model, "unknown")
	m := models[name]
	if m == nil {
		m = &report.ModelAnswers{Model: name}
		models[name] = m
	}
	m.Answers++
	if isLabelled(s) {
		m.N++
	}
	if s.Label == events.Success {
		m.Right++
	}
}

// mainMeasurement returns the set and the phase of the measurement that Report.Headline is about. Both are "" without samples.
func (r *run) mainMeasurement() (set, phase string) {
	switch {
	case r.report.After != nil && r.report.After.N > 0:
		return Test, "after"
	case r.report.Validated():
		return Validation, fmt.Sprintf("step %d", r.report.Best.Step)
	}
	for _, s := range slices.Backward(r.samples) {
		if s.Set == Train {
			return Train, s.Phase
		}
	}
	return "", ""
}

// isLabelled reports whether the outcome of a sample is known.
func isLabelled(s *report.Sample) bool { return s.Label != "" && s.Label != events.Unknown }

// addSample adds one sample to the report, and its answer to a sum of scores.
func (r *run) addSample(set, phase string, sample *events.Task, index int, result *sampleResult, sum *report.Score) {
	s := report.Sample{
		Set: set, Phase: phase, Epoch: r.epoch, Step: r.step, Index: index, ID: sample.ID,
		Question: text.Clip(sample.Question, maxQuestion), Target: text.Clip(sample.Target, maxAnswer),
		Rounds: result.rounds, Lost: result.lostReason, Label: events.Unknown,
	}
	if result.lostReason != "" {
		r.addLoss(report.Loss{Set: set, Sample: sample.ID, Epoch: r.epoch, Reason: result.lostReason})
	}
	if a := result.answer; a == nil {
		sum.Lost++
	} else {
		s.Answer, s.Feedback = a.text, a.feedback
		s.Label, s.Score = a.label, a.score
		s.Version, s.Model = a.version, a.model
		sum.Count(a.label, a.score)
	}
	r.samples, r.answers = append(r.samples, s), append(r.answers, result.answer)
}

// bulletUses yields the bullets of each sample.
func (r *run) bulletUses(yield func(report.BulletUse) bool) {
	for i := range r.samples {
		s := &r.samples[i]
		use := report.BulletUse{
			Set: s.Set, Phase: s.Phase, Epoch: s.Epoch, Step: s.Step, Index: s.Index, ID: s.ID, Version: s.Version, Label: s.Label, Score: s.Score,
			Shown: []playbook.BulletID{}, Cited: []playbook.BulletID{},
		}
		if a := r.answers[i]; a != nil {
			for _, b := range a.shownBullets() {
				use.Shown = append(use.Shown, b.ID)
			}
			use.Cited = a.cited
		}
		if !yield(use) {
			return
		}
	}
}

func (r *run) addLoss(l report.Loss) { r.report.Losses = append(r.report.Losses, l) }

func (r *run) addPoint(p report.Point) {
	r.report.Points = append(r.report.Points, p)
	r.send(Event{Event: "point", Point: &p})
}

func (r *run) addEpoch(e report.Epoch) {
	r.report.Epochs = append(r.report.Epochs, e)
	r.send(Event{Event: "epoch", Epoch: &e})
}

// progress reports the progress in a phase.
func (r *run) progress(phase string, done, total int) {
	p := Progress{Phase: phase, Done: done, Total: total, Step: r.step, Samples: r.total, Seconds: time.Since(r.began).Seconds()}
	used := r.tracker.usage()
	p.Usage = used.generator.Plus(used.reflector).Plus(r.state.snapshot().Curating)
	r.send(Event{Event: "progress", Progress: &p})
}
