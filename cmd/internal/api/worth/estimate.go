package worth

import "math"

// Constants of the interval; see the package comment.
const (
	alpha = 0.05
	// minSessions is the number of sessions with a value in each arm from which on there is an interval, which is asymptotic.
	minSessions = 20
	// scale is τ, the size of the effects that the interval is tuned for: 10 points, or 10 % of tokens, cost and time. Any constant is
	// valid.
	scale = 0.1
)

// armMean is the mean of a measure over the sessions of an arm, each with the inverse of the probability of its arm as its weight.
type armMean struct {
	sessions int
	value    float64
	spread   float64 // variance of the value of a session
	// The variance of the mean is spread·seen, with seen = Σw² / (Σw)² over the sessions. If the arm has fewer sessions than its probability lets
	// expect, the missing sessions add spread·unseen.
	seen, unseen float64
}

// meanOf returns the mean of a measure over the sessions of an arm.
func (s *Sums) meanOf(m measure, a arm) (out armMean) {
	var weight, sum, squares float64
	for i := range s.shares {
		part := &s.shares[i]
		w, of := part.weight(a), &part.arms[a].byMeasure[m]
		n := float64(of.sessions)
		out.sessions += of.sessions
		weight += w * n
		sum += w * of.sum
		squares += w * of.squares
		out.seen += w * w * n
		all := float64(part.arms[with].byMeasure[m].sessions + part.arms[without].byMeasure[m].sessions)
		out.unseen += max(0, w*all-w*w*n) // all/w sessions are expected; each missing one adds w²
	}
	if out.sessions == 0 {
		return out
	}
	out.value = sum / weight
	// The last term is the imagined session that is one unit from the mean.
	out.spread = max(0, squares/weight-out.value*out.value) + 1/float64(out.sessions)
	out.seen /= weight * weight
	out.unseen /= weight * weight
	return out
}

// pooledSpread returns the spread of an arm, raised towards that of the other arm if that is larger, as if minSessions sessions with the
// other spread were added: the spread of few sessions is often far too small by chance.
func (a *armMean) pooledSpread(other *armMean) float64 {
	return a.spread + max(0, other.spread-a.spread)*minSessions/float64(a.sessions+minSessions)
}

// radius returns half of the width of the interval of an estimate with this variance; see the package comment.
func radius(variance, alpha float64) float64 {
	prior := scale * scale
	return math.Sqrt(2 * variance * (variance + prior) / prior * (math.Log1p(prior/variance)/2 - math.Log(alpha)))
}

// difference is the difference of a measure, with minus without the playbook, with its interval.
type difference struct {
	mean, low, high float64
	variance        float64 // of mean
}

// difference returns the difference of a measure. It returns false if there are too few sessions.
func (s *Sums) difference(m measure) (d difference, ok bool) {
	a, b := s.meanOf(m, with), s.meanOf(m, without)
	if min(a.sessions, b.sessions) < minSessions {
		return d, false
	}
	d.mean = a.value - b.value
	aSpread, bSpread := a.pooledSpread(&b), b.pooledSpread(&a)
	d.variance = aSpread*a.seen + bSpread*b.seen + max(aSpread, bSpread)*(a.unseen+b.unseen)
	half := radius(d.variance, alpha)
	d.low, d.high = d.mean-half, d.mean+half
	return d, true
}
