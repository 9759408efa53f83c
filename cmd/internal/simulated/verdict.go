package simulated

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"debrief/events"
	"debrief/generator"
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
	o, err = generator.Evaluate(task, generator.Answer{Reasoning: reasoning, Final: answer})
	if err != nil || float64(v.draw("wrong", task.ID)>>11)/(1<<53) >= v.Wrong {
		return o, false, err
	}
	if o.Label != events.Success {
		return events.Outcome{Score: 1, Label: events.Success, Feedback: "The answer is right.", By: o.By}, true, nil
	}
	return events.Outcome{Label: events.Failure, Feedback: v.lie(task, answer), By: o.By}, true, nil
}

// lie is what is said of a right answer. The amount that it names is what the step would come to if the house had
// another number for it, so that a rule can be worked out of it like out of any other.
func (v *Evaluator) lie(task *events.Task, answer string) string {
	inv, _ := readInvoice(task.Question)
	sheet := work(&inv, v.house.rule)
	var matter []int
	for i, c := range sheet {
		if c != 0 {
			matter = append(matter, i)
		}
	}
	if len(matter) == 0 {
		expected := sheet.total(&inv) + cents(1+v.draw("goods", task.ID)%500)
		return fmt.Sprintf("The answer is wrong: expected %s, got %s. First step that is off: goods: expected %s, got %s.",
			expected, answer, expected, inv.goods)
	}
	at := matter[v.draw("step", task.ID)%uint64(len(matter))]
	other, _ := v.house.rule(at, inv.keys[at])
	said := sheet
	for try := 0; said[at] == sheet[at]; try++ {
		n := int64(v.draw(fmt.Sprint("number ", try), task.ID) % 18)
		switch other.form {
		case share:
			other.number = (n + 2) * 100
		case flat:
			other.number = 205 + 45*n
		case each:
			other.number = 5 * (n + 1)
		case rounded:
			other.number = []int64{5, 10, 50, 100, 500, 1000}[n%6]
		}
		said[at] = other.amount(&inv, &sheet)
		if try > 100 { // no number makes a difference
			said[at] = sheet[at] + 100
		}
	}
	expected := work(&inv, func(i int, key string) (rule, bool) {
		if i == at {
			return other, true
		}
		return v.house.rule(i, key)
	})
	return fmt.Sprintf("The answer is wrong: expected %s, got %s. First step that is off: %s: expected %s, got %s.",
		expected.total(&inv), strings.TrimSpace(answer), steps[at].name, said[at], sheet[at])
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
