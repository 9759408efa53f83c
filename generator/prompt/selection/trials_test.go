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

// under returns an index of bullets in a playbook with a gate.
func under(mode playbook.Gate, bullets ...*playbook.Bullet) *selection.Index {
	p := playbook.Restore(1, 0, slices.Values(bullets))
	p.SetGate(mode)
	return indexOf(p)
}

func trying(b *playbook.Bullet, number, share int) *playbook.Bullet {
	b.Status, b.Experiment = playbook.Probation, &playbook.Experiment{Number: number, Share: share}
	return b
}

// about derives the applicability from the end of the bullet's content.
func about(task string) *selection.Trials {
	return &selection.Trials{Book: "b", Task: task, Applicability: func(b *playbook.Bullet) (how float64) {
		_, _ = fmt.Sscanf(b.Content[strings.LastIndex(b.Content, " ")+1:], "%g", &how)
		return how
	}}
}

func choose(x *selection.Index, t *selection.Trials) selection.Selection {
	return x.Select(selection.Options{Now: noon, Tokens: 2500, Most: 30, Trials: t, Explain: true})
}

func trials(s selection.Selection) string {
	var all []string
	for _, t := range s.Trials {
		all = append(all, fmt.Sprintf("%s/%d:%s", t.Bullet, t.Experiment, t.Arm))
	}
	return strings.Join(all, " ")
}

func TestTrials(t *testing.T) {
	t.Parallel()
	book := func() []*playbook.Bullet {
		withCase := bullet("a-2", "s", "speaks of it: 0.9", 5)
		withCase.Experiment = &playbook.Experiment{Number: 4}
		quarantined := bullet("a-4", "s", "speaks of it: 1", 9)
		quarantined.Status = playbook.Quarantined
		candidate := bullet("a-5", "s", "speaks of it: 1", 9)
		candidate.Status = playbook.Candidate
		return []*playbook.Bullet{
			bullet("a-1", "s", "speaks of it: 0.7", 6), withCase, bullet("a-3", "s", "does not speak of it: 0.69", 4), quarantined, candidate,
			trying(bullet("p-1", "s", "always: 0.8", 3), 1, 100), trying(bullet("p-2", "s", "never: 0.75", 2), 2, 0),
			trying(bullet("p-3", "s", "about something else: 0.6", 1), 3, 100), pinned(trying(bullet("p-4", "s", "is pinned: 1", 0), 7, 0)),
		}
	}
	for _, tt := range []struct {
		name   string
		mode   playbook.Gate
		trials *selection.Trials
		want   string
		tried  string
		left   string
	}{
		{"shadow records, and shows what is active", playbook.GateShadow, about("t"), "a-1 a-2 a-3", "a-2/4:open a-1/0:open", ""},
		{"nobody chose a mode", "", about("t"), "a-1 a-2 a-3", "a-2/4:open a-1/0:open", ""},
		{"off records nothing", playbook.GateOff, about("t"), "a-1 a-2 a-3", "", ""},
		{
			"on, chance decides about those on probation that bear on it", playbook.GateOn, about("t"), "a-1 a-2 a-3 p-1 p-2 p-4",
			"p-1/1:shown p-2/2:withheld p-4/7:open a-2/4:open a-1/0:open", "on probation, and not about this: p-3; withheld by chance: p-2",
		},
		{"on, and nothing is tried", playbook.GateOn, nil, "a-1 a-2 a-3 p-4", "", "on probation: p-1 p-2 p-3"},
	} {
		s := choose(under(tt.mode, book()...), tt.trials)
		if ids(s.Bullets) != tt.want || trials(s) != tt.tried || reasons(s.Left) != tt.left {
			t.Errorf("%s: got %s\ntrials %s\nleft %s\nwant %s\n%s\n%s", tt.name, ids(s.Bullets), trials(s), reasons(s.Left), tt.want, tt.tried, tt.left)
		}
		for _, score := range s.Scores {
			if want := strings.Contains(tt.want, string(score.ID)) && !strings.Contains(tt.tried, string(score.ID)+"/2:withheld"); score.Shown != want {
				t.Errorf("%s: the scores say of %s that it is shown: %v", tt.name, score.ID, score.Shown)
			}
		}
		if n := len(slices.CompactFunc(slices.Clone(s.Scores), func(a, b events.BulletScore) bool { return a.ID == b.ID })); n != len(s.Scores) {
			t.Errorf("%s: a bullet has two scores", tt.name)
		}
		if len(s.Parts) != len(s.Bullets) {
			t.Errorf("%s: %d parts of %d bullets", tt.name, len(s.Parts), len(s.Bullets))
		}
	}
}

// TestIndexFollowsGate checks that the index follows changes of the gate and of probation.
func TestIndexFollowsGate(t *testing.T) {
	t.Parallel()
	x := selection.NewIndex()
	p := new(playbook.Playbook)
	apply := func(d *playbook.Delta) {
		t.Helper()
		d.Version, d.Time = p.Version()+1, noon
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
		x.Update(p)
	}
	apply(&playbook.Delta{Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "p-00001", Section: "s", Content: "on trial 1", Status: playbook.Probation, Share: 100},
		{Kind: playbook.Add, Bullet: "a-00002", Section: "s", Content: "known 0"},
	}})
	for _, tt := range []struct {
		name  string
		d     *playbook.Delta
		tried string
		n     int
	}{
		{"nobody chose", &playbook.Delta{}, "", 1},
		{"on", &playbook.Delta{Gate: playbook.GateOn}, "p-00001/1:shown", 2},
		{"looked at again", &playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "p-00001", Status: playbook.Probation, Share: 100}}}, "p-00001/2:shown", 2},
		{"off", &playbook.Delta{Gate: playbook.GateOff}, "", 1},
		{"on again", &playbook.Delta{Gate: playbook.GateOn}, "p-00001/2:shown", 2},
		{"promoted", &playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "p-00001", Status: playbook.Active}}}, "p-00001/2:open", 2},
		{"back", &playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "p-00001", Status: playbook.Probation, Share: 100}}}, "p-00001/3:shown", 2},
		{"gone", &playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "p-00001"}}}, "", 1},
	} {
		apply(tt.d)
		if s := choose(x, about("t")); trials(s) != tt.tried || x.Len() != tt.n || len(choose(x, nil).Bullets) > x.Len() {
			t.Errorf("%s: got %q of %d bullets, want %q of %d", tt.name, trials(s), x.Len(), tt.tried, tt.n)
		}
	}
}

// TestTrialsAreBounded checks that the most applicable bullets are in experiments and that no other bullet on
// probation is shown.
func TestTrialsAreBounded(t *testing.T) {
	t.Parallel()
	var bullets []*playbook.Bullet
	for n := range 20 {
		bullets = append(bullets,
			trying(bullet(playbook.MintID("p", uint64(n+1)), "s", fmt.Sprintf("number %d: %g", n, 0.7+float64(n)/100), 0), 1, 100),
			bullet(playbook.MintID("a", uint64(n+21)), "s", fmt.Sprintf("known %d: 1", n), 0))
	}
	x := under(playbook.GateOn, bullets...)
	s := x.Select(selection.Options{Now: noon, Tokens: 1 << 20, Trials: about("t")})
	if len(s.Trials) != selection.MaxTrials || s.Trials[0].Bullet != "p-00020" || s.Trials[15].Bullet != "p-00005" {
		t.Errorf("got %s", trials(s))
	}
	for _, b := range s.Bullets {
		if b.Status == playbook.Probation && b.ID <= "p-00004" {
			t.Errorf("%s is shown without a trial", b.ID)
		}
	}
	if len(s.Bullets) != 36 {
		t.Errorf("got %d bullets, want 16 on trial and 20 that are known", len(s.Bullets))
	}
}

// TestArmsChangeOnlyOneBullet checks that the other bullets and their order are the same in both arms.
func TestArmsChangeOnlyOneBullet(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	var orders []string
	arms := map[playbook.Arm]int{}
	for n := range 64 {
		p := library(200)
		p.SetGate(playbook.GateOn)
		all := p.Sorted()
		for _, b := range all[:8] {
			*b = *trying(b, 1, 50)
		}
		s := choose(indexOf(p), &selection.Trials{Book: "b", Task: fmt.Sprint(n), Applicability: func(*playbook.Bullet) float64 { return 1 }})
		orders = append(orders, ids(s.Bullets))
		for _, trial := range s.Trials {
			arms[trial.Arm]++
		}
	}
	if n := len(slices.Compact(orders)); n != 1 || arms[playbook.ArmShown] == 0 || arms[playbook.ArmWithheld] == 0 {
		t.Errorf("got %d selections with %v, want one", n, arms)
	}
}

// drawn returns the arms of bullets that apply to all tasks: true is shown.
func drawn(t *testing.T, share, number int, b playbook.Book, tasks, bullets int) [][]bool {
	t.Helper()
	var list []*playbook.Bullet
	for n := range bullets {
		list = append(list, trying(bullet(playbook.MintID("p", uint64(n+1)), "s", fmt.Sprintf("number %d: 1", n), 0), number, share))
	}
	x := under(playbook.GateOn, list...)
	all := make([][]bool, tasks)
	for n := range tasks {
		on := about(fmt.Sprint("task ", n))
		on.Book = b
		all[n] = make([]bool, bullets)
		for _, trial := range choose(x, on).Trials {
			all[n][trial.Bullet.Number()-1] = trial.Arm == playbook.ArmShown
		}
	}
	return all
}

// TestArmsAreFair checks that each bullet is shown in its share of the tasks, and that bullets, cases and books are
// independent. A fair draw exceeds the bounds once in a million times.
func TestArmsAreFair(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const tasks, bullets = 4000, 8
	for _, share := range []int{1, 20, 50, 90} {
		square := 0.0
		for n := range bullets {
			shown := 0.0
			for _, row := range drawn(t, share, 1, "b", tasks, bullets) {
				if row[n] {
					shown++
				}
			}
			want := float64(tasks*share) / 100
			square += (shown - want) * (shown - want) / (want * (1 - float64(share)/100))
		}
		if square > 42.7 { // chi-square, 8 degrees of freedom
			t.Errorf("share %d %%: chi-square %.1f, want at most 42.7", share, square)
		}
	}
	one := drawn(t, 50, 1, "b", tasks, bullets)
	if again := drawn(t, 50, 1, "b", tasks, bullets); !cmp.Equal(one, again) {
		t.Error("the same tasks got something else the second time")
	}
	independent := func(name string, a, b func(row int) bool) {
		t.Helper()
		same := 0
		for row := range tasks {
			if a(row) == b(row) {
				same++
			}
		}
		if z := math.Abs(float64(same)-tasks/2) / math.Sqrt(tasks/4); z > 4.9 {
			t.Errorf("%s: agree on %d of %d tasks, z %.1f", name, same, tasks, z)
		}
	}
	of := func(rows [][]bool, n int) func(int) bool { return func(row int) bool { return rows[row][n] } }
	for n := range bullets {
		for m := range n {
			independent(fmt.Sprintf("bullets %d and %d", n, m), of(one, n), of(one, m))
		}
	}
	independent("cases", of(one, 0), of(drawn(t, 50, 2, "b", tasks, bullets), 0))
	independent("books", of(one, 0), of(drawn(t, 50, 1, "c", tasks, bullets), 0))
	independent("a task and the next", func(row int) bool { return one[row][0] }, func(row int) bool { return one[(row+1)%tasks][0] })
}
