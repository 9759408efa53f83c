package notes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Sizes of the hidden rules. They sum up to 60.
const (
	baseRules     = 34 // a kind
	vagueRules    = 6  // a name, for notes without a kind
	exceptions    = 12 // a kind and one circumstance or name
	nested        = 5  // a kind, a circumstance or name, and an amount
	overrides     = 3  // a name, whatever the kind
	accountNumber = 40
)

// ledger contains the hidden rules. Rule i decides a share of the notes that falls with its rank.
type ledger struct {
	seed  uint64
	rules []rule
	share []float64 // cumulative, by rule
	names []string  // private names in use, also in notes without a rule about them
	kinds []string  // kinds with rules
	hand  []string
}

// thresholds are the amounts in rules, in cents. People name round amounts.
var thresholds = []int{5000, 10000, 15000, 20000, 25000, 50000, 100000}

func newLedger(seed uint64) *ledger {
	rng := rand.New(rand.NewPCG(seed, 0x6e6f746573)) // "notes"
	v := language()
	l := &ledger{seed: seed}
	draw := func(c class, n int) []string {
		all := slices.Clone(v.byClass[c])
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		ids := make([]string, n)
		for i := range ids {
			ids[i] = all[i].id
		}
		return ids
	}
	l.kinds = draw(kind, baseRules)
	l.names = draw(name, vagueRules+overrides+15)
	circumstances := draw(condition, len(v.byClass[condition]))
	accounts := rng.Perm(2999)[:accountNumber]
	used := 0
	account := func(not string) string {
		for {
			a := used
			if used++; a >= accountNumber {
				a = rng.IntN(accountNumber)
			}
			if text := fmt.Sprint(4001 + accounts[a]); text != not {
				return text
			}
		}
	}
	for _, k := range l.kinds {
		l.rules = append(l.rules, rule{concepts: []string{k}, account: account("")})
	}
	for i, n := range l.names[:vagueRules+overrides] {
		l.rules = append(l.rules, rule{concepts: []string{n}, account: account(""), override: i >= vagueRules})
	}
	// Each exception has another kind, so that no note has two equally specific rules for one kind.
	kinds := rng.Perm(baseRules)
	for i := range exceptions {
		base := l.rules[kinds[i]]
		extra := circumstances[i%len(circumstances)]
		if i%3 == 2 {
			extra = l.names[vagueRules+overrides+i]
		}
		r := rule{concepts: []string{base.concepts[0], extra}, account: account(base.account)}
		slices.Sort(r.concepts)
		l.rules = append(l.rules, r)
		if i < nested {
			r.over, r.account = thresholds[rng.IntN(len(thresholds))], account(r.account)
			l.rules = append(l.rules, r)
		}
	}
	l.setShares(rng)
	l.writeHand()
	return l
}

// setShares gives each rule a rank and a share. Base rules tend to be frequent, and exceptions rare.
func (l *ledger) setShares(rng *rand.Rand) {
	order := make([]float64, len(l.rules))
	rank := make([]int, len(l.rules))
	for i, r := range l.rules {
		order[i], rank[i] = rng.Float64()+0.25*float64(r.specificity()%100), i
	}
	slices.SortFunc(rank, func(a, b int) int {
		if order[a] < order[b] {
			return -1
		}
		return 1
	})
	shares, sum := make([]float64, len(l.rules)), 0.0
	for place, i := range rank {
		shares[i] = math.Pow(float64(place)+52.9, -4)
		sum += shares[i]
	}
	total := 0.0
	for _, s := range shares {
		total += s / sum
		l.share = append(l.share, total)
	}
}

// decider returns the index of the rule that decides a note, or -1 if no rule or two equally specific rules apply.
func (l *ledger) decider(m *meaning) int {
	found, isTie := -1, false
	for i := range l.rules {
		if !l.rules[i].fits(m) {
			continue
		}
		switch {
		case found < 0 || l.rules[i].specificity() > l.rules[found].specificity():
			found, isTie = i, false
		case l.rules[i].specificity() == l.rules[found].specificity():
			isTie = true
		}
	}
	if isTie {
		return -1
	}
	return found
}

func (l *ledger) writeHand() {
	for i := range l.rules {
		r := &l.rules[i]
		p := phrasing{s: draws(l.seed, fmt.Sprint("by hand ", i)), varying: true}
		l.hand = append(l.hand, p.state(r, handSentences))
	}
}

func (l *ledger) byHand() []string { return slices.Clone(l.hand) }

// accounts returns all accounts, sorted.
func (l *ledger) accounts() []string {
	var all []string
	for i := range l.rules {
		all = append(all, l.rules[i].account)
	}
	slices.SortFunc(all, strings.Compare)
	return slices.Compact(all)
}
