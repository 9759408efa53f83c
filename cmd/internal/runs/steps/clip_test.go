package steps

import (
	"fmt"
	"strings"
	"testing"
)

func TestLongOutputsKeepBothEnds(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "界", "é"} {
		long := "first" + strings.Repeat(unit, 30<<10) + "last"
		got := Clip(long)
		before, rest, ok := strings.Cut(got, "… [cut ")
		count, after, ok2 := strings.Cut(rest, " bytes] …")
		if !ok || !ok2 || fmt.Sprint(len(long)-len(before)-len(after)) != count {
			t.Fatalf("got %q … %q", got[:40], got[len(got)-40:])
		}
		if !strings.HasPrefix(long, before) || !strings.HasSuffix(long, after) || len(before)+len(after) > MaxOutput || len(before)+len(after) < MaxOutput-8 {
			t.Errorf("kept %d and %d bytes", len(before), len(after))
		}
	}
	if s := strings.Repeat("x", MaxOutput); Clip(s) != s {
		t.Error("an output within the bound was cut")
	}
}

func TestSecondCutCountsAllMissingBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	once := ClipTo(long, 1000)
	if got := ClipTo(once, 1000); got != once {
		t.Errorf("the same limit again: got %q, want no change", got)
	}
	if got, want := ClipTo(once, 400), ClipTo(long, 400); got != want {
		t.Errorf("a lower limit: got %q, want %q", got, want)
	}
}

func TestCutSplitsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for _, cut := range []int{MaxOutput - MaxOutput/4, MaxOutput / 4} { // in bytes from the beginning, and from the end
		for inFront := range len(secret) {
			before := strings.Repeat("x ", cut/2)[inFront:] + " "
			long := before + secret + " " + strings.Repeat("y ", MaxOutput)
			if cut == MaxOutput/4 {
				long = strings.Repeat("y ", MaxOutput) + secret + before
			}
			got := Clip(long)
			if strings.Contains(got, "ghp_") || strings.Contains(got, secret[len(secret)-8:]) {
				t.Fatalf("%d bytes of a secret in front of the cut: got %q", inFront, got[max(0, cut-60):min(len(got), cut+60)])
			}
		}
	}
}
