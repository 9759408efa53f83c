package main

import (
	"math"
	"slices"
	"testing"
)

func TestMean(t *testing.T) {
	t.Parallel()
	e := meanOf([]float64{1, 2, 3, 4, 5})
	if e.N != 5 || e.Mean != 3 || math.Abs(e.Low-(3-1.9632)) > 1e-3 || math.Abs(e.High-(3+1.9632)) > 1e-3 {
		t.Errorf("got %+v", e)
	}
	for n := range 200 {
		if e := meanOf(slices.Repeat([]float64{1}, n+1)); e.Mean != 1 {
			t.Errorf("%d ones: got a mean of %v", n+1, e.Mean)
		}
	}
	if e := meanOf([]float64{1}); !math.IsInf(e.High, 1) || !math.IsInf(e.Low, -1) || e.Mean != 1 {
		t.Errorf("one value: got %+v", e)
	}
}
