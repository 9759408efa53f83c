package draft

import (
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestEditWithSecretIsRefused checks that neither the log nor the refusal contains the secret.
func TestEditWithSecretIsRefused(t *testing.T) {
	t.Parallel()
	key := "sk-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0" // not a real key
	for name, op := range map[string]playbook.Op{
		"added":    {Kind: playbook.Add, Section: "others", Content: "Call it with " + key},
		"imported": {Kind: playbook.Put, Bullet: "a-00001", PutBullet: &playbook.Bullet{ID: "a-00001", Section: "others", Content: "Call it with " + key}},
		"a reason": {Kind: playbook.Add, Section: "others", Content: "Call it with " + key, Reason: "It worked with " + key},
		"invalid":  {Kind: playbook.Add, Section: "others", When: "the key is " + key, Content: "Call it with " + key, Status: "best", Reason: "It worked with " + key},
	} {
		e := &events.Edit{ID: events.NewID(), Author: "ann", Ops: []playbook.Op{op}}
		n := new(draftTest)
		k := &Item{ID: e.ID, Edit: e}
		out := newDraft(&n.p, Config{}).draftItems([]*Item{k}, nil)
		reason := "secret"
		if name == "invalid" {
			reason = "status"
		}
		if len(k.Decision.Refused) != 1 || !strings.Contains(k.Decision.Refused[0].Text, reason) {
			t.Errorf("%s: got %v, want a refusal", name, k.Decision.Refused)
		}
		for _, d := range out.Deltas {
			raw, err := events.Marshal(d) // not EncodeDelta: only the store numbers deltas
			if err != nil || strings.Contains(string(raw), key) {
				t.Errorf("%s: got %q, %v; want a delta without the secret", name, raw, err)
			}
		}
	}
}
