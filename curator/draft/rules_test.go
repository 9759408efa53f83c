package draft

import (
	"fmt"
	"math"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestPairedRuleNeedsSignTest checks the limits: five of five pairs are enough; with one pair against it, eight are needed.
func TestPairedRuleNeedsSignTest(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	runs := 0
	pair := func(v events.Vote) *playbook.Bullet {
		runs++
		n.take(t, reflected(fmt.Sprint(runs), events.Reflection{Findings: []events.Finding{{
			Key: "pair/a/b/c", Section: "s", Text: "After `a`, `b`: {helpful} for, {harmful} against", Vote: v, Paired: true, Confidence: 0.8,
		}}}))
		return n.p.ByRule("pair/a/b/c")
	}
	for i := range 5 {
		if b := pair(events.Helpful); b.Shown() != (i == 4) {
			t.Errorf("after %d pairs for it: got %s", i+1, b.Status)
		}
	}
	if b := n.p.ByRule("pair/a/b/c"); b.Content != "After `a`, `b`: 5 for, 0 against" {
		t.Errorf("got %q", b.Content)
	}
	if b := pair(events.Harmful); b.Shown() {
		t.Errorf("5 for, 1 against: got %+v, want it hidden", b)
	}
	for want := range 3 {
		if b := pair(events.Helpful); b.Shown() != (want >= 1) { // 7 of 8: 0.035
			t.Errorf("%d for, 1 against: got %s", 6+want, b.Status)
		}
	}
	if b := n.p.ByRule("pair/a/b/c"); b.Content != "After `a`, `b`: 8 for, 1 against" {
		t.Errorf("got %q", b.Content)
	}
}

// TestLowConfidenceIsRejectedOnce checks that a finding with low confidence never counts, also after one with high confidence,
// and that its rejection is recorded once.
func TestLowConfidenceIsRejectedOnce(t *testing.T) {
	t.Parallel()
	n := &draftTest{policy: Policy{LowConfidence: FindingKeys{}}}
	rejected := 0
	see := func(name string, confidence float64) {
		n.take(t, reflected(name, events.Reflection{Findings: []events.Finding{
			{Key: "k", Section: "s", Text: "seen {runs} times", Vote: events.Helpful, Confidence: confidence},
		}}))
		for _, d := range n.deltas[len(n.deltas)-1:] {
			for _, r := range d.Rejected {
				rejected++
				if r.Code != playbook.ReasonConfidence || r.Op.Content != "seen {runs} times" {
					t.Errorf("got rejection %+v", r)
				}
			}
		}
		for key := range n.last.rules.doubted {
			n.policy.LowConfidence[key] = struct{}{}
		}
	}
	for i := range 3 {
		see(fmt.Sprint("before", i), 0.65)
	}
	see("nonsense", math.NaN())
	if b := n.p.ByRule("k"); b != nil || rejected != 1 {
		t.Fatalf("got %+v and %d rejections, want no bullet and one", b, rejected)
	}
	see("sure", 0.7)
	see("certain", 0)
	see("after", 0.69)
	if b := n.p.ByRule("k"); b == nil || b.Helpful != 2 || b.Content != "seen 2 times" || rejected != 1 {
		t.Errorf("got %+v and %d rejections, want two findings counted and one rejection", b, rejected)
	}
}
