package learning

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/stats"
	"debrief/cmd/internal/train"

	book "debrief/playbook"
)

// arm is one configuration of feedback and gate. All arms learn from the same tasks.
type arm struct {
	name  string
	gate  book.Gate
	wrong bool
}

// The other arms are compared with the first arm.
var arms = feedbackArms()

func feedbackArms() []arm {
	all := []arm{{name: "clean"}}
	for _, g := range gates {
		all = append(all, arm{"wrong, gate " + string(g), g, true})
	}
	return all
}

// classSize is the number of seeds that learn at the same time.
const classSize = 4

type feedbackRow struct {
	Part     string         `json:"part"`
	Arm      string         `json:"arm"`
	Accuracy stats.Estimate `json:"held_out_accuracy"`
	Least    float64        `json:"least"`
	Baseline stats.Estimate `json:"baseline_accuracy"` // without a playbook
	Against  stats.Estimate `json:"against_clean"`     // paired by seed
	Bullets  stats.Estimate `json:"bullets"`
	Active   stats.Estimate `json:"active_bullets"`
	Seeds    int            `json:"seeds"`
	Samples  int            `json:"samples"` // of training, a seed
}

// feedback measures the accuracy after learning from partly wrong outcomes.
func (b *Bench) feedback(ctx context.Context, log zerolog.Logger) (*table.Table, error) {
	after := make([][]float64, len(arms))
	size, active := make([][]float64, len(arms)), make([][]float64, len(arms))
	var before []float64
	for from := 0; from < b.Seeds; from += classSize {
		class := min(classSize, b.Seeds-from)
		r, err := b.class(ctx, from, class, log)
		if err != nil {
			return nil, err
		}
		before = append(before, r.before...)
		for i := range arms {
			after[i] = append(after[i], r.after[i]...)
			size[i], active[i] = append(size[i], r.size[i]...), append(active[i], r.active[i]...)
		}
		b.say("feedback: %d of %d seeds, held-out accuracy %s", from+class, b.Seeds, briefMeans(after))
	}
	s := &table.Table{
		Title: fmt.Sprintf("Feedback: accuracy on %d held-out tasks after %d samples, %d seeds; %.0f %% of verdicts wrong, or none",
			b.HeldOut, b.Train*b.Passes, b.Seeds, 100*b.Wrong),
		Head: "feedback\taccuracy\t95 %\tleast\tagainst clean\t95 %\tbullets ever\tin use\t",
	}
	var clean, strict feedbackRow
	for i, a := range arms {
		row := feedbackRow{
			Part: "feedback", Arm: a.name, Accuracy: stats.Mean(after[i]), Least: least(after[i]), Baseline: stats.Mean(before),
			Against: stats.Mean(stats.Differences(after[i], after[0])), Bullets: stats.Mean(size[i]), Active: stats.Mean(active[i]),
			Seeds: b.Seeds, Samples: b.Train * b.Passes,
		}
		against := "\t"
		if i == 0 {
			clean = row
		} else {
			against = row.Against.Percent()
		}
		if a.gate == strictest {
			strict = row
		}
		s.Row(row, "%s\t%s\t%.1f %%\t%s\t%.1f\t%.1f\t", a.name, row.Accuracy.Percent(), 100*row.Least, against, row.Bullets.Mean, row.Active.Mean)
	}
	s.Goal(clean.Accuracy.Mean >= 0.95, "clean feedback: at least 95 %", "%.1f %%", 100*clean.Accuracy.Mean)
	s.Goal(strict.Against.Mean >= -0.03, strict.Arm+": within 3 points of clean", "%+.1f", 100*strict.Against.Mean)
	return s, nil
}

// grades are the accuracies of a class, by seed; those after learning by arm first.
type grades struct {
	before              []float64
	after, size, active [][]float64
}

// class runs every arm for several seeds at the same time.
func (b *Bench) class(ctx context.Context, from, seeds int, log zerolog.Logger) (g *grades, err error) {
	s, err := schooling{model: simulated.Options{}}.open(ctx, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}()
	var pupils []*pupil
	for i := range seeds {
		seed := uint64(from + i + 1)
		train, heldOut := simulated.GenerateTasks(seed, b.Train, b.HeldOut)
		for j, a := range arms {
			wrong := 0.0
			if a.wrong {
				wrong = b.Wrong
			}
			p, err := s.enrol(ctx, fmt.Sprintf("seed-%d-%d", seed, j), a.gate, seed, wrong, train, heldOut)
			if err != nil {
				return nil, err
			}
			pupils = append(pupils, p)
		}
	}
	g = &grades{after: make([][]float64, len(arms)), size: make([][]float64, len(arms)), active: make([][]float64, len(arms))}
	var first []*pupil // of each seed: without a playbook all arms are the same
	for i := 0; i < len(pupils); i += len(arms) {
		first = append(first, pupils[i])
	}
	ends, err := s.examine(ctx, first, "before")
	if err != nil {
		return nil, err
	}
	for _, e := range ends {
		g.before = append(g.before, train.Accuracy(e))
	}
	for left := b.Train * b.Passes; left > 0; left -= b.Step {
		if err := s.step(ctx, pupils, min(b.Step, left)); err != nil {
			return nil, err
		}
	}
	if ends, err = s.examine(ctx, pupils, "after"); err != nil {
		return nil, err
	}
	for i, e := range ends {
		_, now, err := pupils[i].read(ctx)
		if err != nil {
			return nil, err
		}
		a := i % len(arms)
		g.after[a] = append(g.after[a], train.Accuracy(e))
		g.size[a] = append(g.size[a], float64(now.Len()))
		g.active[a] = append(g.active[a], float64(countActive(now)))
	}
	return g, nil
}

func least(xs []float64) float64 {
	low := 1.0
	for _, x := range xs {
		low = min(low, x)
	}
	return low
}

func briefMeans(arms [][]float64) string {
	text := ""
	for _, xs := range arms {
		text += fmt.Sprintf(" %.3f", stats.Mean(xs).Mean)
	}
	return text
}
