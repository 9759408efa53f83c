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

// growthUnit is the number of samples that is enough to learn a family of tasks.
const growthUnit = 500

type growthRow struct {
	Part     string         `json:"part"`
	Arm      string         `json:"arm"`
	Times    int            `json:"times"`
	Samples  int            `json:"samples"`
	Bullets  stats.Estimate `json:"bullets"`
	Active   stats.Estimate `json:"active_bullets"`
	Shown    stats.Estimate `json:"bullets_in_prompt"`
	Tokens   stats.Estimate `json:"prompt_tokens"`
	Accuracy stats.Estimate `json:"held_out_accuracy"`
}

// growth measures the playbook and the prompt as more tasks of one family come.
func (b *Bench) growth(ctx context.Context, log zerolog.Logger) (sh *table.Table, err error) {
	unit, step, seeds := growthUnit, 100, min(b.Seeds, 5)
	if b.Quick {
		unit, step, seeds = 400, 100, 2
	}
	s, err := schooling{}.open(ctx, log)
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
		seed := uint64(i + 1)
		train, heldOut := simulated.GenerateTasks(seed, 10*unit, min(b.HeldOut, 100))
		for j, a := range arms {
			wrong := 0.0
			if a.wrong {
				wrong = b.Wrong
			}
			p, err := s.enrol(ctx, fmt.Sprintf("growth-%d-%d", seed, j), a.gate, seed, wrong, train, heldOut)
			if err != nil {
				return nil, err
			}
			pupils = append(pupils, p)
		}
	}
	sh = &table.Table{
		Title: fmt.Sprintf("Growth: one family of tasks, %d samples and up to ten times as many, %d seeds; prompts of held-out tasks", unit, seeds),
		Head:  "feedback\tsamples\tbullets ever\tin use\tin the prompt\tprompt tokens\taccuracy\t",
	}
	rows := make([][]growthRow, len(arms))
	done := 0
	for _, times := range []int{1, 2, 5, 10} {
		for ; done < times*unit; done += step {
			if err := s.step(ctx, pupils, step); err != nil {
				return nil, err
			}
		}
		now, err := s.measureGrowth(ctx, pupils, times, times*unit)
		if err != nil {
			return nil, err
		}
		for i := range arms {
			rows[i] = append(rows[i], now[i])
		}
		b.say("growth: %d times", times)
	}
	for i := range arms {
		for _, r := range rows[i] {
			sh.Row(r, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.0f\t%.1f %%\t", r.Arm, r.Samples, r.Bullets.Mean, r.Active.Mean, r.Shown.Mean, r.Tokens.Mean, 100*r.Accuracy.Mean)
		}
		if arms[i].gate == strictest {
			continue // its prompts grow until the last true rule has earned its place
		}
		first, last := rows[i][0], rows[i][3]
		grown, longer := last.Active.Mean/max(first.Active.Mean, 1), last.Tokens.Mean/first.Tokens.Mean
		sh.Goal(grown <= 2 && longer <= 1.1, arms[i].name+": of ten times the tasks at most twice the bullets in use, and no longer prompts (within a tenth)",
			"bullets in use × %.2f, tokens × %.2f", grown, longer)
	}
	return sh, nil
}

func (s *school) measureGrowth(ctx context.Context, pupils []*pupil, times, samples int) ([]growthRow, error) {
	ends, err := s.examine(ctx, pupils, fmt.Sprint("times-", times))
	if err != nil {
		return nil, err
	}
	rows := make([]growthRow, len(arms))
	for a := range arms {
		var size, active, shown, tokens, right []float64
		for i := a; i < len(pupils); i += len(arms) {
			_, now, err := pupils[i].read(ctx)
			if err != nil {
				return nil, err
			}
			size, active = append(size, float64(now.Len())), append(active, float64(countActive(now)))
			inPrompt, long := 0, 0
			for _, e := range ends[i] {
				inPrompt += e.Shown
				long += e.Usage.InputTokens
			}
			n := float64(len(ends[i]))
			shown, tokens = append(shown, float64(inPrompt)/n), append(tokens, float64(long)/n)
			right = append(right, train.Accuracy(ends[i]))
		}
		rows[a] = growthRow{
			Part: "growth", Arm: arms[a].name, Times: times, Samples: samples, Bullets: stats.Mean(size), Active: stats.Mean(active),
			Shown: stats.Mean(shown), Tokens: stats.Mean(tokens), Accuracy: stats.Mean(right),
		}
	}
	return rows, nil
}

func countActive(p *book.Playbook) (n int) {
	for b := range p.All() {
		if b.Shown() {
			n++
		}
	}
	return n
}
