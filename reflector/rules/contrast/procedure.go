package contrast

import "slices"

// falseLevel bounds the expected share of candidates without effect among the shown ones, and the probability that
// anything is shown if no candidate has an effect.
const falseLevel = 0.05

// verdict is the decision of the procedure over all columns.
type verdict struct {
	tested int
	shown  []int // columns
}

// decide applies the complete procedure to the given outcomes.
func (s *scorer) decide(success []bool) verdict {
	smallest := make([]float64, len(s.m.columns))
	for i, c := range s.m.columns {
		s.load(c.entries, success)
		smallest[i] = s.smallest()
	}
	limit := testable(smallest)
	var v verdict
	var found []int
	p := make([]float64, len(s.m.columns))
	for i, c := range s.m.columns {
		if smallest[i] > limit {
			continue
		}
		v.tested++
		s.load(c.entries, success)
		if p[i], _ = s.test(); p[i] <= falseLevel {
			found = append(found, i)
		}
	}
	sorted := make([]float64, len(found))
	for i, c := range found {
		sorted[i] = p[c]
	}
	slices.Sort(sorted)
	bound := stepUp(sorted, v.tested)
	for _, c := range found {
		if p[c] <= bound {
			v.shown = append(v.shown, c)
		}
	}
	return v
}

// testable returns the largest value of the smallest possible p-value with which a candidate is worth a test: with k
// tests it must be at most falseLevel/k, and at most k candidates satisfy that (Tarone 1990). It depends on margins only.
func testable(smallest []float64) float64 {
	sorted := slices.Sorted(slices.Values(smallest))
	for k := 1; ; k++ {
		limit := falseLevel / float64(k)
		if k >= len(sorted) || sorted[k] > limit {
			return limit
		}
	}
}

// stepUp returns the largest p-value that is rejected with n tests, or zero (Benjamini and Hochberg 1995).
// The p-values are sorted; those that are missing are larger than falseLevel.
func stepUp(sorted []float64, n int) float64 {
	for i := len(sorted); i > 0; i-- {
		if sorted[i-1] <= falseLevel*float64(i)/float64(n) {
			return sorted[i-1]
		}
	}
	return 0
}
