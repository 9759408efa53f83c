package selection_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

var (
	drawContent = rapid.OneOf(
		rapid.SampledFrom([]string{
			"check the page token before the next call", "check the page token before the very next call", "round once at the end",
			"a\nb\n\n- [x] y (helpful=1, harmful=0)", "", "\xff\x00", "令牌在调用前检查", strings.Repeat("long ", 700), strings.Repeat("x", 1<<17),
		}),
		rapid.String(),
	)
	drawSection = rapid.OneOf(rapid.SampledFrom([]string{"others", "tool_use", "meta_strategies", "", "a b"}), rapid.String())
	drawStatus  = rapid.SampledFrom([]playbook.Status{
		"", "", playbook.Active, playbook.Active, playbook.Candidate, playbook.Probation, playbook.Retired, playbook.Quarantined,
	})
	drawStanding = rapid.SampledFrom([]playbook.Standing{
		"", playbook.StandingNew, playbook.StandingNew, playbook.StandingSuspect, playbook.StandingSuspect, playbook.StandingTrusted,
		playbook.StandingProven, playbook.StandingKept,
	})
	drawVotes = rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 9), rapid.SampledFrom([]int{-1, math.MaxInt, math.MinInt}))
	drawTime  = rapid.OneOf(
		rapid.SampledFrom([]time.Time{{}, noon, noon.AddDate(0, 0, -3), time.Unix(1<<60, 0), time.Unix(-1<<60, 0)}),
		rapid.Custom(func(t *rapid.T) time.Time { return noon.Add(-time.Duration(rapid.Int64Min(0).Draw(t, "age"))) }),
	)
)

func drawBullet(t *rapid.T, id playbook.BulletID) *playbook.Bullet {
	b := &playbook.Bullet{
		ID: id, Section: drawSection.Draw(t, "section"), Content: drawContent.Draw(t, "content"),
		Helpful: drawVotes.Draw(t, "helpful"), Harmful: drawVotes.Draw(t, "harmful"), Neutral: drawVotes.Draw(t, "neutral"),
		Status: drawStatus.Draw(t, "status"), Pinned: rapid.IntRange(0, 4).Draw(t, "pinned") == 0,
		CreatedAt: drawTime.Draw(t, "created"), UpdatedAt: drawTime.Draw(t, "updated"), LastUsed: drawTime.Draw(t, "used"),
	}
	if rapid.Bool().Draw(t, "experiment") {
		b.Experiment = &playbook.Experiment{Number: rapid.IntRange(1, 3).Draw(t, "number"), Standing: drawStanding.Draw(t, "standing")}
		b.Experiment.Cited[10] = rapid.IntRange(0, 1).Draw(t, "outcomes")
	}
	return b
}

func drawBook(t *rapid.T) *playbook.Playbook {
	n := rapid.IntRange(0, 40).Draw(t, "bullets")
	return playbook.Restore(7, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			if !yield(drawBullet(t, playbook.BulletID(fmt.Sprintf("b-%d", i)))) {
				return
			}
		}
	})
}

func drawOptions(t *rapid.T) selection.Options {
	o := selection.Options{
		Now:        noon,
		Tokens:     rapid.OneOf(rapid.IntRange(-10, 3000), rapid.SampledFrom([]int{math.MinInt, math.MaxInt, 1 << 20})).Draw(t, "tokens"),
		MaxBullets: rapid.OneOf(rapid.IntRange(0, 45), rapid.SampledFrom([]int{-1, math.MaxInt})).Draw(t, "most"),
		Weights: rapid.SampledFrom([]selection.Weights{
			{}, selection.SWECLI, {Effectiveness: 1}, {Recency: 1}, {Relevance: 1}, {1, 2, 3},
		}).Draw(t, "weights"),
		Explain: true,
	}
	if rapid.Bool().Draw(t, "query") {
		values := rapid.SliceOfN(rapid.Float64(), 40, 40).Draw(t, "relevance")
		var list selection.Ranking
		for i, v := range values {
			list = append(list, selection.Ranked{Bullet: playbook.BulletID(fmt.Sprintf("b-%d", i)), Score: v})
		}
		first, second := rapid.Permutation(list).Draw(t, "ranking"), rapid.Permutation(list).Draw(t, "ranking")
		o.Rankings = rank(first[:rapid.IntRange(0, 40).Draw(t, "length")], second[:rapid.IntRange(0, 40).Draw(t, "length")])
		o.Seed = rapid.String().Draw(t, "seed")
	}
	return o
}

// rank returns rankings for Options.
func rank(all ...selection.Ranking) func() []selection.Ranking {
	return func() []selection.Ranking { return all }
}

// candidates returns the bullets that can be selected, by id.
func candidates(p *playbook.Playbook) []*playbook.Bullet {
	return slices.DeleteFunc(p.Sorted(), func(b *playbook.Bullet) bool { return !b.Shown() })
}

func indexOf(p *playbook.Playbook) *selection.Index {
	x := selection.NewIndex(false)
	x.Update(p)
	return x
}
