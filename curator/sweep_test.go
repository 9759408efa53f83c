package curator

import (
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestIdleBookIsUnloaded also checks that the sweep still repairs the view of the book.
func TestIdleBookIsUnloaded(t *testing.T) {
	t.Parallel()
	d := openWorker(t)
	for i := range uint64(3) {
		AddDeltas(t, d.store, "b", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", i+1), Section: "others", Content: string(events.NewID())}}})
		for range 2 { // the first look compares everything, the next ones only the ends
			d.sweepBook(t.Context(), d.book("b"))
			if b := d.book("b"); b.writer != nil || !b.viewChecked {
				t.Fatalf("version %d: in memory: %v, sound: %v", i+1, b.writer != nil, b.viewChecked)
			}
			if ok, err := d.store.IsViewCurrent(t.Context(), "b"); !ok || err != nil {
				t.Fatalf("version %d: the view was left behind (%v)", i+1, err)
			}
		}
	}
	if open := d.idleOpenBooks(); len(open) != 0 {
		t.Errorf("in memory: %v", open)
	}
}

// TestSettingsNeedNoReflection checks that generators learn the gate mode and the control share of the Curator's settings without a delta of
// a reflection.
func TestSettingsNeedNoReflection(t *testing.T) {
	t.Parallel()
	d := openWorker(t)
	d.cfg.GateMode, d.policy.Control = playbook.GateOff, "5%"
	AddDeltas(t, d.store, "b", playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "others-00001", Section: "others", Content: "Check the tax."}}})
	for range 2 { // it is recorded once
		d.sweepBook(t.Context(), d.book("b"))
	}
	p, err := d.store.PlaybookAt(t.Context(), "b", 2)
	if err != nil {
		t.Fatal(err)
	}
	if mode, chosen := p.Gate(); mode != playbook.GateOff || !chosen {
		t.Errorf("got mode %s, chosen %v, want off", mode, chosen)
	}
	if a := p.Admission(); a.ControlShare() != "5%" {
		t.Errorf("got control share %s, want 5%%", a.ControlShare())
	}
	if _, err := d.store.PlaybookAt(t.Context(), "b", 3); err == nil {
		t.Error("the settings were recorded twice")
	}
}
