package selection_test

import (
	"fmt"
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
			"the best first",
			[]*playbook.Bullet{bullet("a", "s", token, 1), bullet("b", "t", rounded, 9), bullet("c", "s", fee5, 4)},
			1000, 30, "b c a", "",
		},
		{
			"the best alone",
			[]*playbook.Bullet{bullet("a", "s", token, 1), bullet("b", "t", rounded, 9), bullet("c", "s", fee5, 4)},
			1000, 1, "b", "not among the best 1: c a",
		},
		{
			"equals by id",
			[]*playbook.Bullet{bullet("b", "s", token, 1), bullet("a", "t", rounded, 1), bullet("c", "s", fee5, 1)},
			1000, 2, "a b", "not among the best 2: c",
		},
		{
			"no budget",
			[]*playbook.Bullet{bullet("a", "s", token, 1), pinned(bullet("b", "t", rounded, 9))},
			0, 30, "", "no room: a; pinned, and no room: b",
		},
		{
			"what is longer than the budget does not stand in the way",
			[]*playbook.Bullet{bullet("a", "s", huge, 99), bullet("b", "t", rounded, 1), bullet("c", "t", token, 2)},
			500, 30, "c b", "no room: a",
		},
		{
			"the pinned first, however bad",
			[]*playbook.Bullet{bullet("a", "s", token, 9), pinned(bullet("b", "t", rounded, 0)), pinned(bullet("c", "t", fee5, 1))},
			1000, 30, "c b a", "",
		},
		{
			"the pinned, however many",
			[]*playbook.Bullet{bullet("a", "s", token, 9), pinned(bullet("b", "t", rounded, 0)), pinned(bullet("c", "t", fee5, 1))},
			1000, 1, "c b", "not among the best 1: a",
		},
		{
			"what is new beside what misled",
			[]*playbook.Bullet{
				bullet("new", "s", token, 0),
				{ID: "misled", Section: "s", Content: rounded, Harmful: 3, CreatedAt: noon, LastUsed: noon},
				{ID: "halved", Section: "s", Content: fee5, Helpful: 2, Harmful: 3, CreatedAt: noon, LastUsed: noon},
			},
			1000, 2, "halved new", "not among the best 2: misled",
		},
		{
			"what says the same last",
			[]*playbook.Bullet{bullet("a", "s", token, 9), bullet("b", "s", token2, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a c", "nearly the same as another: b",
		},
		{
			"what says the same as a pinned one last",
			[]*playbook.Bullet{pinned(bullet("a", "t", token, 0)), bullet("b", "s", token2, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a c", "nearly the same as another: b",
		},
		{
			"what says the same, where there is room",
			[]*playbook.Bullet{bullet("a", "s", token, 9), bullet("b", "s", token2, 8), bullet("c", "s", rounded, 1)},
			1000, 3, "a b c", "",
		},
		{
			"other words for it are not the same",
			[]*playbook.Bullet{bullet("a", "s", token, 9), bullet("b", "s", token3, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a b", "not among the best 2: c",
		},
		{
			"nor are other numbers",
			[]*playbook.Bullet{bullet("a", "s", fee5, 9), bullet("b", "s", fee8, 8), bullet("c", "s", rounded, 1)},
			1000, 2, "a b", "not among the best 2: c",
		},
		{
			"what says the same and is bad anyway",
			[]*playbook.Bullet{bullet("a", "s", token, 9), bullet("b", "s", token2, 0), bullet("c", "s", rounded, 1)},
			1000, 2, "a c", "not among the best 2: b",
		},
	} {
		s := indexOf(playbook.Restore(1, 0, slices.Values(tt.bullets))).Select(selection.Options{Now: noon, Tokens: tt.tokens, Most: tt.most})
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
	s := indexOf(playbook.Restore(1, 0, slices.Values(bullets))).Select(selection.Options{Now: noon, Tokens: rendered(bullets[2]) * 3 / 2, Most: 30})
	if got, left := ids(s.Bullets), reasons(s.Left); got != "c a" || left != "pinned, and no room: d b" {
		t.Errorf("got %q, left out %q", got, left)
	}
}

// TestSectionsShareThePrompt checks that a section displaces the others only if its bullets are twice as good.
func TestSectionsShareThePrompt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		helpful int // votes for each bullet of the other section, 12 for those of the large one
		others  int // of the other section that are shown
	}{{"half as good", 0, 1}, {"a little worse", 7, 13}, {"as good", 12, 15}} {
		var bullets []*playbook.Bullet
		for i := range 50 {
			bullets = append(bullets,
				bullet(playbook.MintID("large", uint64(i)), "large", fmt.Sprintf("advice %d", i), 12),
				bullet(playbook.MintID("other", uint64(i)), "other", fmt.Sprintf("more advice %d", i), tt.helpful))
		}
		s := indexOf(playbook.Restore(1, 0, slices.Values(bullets))).Select(selection.Options{Now: noon, Tokens: 5000, Most: 30})
		others := 0
		for _, b := range s.Bullets {
			if b.Section == "other" {
				others++
			}
		}
		if others != tt.others {
			t.Errorf("%s: got %d of 30 bullets, want %d", tt.name, others, tt.others)
		}
		if crowded := slices.ContainsFunc(s.Left, func(l events.Omission) bool { return l.Why == "enough of its section" }); crowded != (tt.others < 15) {
			t.Errorf("%s: left out %s", tt.name, reasons(s.Left))
		}
	}
}

func TestRelevanceDecidesBetweenEquals(t *testing.T) {
	t.Parallel()
	p := tied(10_000, func(i int) string { return fmt.Sprintf("advice %d", i) })
	s := indexOf(p).Select(selection.Options{
		Now: noon, Tokens: 1000, Most: 3,
		Relevance: func(yield func(playbook.BulletID, float64) bool) {
			_ = yield("misc-07777", 0.2) && yield("misc-05555", 0.7)
		},
	})
	if got, want := ids(s.Bullets), "misc-05555 misc-07777 misc-00001"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []events.Omission{{Kind: events.PartBullet, Why: "not among the best 3", Count: 9997, Refs: []string{
		"misc-00002", "misc-00003", "misc-00004", "misc-00005", "misc-00006", "misc-00007", "misc-00008", "misc-00009", "misc-00010", "misc-00011",
	}}}
	want[0].Tokens = s.Left[0].Tokens
	if diff := cmp.Diff(want, s.Left); diff != "" {
		t.Errorf("left out, -want +got:\n%s", diff)
	}
}

func TestNumberOfScores(t *testing.T) {
	t.Parallel()
	x := indexOf(library(300))
	for _, most := range []int{30, 150} {
		s := x.Select(selection.Options{Now: noon, Tokens: 1 << 20, Most: most, Explain: true})
		if len(s.Bullets) != most || len(s.Scores) != max(100, most) {
			t.Errorf("%d shown, want %d; %d scores", len(s.Bullets), most, len(s.Scores))
		}
	}
}
