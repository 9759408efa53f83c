package learning

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/train/report"

	book "debrief/playbook"
)

// learned returns the accuracy of an arm in a world after a number of tasks. A fixed arm has the same for each number.
func learned(rows []worldRow, world, arm string, tasks int) (report.Estimate, bool) {
	for i := range rows {
		if r := &rows[i]; r.World == world && r.Arm == arm && (r.Tasks == tasks || isFixedArm(arm)) {
			return r.Values[accuracyKey], true
		}
	}
	return report.Estimate{}, false
}

func isFixedArm(name string) bool {
	for i := range worldArms {
		if worldArms[i].name == name {
			return worldArms[i].isFixed
		}
	}
	return false
}

// curveGoals compares the measured arms of each world.
func curveGoals(t *Table, rows []worldRow) {
	last := 0
	for i := range rows {
		last = max(last, rows[i].Tasks)
	}
	gatewayGoals(t, rows, worlds.Names())
	def := string(defaultGate)
	off := string(book.GateOff)
	strict := string(strictest)
	for _, w := range worlds.Names() {
		accuracy := func(arm string, tasks int) (float64, bool) {
			e, ok := learned(rows, w, arm, tasks)
			return e.Mean, ok
		}
		none, hasNone := accuracy("none", 0)
		for _, control := range []string{"platitudes", "nonsense"} {
			if x, ok := accuracy(control, 0); ok && hasNone {
				t.Goal(x == none, w+": "+control+" leave the accuracy at the baseline", "%+.1f", 100*(x-none))
			}
		}
		at := min(last, 1500)
		x, ok := accuracy(def, at)
		if all, hasAll := accuracy("all-shown", at); ok && hasAll {
			t.Goal(x-all >= -0.02, fmt.Sprintf("%s: %s within 2 points of all-shown after %d tasks", w, def, at), "%+.1f", 100*(x-all))
		}
		x, ok = accuracy(def, last)
		if best, hasBest := accuracy("ceiling", 0); ok && hasBest && last >= 6000 {
			t.Goal(x >= 0.95*best, fmt.Sprintf("%s: %s at least 95 %% of the ceiling after %d tasks", w, def, last), "%.1f %%", 100*x/best)
		}
		clean, hasClean := accuracy(off, last)
		lost, hasLost := accuracy(off+"-wrong", last)
		if x, ok := accuracy(def+"-wrong", last); ok && hasClean && hasLost && def != off {
			t.Goal(x-lost >= (clean-lost)/2, fmt.Sprintf("%s: %s-wrong recovers half of what %s loses by wrong verdicts, %.1f points", w, def, off, 100*(clean-lost)),
				"%.1f points", 100*(x-lost))
		}
		if x, ok := accuracy(strict+"-wrong", last); ok && hasClean {
			t.Goal(x-clean >= -0.1, fmt.Sprintf("%s: %s-wrong within 10 points of %s", w, strict, off), "%+.1f", 100*(x-clean))
		}
		for _, rate := range brokenRates {
			whole, hasWhole := accuracy(def, last)
			if x, ok := accuracy(brokenArm(rate), last); ok && hasWhole {
				t.Goal(x-whole >= -0.05, fmt.Sprintf("%s: %s within 5 points of %s", w, brokenArm(rate), def), "%+.1f", 100*(x-whole))
			}
		}
	}
	for i := range rows {
		rowGoals(t, &rows[i])
	}
	changeGoal(t, rows)
}

// rowGoals checks the cost of a task with the default gate, and dead letters with broken replies.
func rowGoals(t *Table, r *worldRow) {
	name := fmt.Sprintf("%s, %s, %d tasks: ", r.World, r.Arm, r.Tasks)
	if dead := r.Values[deadKey]; strings.HasPrefix(r.Arm, brokenPrefix) && r.Tasks > 0 {
		t.Goal(dead.Mean <= 0.01*float64(r.Tasks), name+"dead letters for at most 1 % of the tasks", "%.1f", dead.Mean)
	}
	if r.Arm != string(defaultGate) || r.Tasks < 300 {
		return
	}
	if shared, ok := r.Values[prefixKey]; ok {
		t.Goal(shared.Mean >= 0.9, name+"at least 90 % of the system part shared", "%.1f %%", 100*shared.Mean)
	}
	if calls, ok := r.Values[callsKey]; ok {
		t.Goal(calls.Mean <= 2.2, name+"at most 2.2 model calls for a task", "%.2f", calls.Mean)
	}
}

// changeGoal compares the accuracy on the tasks of changed rules before and after the change.
func changeGoal(t *Table, rows []worldRow) {
	changed := make(map[int]float64) // by the number of tasks
	for i := range rows {
		if e, ok := rows[i].Values[changedKey]; ok && rows[i].Arm == string(defaultGate) {
			changed[rows[i].Tasks] = e.Mean
		}
	}
	after, ok := changed[text.ChangeAfter+afterChange]
	if before, isKnown := changed[text.ChangeAfter]; ok && isKnown {
		t.Goal(after-before >= -0.05, fmt.Sprintf("%d tasks after the change: within 5 points of before", afterChange), "%+.1f", 100*(after-before))
	}
}
