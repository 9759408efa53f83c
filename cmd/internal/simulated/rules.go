package simulated

import "math/rand/v2"

// house holds the rules of one company by step name and key. The files of the model must not use it.
type house map[[2]string]rule

// houseOf draws the rules of a seed. The ranges of percentages (under 20) and amounts contain no quantity, stamp count or
// invoice number, so that no task reveals the number of a rule.
func houseOf(seed uint64) house {
	rng := rand.New(rand.NewPCG(seed, 0x686f757365)) // "house"
	h := make(house)
	for i := range steps {
		s := &steps[i]
		// The rules of a step have different numbers, else their sentences would differ in one word only.
		draw := rng.Perm(18)
		for k, key := range s.keys {
			r := rule{step: i, key: key, form: s.form}
			switch s.form {
			case share:
				r.number = int64(draw[k]+2) * 100
				r.base = bases(i)[rng.IntN(len(bases(i)))]
			case flat:
				r.number = 205 + 45*int64(draw[k]) // 2.05 to 9.70
			case each:
				r.number = 5 * int64(draw[k]+1) // 0.05 to 0.90
			case rounded:
				r.number = []int64{5, 10, 50, 100}[(draw[0]+k)%4]
			}
			h[[2]string{s.name, key}] = r
		}
	}
	return h
}

// bases returns the bases that a percentage may have at a step.
func bases(step int) []base {
	switch steps[step].name {
	case "volume discount":
		return []base{ofSum, ofList}
	case "handling surcharge":
		return []base{ofSum, ofNet, ofList}
	case "region tax":
		return []base{ofSum, ofNet}
	}
	return []base{ofSum}
}

func (h house) rule(step int, key string) (rule, bool) {
	r, ok := h[[2]string{steps[step].name, key}]
	return r, ok
}
