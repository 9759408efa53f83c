package draft

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// from returns a reflection on an execution of a source in a session.
func from(source, session string, ops ...playbook.Op) *Item {
	name := events.NewID()
	return reflected(string(name), events.Reflection{
		Origin: events.Origin{Source: source}, Session: session, Handle: events.NewHandle(1, name),
	}, ops...)
}

func (k *Item) voting(id playbook.BulletID, vote events.Vote) *Item {
	k.Reflection.Tags = append(k.Reflection.Tags, events.BulletTag{ID: id, Tag: vote})
	return k
}

func believing(t *testing.T, known ...playbook.SourceTrust) *draftTest {
	t.Helper()
	n := &draftTest{policy: Config{Policy: playbook.Policy{Trust: known}}}
	n.seed(t, "one", "two")
	return n
}

func TestUntrustedSourceOnlyMeasures(t *testing.T) {
	t.Parallel()
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateGuard, playbook.GateStrict} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			n := believing(t, playbook.SourceTrust{Source: "forum", Level: playbook.Untrusted})
			n.switched(t, mode)
			n.deltas = nil
			k := from("forum", "", add("new"), op(playbook.Update, "misc-00001", "one, but wrong"), op(playbook.Remove, "misc-00002", "")).
				voting("misc-00001", events.Harmful)
			k.Reflection.Outcome.Label, k.Reflection.Exposures = events.Success, []events.Exposure{{Bullet: "misc-00001", Experiment: 1, Arm: playbook.ArmOpen, Cited: true}}
			n.take(t, k, from("forum", "", add("New")))
			n.want(t, "what it wants said waits", map[string]playbook.Status{"one": active, "two": active, "new": quarantined, "one, but wrong": quarantined})
			if b := n.said(t, "one, but wrong"); b.Replaces != "misc-00001" {
				t.Errorf("replaces %q, want the bullet that it would correct", b.Replaces)
			}
			measured := 1 // the bullet is active
			if mode == playbook.GateOff {
				measured = 0
			}
			b := n.said(t, "one")
			if e := b.CurrentExperiment(); b.Harmful != 0 || e.Outcomes() != measured {
				t.Errorf("its vote counts, or its outcome does not: %+v", b)
			}
			// The vote, the removal and the text that already waits are rejected.
			want := []playbook.Reason{playbook.ReasonDuplicate, playbook.ReasonUntrusted, playbook.ReasonUntrusted}
			if got := slices.Sorted(slices.Values(n.rejected())); !slices.Equal(got, want) {
				t.Errorf("rejected %q, want %q", got, want)
			}
		})
	}
}

// TestLimitedSourceHasShare checks the share of a limited source in the evidence, with the first proposal included.
func TestLimitedSourceHasShare(t *testing.T) {
	t.Parallel()
	n := believing(t, playbook.SourceTrust{Source: "bot", Level: playbook.Limited, Share: 50}, playbook.SourceTrust{Source: "crawler", Level: playbook.Limited, Share: 20})
	vote := func(source string, times int) {
		for range times {
			n.take(t, from(source, "").voting("misc-00001", events.Helpful))
		}
	}
	want := func(why string, votes int) {
		t.Helper()
		if got := n.said(t, "one").Helpful; got != votes {
			t.Errorf("%s: got %d votes, want %d", why, got, votes)
		}
	}
	vote("bot", 10)
	want("the first two are free, and then there is one of another", 2)
	if got := n.rejected(); !slices.Equal(got, slices.Repeat([]playbook.Reason{playbook.ReasonSourceShare}, 8)) {
		t.Errorf("rejected: %q", got)
	}
	vote("tau-bench", 3)
	want("others count whole", 5)
	vote("bot", 10)
	want("as many as the others, with who made it", 7)
	vote("crawler", 10)
	want("a fifth", 9)
	n.take(t, from("bot", "", add("by bot")))
	if b := n.said(t, "by bot"); !b.Shown() || b.SupportBySource[0] != (playbook.SourceSupport{Source: "bot", Count: 1}) {
		t.Errorf("got %+v, want a bullet with one vote of its source", b)
	}
}

func TestBurstGoesToQuarantine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why             string
		source, session string
		want            int // in quarantine, of 7
	}{
		{"one session", "", "s", 4},
		{"a source that is not fully trusted", "bot", "", 4},
		{"a source that is trusted", "tau-bench", "", 0},
		{"no source and no session", "", "", 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			n := believing(t, playbook.SourceTrust{Source: "bot", Level: playbook.Limited, Share: 50})
			n.policy.Burst.Max = 3
			var made Additions
			now := time.Unix(1000, 0)
			for i := range 7 {
				n.policy.Burst.Recent = made.Recent(now)
				k := from(test.source, test.session, add(fmt.Sprint("advice ", i)))
				n.take(t, k)
				made.Add(n.last.added, now)
				now = now.Add(time.Minute)
			}
			count := 0
			for b := range n.p.All() {
				if b.Status == quarantined {
					count++
				}
			}
			if count != test.want {
				t.Errorf("one by one: got %d in quarantine, want %d", count, test.want)
			}
			if n.policy.Burst.Recent = made.Recent(now.Add(burstWindow)); len(n.policy.Burst.Recent) != 0 {
				t.Errorf("after the window: %v", n.policy.Burst.Recent)
			}
			var batch []playbook.Op
			for i := range 7 {
				batch = append(batch, add(fmt.Sprint("batch ", i)))
			}
			n.take(t, from(test.source, test.session, batch...))
			count = -count
			for b := range n.p.All() {
				if b.Status == quarantined {
					count++
				}
			}
			if count != test.want {
				t.Errorf("at once: got %d in quarantine, want %d", count, test.want)
			}
		})
	}
}

// TestWellSupportedBulletIsNotOverturned covers the votes on a bullet while the gate is off.
func TestWellSupportedBulletIsNotOverturned(t *testing.T) {
	t.Parallel()
	merge := playbook.Op{Kind: playbook.Merge, Bullet: "misc-00002", Sources: []playbook.BulletID{"misc-00001"}, Content: "two and not one"}
	for _, test := range []struct {
		why   string
		votes []int // helpful, harmful
		op    playbook.Op
		agree int // executions
		want  map[string]playbook.Status
	}{
		{"an UPDATE", []int{8, 1}, op(playbook.Update, "misc-00001", "not one"), 1, map[string]playbook.Status{"one": active, "two": active, "not one": quarantined}},
		{"an UPDATE of other capitals", []int{8, 1}, op(playbook.Update, "misc-00001", "One"), 1, map[string]playbook.Status{"One": active, "two": active}},
		{"an UPDATE that many agree on", []int{8, 1}, op(playbook.Update, "misc-00001", "not one"), 3, map[string]playbook.Status{"not one": active, "two": active}},
		{"two are not many", []int{8, 1}, op(playbook.Update, "misc-00001", "not one"), 2, map[string]playbook.Status{"one": active, "two": active, "not one": quarantined}},
		{"the better the record, the more it takes", []int{30, 0}, op(playbook.Update, "misc-00001", "not one"), 5, map[string]playbook.Status{"one": active, "two": active, "not one": quarantined}},
		{"few votes", []int{4, 0}, op(playbook.Update, "misc-00001", "not one"), 1, map[string]playbook.Status{"not one": active, "two": active}},
		{"votes that do not hold", []int{6, 3}, op(playbook.Update, "misc-00001", "not one"), 1, map[string]playbook.Status{"not one": active, "two": active}},
		{"a REMOVE", []int{8, 1}, op(playbook.Remove, "misc-00001", ""), 1, map[string]playbook.Status{"one": active, "two": active}},
		{"a MERGE", []int{8, 1}, merge, 1, map[string]playbook.Status{"one": active, "two": active, "two and not one": quarantined}},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			n := believing(t)
			n.policy.GateMode = playbook.GateOff
			n.take(t, votes("misc-00001", events.Helpful, test.votes[0])...)
			n.take(t, votes("misc-00001", events.Harmful, test.votes[1])...)
			n.deltas = nil
			var batch []*Item
			for range test.agree {
				batch = append(batch, from("", ""))
			}
			last := batch[len(batch)-1]
			last.Proposals = []Proposal{{Op: test.op, From: batch}}
			n.take(t, batch...)
			n.want(t, test.why, test.want)
			for content, s := range test.want {
				if s != quarantined {
					continue
				}
				if b := n.said(t, content); b.Replaces != "misc-00001" {
					t.Errorf("replaces %q, want misc-00001", b.Replaces)
				}
				if why := n.deltas[len(n.deltas)-1].Ops[0].Code; why != playbook.ReasonContradicts {
					t.Errorf("got reason %q, want %q", why, playbook.ReasonContradicts)
				}
			}
		})
	}
}

func votes(id playbook.BulletID, vote events.Vote, times int) (batch []*Item) {
	for range times {
		batch = append(batch, tagged(string(events.NewID()), events.BulletTag{ID: id, Tag: vote}))
	}
	return batch
}
