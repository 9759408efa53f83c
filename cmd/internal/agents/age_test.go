package agents

import (
	"testing"
	"time"
)

// started is close to the start of the process of this test.
var started = time.Now()

func TestAge(t *testing.T) {
	t.Parallel()
	since := time.Since(started)
	if got := age(); got < since-20*time.Millisecond && got != usualStart || got > since+20*time.Second {
		t.Errorf("got %s, want about %s", got, since)
	}
}
