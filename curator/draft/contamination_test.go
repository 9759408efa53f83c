package draft

import (
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestContamination measures a bullet without effect that is shown and cited with one that adds 30 points: it must not be proven. Outcomes
// are drawn directly, and each success praises all cited bullets. No model and no server run. DEBRIEF_LONG=1 takes more playbooks:
//
//	DEBRIEF_LONG=1 go test ./curator/draft -run TestContamination -v | grep PROVEN
func TestContamination(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	books, most := 10, 0.1 // one of ten may prove the bullet without effect
	if os.Getenv("DEBRIEF_LONG") != "" {
		books, most = 100, 0.05
	}
	for _, c := range []struct {
		wrong float64 // share of wrong verdicts
		least float64 // share of the playbooks that prove the bullet that helps
	}{{0, 0.9}, {0.2, 0.5}} {
		all := make([]contaminated, books)
		var group sync.WaitGroup
		for i := range all {
			group.Go(func() { all[i].run(uint64(i), c.wrong) })
		}
		group.Wait()
		share := func(id playbook.BulletID) (n float64) {
			for i := range all {
				if all[i].proven[id] {
					n += 1 / float64(books)
				}
			}
			return n
		}
		helps, idle := share(helpful), share(idle)
		t.Logf("PROVEN with %.0f %% wrong verdicts: without effect %.0f %%, helpful %.0f %%", 100*c.wrong, 100*idle, 100*helps)
		if idle > most+1e-9 || helps < c.least-1e-9 {
			t.Errorf("want at most %.0f %% and at least %.0f %%", 100*most, 100*c.least)
		}
	}
}

// The bullets of a contaminated playbook. Every answer cites all that it is shown.
const (
	helpful = playbook.BulletID("rule-00001")
	idle    = playbook.BulletID("rule-00002")
)

// contaminated is a playbook with both bullets.
type contaminated struct {
	rng    *rand.Rand
	book   playbook.Playbook
	proven map[playbook.BulletID]bool
}

// run reflects on 3,000 tasks, of which 30 % succeed without a bullet.
func (c *contaminated) run(seed uint64, wrong float64) {
	c.rng, c.proven = rand.New(rand.NewPCG(seed, 0)), map[playbook.BulletID]bool{}
	first := playbook.Delta{Gate: playbook.GateGuard}
	for _, id := range []playbook.BulletID{helpful, idle} {
		first.Ops = append(first.Ops, playbook.Op{Kind: playbook.Add, Bullet: id, Section: "rules", Content: "text of " + string(id), Status: playbook.Active, Standing: playbook.StandingNew})
	}
	c.apply(&first)
	var unchecked []playbook.BulletID
	for range 3000 {
		out := Build(c.book.Clone(), Config{}, []*Item{{ID: events.NewID(), Reflection: c.reflection(wrong)}}, unchecked)
		unchecked = out.Unchecked
		for _, d := range out.Deltas {
			c.apply(d)
		}
	}
}

func (c *contaminated) apply(d *playbook.Delta) {
	d.Version = c.book.Version() + 1
	if _, err := c.book.Apply(d); err != nil {
		panic(err) // versions follow one another
	}
	for b := range c.book.All() {
		c.proven[b.ID] = c.proven[b.ID] || b.CurrentExperiment().Standing == playbook.StandingProven
	}
}

// reflection draws the outcome of a task.
func (c *contaminated) reflection(wrong float64) *events.Reflection {
	e := events.Execution{Manifest: new(events.Manifest)}
	if x, ok := c.experiment(); ok {
		e.Manifest.Exposures = append(e.Manifest.Exposures, x)
	}
	rate := 0.3
	for _, id := range []playbook.BulletID{helpful, idle} {
		b := c.book.Bullet(id)
		isWithheld := slices.ContainsFunc(e.Manifest.Exposures, func(x events.Exposure) bool { return x.Bullet == id && x.Arm == playbook.ArmWithheld })
		if !b.Shown() || isWithheld {
			continue
		}
		e.Shown = append(e.Shown, events.ShownBullet{ID: id, Experiment: b.CurrentExperiment().Number})
		e.Cited = append(e.Cited, id)
		if id == helpful {
			rate += 0.3
		}
	}
	isRight := c.rng.Float64() < rate
	if c.rng.Float64() < wrong {
		isRight = !isRight
	}
	e.Outcome = events.Outcome{Label: events.Failure}
	if isRight {
		e.Outcome = events.Outcome{Label: events.Success, Score: 1}
	}
	r := &events.Reflection{Execution: events.NewID(), Model: "m", Outcome: e.Outcome, FirstRoundScore: e.Outcome.Score, Exposures: e.Exposures()}
	for _, id := range e.Cited {
		if isRight {
			r.Tags = append(r.Tags, events.BulletTag{ID: id, Tag: events.Helpful})
		}
	}
	return r
}

// experiment draws the experiment of a task, as the Generator does: at most one bullet, withheld from half of its tasks.
func (c *contaminated) experiment() (x events.Exposure, ok bool) {
	b := c.book.Bullet([]playbook.BulletID{helpful, idle}[c.rng.IntN(2)])
	record := b.CurrentExperiment()
	if !b.Shown() || c.rng.IntN(100) >= record.Standing.ExperimentShare() {
		return x, false
	}
	x = events.Exposure{Bullet: b.ID, Experiment: record.Number, Arm: playbook.ArmShown}
	if c.rng.IntN(2) == 0 {
		x.Arm = playbook.ArmWithheld
	}
	return x, true
}
