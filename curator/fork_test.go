package curator_test

import (
	"testing"

	"debrief/curator"
	"debrief/events"
	"debrief/playbook"
)

// TestForkKeepsWhatTheLogSays sends the edit of a fork, whose bullets claim an approval, a pin and a proven effect. A bullet has
// the claims that the log of the copied playbook has. A text that it does not have is an import, and what it forgot or refused since is
// not shown.
func TestForkKeepsWhatTheLogSays(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.edit("b", add("pinned by a person"), add("plain"), add("rejected later"))
	h.edit("b", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00001", Pinned: true})
	of := lesson("b", "r", "learned from a prank")
	of.Session = "prank"
	h.publish(of)
	source := h.until("b", "the lesson", func(p *playbook.Playbook) bool { return p.FindByContent("learned from a prank") != nil })
	h.ask("b", &events.Edit{Forget: &playbook.Selector{Session: "prank"}})
	h.edit("b", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: playbook.Quarantined})

	origin := playbook.Fork{Of: "b", At: playbook.VersionLabel(source.Version(), []byte{1, 2, 3})}
	copied, err := curator.ForkSource(t.Context(), h.store, origin)
	h.ok(err)
	if copied.FindByContent("learned from a prank") != nil || copied.Bullet("misc-00003").Status != playbook.Quarantined {
		t.Errorf("a copy has what was forgotten, or shows what is in quarantine: %v", copied.Sorted())
	}
	claim := func(id playbook.BulletID, content string) playbook.Op {
		return playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{
			ID: id, Section: "others", Content: content, Approved: true, Pinned: true, LearnedFrom: []uint64{1}, Experiment: &playbook.Experiment{Number: 3, Standing: playbook.StandingProven},
		}}
	}
	d := h.ask("copy", &events.Edit{Fork: &origin, Ops: []playbook.Op{
		claim("misc-00001", "pinned by a person"), claim("misc-00002", "plain"), claim("misc-00003", "rejected later"), claim("misc-00009", "of no log"),
	}})
	if len(d.Refused) > 0 {
		t.Fatal(d.Refused)
	}
	p := h.at("copy", d.Version)
	for id := range map[playbook.BulletID]bool{"misc-00001": true, "misc-00002": true, "misc-00003": true} {
		got, want := p.Bullet(id), copied.Bullet(id)
		if got.Approved != want.Approved || got.Pinned != want.Pinned || got.Status != want.Status || got.CurrentExperiment().Standing != want.CurrentExperiment().Standing {
			t.Errorf("%s: got %+v, want %+v", id, got, want)
		}
	}
	if b := p.Bullet("misc-00009"); b.Approved || b.Pinned || b.CurrentExperiment().Standing != "" || len(b.LearnedFrom) > 0 {
		t.Errorf("an import keeps its claims: %+v", b)
	}
	if !p.Bullet("misc-00001").Pinned {
		t.Error("the pin of a person is lost")
	}
	for _, at := range []string{"999", "x"} {
		e := &events.Edit{Book: "copy", ID: events.NewID(), Author: "ann", Fork: &playbook.Fork{Of: "b", At: at}, Ops: []playbook.Op{claim("misc-00010", "of an unknown version")}}
		if d := h.ask("copy", e); len(d.Refused) != 1 || d.Refused[0].Code != playbook.ReasonNotFound {
			t.Errorf("a fork of an unknown version: got %+v", d)
		}
	}
}
