package replay

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStallIsReportedWithoutProgressOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, stalls := time.Now(), 0
		floor := func() (uint64, error) { // a message every 3 s, but the last one takes 30 s
			n := min(uint64(time.Since(began)/(3*time.Second)), 9)
			if time.Since(began) >= 57*time.Second {
				n++
			}
			return n, nil
		}
		onStall := func() {
			stalls++
			if took := time.Since(began).Round(time.Second); took != 32*time.Second {
				t.Errorf("reported after %v, want 5 s after message 9", took)
			}
		}
		if err := waitFloor(t.Context(), 10, floor, onStall); err != nil || stalls != 1 {
			t.Errorf("got %d reports, %v, want 1", stalls, err)
		}
	})
}
