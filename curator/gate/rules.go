package gate

import (
	"math"

	"debrief/playbook"
)

// A rule can compare successful with failed runs. Its bullet is shown if there are at least minRuns successes and minRuns
// failures, if at least minRuns successes have the finding, and if the share of successes with the finding is higher by a
// one-sided two-proportion z-test at 5 %. Many rules are tested, so some shown bullets are false positives; the text
// contains the counts.
const (
	minRuns = 5
	minZ    = 1.645
)

// A rule can also compare two runs of one task. Its bullet is shown if at least minRuns pairs support it, and if a one-sided
// sign test of the pairs for and against it has a p-value of at most maxPValue. One run can be in several pairs, so the
// pairs are not independent and the real error rate is a little higher.
const maxPValue = 0.05

// IsRuleSupported reports whether the counts of a rule's bullet b, compared with those of its base, are enough to show it. A nil
// base counts as a bullet without votes.
func IsRuleSupported(b, base *playbook.Bullet) bool {
	if base == nil {
		base = &playbook.Bullet{}
	}
	switch {
	case b.Rule.CountOnly:
		return false
	case b.Rule.Paired:
		return b.Helpful >= minRuns && signTest(b.Helpful, b.Harmful) <= maxPValue
	}
	return b.Rule.Base == "" || hasContrast(b, base)
}

// signTest returns the p-value of a one-sided sign test: the probability of at least pro successes in pro+contra trials with
// p = 1/2, the upper tail of the binomial distribution.
func signTest(pro, contra int) float64 {
	n := pro + contra
	if n > 1000 { // the normal approximation is accurate enough
		return math.Erfc((float64(pro)-0.5-float64(n)/2)/math.Sqrt(float64(n)/2)) / 2
	}
	sum, all := 0.0, logGamma(n+1)-float64(n)*math.Ln2
	for k := range contra + 1 { // the lower tail has the same value and fewer terms
		sum += math.Exp(all - logGamma(k+1) - logGamma(n-k+1))
	}
	return sum
}

func logGamma(n int) float64 {
	v, _ := math.Lgamma(float64(n))
	return v
}

// hasContrast reports whether successful runs have the finding clearly more often than failed runs; see minZ.
func hasContrast(b, base *playbook.Bullet) bool {
	if b.Helpful < minRuns || base.Helpful < minRuns || base.Harmful < minRuns {
		return false
	}
	n, m := float64(base.Helpful), float64(base.Harmful)
	p, q := float64(b.Helpful)/n, float64(b.Harmful)/m
	pooled := float64(b.Helpful+b.Harmful) / (n + m)
	spread := math.Sqrt(pooled * (1 - pooled) * (1/n + 1/m))
	return spread > 0 && (p-q)/spread >= minZ
}
