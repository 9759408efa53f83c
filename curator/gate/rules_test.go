package gate

import (
	"math"
	"math/big"
	"testing"
)

// TestSignTest compares the p-value with an exact sum of integers.
func TestSignTest(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{{0, 0}, {5, 0}, {4, 0}, {7, 1}, {6, 1}, {5, 5}, {3, 9}, {60, 40}, {520, 470}, {530, 480}, {620, 500}} {
		pro, contra := c[0], c[1]
		n := int64(pro + contra)
		sum := new(big.Int)
		for k := int64(pro); k <= n; k++ {
			sum.Add(sum, new(big.Int).Binomial(n, k))
		}
		want, _ := new(big.Rat).SetFrac(sum, new(big.Int).Lsh(big.NewInt(1), uint(n))).Float64()
		if got := signTest(pro, contra); math.Abs(got-want) > 1e-3*max(want, 0.1) {
			t.Errorf("%d for, %d against: got %v, want %v", pro, contra, got, want)
		}
	}
}
