package main

import (
	"math"

	"debrief/cmd/internal/train/report"
)

// student contains the 97.5 % points of Student's t distribution for 1, 2, 3 … degrees of freedom.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
	2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// meanOf returns the mean of values with Student's interval. For more than 31 values the interval is slightly too wide,
// because it uses the last entry of the table. For one value the interval is infinite.
func meanOf(xs []float64) report.Estimate {
	n := float64(len(xs))
	e := report.Estimate{N: len(xs)}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	e.Mean = sum / max(n, 1)
	if len(xs) < 2 {
		e.Low, e.High = math.Inf(-1), math.Inf(1)
		return e
	}
	square := 0.0
	for _, x := range xs {
		square += (x - e.Mean) * (x - e.Mean)
	}
	half := student[min(len(xs)-1, len(student))-1] * math.Sqrt(square/(n-1)/n)
	e.Low, e.High = e.Mean-half, e.Mean+half
	return e
}

// pairDifferences returns a[i] - b[i] for each pair of values. The slices have the same length.
func pairDifferences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}
