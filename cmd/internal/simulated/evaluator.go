package simulated

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"debrief/events"
	"debrief/generator/scoring"
)

// Evaluator evaluates answers with a configured rate of errors, like a person who checks invoices and makes mistakes.
type Evaluator struct {
	// errorRate is the share of samples whose label is inverted, 0 to 1. A right answer gets a failure, with a wrong
	// expected amount for one step. A wrong answer gets a success.
	errorRate float64
	seed      uint64
	house     house
}

// NewEvaluator returns an evaluator for the tasks of a seed. It inverts the labels of a share of the samples, 0 to 1.
func NewEvaluator(seed uint64, errorRate float64) *Evaluator {
	return &Evaluator{errorRate, seed, houseOf(seed)}
}

// Evaluate evaluates an answer with evaluator "steps". The task needs its target. The id of the task, which is the id of
// the sample, decides whether the label is inverted, so that a second call has the same result.
func (v *Evaluator) Evaluate(task *events.Task, answer, reasoning string) (o events.Outcome, inverted bool, err error) {
	o, err = scoring.Evaluate(task, scoring.Answer{Reasoning: reasoning, Final: answer})
	if err != nil || float64(v.draw("wrong", task.ID)>>11)/(1<<53) >= v.errorRate {
		return o, false, err
	}
	if o.Label != events.Success {
		return events.Outcome{Score: 1, Label: events.Success, Feedback: "The answer is right.", By: o.By}, true, nil
	}
	changed := *task
	changed.Target = v.wrongTarget(task.ID, task.Question)
	o, err = scoring.Evaluate(&changed, scoring.Answer{Reasoning: reasoning, Final: answer})
	return o, true, err
}

// wrongTarget returns a target that a right answer does not reach. One of the steps that are not zero has the amount
// that another number of its rule would give, so that a reflector can derive that wrong rule.
func (v *Evaluator) wrongTarget(id, question string) string {
	inv, _ := readInvoice(question)
	sheet := fillWorksheet(&inv, v.house.rule)
	var matter []int
	for i, c := range sheet {
		if c != 0 {
			matter = append(matter, i)
		}
	}
	if len(matter) == 0 { // the invoice uses no rule
		inv.goods += cents(1 + v.draw("goods", id)%500)
		return target(&inv, sheet)
	}
	at := matter[v.draw("step", id)%uint64(len(matter))]
	right, _ := v.house.rule(at, inv.keys[at])
	for try := 0; ; try++ {
		other := right
		other.number = wrongNumber(right, v.draw(fmt.Sprint("number ", try), id))
		changed := fillWorksheet(&inv, func(i int, key string) (rule, bool) {
			if i == at {
				return other, true
			}
			return v.house.rule(i, key)
		})
		if changed[at] != sheet[at] && changed.total(&inv) != sheet.total(&inv) {
			return target(&inv, changed)
		}
	}
}

// wrongNumber returns a possible number of the rule; it can be the right one.
func wrongNumber(r rule, draw uint64) int64 {
	n := int64(draw % 1000)
	switch r.form {
	case share:
		return (n%18 + 2) * 100
	case flat:
		return 205 + 45*(n%18)
	case each:
		return 5 * (n%18 + 1)
	}
	return []int64{5, 10, 20, 50, 100, 500, 1000, n + 1}[n%8]
}

// draw returns a pseudo-random number: a hash of the seed, the purpose and the id.
func (v *Evaluator) draw(purpose, id string) uint64 {
	h := fnv.New64a()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], v.seed)
	_, _ = h.Write(n[:])
	_, _ = h.Write([]byte(purpose))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(id))
	// The last bytes of the input change only the low bits of an FNV hash. The finaliser of MurmurHash3 mixes all bits.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
