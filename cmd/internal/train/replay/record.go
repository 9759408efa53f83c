package replay

import (
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// recorder collects samples, measurements and durations for the report. It calls the callbacks of the run.
type recorder struct {
	Options
	*position
	tracker *tracker
	state   *state
	total   int // training samples of the whole run; 0 if unknown

	report  report.Report
	samples []report.Sample
	answers []*answer // of the samples; nil for a lost one
	began   time.Time

	learning, evaluating time.Duration
}

// addSample adds one sample to the report and to a score.
func (c *recorder) addSample(set, phase string, sample *events.Task, index int, f *sampleResult, score *report.Score) {
	s := report.Sample{
		Set: set, Phase: phase, Epoch: c.epoch, Step: c.step, Index: index, ID: sample.ID,
		Question: text.Clip(sample.Question, maxQuestion), Target: text.Clip(sample.Target, maxAnswer),
		Rounds: f.rounds, Lost: f.lostReason, Label: events.Unknown,
	}
	if f.lostReason != "" {
		c.addLoss(report.Loss{Set: set, Sample: sample.ID, Epoch: c.epoch, Reason: f.lostReason})
	}
	if a := f.answer; a == nil {
		score.Lost++
	} else {
		s.Answer, s.Label, s.Score, s.Feedback, s.Version, s.Model = a.text, a.label, a.score, a.feedback, a.version, a.model
		score.Count(a.label, a.score)
	}
	c.samples, c.answers = append(c.samples, s), append(c.answers, f.answer)
}

// bulletUses yields the bullets of each sample.
func (c *recorder) bulletUses(yield func(report.BulletUse) bool) {
	for i := range c.samples {
		s := &c.samples[i]
		use := report.BulletUse{
			Set: s.Set, Phase: s.Phase, Epoch: s.Epoch, Step: s.Step, Index: s.Index, ID: s.ID, Version: s.Version, Label: s.Label, Score: s.Score,
			Shown: []playbook.BulletID{}, Cited: []playbook.BulletID{},
		}
		if a := c.answers[i]; a != nil {
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

func (c *recorder) addLoss(l report.Loss) { c.report.Losses = append(c.report.Losses, l) }

func (c *recorder) addPoint(p report.Point) {
	c.report.Points = append(c.report.Points, p)
	if c.OnPoint != nil {
		c.OnPoint(p)
	}
}

func (c *recorder) addEpoch(e report.Epoch) {
	c.report.Epochs = append(c.report.Epochs, e)
	if c.OnEpoch != nil {
		c.OnEpoch(e)
	}
}

// endWindow adds the score of a training window and stores the progress of the run.
func (c *recorder) endWindow(book report.Book, score report.Score) {
	c.addPoint(report.Point{Epoch: c.epoch, Step: c.step, Set: Train, Book: book, Score: score.Finish()})
	c.state.setProgress(c.epoch, c.step, c.version)
}

// progress reports the progress in a phase.
func (c *recorder) progress(phase string, done, total int) {
	if c.OnProgress == nil {
		return
	}
	p := Progress{Phase: phase, Done: done, Total: total, Step: c.step, Samples: c.total, Seconds: time.Since(c.began).Seconds()}
	g, f, _ := c.tracker.usage()
	for _, u := range []report.Usage{g, f, c.state.snapshot().Curating} {
		p.Usage = p.Usage.Plus(u)
	}
	c.OnProgress(p)
}
