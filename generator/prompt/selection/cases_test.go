package selection_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// bullet returns a bullet that was used just now.
func bullet(id playbook.BulletID, section, content string, helpful int) *playbook.Bullet {
	return &playbook.Bullet{ID: id, Section: section, Content: content, Helpful: helpful, CreatedAt: noon, LastUsed: noon}
}

// when returns the bullet with a condition.
func when(condition string, b *playbook.Bullet) *playbook.Bullet {
	b.When, b.Content, _ = playbook.CleanText(condition, b.Content)
	return b
}

func pinned(b *playbook.Bullet) *playbook.Bullet {
	b.Pinned = true
	return b
}

func ids(bullets []*playbook.Bullet) string {
	var all []string
	for _, b := range bullets {
		all = append(all, string(b.ID))
	}
	return strings.Join(all, " ")
}

func reasons(left []events.Omission) string {
	var all []string
	for _, l := range left {
		all = append(all, fmt.Sprintf("%s: %s", l.Why, strings.Join(l.Refs, " ")))
	}
	return strings.Join(all, "; ")
}

func TestSelect(t *testing.T) {
	t.Parallel()
	const (
		token   = "Check the page token of every reply before the next call is made"
		token2  = "Check the page token of every reply before the next call is started"
		token3  = "Check the page tokens of each reply, then call again"
		fee5    = "For courier deliveries beyond the first zone the surcharge is 5 % of the amount"
		fee8    = "For courier deliveries beyond the first zone the surcharge is 8 % of the amount"
		rounded = "Round once, at the end"
	)
	huge := strings.Repeat("long ", 2000)
	for _, tt := range []struct {
		name    string
		bullets []*playbook.Bullet
		tokens  int
		most    int
		want    string
		left    string
	}{
		{
			"all that fit, by section and id",
			[]*playbook.Bullet{bullet("c", "s", token, 1), bullet("b", "t", rounded, 9), bullet("a", "s", fee5, 4)},
			1000, 0, "a c b", "",
		},
		{
			"the best votes",
			[]*playbook.Bullet{bullet("a", "s", token, 1), bullet("b", "t", rounded, 9), bullet("c", "s", fee5, 4)},
			1000, 1, "b", "not among the best 1: c a",
		},
		{
			"equal votes by id",
			[]*playbook.Bullet{bullet("b", "s", token, 1), bullet("a", "t", rounded, 1), bullet("c", "s", fee5, 1)},
			1000, 2, "b a", "not among the best 2: c",
		},
		{
			"no budget",
			[]*playbook.Bullet{bullet("a", "s", token, 1), pinned(bullet("b", "t", rounded, 9))},
			0, 30, "", "no room: a; pinned, and no room: b",
		},
		{
			"a bullet longer than the budget",
			[]*playbook.Bullet{bullet("a", "s", huge, 99), bullet("b", "t", rounded, 1), bullet("c", "t", token, 2)},
			500, 30, "b c", "no room: a",
		},
		{
			"pinned bullets beyond the maximum",
			[]*playbook.Bullet{bullet("a", "s", token, 9), pinned(bullet("b", "t", rounded, 0)), pinned(bullet("c", "t", fee5, 1))},
			1000, 1, "b c", "not among the best 1: a",
		},
		{
			"a bullet that was never tried before better votes",
			[]*playbook.Bullet{
				bullet("new", "s", token, 0),
				{ID: "misled", Section: "s", Content: rounded, Harmful: 3, CreatedAt: noon, LastUsed: noon},
				{ID: "halved", Section: "s", Content: fee5, Helpful: 2, Harmful: 3, CreatedAt: noon, LastUsed: noon},
			},
			1000, 2, "halved new", "not among the best 2: misled",
		},
		{
			"near duplicates last",
			[]*playbook.Bullet{bullet("a", "s", token, 9), bullet("b", "s", token2, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a c", "nearly the same as another: b",
		},
		{
			"the same advice for two cases",
			[]*playbook.Bullet{when("the service is new", bullet("a", "s", token, 9)), when("the service is old", bullet("b", "s", token, 8)), bullet("c", "s", rounded, 1)},
			1000, 2, "a b", "not among the best 2: c",
		},
		{
			"other advice for a case that takes many words",
			[]*playbook.Bullet{
				when("a reply of the service has more than one page and the caller has not read the last one", bullet("a", "s", "Ask for the next page", 9)),
				when("a reply of the service has more than one page and the caller has not read the last one", bullet("b", "s", "Log the page token", 8)),
				bullet("c", "s", rounded, 1),
			},
			1000, 2, "a b", "not among the best 2: c",
		},
		{
			"near duplicates for one case last",
			[]*playbook.Bullet{when("the service is new", bullet("a", "s", token, 9)), when("the service is new", bullet("b", "s", token2, 8)), bullet("c", "s", rounded, 1)},
			1000, 2, "a c", "nearly the same as another: b",
		},
		{
			"near duplicates of a pinned bullet last",
			[]*playbook.Bullet{pinned(bullet("a", "t", token, 0)), bullet("b", "s", token2, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "c a", "nearly the same as another: b",
		},
		{
			"near duplicates if there is room",
			[]*playbook.Bullet{bullet("a", "s", token, 9), bullet("b", "s", token2, 8), bullet("c", "s", rounded, 1)},
			1000, 3, "a b c", "",
		},
		{
			"a tried bullet beside an untried near duplicate",
			[]*playbook.Bullet{bullet("a", "s", token, 0), bullet("b", "s", token2, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a b", "not among the best 2: c",
		},
		{
			"the same topic in other words",
			[]*playbook.Bullet{bullet("a", "s", token, 9), bullet("b", "s", token3, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a b", "not among the best 2: c",
		},
		{
			"the same words with other numbers",
			[]*playbook.Bullet{bullet("a", "s", fee5, 9), bullet("b", "s", fee8, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a b", "not among the best 2: c",
		},
	} {
		s := indexOf(playbook.Restore(1, 0, slices.Values(tt.bullets))).Select(selection.Options{Now: noon, Tokens: tt.tokens, MaxBullets: tt.most})
		if got := ids(s.Bullets); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := reasons(s.Left); got != tt.left {
			t.Errorf("%s: left out %q, want %q", tt.name, got, tt.left)
		}
	}
}

func TestBestPinnedBulletsAreChosen(t *testing.T) {
	t.Parallel()
	long := func(id playbook.BulletID, helpful, times int) *playbook.Bullet {
		return pinned(bullet(id, "s", strings.Repeat("one thing after the other ", times), helpful))
	}
	bullets := []*playbook.Bullet{bullet("a", "s", "other advice", 9), long("b", 0, 20), long("c", 1, 20), long("d", 5, 200)}
	s := indexOf(playbook.Restore(1, 0, slices.Values(bullets))).Select(selection.Options{Now: noon, Tokens: rendered(bullets[2]) * 3 / 2, MaxBullets: 30})
	if got, left := ids(s.Bullets), reasons(s.Left); got != "a c" || left != "pinned, and no room: d b" {
		t.Errorf("got %q, left out %q", got, left)
	}
}

// TestRelevanceDecidesBeforeVotes ranks bullets without votes among bullets with many.
func TestRelevanceDecidesBeforeVotes(t *testing.T) {
	t.Parallel()
	var bullets []*playbook.Bullet
	for i := range 2000 {
		bullets = append(bullets, bullet(playbook.MintID("others", uint64(i+1)), "others", fmt.Sprintf("advice %d", i), 10))
	}
	bullets[1499].Helpful, bullets[1499].Harmful = 1, 1
	x := indexOf(playbook.Restore(1, 0, slices.Values(bullets)))
	s := x.Select(selection.Options{Tokens: 1000, MaxBullets: 3, Rankings: rank(
		selection.Ranking{{"misc-01500", 0.01}, {"misc-00007", 0.01}}, nil, selection.Ranking{{"misc-00003", 1}, {"misc-01500", 0.9}},
	)})
	if got, want := ids(s.Bullets), "misc-00003 misc-00007 misc-01500"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []events.Omission{{Kind: events.PartBullet, Why: "not among the best 3", Count: 1997, Refs: []string{
		"misc-00001", "misc-00002", "misc-00004", "misc-00005", "misc-00006", "misc-00008", "misc-00009", "misc-00010", "misc-00011", "misc-00012",
	}}}
	want[0].Tokens = s.Left[0].Tokens
	if diff := cmp.Diff(want, s.Left); diff != "" {
		t.Errorf("left out, -want +got:\n%s", diff)
	}
}

// TestEachRankingHasItsShare fills half of the prompt with a ranking that finds only noise.
func TestEachRankingHasItsShare(t *testing.T) {
	t.Parallel()
	x := indexOf(tied(5000, func(i int) string { return fmt.Sprintf("advice %d", i) }))
	var good, noise selection.Ranking
	for i := range 100 {
		good = append(good, selection.Ranked{Bullet: playbook.MintID("others", uint64(i+1))})
		noise = append(noise, selection.Ranked{Bullet: playbook.MintID("others", uint64(4000+i)), Score: 1})
	}
	s := x.Select(selection.Options{Tokens: 10_000, MaxBullets: 30, Rankings: rank(noise, good)})
	for i := range 12 { // a fifth of 30 places is for bullets that were never tried, also from the rankings
		if id := good[i].Bullet; !slices.ContainsFunc(s.Bullets, func(b *playbook.Bullet) bool { return b.ID == id }) {
			t.Errorf("place %d of the good ranking is not shown: %s", i+1, ids(s.Bullets))
		}
	}
}

// TestReliableRankingHasMorePlaces gives a ranking that finds only noise few places.
func TestReliableRankingHasMorePlaces(t *testing.T) {
	t.Parallel()
	var bullets []*playbook.Bullet
	for i := range 200 {
		bullets = append(bullets, bullet(playbook.MintID("others", uint64(i+1)), "others", fmt.Sprintf("advice %d", i), 1))
	}
	x := indexOf(playbook.Restore(1, 0, slices.Values(bullets)))
	var good, noise selection.Ranking
	for i := range 100 {
		good = append(good, selection.Ranked{Bullet: bullets[i].ID})
		noise = append(noise, selection.Ranked{Bullet: bullets[100+i].ID, Score: 1})
	}
	for _, tt := range []struct {
		name        string
		reliability []float64
		want        int // bullets of the good ranking among 30
	}{
		{"unknown", nil, 15},
		{"equal", []float64{0.5, 0.5}, 15},
		{"noise is unreliable", []float64{0.1, 0.9}, 27},
		{"invalid", []float64{math.NaN(), 0}, 15},
		{"too high", []float64{2, 1}, 15},
	} {
		s := x.Select(selection.Options{Tokens: 10_000, MaxBullets: 30, Rankings: rank(noise, good), Reliability: tt.reliability})
		got := 0
		for _, b := range s.Bullets {
			if slices.ContainsFunc(good, func(r selection.Ranked) bool { return r.Bullet == b.ID }) {
				got++
			}
		}
		if got != tt.want || len(s.Bullets) != 30 {
			t.Errorf("%s: got %d of %d bullets from the good ranking, want %d", tt.name, got, len(s.Bullets), tt.want)
		}
	}
}

// TestOnlyPlaceIsForTheBest: with a maximum of one bullet, an untried one does not displace the most relevant one.
func TestOnlyPlaceIsForTheBest(t *testing.T) {
	t.Parallel()
	p := playbook.Restore(1, 0, slices.Values([]*playbook.Bullet{
		bullet("misc-00001", "others", "never tried", 0), bullet("misc-00002", "others", "often of use", 10),
	}))
	s := indexOf(p).Select(selection.Options{Tokens: 1000, MaxBullets: 1, Rankings: rank(selection.Ranking{{"misc-00002", 0.5}})})
	if got := ids(s.Bullets); got != "misc-00002" {
		t.Errorf("got %q, want misc-00002", got)
	}
}

// TestUntriedBulletsRotate checks the share of bullets without votes, and that all of them have their turn.
func TestUntriedBulletsRotate(t *testing.T) {
	t.Parallel()
	var bullets []*playbook.Bullet
	for i := range 200 {
		bullets = append(bullets, bullet(playbook.MintID("others", uint64(i+1)), "others", fmt.Sprintf("advice %d", i), (i+1)%2*10))
	}
	x := indexOf(playbook.Restore(1, 0, slices.Values(bullets)))
	seen := map[playbook.BulletID]bool{}
	for seed := range 500 {
		s := x.Select(selection.Options{Tokens: 10_000, MaxBullets: 30, Seed: fmt.Sprint("question ", seed)})
		untried := 0
		for _, b := range s.Bullets {
			if b.Helpful == 0 {
				untried++
				seen[b.ID] = true
			}
		}
		if untried != 6 {
			t.Fatalf("%d of %d bullets were never tried, want 6", untried, len(s.Bullets))
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d of 100 bullets had their turn", len(seen))
	}
}

func TestNumberOfScores(t *testing.T) {
	t.Parallel()
	x := indexOf(library(300))
	for _, most := range []int{30, 150} {
		s := x.Select(selection.Options{Now: noon, Tokens: 1 << 20, MaxBullets: most, Explain: true})
		if len(s.Bullets) != most || len(s.Scores) != max(100, most) {
			t.Errorf("%d shown, want %d; %d scores", len(s.Bullets), most, len(s.Scores))
		}
	}
}
