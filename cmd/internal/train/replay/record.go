package replay

import (
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

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
			use.Cited = a.citedBullets()
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
