package auditor

import (
	"math"
)

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

// wealth is the mean wealth of 25 bets against the hypothesis that the lift is at most d (side 1) or at least d (side -1). Each outcome y of
// an arm is a bet on z = ±2·(y-m), whose mean is the lift if both arms are equally likely.
func (e *experiment) wealth(d, side float64) float64 {
	total := 0.0
	for _, m := range []float64{0.05, 0.25, 0.5, 0.75, 0.95} {
		largest := 2 * max(m, 1-m)
		for _, part := range []float64{0.8, 0.4, 0.2, 0.1, 0.05} {
			log := 0.0
			for arm, scores := range [][11]int{e.Shown, e.Withheld} {
				for score, n := range scores {
					if n > 0 {
						z := 2 * (float64(score)/10 - m) * float64(1-2*arm)
						log += float64(n) * math.Log1p(part*side*(z-d)/max(1e-9, largest+side*d))
					}
				}
			}
			total += math.Exp(log) / 25
		}
	}
	return total
}
