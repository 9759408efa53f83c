package curator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// from returns a reflection on an execution of a source in a session.
func from(source, session string, ops ...playbook.Op) *workItem {
	name := events.NewID()
	return reflected(string(name), events.Reflection{
		Origin: events.Origin{Source: source}, Session: session, Handle: events.NewHandle(1, name),
	}, ops...)
}

func (k *workItem) voting(id playbook.BulletID, vote events.Vote) *workItem {
	k.reflection.Tags = append(k.reflection.Tags, events.BulletTag{ID: id, Tag: vote})
	return k
}

func believing(t *testing.T, list ...string) *draftTest {
	t.Helper()
	known, err := parseTrust(list)
	if err != nil {
		t.Fatal(err)
	}
	n := &draftTest{policy: policy{trust: known}}
	n.seed(t, "one", "two")
	return n
}

func TestUntrustedSourceHasNoEffect(t *testing.T) {
	t.Parallel()
	for _, mode := range []playbook.Gate{playbook.GateShadow, playbook.GateOn} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			n := believing(t, "forum=untrusted")
			n.switched(t, mode)
			n.deltas = nil
			k := from("forum", "", add("new"), op(playbook.Update, "misc-00001", "one, but wrong"), op(playbook.Remove, "misc-00002", "")).
				voting("misc-00001", events.Harmful)
			k.reflection.Outcome.Label, k.reflection.Exposures = events.Success, []events.Exposure{{Bullet: "misc-00001", Arm: playbook.ArmOpen}}
			k.reflection.Findings = []events.Finding{{Key: "k", Text: "found", Vote: events.Helpful}}
			n.take(t, k, from("forum", "", add("New")))
			n.want(t, "what it wants said waits", map[string]playbook.Status{"one": active, "two": active, "new": quarantined, "one, but wrong": quarantined})
			if b := n.said(t, "one, but wrong"); b.Replaces != "misc-00001" {
				t.Errorf("replaces %q, want the bullet that it would correct", b.Replaces)
			}
			if b := n.said(t, "one"); b.Harmful != 0 || b.Experiment != nil {
				t.Errorf("its vote or its outcome counts: %+v", b)
			}
			// The vote, the finding, the removal and the text that already waits are rejected.
			want := []playbook.Reason{playbook.ReasonDuplicate, playbook.ReasonUntrusted, playbook.ReasonUntrusted, playbook.ReasonUntrusted}
			if got := slices.Sorted(slices.Values(n.rejected())); !slices.Equal(got, want) {
				t.Errorf("rejected %q, want %q", got, want)
			}
		})
	}
}

// TestLimitedSourceHasShare checks the share of a limited source in the evidence, with the first proposal included.
func TestLimitedSourceHasShare(t *testing.T) {
	t.Parallel()
	n := believing(t, "bot=limited", "crawler=limited:20")
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
			n := believing(t, "bot=limited")
			n.policy.burst.max = 3
			var made additions
			now := time.Unix(1000, 0)
			for i := range 7 {
				n.policy.burst.recent = made.recent(now)
				k := from(test.source, test.session, add(fmt.Sprint("advice ", i)))
				n.take(t, k)
				made.add(n.last.added, now)
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
			if n.policy.burst.recent = made.recent(now.Add(burstWindow)); len(n.policy.burst.recent) != 0 {
				t.Errorf("after the window: %v", n.policy.burst.recent)
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

// TestWellSupportedBulletIsNotOverturned uses a bullet with eight helpful votes of nine.
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
			n.take(t, votes("misc-00001", events.Helpful, test.votes[0])...)
			n.take(t, votes("misc-00001", events.Harmful, test.votes[1])...)
			n.deltas = nil
			var batch []*workItem
			for range test.agree {
				batch = append(batch, from("", ""))
			}
			last := batch[len(batch)-1]
			last.proposals = []proposal{{op: test.op, from: batch}}
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

func TestParseTrust(t *testing.T) {
	t.Parallel()
	known, err := parseTrust([]string{"a=untrusted", "b=c=limited:30%", "d=trusted", "e=limited"})
	if err != nil || len(known) != 4 || known["b=c"] != (sourceTrust{Limited, 30}) || known["e"].share != defaultShare || known["a"].level != Untrusted {
		t.Errorf("got %v, %v", known, err)
	}
	for text, want := range map[string]string{
		"a": "want SOURCE=LEVEL", "=limited": "want SOURCE=LEVEL", "a=some": "level", "a=limited:0": "share", "a=limited:100": "share",
		"a=limited:x": "share", "a=trusted:5": "level limited only",
	} {
		if err := (Config{Trust: []string{text}}).Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Trust: ") {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	if err := (Config{Trust: []string{"a=trusted", "a=limited"}}).Validate(); err == nil {
		t.Error("duplicate source: got no error")
	}
	if err := (Config{GateMode: "maybe", MaxBurst: -2}).Validate(); err == nil || !strings.Contains(err.Error(), "GateMode: ") || !strings.Contains(err.Error(), "MaxBurst: ") {
		t.Errorf("got %v, want an error that names --gate and --burst", err)
	}
}
