package draft

import (
	"bytes"
	"testing"

	"debrief/playbook"
)

// TestControlSalt: the salt is made when a person or the settings switch the control share on, and stays.
func TestControlSalt(t *testing.T) {
	t.Parallel()
	set := func(name string, share playbook.Share) *Item {
		k := edited(name)
		k.Edit.Control = share
		return k
	}
	var salts [][]byte
	for name, policy := range map[string]Config{"by a person": {}, "by the settings": {Policy: playbook.Policy{Control: "5%"}}} {
		n := &draftTest{policy: policy}
		n.seed(t, "one")
		n.take(t, set("off", playbook.ShareOff))
		if a := n.p.Admission(); len(a.ControlSalt) > 0 && policy.Policy.Control == "" || a.ControlShare() != playbook.ShareOff {
			t.Errorf("%s: a salt %x before the share is on: %s", name, a.ControlSalt, a.ControlShare())
		}
		n.take(t, set("on", "2.5%"))
		on := n.p.Admission()
		n.take(t, from("agent", "", add("new")), set("off again", playbook.ShareOff), set("on again", "10%"))
		again := n.p.Admission()
		if len(on.ControlSalt) != saltBytes || on.ControlShare() != "2.5%" || again.ControlShare() != "10%" || !bytes.Equal(on.ControlSalt, again.ControlSalt) {
			t.Errorf("%s: got share %s with salt %x, then %s with salt %x", name, on.ControlShare(), on.ControlSalt, again.ControlShare(), again.ControlSalt)
		}
		salts = append(salts, on.ControlSalt)
	}
	if bytes.Equal(salts[0], salts[1]) {
		t.Error("two playbooks have the same salt")
	}
}

// TestRefusedEditRecordsNoSettings: a refused edit records no settings, like an edit that is carried out, because a command with other
// settings than the running Curator may have applied it.
func TestRefusedEditRecordsNoSettings(t *testing.T) {
	t.Parallel()
	n := &draftTest{}
	n.seed(t, "one")
	n.policy = Config{GateMode: playbook.GateStrict, Policy: playbook.Policy{Control: "5%"}}
	refused := edited("refused", playbook.Op{Kind: playbook.Remove, Bullet: "xyz-00009"})
	n.take(t, refused)
	last := n.deltas[len(n.deltas)-1]
	if len(refused.Decision.Refused) != 1 || last.Policy != nil || last.Gate != "" {
		t.Errorf("got the refusals %v, policy %+v and gate %q, want one refusal and no settings", refused.Decision.Refused, last.Policy, last.Gate)
	}
}
