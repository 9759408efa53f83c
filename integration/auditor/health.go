package auditor

import (
	"math"
	"slices"
	"time"
)

// health is the health of a playbook at a time.
type health struct {
	day string

	active, cited, stale, contradicted int // bullets
	injections, noEffect               int
	median, oldest                     float64 // days since the last confirmation of an active bullet

	// The contribution. Without bullets it is not measured.
	bullets, shown, withheld int
	estimate, low, high      float64
}

// health returns the health after a version, at a time.
func (h *history) health(version int, at time.Time) health {
	state := h.states[version]
	var x health
	var ages []float64
	var weights, sum, variance float64
	for id, b := range state {
		if contested, ok := state[b.Contests]; ok && contested.active() && b.Status != "retired" {
			x.contradicted++
		}
		if !b.active() {
			continue
		}
		x.active++
		if b.Helpful+b.Harmful+count(b.Experiment.Cited) > 0 {
			x.cited++
		}
		x.injections += b.Helpful + b.Harmful + b.Neutral
		x.noEffect += b.Neutral
		last, known := h.confirmed[version][id]
		if !known {
			last = b.Created
		}
		age := max(0, at.Sub(last).Hours()/24)
		ages = append(ages, age)
		if age > 30 {
			x.stale++
		}
		n, m := float64(count(b.Experiment.Shown)), float64(count(b.Experiment.Withheld))
		if n*m == 0 {
			continue
		}
		w := 1 / (1/n + 1/m)
		x.bullets++
		x.shown += int(n)
		x.withheld += int(m)
		weights += w
		sum += w * (mean(b.Experiment.Shown) - mean(b.Experiment.Withheld))
		variance += w * w * (paddedVariance(b.Experiment.Shown)/n + paddedVariance(b.Experiment.Withheld)/m)
	}
	slices.Sort(ages)
	if n := len(ages); n > 0 {
		x.median, x.oldest = (ages[(n-1)/2]+ages[n/2])/2, ages[n-1]
	}
	if x.bullets > 0 {
		half := 1.959964 * math.Sqrt(variance) / weights
		x.estimate = sum / weights
		x.low = max(-1, sum/weights-half)
		x.high = min(1, sum/weights+half)
	}
	return x
}

// paddedVariance is the variance of the scores and of two more, a worst and a best one. So it is never 0.
func paddedVariance(s [11]int) float64 {
	s[0]++
	s[10]++
	m, sum := mean(s), 0.0
	for score, n := range s {
		sum += float64(n) * math.Pow(float64(score)/10-m, 2)
	}
	return sum / float64(count(s))
}

// days returns the health at the end of each day with a change, oldest first. The last day ends now.
func (h *history) days(now time.Time) (all []health) {
	last := time.Time{}
	for i, c := range h.changes {
		if c.Time.After(last) {
			last = c.Time
		}
		isLast := i+1 == len(h.changes)
		end := last.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
		if !isLast && h.changes[i+1].Time.Before(end) {
			continue
		}
		if isLast && now.Before(end) {
			end = now
		}
		x := h.health(i+1, end)
		x.day = last.UTC().Format(time.DateOnly)
		all = append(all, x)
	}
	return all
}

// lift returns the limits of the difference of the means of both random arms. It searches each limit in steps of a thousandth.
func (e *experiment) lift() (low, high float64) {
	low, high = -1, 1
	for d := -1.0; d < 1; d += 0.001 {
		if e.wealth(d, 1) >= 20 {
			low = d
		}
	}
	for d := 1.0; d > -1; d -= 0.001 {
		if e.wealth(d, -1) >= 20 {
			high = d
		}
	}
	if low > high {
		return -1, 1
	}
	return low, high
}

// wealth is the mean wealth of 25 bettors. Each begins with 1 and bets on every outcome that the lift is above d (side 1) or below d (side -1).
// If it is not, a wealth of 20 = 1/0.05 has a probability of at most 5 %. A bettor bets on z = ±2·(y-m), where y is the score, and the sign is
// that of the arm: the mean of z is the lift if both arms are equally likely.
func (e *experiment) wealth(d, side float64) float64 {
	total := 0.0
	for _, m := range []float64{0.05, 0.25, 0.5, 0.75, 0.95} {
		largest := 2 * max(m, 1-m)                                  // of |z|
		worst := max(1e-9, largest+side*d)                          // the most that side·(z-d) can be below 0
		for _, stake := range []float64{0.8, 0.4, 0.2, 0.1, 0.05} { // share of the wealth that the worst outcome costs
			log := 0.0 // of the wealth
			for arm, scores := range [][11]int{e.Shown, e.Withheld} {
				sign := float64(1 - 2*arm)
				for score, n := range scores {
					if n > 0 {
						z := 2 * (float64(score)/10 - m) * sign
						log += float64(n) * math.Log1p(stake*side*(z-d)/worst)
					}
				}
			}
			total += math.Exp(log) / 25
		}
	}
	return total
}
