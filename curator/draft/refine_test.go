package draft

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/playbook"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func bookOf(bullets ...playbook.Bullet) *playbook.Playbook {
	return playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range bullets {
			b := bullets[i]
			if b.ID == "" {
				b.ID = playbook.MintID("a", uint64(i+1))
			}
			if b.Section == "" {
				b.Section = "a"
			}
			if b.UpdatedAt.IsZero() {
				b.UpdatedAt = noon
			}
			if !yield(&b) {
				return
			}
		}
	})
}

func steps(p *Plan) (lines []string) {
	for _, s := range p.Steps {
		line := fmt.Sprintf("%s %s", s.Op.Kind, s.Op.Bullet)
		if len(s.Op.Sources) > 0 {
			line += fmt.Sprint(" ", s.Op.Sources)
		}
		lines = append(lines, line+": "+s.Reason)
	}
	return lines
}

// TestVotesRetireOnlyWithoutAGate: otherwise the gate decides by outcomes.
func TestVotesRetireOnlyWithoutAGate(t *testing.T) {
	t.Parallel()
	for mode, want := range map[playbook.Gate]int{"": 0, playbook.GateGuard: 0, playbook.GateStrict: 0, playbook.GateOff: 1} {
		p := bookOf(playbook.Bullet{Content: "One thing.", Helpful: 1, Harmful: 7})
		if mode != "" {
			p.SetGate(mode)
		}
		if got := steps(Refine(p, RefineOptions{Now: noon})); len(got) != want {
			t.Errorf("gate %q: got %q, want %d steps", mode, got, want)
		}
	}
}

func TestHarmfulTooOften(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		helpful, harmful int
		want             bool
	}{
		{0, 0, false},
		{0, 4, false},
		{0, 5, true},
		{5, 5, false},
		{1, 7, true},
		{460, 540, true},
		{480, 520, false},
		{1000, 75, false},
		{2000, 5, false},
		{1000, 1000, false},
		{950, 1050, true},
		{0, 2000, true},
	} {
		if got := harmfulTooOften(test.helpful, test.harmful); got != test.want {
			t.Errorf("%d helpful and %d harmful votes: got %t, want %t", test.helpful, test.harmful, got, test.want)
		}
	}
}

func TestPlansOfRefine(t *testing.T) {
	t.Parallel()
	long := 40 * 24 * time.Hour
	for _, test := range []struct {
		why     string
		bullets []playbook.Bullet
		how     RefineOptions
		want    []string // beginnings
	}{
		{"nothing to do", []playbook.Bullet{{Content: "Gold gets 7 %."}, {Content: "Silver gets 5 %."}}, RefineOptions{}, nil},
		{
			"three bullets with the same text are merged in one step into the best",
			[]playbook.Bullet{{Content: "Check the tax first."}, {Content: "check the  tax first.", Helpful: 3}, {Content: "CHECK the tax first."}},
			RefineOptions{},
			[]string{"MERGE a-00002 [a-00001 a-00003]: same text"},
		},
		{
			"nearly the same text, but not with another number or a negation",
			[]playbook.Bullet{
				{Content: "Always check the region tax of an invoice before the currency fee is added."},
				{Content: "Always check the region tax of the invoice before the currency fee is added."},
				{Content: "Always check the region tax of an invoice before the 2 currency fees are added."},
				{Content: "Never check the region tax of an invoice before the currency fee is added."},
			},
			RefineOptions{},
			[]string{"MERGE a-00001 [a-00002]: nearly the same text (similarity 0."},
		},
		{
			"pinned bullets stay; retired and quarantined bullets are left out",
			[]playbook.Bullet{
				{Content: "One thing.", Pinned: true, Harmful: 9},
				{Content: "one thing."},
				{Content: "Two things.", Status: playbook.Quarantined, Harmful: 9},
				{Content: "Three things.", Status: playbook.Retired, Harmful: 9},
			},
			RefineOptions{},
			[]string{"MERGE a-00001 [a-00002]"},
		},
		{
			"no merge into the text of a retired bullet",
			[]playbook.Bullet{{Content: "One thing.", Status: playbook.Retired}, {Content: "one thing."}, {Content: "One  thing."}},
			RefineOptions{},
			nil,
		},
		{
			"clearly more harmful than helpful",
			[]playbook.Bullet{
				{Content: "One thing.", Helpful: 1, Harmful: 7},
				{Content: "Another.", Helpful: 3, Harmful: 7},
				{Content: "A third.", Harmful: 4},
				{Content: "A fourth.", Helpful: 3, Harmful: 2},
				{Content: "A fifth.", Harmful: 5},
			},
			RefineOptions{},
			[]string{
				"STATUS a-00005: more harmful than helpful: 0 helpful, 5 harmful votes",
				"STATUS a-00001: more harmful than helpful: 1 helpful, 7 harmful votes",
			},
		},
		{
			"the votes of merged bullets are added",
			[]playbook.Bullet{{Content: "One thing.", Harmful: 3}, {Content: "one thing.", Harmful: 3}},
			RefineOptions{},
			[]string{"MERGE a-00001 [a-00002]", "STATUS a-00001: more harmful than helpful"},
		},
		{
			"old candidates",
			[]playbook.Bullet{
				{Content: "One thing.", Status: playbook.Candidate, UpdatedAt: noon.Add(-long)},
				{Content: "Two things.", Status: playbook.Candidate, UpdatedAt: noon.Add(-long), LastUsed: noon},
				{Content: "Three things.", UpdatedAt: noon.Add(-long)},
			},
			RefineOptions{},
			[]string{"STATUS a-00001: candidate without activity since 2026-01-20"},
		},
		{
			"over the budget",
			[]playbook.Bullet{{Content: "One thing.", Helpful: 2}, {Content: "Another thing."}, {Content: "Pinned thing.", Harmful: 4, Pinned: true}},
			RefineOptions{TokenBudget: 38},
			[]string{"STATUS a-00002: token budget exceeded"},
		},
		{
			"over the budget, with a bullet that an experiment did not retire",
			[]playbook.Bullet{{Content: "One thing."}, {Content: "Another thing.", Harmful: 1, Experiment: &playbook.Experiment{Withheld: playbook.Scores{3}}}},
			RefineOptions{TokenBudget: 26},
			[]string{"STATUS a-00001: token budget exceeded"},
		},
		{
			"a paraphrase that a model proposed, unless the numbers differ",
			[]playbook.Bullet{{Content: "Check the tax of region North first."}, {Content: "Begin with what the North is taxed."}, {Content: "Begin with what the North is taxed in 2025."}},
			RefineOptions{Merges: []playbook.Op{
				{Kind: playbook.Merge, Bullet: "a-00001", Sources: []playbook.BulletID{"a-00003"}, Content: "Begin with the tax."},
				{Kind: playbook.Merge, Bullet: "a-00001", Sources: []playbook.BulletID{"a-00009"}, Content: "Begin with the tax."},
				{Kind: playbook.Merge, Bullet: "a-00002", Sources: []playbook.BulletID{"a-00001"}, Content: "Begin with the North's tax of 7 percent."},
				{Kind: playbook.Merge, Bullet: "a-00002", Sources: []playbook.BulletID{"a-00001"}, Content: "Begin with the tax of the North."},
			}},
			[]string{"MERGE a-00001 [a-00002]: same advice in other words"},
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			test.how.Now = noon
			p := bookOf(test.bullets...)
			p.SetGate(playbook.GateOff)
			plan := Refine(p, test.how)
			if got := steps(plan); !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCuratorAcceptsPlan checks that the Curator accepts every plan, that the result is as planned, and that a second plan
// is empty.
func TestCuratorAcceptsPlan(t *testing.T) {
	t.Parallel()
	words := []string{"check the tax", "Check  the tax", "check the taxes", "check the fee 7 times", "check the fee 8 times", "never check the fee", "round cash down to ten cents before the fee is added", "round cash down to ten cents before a fee is added"}
	rapid.Check(t, func(t *rapid.T) {
		var bullets []playbook.Bullet
		for range rapid.IntRange(1, 12).Draw(t, "bullets") {
			bullets = append(bullets, playbook.Bullet{
				Content: rapid.SampledFrom(words).Draw(t, "content"),
				Status:  rapid.SampledFrom([]playbook.Status{"", playbook.Active, playbook.Candidate, playbook.Probation, playbook.Retired, playbook.Quarantined}).Draw(t, "status"),
				Helpful: rapid.IntRange(0, 4).Draw(t, "helpful"), Harmful: rapid.IntRange(0, 9).Draw(t, "harmful"),
				Pinned:    rapid.IntRange(0, 5).Draw(t, "pinned") == 0,
				UpdatedAt: noon.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "days")) * 24 * time.Hour),
			})
		}
		p := bookOf(bullets...)
		how := RefineOptions{Now: noon, TokenBudget: rapid.SampledFrom([]int{-1, 40, 80, 200}).Draw(t, "tokens")}
		plan := Refine(p, how)
		if len(plan.Steps) == 0 {
			return
		}
		e := plan.Edit()
		e.ID, e.Author = events.NewID(), "ann"
		k := &Item{ID: e.ID, Edit: e}
		out := newDraft(p, Config{}).draftItems([]*Item{k}, nil)
		if len(k.Decision.Refused) > 0 {
			t.Fatalf("refused: %v", k.Decision.Refused)
		}
		after := p.Clone()
		for i, d := range out.Deltas {
			d.Version, d.Time = p.Version()+uint64(i)+1, noon
			if _, err := after.Apply(d); err != nil {
				t.Fatal(err)
			}
		}
		sum, shown := newTokenSum(after.All()), 0
		for b := range after.All() {
			if b.Shown() {
				shown++
			}
		}
		if sum.tokens != plan.TokensAfter || shown != plan.ShownAfter {
			t.Errorf("got %[3]d shown bullets in %[4]d tokens, the plan has %[1]d in %[2]d", plan.ShownAfter, plan.TokensAfter, shown, sum.tokens)
		}
		for b := range p.All() {
			if now := after.Bullet(b.ID); b.Pinned && (now == nil || now.Content != b.Content || now.Status != b.Status) {
				t.Errorf("the pinned bullet %+v became %+v", b, now)
			}
		}
		how.Now = noon
		if again := Refine(after, how); len(again.Steps) > 0 {
			t.Errorf("after %q a second plan has %q", steps(plan), steps(again))
		}
		// If one bullet has changed, the whole edit is refused.
		moved := p.Clone()
		first := e.Expect[0]
		if _, err := moved.Apply(&playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{{Kind: playbook.Update, Bullet: first.Bullet, Content: "something else by now"}}}); err != nil {
			t.Fatal(err)
		}
		k = &Item{ID: e.ID, Edit: e}
		newDraft(moved, Config{}).draftItems([]*Item{k}, nil)
		if len(k.Decision.Refused) == 0 {
			t.Error("a plan for bullets that have changed was not refused")
		}
	})
}

func TestRefinableBullets(t *testing.T) {
	t.Parallel()
	p := bookOf(
		playbook.Bullet{Content: "Active."}, playbook.Bullet{Content: "In quarantine.", Status: playbook.Quarantined},
		playbook.Bullet{Content: "Retired.", Status: playbook.Retired},
		playbook.Bullet{Content: "Candidate.", Status: playbook.Candidate},
	)
	var got []playbook.BulletID
	for _, b := range Refinable(p) {
		got = append(got, b.ID)
	}
	if want := []playbook.BulletID{"a-00001", "a-00004"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Bullets on one subject are listed and not changed: they say the same in other words, or contradict each other.
func TestRefineListsBulletsOnOneSubject(t *testing.T) {
	t.Parallel()
	p := bookOf(
		playbook.Bullet{Content: "Add the pier fee of one unit to each mooring price."},
		playbook.Bullet{Content: "Gold customers get 7 % off."},
		playbook.Bullet{Content: "Never add the pier fee to a mooring price.", Status: playbook.Candidate, UpdatedAt: noon},
		playbook.Bullet{Content: "Each mooring price needs the pier fee of one unit on top.", Status: playbook.Retired},
		playbook.Bullet{When: "the berth is public", Content: "When the berth is public: The price of a mooring has the pier fee of one unit."},
	)
	plan := Refine(p, RefineOptions{Now: noon})
	want := [][]SubjectBullet{{
		{ID: "a-00001", State: playbook.Active, Content: "Add the pier fee of one unit to each mooring price."},
		{ID: "a-00005", State: playbook.Active, Content: "When the berth is public: The price of a mooring has the pier fee of one unit."},
		{ID: "a-00003", State: playbook.Candidate, Content: "Never add the pier fee to a mooring price."},
	}}
	if diff := cmp.Diff(want, plan.SameSubject); diff != "" || len(plan.Steps) != 0 {
		t.Errorf("got steps %q and subjects -want +got:\n%s", steps(plan), diff)
	}
}
