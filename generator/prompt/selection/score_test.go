package selection_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/events"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// explain returns the scores of bullets in the given order, with space for all.
func explain(t rapid.TB, o selection.Options, bullets ...*playbook.Bullet) []events.BulletScore {
	t.Helper()
	x := selection.NewIndex(false)
	x.Update(playbook.Restore(1, 0, slices.Values(bullets)))
	o.Tokens, o.MaxBullets, o.Explain = 1<<40, 0, true
	if o.Now.IsZero() {
		o.Now = noon
	}
	scores := make([]events.BulletScore, len(bullets))
	for _, s := range x.Select(o).Scores {
		i := slices.IndexFunc(bullets, func(b *playbook.Bullet) bool { return b.ID == s.ID })
		scores[i] = s
	}
	return scores
}

// voted returns a bullet with these votes.
func voted(id playbook.BulletID, helpful, harmful int) *playbook.Bullet {
	return &playbook.Bullet{ID: id, Section: "others", Content: "c", Helpful: helpful, Harmful: harmful, CreatedAt: noon}
}

// TestEffectivenessEqualsWilsonBound compares with published intervals. The last four of the first table are those of
// method 3 in Newcombe, "Two-sided confidence intervals for the single proportion" (1998).
func TestEffectivenessEqualsWilsonBound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		helpful, harmful int
		want             float64
	}{
		{1, 0, 0.2065},
		{1, 1, 0.0945},
		{2, 0, 0.3424},
		{8, 2, 0.4902},
		{10, 0, 0.7225},
		{50, 50, 0.4038},
		{90, 10, 0.8256},
		{81, 263 - 81, 0.2553},
		{15, 148 - 15, 0.0624},
		{1, 28, 0.0061},
		{0, 0, 0.2065 / 2},
		{0, 1, 0.0945 / 2},
		{0, 28, 0.0061 / 2}, // half of the value after one helpful vote
	} {
		if got := explain(t, selection.Options{}, voted("b", tt.helpful, tt.harmful))[0].Effectiveness; math.Abs(got-tt.want) > 0.00005 {
			t.Errorf("%d helpful, %d harmful: got %.5f, want %.4f", tt.helpful, tt.harmful, got, tt.want)
		}
	}
}

func TestVotesChangeEffectiveness(t *testing.T) {
	t.Parallel()
	counts := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 1_000_000))
	rapid.Check(t, func(t *rapid.T) {
		h, m := counts.Draw(t, "helpful"), counts.Draw(t, "harmful")
		s := explain(t, selection.Options{}, voted("b", h, m), voted("helped", h+1, m), voted("harmed", h, m+1))
		if !(s[2].Effectiveness < s[0].Effectiveness && s[0].Effectiveness < s[1].Effectiveness) {
			t.Fatalf("harmed %v, as it is %v, helped %v", s[2].Effectiveness, s[0].Effectiveness, s[1].Effectiveness)
		}
		if s[2].Effectiveness <= 0 || s[1].Effectiveness >= 1 {
			t.Fatalf("got %v and %v, want them between 0 and 1", s[2].Effectiveness, s[1].Effectiveness)
		}
	})
}

// TestScoresDoNotSaturate checks that bullets with different counts or ages have different totals, also if the plain
// bound is 0 for all of them.
func TestScoresDoNotSaturate(t *testing.T) {
	t.Parallel()
	var bullets []*playbook.Bullet
	number := uint64(0)
	add := func(helpful, harmful int, used time.Time) {
		number++
		b := voted(playbook.MintID("others", number), helpful, harmful)
		b.LastUsed = used
		bullets = append(bullets, b)
	}
	for helpful := range 50 {
		for harmful := range 50 {
			add(helpful, harmful, noon)
		}
	}
	seen := make(map[float64]*playbook.Bullet)
	check := func() {
		t.Helper()
		for i, s := range scoresOfAll(t, bullets) {
			if other := seen[s.Total]; other != nil {
				t.Fatalf("%+v has the total of %+v", bullets[i], other)
			}
			seen[s.Total] = bullets[i]
		}
	}
	check()

	bullets = nil
	clear(seen)
	for age := time.Second; age < 10*365*24*time.Hour; age += age/8 + time.Second {
		add(3, 1, noon.Add(-age))
	}
	check()
}

// scoresOfAll returns the scores of many bullets, a hundred at a time.
func scoresOfAll(t *testing.T, bullets []*playbook.Bullet) (all []events.BulletScore) {
	t.Helper()
	for some := range slices.Chunk(bullets, 100) {
		all = append(all, explain(t, selection.Options{Weights: selection.SWECLI}, some...)...)
	}
	return all
}

func TestRecencyIsAHalfAfterTenDays(t *testing.T) {
	t.Parallel()
	ago := func(days float64) time.Time { return noon.Add(-time.Duration(days * 24 * float64(time.Hour))) }
	for _, tt := range []struct {
		name   string
		bullet playbook.Bullet
		want   float64
	}{
		{"used now", playbook.Bullet{CreatedAt: ago(90), LastUsed: noon}, 1},
		{"used a day ago", playbook.Bullet{CreatedAt: ago(90), LastUsed: ago(1)}, 1 / 1.1},
		{"used ten days ago", playbook.Bullet{CreatedAt: ago(90), LastUsed: ago(10)}, 0.5},
		{"used ninety days ago", playbook.Bullet{CreatedAt: ago(90), LastUsed: ago(90)}, 0.1},
		{"used before it was changed", playbook.Bullet{CreatedAt: ago(90), UpdatedAt: ago(1), LastUsed: ago(10)}, 0.5},
		{"never used, but changed", playbook.Bullet{CreatedAt: ago(90), UpdatedAt: ago(10)}, 0.5},
		{"never used nor changed", playbook.Bullet{CreatedAt: ago(10)}, 0.5},
		{"used by a clock that is ahead", playbook.Bullet{CreatedAt: ago(90), LastUsed: ago(-1)}, 1},
	} {
		b := tt.bullet
		b.ID, b.Content = "b", "c"
		if got := explain(t, selection.Options{}, &b)[0].Recency; math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTheTotalIsTheWeightedSum(t *testing.T) {
	t.Parallel()
	b := voted("b", 8, 2)
	b.LastUsed = noon.AddDate(0, 0, -10)
	const e, r, q = 0.49016, 0.5, 0.7
	query := rank(selection.Ranking{{Bullet: "b", Score: q}})
	for _, tt := range []struct {
		name    string
		weights selection.Weights
		query   func() []selection.Ranking
		want    float64
	}{
		{"as swecli weighs", selection.SWECLI, query, 0.5*e + 0.3*r + 0.2*q},
		{"the reciprocal of the rank without weights", selection.Weights{}, query, 1},
		{"without a query", selection.SWECLI, nil, (0.5*e + 0.3*r) / 0.8},
		{"proportions", selection.Weights{5, 3, 2}, query, 0.5*e + 0.3*r + 0.2*q},
		{"large ones", selection.Weights{math.MaxFloat64, math.MaxFloat64, 0}, query, (e + r) / 2},
		{"small ones", selection.Weights{math.SmallestNonzeroFloat64, 0, 0}, query, e},
		{"relevance alone", selection.Weights{Relevance: 1}, query, q},
		{"relevance alone, without a query", selection.Weights{Relevance: 1}, nil, (0.5*e + 0.3*r) / 0.8},
		{"recency alone", selection.Weights{Recency: 0.1}, nil, r},
	} {
		if got := explain(t, selection.Options{Weights: tt.weights, Rankings: tt.query}, b)[0].Total; math.Abs(got-tt.want) > 1e-4 {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRelevanceIsClamped(t *testing.T) {
	t.Parallel()
	bullets := []*playbook.Bullet{voted("high", 0, 0), voted("low", 0, 0), voted("nan", 0, 0), voted("twice", 0, 0), voted("unnamed", 0, 0)}
	scores := explain(t, selection.Options{Rankings: rank(
		selection.Ranking{{"high", math.Inf(1)}, {"low", -3}, {"nan", math.NaN()}, {"twice", 0.5}}, selection.Ranking{{"twice", 0.25}, {"unknown", 1}},
	)}, bullets...)
	for i, want := range []float64{1, 0, 0, 0.5, 0} {
		if got := scores[i].Relevance; got != want {
			t.Errorf("%s: got %v, want %v", bullets[i].ID, got, want)
		}
	}
}

func TestWeightsValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		weights selection.Weights
		names   string // in the error; empty for none
	}{
		{selection.SWECLI, ""},
		{selection.Weights{Recency: 3}, ""},
		{selection.Weights{}, ""},
		{selection.Weights{-0.1, 1, 1}, "Effectiveness"},
		{selection.Weights{1, math.NaN(), 1}, "Recency"},
		{selection.Weights{1, 1, math.Inf(1)}, "Relevance"},
	} {
		err := tt.weights.Validate()
		if (err == nil) != (tt.names == "") || err != nil && !strings.Contains(err.Error(), tt.names+":") {
			t.Errorf("%+v: got %v, want %q named", tt.weights, err, tt.names)
		}
	}
}
