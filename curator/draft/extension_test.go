package draft

import (
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestExtensionIsConfirmed checks that a text which keeps all that a trusted bullet says, and adds to it, takes the place of the bullet
// with the second request, and that a text which contradicts the bullet or drops a part of it goes on waiting.
func TestExtensionIsConfirmed(t *testing.T) {
	t.Parallel()
	const when, advice = "the order is packed", "put it on hold first, and release it after 10 s."
	const old = "When the order is packed: put it on hold first, and release it after 10 s."
	tests := map[string]struct {
		when, content string
		isExtension   bool
	}{
		"adds to the advice":       {when, advice + " Never do it for pallets.", true},
		"adds to the condition":    {when + " and weighs over 30 kg", advice, true},
		"another wording and more": {when, "First, put the order on hold, and release it after 10 s; tell the customer.", true},
		"another number":           {when, "put it on hold first, and release it after 20 s.", false},
		"another number beside it": {when, "put it on hold first, and release it after 20 s in place of 10 s.", false},
		"drops a part":             {when, "put it on hold first, and call the customer.", false},
		"negates the advice":       {when, "do not put it on hold first, and release it after 10 s.", false},
		"negates the condition":    {"the order is not packed", advice, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := trying(t, playbook.GateGuard, "other")
			ask := func(made playbook.Op) { n.take(t, asks(made)) }
			ask(playbook.Op{Kind: playbook.Add, Section: "orders", When: when, Content: old})
			n.cite(t, old, strings.Repeat("+", 60)) // trusted: another text needs six requests
			n.cite(t, "other", strings.Repeat("+", 60))
			if got := n.said(t, old).CurrentExperiment().Standing; got != playbook.StandingTrusted {
				t.Fatalf("standing %q", got)
			}
			update := playbook.Op{Kind: playbook.Update, Bullet: n.said(t, old).ID, When: test.when, Content: test.content}
			ask(update)
			var waiting *playbook.Bullet
			for b := range n.p.All() {
				if b.Status == candidate {
					waiting = b
				}
			}
			if waiting == nil || !n.said(t, old).Shown() {
				t.Fatalf("after one request: %v", n.statuses())
			}
			for range 3 { // in the words of the candidate, which the Curator sees
				ask(playbook.Op{Kind: playbook.Confirm, Bullet: waiting.ID})
				if test.isExtension {
					break
				}
			}
			was, is := n.said(t, old), n.p.Bullet(waiting.ID)
			if test.isExtension != is.Shown() || test.isExtension == was.Shown() {
				t.Errorf("bullet %s, new text %s", was.Status, is.Status)
			}
			if !test.isExtension {
				return
			}
			n.cite(t, is.Content, strings.Repeat("-", 9)) // the old text returns if the new one fails
			if !n.said(t, old).Shown() || n.p.Bullet(waiting.ID).Shown() {
				t.Errorf("after failures of the extension: %v", n.statuses())
			}
		})
	}
}

// TestExtensionOfManyFailures checks that the failures of a bullet do not delay its extension.
func TestExtensionOfManyFailures(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "wait 10 s", "other")
	n.cite(t, "wait 10 s", strings.Repeat("-+", 12)+"+++")
	n.cite(t, "other", strings.Repeat("+-", 30))
	const longer = "wait 10 s, and wait 30 s for pallets"
	for range 2 {
		n.take(t, reflected(string(events.NewID()), events.Reflection{}, op(playbook.Update, "misc-00001", longer)))
	}
	n.want(t, "second request", map[string]playbook.Status{"wait 10 s": retired, "other": active, longer: active})
}
