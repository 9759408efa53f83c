package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"debrief/cmd/internal/train/report"
	"debrief/events"
)

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
			wrong.First = append(wrong.First, report.WrongAnswer{Sample: *s, Bullets: shown, Cited: a.citedBullets()})
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
