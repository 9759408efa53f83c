package simulated

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"debrief/events"
	"debrief/generator/scoring"
)

// Evaluator judges answers afterwards, as somebody would who checks invoices for a living and is not always awake.
type Evaluator struct {
	// Wrong is the share of samples whose verdict is turned around: a right answer is called wrong, with another amount
	// than the right one at a step that matters, and a wrong answer is called right.
	Wrong float64
	seed  uint64
	house house
}

// NewEvaluator judges answers to the tasks of a seed.
func NewEvaluator(seed uint64, wrong float64) *Evaluator {
	return &Evaluator{wrong, seed, houseOf(seed)}
}

// Judge says how good an answer to a task is, in the words of the evaluator by steps. Task has its target; its id is
// that of the sample, and chance goes by it: the same sample is judged the same way again.
func (v *Evaluator) Judge(task *events.Task, answer, reasoning string) (o events.Outcome, inverted bool, err error) {
	o, err = scoring.Evaluate(task, scoring.Answer{Reasoning: reasoning, Final: answer})
	if err != nil || float64(v.draw("wrong", task.ID)>>11)/(1<<53) >= v.Wrong {
		return o, false, err
	}
	if o.Label != events.Success {
		return events.Outcome{Score: 1, Label: events.Success, Feedback: "The answer is right.", By: o.By}, true, nil
	}
	told := *task
	told.Target = v.lie(task)
	o, err = scoring.Evaluate(&told, scoring.Answer{Reasoning: reasoning, Final: answer})
	return o, true, err
}

// lie is a target that a right answer is told to have missed: with another amount at one of the steps that matter, the
// one that it would come to if the house had another number for it. So a rule can be worked out of it like out of any
// other.
func (v *Evaluator) lie(task *events.Task) string {
	inv, _ := readInvoice(task.Question)
	sheet := work(&inv, v.house.rule)
	var matter []int
	for i, c := range sheet {
		if c != 0 {
			matter = append(matter, i)
		}
	}
	if len(matter) == 0 { // no rule is about this one
		inv.goods += cents(1 + v.draw("goods", task.ID)%500)
		return target(&inv, sheet)
	}
	at := matter[v.draw("step", task.ID)%uint64(len(matter))]
	right, _ := v.house.rule(at, inv.keys[at])
	for try := 0; ; try++ {
		other := right
		other.number = v.otherNumber(right, v.draw(fmt.Sprint("number ", try), task.ID))
		told := work(&inv, func(i int, key string) (rule, bool) {
			if i == at {
				return other, true
			}
			return v.house.rule(i, key)
		})
		if told[at] != sheet[at] && told.total(&inv) != sheet.total(&inv) {
			return target(&inv, told)
		}
	}
}

// otherNumber is one that a house might have for a rule, in place of its own.
func (v *Evaluator) otherNumber(r rule, draw uint64) int64 {
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

func (v *Evaluator) draw(purpose, id string) uint64 {
	h := fnv.New64a()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], v.seed)
	_, _ = h.Write(n[:])
	_, _ = h.Write([]byte(purpose))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(id))
	// The last bytes of a text move the low bits of the hash alone: mix them up (the finaliser of MurmurHash3).
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
