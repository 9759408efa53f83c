package gate

import (
	"testing"

	"debrief/playbook"
)

// TestFalseSuccessesSupportNothing uses the shares of a judge with 20 % error: where a tenth of the tasks succeeds, 69 % of its
// successes are false; where nine tenths do, 3 %.
func TestFalseSuccessesSupportNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		successes          int
		falseShare         float64
		supported, trusted bool
	}{
		{1, 0, true, false},
		{1, 0.03, true, false},
		{1, 0.69, false, false},
		{2, 0.69, true, false},
		{3, 0, true, true},
		{4, 0.03, true, true},
		{4, 0.69, true, false},
		{10, 0.69, true, true},
	} {
		b := &playbook.Bullet{ID: "r-00001", Status: playbook.Active, Experiment: &playbook.Experiment{Standing: playbook.StandingNew}}
		for range c.successes {
			cite(b, true)
		}
		typical := playbook.Typical{Rate: 0.5, FalseSuccesses: c.falseShare}
		if got := IsSupported(b, typical); got != c.supported {
			t.Errorf("%+v: supported %v", c, got)
		}
		if got := (Config{}).Assess(b, typical).Standing == playbook.StandingTrusted; got != c.trusted {
			t.Errorf("%+v: trusted %v", c, got)
		}
	}
}
