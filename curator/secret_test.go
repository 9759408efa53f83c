package curator

import (
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestEditWithSecretIsRefused checks that neither the log nor the refusal contains the secret.
func TestEditWithSecretIsRefused(t *testing.T) {
	t.Parallel()
	key := "sk-" + letters
	for name, op := range map[string]playbook.Op{
		"added":    {Kind: playbook.Add, Section: "others", Content: "Call it with " + key},
		"imported": {Kind: playbook.Put, Bullet: "a-00001", PutBullet: &playbook.Bullet{ID: "a-00001", Section: "others", Content: "Call it with " + key}},
	} {
		e := &events.Edit{ID: events.NewID(), Author: "ann", Ops: []playbook.Op{op}}
		n := new(draftTest)
		k := &workItem{id: e.ID, edit: e}
		out := newDraft(&n.p, policy{}).draftItems(func(*workItem) bool { return false }, []*workItem{k}, nil)
		if len(k.decision.Refused) != 1 || !strings.Contains(k.decision.Refused[0], "secret") {
			t.Errorf("%s: got %q, want a refusal", name, k.decision.Refused)
		}
		for _, d := range out.deltas {
			raw, err := events.EncodeDelta(d)
			if err == nil && strings.Contains(string(raw), key) {
				t.Errorf("%s: the log contains the secret", name)
			}
		}
	}
}
