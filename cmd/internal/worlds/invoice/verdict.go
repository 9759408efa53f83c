package invoice

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"debrief/cmd/internal/worlds/world"
)

// Verdict implements world.World.
func (w *World) Verdict(t world.Task, a world.Attempt) world.Verdict {
	inv, _ := w.read(t.Question)
	sheet, _ := fill(&inv, w.rules)
	return compare(&inv, &sheet, a)
}

// Wrong implements world.World.
func (w *World) Wrong(t world.Task, a world.Attempt, v world.Verdict) world.Verdict {
	if !v.Right {
		return world.Verdict{Right: true, Feedback: "The answer is right."}
	}
	inv, sheet := w.misjudge(&t)
	return compare(&inv, &sheet, a)
}

// misjudge returns a wrong calculation of an invoice. One of its rules has another number, so that the model can derive
// that wrong rule. Without a rule the sum of the goods is wrong.
func (w *World) misjudge(t *world.Task) (invoice, worksheet) {
	inv, _ := w.read(t.Question)
	right, used := fill(&inv, w.rules)
	deciding := decidingRules(used)
	if len(deciding) == 0 {
		inv.goods += cents(1 + w.draw("goods", t.ID)%500)
		return inv, right
	}
	rules := slices.Clone(w.rules)
	r := &rules[deciding[w.draw("step", t.ID)%uint64(len(deciding))]]
	for try := 0; ; try++ {
		r.number = possibleNumber(steps[r.step].form, w.draw(fmt.Sprint("number ", try), t.ID))
		sheet, _ := fill(&inv, rules)
		if sheet[r.step] != right[r.step] && sheet.total(&inv) != right.total(&inv) {
			return inv, sheet
		}
	}
}

// draw returns a pseudo-random number: a hash of the seed, the purpose and the id. It is not world.Draw, so that a seed
// has the same wrong verdicts as in earlier reports.
func (w *World) draw(purpose, id string) uint64 {
	h := fnv.New64a()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], w.seed)
	_, _ = h.Write(n[:])
	_, _ = h.Write([]byte(purpose + "\x00" + id))
	return world.Mix(h.Sum64())
}

// compare returns the feedback of a clerk. It names the first wrong step.
func compare(inv *invoice, sheet *worksheet, a world.Attempt) world.Verdict {
	want := sheet.total(inv).String()
	if a.Answer == want {
		return world.Verdict{Right: true, Feedback: "The answer is right."}
	}
	feedback := fmt.Sprintf("The answer is wrong: expected %s, got %s.", want, a.Answer)
	got := readSteps(a.Reasoning)
	for line := range strings.Lines(report(inv, sheet)) {
		name, amount, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if got[name] != amount {
			feedback += fmt.Sprintf(" First wrong step: %s: expected %s, got %s.", name, amount, got[name])
			break
		}
	}
	return world.Verdict{Feedback: feedback}
}
