package curator

import "math"

// wilson is the 95 % interval of a share k of n after E. B. Wilson (1927), JASA 22:209; 0 to 1 for n = 0.
func wilson(k, n int) (low, high float64) {
	if n <= 0 {
		return 0, 1
	}
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	centre := p + z*z/(2*m)
	spread := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	scale := 1 + z*z/m
	return max((centre-spread)/scale, 0), min((centre+spread)/scale, 1)
}
