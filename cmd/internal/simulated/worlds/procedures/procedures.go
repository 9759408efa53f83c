// Package procedures is a simulated world of step lists. An order names a kind of job, a material, a client and the steps that the client
// has in mind; the answer is the list of steps to carry out. Hidden rules of two kinds of jobs, which share their steps, change the list:
// which step comes before or after another, what to leave out or to swap for a material or a client, what to begin with. A job takes
// about four rules at once. A third kind of job is noise: its verdicts are random.
//
// The score is the nearness of the answer to the right list. Without the check of the kind of job it is at most maxUnchecked. The
// feedback names only the first flaw.
package procedures

import (
	"math/rand/v2"
	"slices"

	"debrief/cmd/internal/simulated/worlds"
)

// Name is the name of the world.
const Name = "procedures"

// World is the world of one seed.
type World struct {
	Language
	*worlds.Model
	rules []rule
	tasks worlds.Tasks
}

// New returns the world of a seed.
func New(seed uint64, e worlds.Imperfection) *World {
	return &World{Model: NewModel(seed, e), rules: hidden(seed)}
}

// Name implements worlds.World.
func (*World) Name() string { return Name }

// Train implements worlds.World.
func (w *World) Train(n int) []worlds.Task {
	return w.tasks.First("train", n, func(n int) []worlds.Task { return w.write("train", n, 1, false) })
}

// HeldOut implements worlds.World. The tasks have no noise.
func (w *World) HeldOut(_, n int) []worlds.Task {
	return w.tasks.First("held-out", n, func(n int) []worlds.Task { return w.write("held-out", n, 2, true) })
}

// write writes different orders. A hash of the order decides whether it is held out, so no order is in both kinds.
func (w *World) write(kind string, n int, stream uint64, heldOut bool) []worlds.Task {
	rng := rand.New(rand.NewPCG(w.Seed, stream))
	seen := make(map[string]bool)
	return worlds.WriteTasks(kind, n, func() (t worlds.Task, ok bool) {
		j := w.draw(rng)
		isHeldOut := worlds.Mix(worlds.Hash(j.String()))%5 == 0
		if isHeldOut != heldOut || seen[j.String()] || heldOut && j.family == noise {
			return t, false
		}
		seen[j.String()] = true
		t.Question = j.order(rng)
		if j.family != noise {
			t.Deciding = w.deciding(&j)
		}
		return t, true
	})
}

// deciding returns the rules without which the answer is another one.
func (w *World) deciding(j *job) (list []int) {
	right, _ := carryOut(j, w.rules)
	for i := range w.rules {
		if !w.rules[i].concerns(j) {
			continue
		}
		others := slices.Delete(slices.Clone(w.rules), i, i+1)
		if got, _ := carryOut(j, others); !slices.Equal(got, right) {
			list = append(list, i)
		}
	}
	return list
}

// ByHand implements worlds.World.
func (w *World) ByHand(int) []string {
	return worlds.ByHand(w.Seed, w.rules, func(r rule) worlds.Rule { return r })
}

// States implements worlds.World. The world has one phase.
func (w *World) States(text string, phase, i int) bool {
	r, ok := readRule(text)
	return ok && phase == 0 && r == w.rules[i]
}

// maxUnchecked is the best score of an answer without the check of its kind of job.
const maxUnchecked = 0.3

// Verdict implements worlds.World.
func (w *World) Verdict(t worlds.Task, a worlds.Attempt) worlds.Verdict {
	j, d := readJob(t.Question), worlds.Dice(worlds.Draw(w.Seed, "verdict", t.ID, a.Answer))
	got := readSteps(a.Answer)
	if j.family == noise {
		return w.invented(&j, got, d, float64(d.Draw("score")%11)/10)
	}
	right, _ := carryOut(&j, w.rules)
	score := nearness(got, right)
	if score == 1 {
		return worlds.Verdict{Score: 1, Feedback: []string{"", "Right.", "Well done."}[d.Draw("praise")%3]}
	}
	f := firstFlaw(got, right)
	if slices.Contains(checks, right[0]) && (len(got) == 0 || got[0] != right[0]) {
		score, f = min(score, maxUnchecked), flaw{kind: unchecked, step: right[0]}
	}
	return worlds.Verdict{Score: score, Feedback: f.Text(w.reason(f, &j, d), d.Draw("wording"))}
}

// nearness returns 1 minus the edit distance as a share of the longer list, rounded down to tenths.
func nearness(got, want []string) float64 {
	longest := max(len(got), len(want), 1)
	return float64(10*(longest-distance(got, want))/longest) / 10
}

// distance returns the number of steps to insert, delete or replace.
func distance(a, b []string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for k, y := range b {
			change := diagonal
			if x != y {
				change++
			}
			diagonal = row[k+1]
			row[k+1] = min(change, row[k]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// reason returns the condition of the rule behind a flaw, in a quarter of the cases.
func (w *World) reason(f flaw, j *job, d worlds.Dice) (when condition) {
	if !d.Chance(0.25, "reason") {
		return when
	}
	for _, r := range w.rules {
		if r.concerns(j) && slices.Contains([]string{f.step, f.other}, r.step) && r.when != (condition{}) {
			return r.when
		}
	}
	return when
}

// Wrong implements worlds.World: it praises a wrong answer, and finds an invented flaw in a right one.
func (w *World) Wrong(t worlds.Task, a worlds.Attempt, v worlds.Verdict) worlds.Verdict {
	if !v.Right() {
		return worlds.Verdict{Score: 1, Feedback: "Right."}
	}
	j := readJob(t.Question)
	return w.invented(&j, readSteps(a.Answer), worlds.Dice(worlds.Draw(w.Seed, "wrong verdict", t.ID, a.Answer)), 0.2)
}

// invented returns a verdict with a score and an invented flaw. Without one, because the score is full or the answer has fewer than two
// steps, it returns the full score and "Right.".
func (w *World) invented(j *job, got []string, d worlds.Dice, score float64) worlds.Verdict {
	if score == 1 || len(got) < 2 {
		return worlds.Verdict{Score: 1, Feedback: "Right."}
	}
	at := d.Draw("at") % uint64(len(got)-1)
	f := flaw{kind: needless, step: got[at]}
	switch d.Draw("flaw") % 3 {
	case 0:
		f = flaw{kind: early, step: got[at+1], other: got[at]}
	case 1:
		f = flaw{kind: missing, step: steps[d.Draw("step")%uint64(len(steps))], other: got[at]}
	}
	var when condition
	if d.Chance(0.3, "reason") {
		when.material = j.material
	}
	return worlds.Verdict{Score: score, Feedback: f.Text(when, d.Draw("wording"))}
}

// Distractors implements worlds.World. The rules are of all kinds but check, the last one of kinds, for materials that no order names.
func (w *World) Distractors(n int) []string {
	rng := rand.New(rand.NewPCG(w.Seed, 3))
	return worlds.Distinct(n, func(int) string {
		r := rule{kind: kinds[rng.IntN(len(kinds)-1)], family: families[rng.IntN(2)], step: steps[rng.IntN(len(steps))], other: steps[rng.IntN(len(steps))]}
		r.when.material = otherMaterials[rng.IntN(len(otherMaterials))]
		if rng.IntN(2) == 0 {
			r.when.client = clients[rng.IntN(len(clients))]
		}
		return r.withoutUnusedStep().Text(rng.Uint64())
	})
}
