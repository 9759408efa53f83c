package draft

import (
	"strings"
	"testing"

	"debrief/playbook"
)

// TestProposalRepeatsWaitingBullet checks which proposals on a waiting bullet count as a request for it, and which text it has then. The tasks
// mostly succeed and followed a trusted bullet, so new advice waits for a second request.
func TestProposalRepeatsWaitingBullet(t *testing.T) {
	t.Parallel()
	const when, advice = "an order is heavy", "divide its weight by 40"
	const text = "When an order is heavy: divide its weight by 40"
	tests := map[string]struct {
		op      playbook.Op
		isShown bool
		content string // of the bullet, if it differs from text
	}{
		"same":                      {playbook.Op{Kind: playbook.Confirm}, true, ""},
		"same, with a better text":  {playbook.Op{Kind: playbook.Confirm, Content: "the number of pallets is the weight by 40, rounded up"}, true, "When an order is heavy: the number of pallets is the weight by 40, rounded up"},
		"same, loses the number":    {playbook.Op{Kind: playbook.Confirm, Content: "divide its weight and round it up"}, true, ""},
		"same, loses the condition": {playbook.Op{Kind: playbook.Confirm, When: "an order is urgent", Content: advice + ", rounded up"}, true, ""},
		"update that adds":          {playbook.Op{Kind: playbook.Update, Content: advice + ", rounded up"}, true, text + ", rounded up"},
		"update that narrows": {
			playbook.Op{Kind: playbook.Update, When: when + " and not urgent", Content: advice + ", rounded up"},
			true,
			"When an order is heavy and not urgent: divide its weight by 40, rounded up",
		},
		"update with another number": {playbook.Op{Kind: playbook.Update, Content: "divide its weight by 50"}, false, ""},
		"update that negates":        {playbook.Op{Kind: playbook.Update, Content: "do not divide its weight by 40"}, false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := trying(t, playbook.GateGuard, "other")
			n.cite(t, "other", strings.Repeat("+", 60))
			n.take(t, n.asksAfter(t, "other", playbook.Op{Kind: playbook.Add, Section: "orders", When: when, Content: text}))
			id := n.said(t, text).ID
			if n.said(t, text).Status != playbook.Candidate {
				t.Fatalf("after one request: %v", n.statuses())
			}
			test.op.Bullet = id
			n.take(t, n.asksAfter(t, "other", test.op))
			want := text
			if test.content != "" {
				want = test.content
			}
			b := n.p.Bullet(id)
			if b.Shown() != test.isShown || b.Content != want {
				t.Errorf("got %q, shown %t, want %q, %t: %v", b.Content, b.Shown(), want, test.isShown, n.statuses())
			}
			if requests := b.CurrentExperiment().Confirmations; test.isShown != (requests == 1) {
				t.Errorf("got %d confirmations", requests)
			}
		})
	}
}

// TestRepeatedRecordStays checks that a suspended bullet keeps its text and its record if a proposal words it anew: with another text its
// failures would be forgotten.
func TestRepeatedRecordStays(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "divide by 40", "other")
	n.cite(t, "other", strings.Repeat("+++-", 10))
	n.cite(t, "divide by 40", "---")
	before := n.said(t, "divide by 40")
	if before.Status != playbook.Candidate {
		t.Fatalf("after failures: %v", n.statuses())
	}
	n.take(t, asks(playbook.Op{Kind: playbook.Confirm, Bullet: before.ID, Content: "divide by 40, and round up"}))
	after := n.said(t, "divide by 40")
	if got, want := after.CurrentExperiment().Cited, before.CurrentExperiment().Cited; got != want || after.CurrentExperiment().Confirmations != 1 {
		t.Errorf("got %v with %d confirmations, want %v with 1", got, after.CurrentExperiment().Confirmations, want)
	}
}

// TestBetterTextOfShownBullet checks that a SAME on a shown bullet changes its text only if it adds a number or a name. A trusted bullet keeps
// its text until another request.
func TestBetterTextOfShownBullet(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"divide its weight and round it up":          "divide its weight",
		"divide its weight by 40, and round it up":   "divide its weight by 40, and round it up",
		"round up the weight, as the scale shows it": "divide its weight",
	} {
		n := trying(t, playbook.GateGuard, "divide its weight")
		id := n.said(t, "divide its weight").ID
		n.take(t, asks(playbook.Op{Kind: playbook.Confirm, Bullet: id, Content: content}))
		if got := n.p.Bullet(id).Content; got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	n := trying(t, playbook.GateGuard, "divide its weight")
	n.cite(t, "divide its weight", "++++")
	id := n.said(t, "divide its weight").ID
	better := playbook.Op{Kind: playbook.Confirm, Bullet: id, Content: "divide its weight by 40"}
	n.take(t, asks(better))
	if waiting := n.said(t, better.Content); waiting.Status != playbook.Candidate || waiting.Replaces != id || !n.p.Bullet(id).Shown() {
		t.Errorf("after one request: %v", n.statuses())
	}
	n.take(t, asks(better))
	if !n.said(t, better.Content).Shown() || n.p.Bullet(id).Shown() {
		t.Errorf("after two requests: %v", n.statuses())
	}
}

// TestSameWithAnotherNumberIsAnUpdate checks that the text of a SAME is not lost if it contradicts the bullet.
func TestSameWithAnotherNumberIsAnUpdate(t *testing.T) {
	t.Parallel()
	same := func(n *draftTest, content string) playbook.Op {
		return playbook.Op{Kind: playbook.Confirm, Bullet: n.said(t, "divide its weight by 50").ID, Content: content}
	}
	n := trying(t, playbook.GateGuard, "divide its weight by 50")
	n.take(t, asks(same(n, "divide its weight by 40")))
	if !n.said(t, "divide its weight by 40").Shown() {
		t.Errorf("without a record: %v", n.statuses())
	}
	n = trying(t, playbook.GateGuard, "divide its weight by 50")
	n.cite(t, "divide its weight by 50", "++++")
	other := same(n, "divide its weight by 40")
	n.take(t, asks(other))
	if waiting := n.said(t, other.Content); waiting.Status != playbook.Candidate || waiting.Replaces != other.Bullet {
		t.Errorf("against a trusted bullet: %v, want a candidate that would replace it", n.statuses())
	}
}

// TestUpdateOfARetiredBulletIsABullet checks that advice is not hidden in a bullet that retired after the model had read it.
func TestUpdateOfARetiredBulletIsABullet(t *testing.T) {
	t.Parallel()
	for _, kind := range []playbook.OpKind{playbook.Update, playbook.Confirm} {
		n := trying(t, playbook.GateGuard, "divide its weight by 50")
		old := n.said(t, "divide its weight by 50").ID
		n.take(t, asks(playbook.Op{Kind: playbook.Remove, Bullet: old, Reason: "wrong"}))
		if got := n.p.Bullet(old).Status; got != playbook.Retired {
			t.Fatalf("got status %q, want retired", got)
		}
		n.take(t, asks(playbook.Op{Kind: kind, Bullet: old, Content: "divide its weight by 40"}))
		if b := n.said(t, "divide its weight by 40"); b.ID == old || !b.Shown() || n.p.Bullet(old).Status != playbook.Retired {
			t.Errorf("%s: %v, want the text as a new bullet", kind, n.statuses())
		}
	}
}

// TestBetterTextKeepsRequests checks that a better text does not lose the earlier requests for a waiting bullet, if one request is not enough.
func TestBetterTextKeepsRequests(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "divide by 50")
	n.cite(t, "divide by 50", "++++++") // trusted: another text needs three requests
	n.take(t, asks(playbook.Op{Kind: playbook.Update, Bullet: n.said(t, "divide by 50").ID, Content: "divide by 40"}))
	id := n.said(t, "divide by 40").ID
	for _, content := range []string{"", "divide by 40, and round up"} {
		if n.p.Bullet(id).Status != playbook.Candidate {
			t.Fatalf("before three requests: %v", n.statuses())
		}
		n.take(t, asks(playbook.Op{Kind: playbook.Confirm, Bullet: id, Content: content}))
	}
	if !n.p.Bullet(id).Shown() {
		t.Errorf("after three requests: %v, %d confirmations", n.statuses(), n.p.Bullet(id).CurrentExperiment().Confirmations)
	}
}

// TestDoubtfulBetterTextWaits checks that a SAME cannot go round the doubt about advice of one execution: where many tasks succeeded and the
// execution followed an established bullet, the better text of a shown bullet waits as a candidate.
func TestDoubtfulBetterTextWaits(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "other", "divide its weight")
	n.cite(t, "other", strings.Repeat("+", goodWeight+5))
	better := playbook.Op{Kind: playbook.Confirm, Bullet: n.said(t, "divide its weight").ID, Content: "divide its weight by 40"}
	n.take(t, n.asksAfter(t, "other", better))
	n.want(t, "first request", map[string]playbook.Status{"other": active, "divide its weight": active, better.Content: candidate})
}

// A request for a bullet that is shown needs no operation. The record of it says so, and not that the texts are the same.
func TestRequestForShownBulletNamesItsAdvice(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.take(t, asks(op(playbook.Add, "", "Divide the weight by 40.")))
	n.deltas = nil
	n.take(t, asks(playbook.Op{Kind: playbook.Confirm, Bullet: "misc-00001"}))
	var reasons []string
	for _, d := range n.deltas {
		for _, r := range d.Rejected {
			reasons = append(reasons, r.Reason)
		}
	}
	if want := `bullet "misc-00001" gives this advice already`; len(reasons) != 1 || reasons[0] != want {
		t.Errorf("got %q, want %q", reasons, want)
	}
}
