package draft

import (
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// violates returns a reflection on a run that broke a rule and cited the bullets.
func violates(suspends ...playbook.BulletID) *Item {
	k := tells(0)
	k.Reflection.Handle = "412-ab12cd34"
	k.Reflection.Outcome = events.Outcome{Label: events.Failure, Violation: true, By: "program:policy", Feedback: "It refunded without an approval."}
	k.Reflection.Suspends = suspends
	return k
}

func TestViolationSuspendsInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateGuard, playbook.GateStrict} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			n := new(draftTest)
			n.seed(t, "one", "two", "three")
			n.switched(t, mode)
			one, two := n.said(t, "one").ID, n.said(t, "two").ID
			n.take(t, &Item{Edit: &events.Edit{ID: events.NewID(), Author: "ann", Ops: []playbook.Op{{Kind: playbook.Pin, Bullet: two, Pinned: true}}}})
			n.deltas = nil
			k := violates(one, two, "misc-00099")
			n.take(t, k)
			n.want(t, "after a violation", map[string]playbook.Status{"one": playbook.Quarantined, "two": playbook.Quarantined, "three": playbook.Active})
			ops := n.deltas[0].Ops
			i := slices.IndexFunc(ops, func(op playbook.Op) bool { return op.Kind == playbook.SetStatus && op.Bullet == one })
			if i < 0 || ops[i].Code != playbook.ReasonViolation || !slices.Equal(ops[i].Support, []int{0}) {
				t.Fatalf("got operations %+v, want a status with the code violation and the run as support", ops)
			}
			for _, part := range []string{"412-ab12cd34", "program:policy", "It refunded without an approval."} {
				if !strings.Contains(ops[i].Reason, part) {
					t.Errorf("got the reason %q, want it to contain %q", ops[i].Reason, part)
				}
			}
			n.take(t, tells(1, n.exposure(t, "one", playbook.ArmOpen)), tells(1, n.exposure(t, "one", playbook.ArmOpen)))
			if b := n.said(t, "one"); b.Status != playbook.Quarantined {
				t.Errorf("after two successes: got the status %s, want quarantined until a person decides", b.Status)
			}
		})
	}
}

// Later feedback takes the outcome back, but only a person shows the bullet again.
func TestViolationSuspendsAlsoAfterLaterFeedback(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.seed(t, "one")
	n.policy.HasFeedback = func(events.ID) bool { return true }
	one := n.said(t, "one").ID
	n.take(t, violates(one))
	n.want(t, "a violation whose outcome was corrected", map[string]playbook.Status{"one": playbook.Quarantined})
	n.take(t, &Item{Edit: &events.Edit{ID: events.NewID(), Author: "ann", Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: one, Status: playbook.Active}}}})
	n.want(t, "approved by a person", map[string]playbook.Status{"one": playbook.Active})
}
