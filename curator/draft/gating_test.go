package draft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
)

// trying returns a playbook with the gate on and the given texts as bullets that are shown to all.
func trying(t *testing.T, contents ...string) *draftTest {
	t.Helper()
	n := new(draftTest)
	n.seed(t, contents...)
	n.switched(t, playbook.GateOn)
	return n
}

func (n *draftTest) switched(t rapid.TB, mode playbook.Gate) {
	t.Helper()
	n.take(t, &Item{Edit: &events.Edit{ID: events.NewID(), Author: "ann", Gate: mode}})
}

// statuses returns the status of the bullets by text.
func (n *draftTest) statuses() map[string]playbook.Status {
	all := map[string]playbook.Status{}
	for b := range n.p.All() {
		all[b.Content] = b.Status
	}
	return all
}

func (n *draftTest) said(t rapid.TB, content string) *playbook.Bullet {
	t.Helper()
	b := n.p.FindByContent(content)
	if b == nil {
		t.Fatalf("no bullet has the text %q", content)
	}
	return b
}

func (n *draftTest) want(t rapid.TB, why string, want map[string]playbook.Status) {
	t.Helper()
	got := n.statuses()
	for content, status := range got {
		if status == "" {
			got[content] = playbook.Active
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", why, diff)
	}
}

// asks returns a reflection with proposals.
func asks(ops ...playbook.Op) *Item {
	return reflected(string(events.NewID()), events.Reflection{}, ops...)
}

// tells returns a reflection with the outcome of a task to which bullets are applicable.
func tells(score float64, trials ...events.Exposure) *Item {
	return reflected(string(events.NewID()), events.Reflection{Outcome: events.Outcome{Label: events.Partial, Score: score}, FirstRoundScore: score, Exposures: trials})
}

func (n *draftTest) trial(t rapid.TB, content string, arm playbook.Arm) events.Exposure {
	t.Helper()
	b := n.said(t, content)
	return events.Exposure{Bullet: b.ID, Experiment: b.CurrentExperiment().Number, Arm: arm}
}

// outcomes returns tasks of both arms with the given outcomes.
func (n *draftTest) outcomes(t rapid.TB, content string, times int, shown, withheld float64) {
	t.Helper()
	var batch []*Item
	for range times {
		batch = append(batch, tells(shown, n.trial(t, content, playbook.ArmShown)), tells(withheld, n.trial(t, content, playbook.ArmWithheld)))
	}
	n.take(t, batch...)
}

func votes(id playbook.BulletID, vote events.Vote, times int) (batch []*Item) {
	for range times {
		batch = append(batch, tagged(string(events.NewID()), events.BulletTag{ID: id, Tag: vote}))
	}
	return batch
}

const (
	active      = playbook.Active
	candidate   = playbook.Candidate
	probation   = playbook.Probation
	retired     = playbook.Retired
	quarantined = playbook.Quarantined
)

func reasonOf(t *testing.T, n *draftTest, id playbook.BulletID, s playbook.Status) playbook.Reason {
	t.Helper()
	var reason playbook.Reason
	for _, d := range n.deltas {
		for _, op := range d.Ops {
			if op.Kind == playbook.SetStatus && op.Bullet == id && op.Status == s {
				reason = op.Code
			}
		}
	}
	if reason == "" {
		t.Errorf("no operation has the reason why %s is %s", id, s)
	}
	return reason
}

func TestNewBulletWaitsForSlot(t *testing.T) {
	t.Parallel()
	n := trying(t)
	n.policy.Gate.Slots = 2
	n.take(t, asks(add("first")), asks(add("second")), asks(add("third")), asks(add("fourth")))
	want := map[string]playbook.Status{"first": probation, "second": probation, "third": candidate, "fourth": candidate}
	n.want(t, "two places", want)
	if k := n.said(t, "first").CurrentExperiment(); k.Number != 1 || k.Share != 50 {
		t.Errorf("got case %+v, want the first one, shown to half of the tasks", k)
	}
	// The fourth is requested again, by its text and by its id, so it is the next one.
	n.take(t, asks(add("FOURTH")), asks(playbook.Op{Kind: playbook.Confirm, Bullet: n.said(t, "fourth").ID}), asks(add("third")), asks(add("fifth"), add("Fifth")))
	want["fifth"] = candidate
	n.want(t, "still two places", want)
	if got := n.said(t, "fourth").CurrentExperiment().Confirmations; got != 2 {
		t.Errorf("seconded %d times, want 2", got)
	}
	if got := n.said(t, "fifth").CurrentExperiment().Confirmations; got != 0 {
		t.Errorf("one reflection with the same request twice: seconded %d times, want once", got)
	}
	n.outcomes(t, "first", 40, 0, 1)
	want["first"], want["fourth"] = retired, probation
	n.want(t, "the first hurts", want)
	if why := reasonOf(t, n, n.said(t, "first").ID, retired); why != playbook.ReasonHarms {
		t.Errorf("reason: %q", why)
	}
	n.outcomes(t, "second", 40, 1, 0)
	want["second"], want["third"] = active, probation
	n.want(t, "the second helps", want)
	if k := n.said(t, "second").CurrentExperiment(); k.Shown.Count() == 0 || k.Withheld.Count() == 0 {
		t.Errorf("the evidence was removed: %+v", k)
	}
	if n.take(t, asks(add("first"))); n.said(t, "first").Status != retired {
		t.Errorf("a harmful bullet was tried again")
	}
}

// TestHarmlessBulletMayReturn checks that a bullet that retired without harm is tried again after enough requests.
func TestHarmlessBulletMayReturn(t *testing.T) {
	t.Parallel()
	n := trying(t)
	n.policy.Gate.RetryRequests, n.policy.Gate.MaxOutcomes = 3, 40
	n.take(t, asks(add("unlucky")), asks(add("harmful")), asks(add("taken out")))
	n.take(t, asks(add("unlucky")), asks(add("unlucky")), asks(add("unlucky"))) // of before do not count after
	n.outcomes(t, "unlucky", 20, 0.5, 0.5)
	n.outcomes(t, "taken out", 10, 0.5, 0.5)
	n.outcomes(t, "harmful", 20, 0, 1)
	out := n.said(t, "taken out").ID
	n.take(t, &Item{Edit: &events.Edit{ID: events.NewID(), Author: "ann", Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: out, Status: retired}}}})
	again := func() {
		n.take(t, asks(add("unlucky")), asks(add("harmful")), asks(add("taken out")))
	}
	again()
	again()
	want := map[string]playbook.Status{"unlucky": retired, "harmful": retired, "taken out": retired}
	n.want(t, "two of three ask again", want)
	again()
	want["unlucky"] = probation
	n.want(t, "three ask again", want)
	if k := n.said(t, "unlucky").CurrentExperiment(); k.Number != 2 || k.Shown.Count() != 0 {
		t.Errorf("got case %+v, want a new one", k)
	}
	n.outcomes(t, "unlucky", 20, 0.5, 0.5)
	for range 5 {
		again()
	}
	want["unlucky"] = retired
	n.want(t, "the second time it takes six", want)
	again()
	want["unlucky"] = probation
	n.want(t, "six ask again", want)
}

// TestBulletWithoutTasksFreesSlot checks that a bullet without an applicable task retires, but only if others wait.
func TestBulletWithoutTasksFreesSlot(t *testing.T) {
	t.Parallel()
	n := trying(t)
	n.policy.Gate.Slots = 1
	n.take(t, asks(add("about nothing")))
	n.policy.Now = time.Unix(0, 0).Add(8 * 24 * time.Hour)
	n.take(t, tells(1))
	n.want(t, "no other bullet waits", map[string]playbook.Status{"about nothing": probation})
	n.policy.Now = n.policy.Now.Add(-4 * 24 * time.Hour)
	n.take(t, asks(add("waits")))
	n.want(t, "it may still come", map[string]playbook.Status{"about nothing": probation, "waits": candidate})
	n.policy.Now = n.policy.Now.Add(4 * 24 * time.Hour)
	n.take(t, asks(add("more")))
	n.want(t, "others wait", map[string]playbook.Status{"about nothing": retired, "waits": probation, "more": candidate})
}

func TestBulletWithoutLiftRetires(t *testing.T) {
	t.Parallel()
	n := trying(t)
	n.policy.Gate.MaxOutcomes = 60
	n.take(t, asks(add("idle")))
	n.outcomes(t, "idle", 29, 0.5, 0.5)
	n.want(t, "58 outcomes", map[string]playbook.Status{"idle": probation})
	n.outcomes(t, "idle", 1, 0.5, 0.5)
	n.want(t, "60 outcomes", map[string]playbook.Status{"idle": retired})
}

func TestCorrectionReplacesBullet(t *testing.T) {
	t.Parallel()
	n := trying(t, "wait 10 s", "other")
	update := func(content string) *Item { return asks(op(playbook.Update, "misc-00001", content)) }
	n.take(t, update("wait 20 s"), update("Wait 20 s"), update("wait 30 s"))
	want := map[string]playbook.Status{"wait 10 s": active, "other": active, "wait 20 s": candidate, "wait 30 s": candidate}
	n.want(t, "it waits while the bullet is shown", want)
	c := n.said(t, "wait 20 s")
	if c.Replaces != "misc-00001" || c.CurrentExperiment().Confirmations != 1 {
		t.Errorf("got %+v, want a rival of misc-00001 that was seconded once", c)
	}
	// Votes are against it: its experiment starts again, and the correction with more requests takes its slot.
	n.take(t, votes("misc-00001", events.Harmful, 5)...)
	want["wait 10 s"], want["wait 20 s"] = retired, probation
	n.want(t, "5 of 5 votes against it", want)
	if why := reasonOf(t, n, "misc-00001", probation); why != playbook.ReasonVotes {
		t.Errorf("reason: %q", why)
	}
	if why := reasonOf(t, n, "misc-00001", retired); why != playbook.ReasonFewerRequests {
		t.Errorf("reason: %q", why)
	}
	// A correction of the correction is of the same family.
	n.take(t, asks(op(playbook.Update, c.ID, "wait 40 s")))
	want["wait 40 s"] = candidate
	n.want(t, "a place is one bullet's", want)
	if got := n.said(t, "wait 40 s").Replaces; got != "misc-00001" {
		t.Errorf("replaces %q, want the first bullet of the family", got)
	}
	n.take(t, update("wait 30 s"), update("wait 30 s"))
	want["wait 20 s"], want["wait 30 s"] = retired, probation
	n.want(t, "more want another", want)
	n.outcomes(t, "wait 30 s", 40, 1, 0)
	want["wait 30 s"] = active
	n.want(t, "it helps", want)
}

func TestCorrectionOfWaitingBulletComesFirst(t *testing.T) {
	t.Parallel()
	n := trying(t)
	n.policy.Gate.Slots = 1
	n.take(t, asks(add("in the way")))
	n.take(t, asks(add("wait 10 s")), asks(op(playbook.Update, "misc-00002", "wait 20 s")), asks(add("wait 20 s")))
	want := map[string]playbook.Status{"in the way": probation, "wait 10 s": candidate, "wait 20 s": candidate}
	n.want(t, "one place", want)
	n.outcomes(t, "in the way", 40, 0, 1)
	want["in the way"], want["wait 10 s"], want["wait 20 s"] = retired, retired, probation
	n.want(t, "the place is free", want)
}

func TestWaitingBulletsAreLimited(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	n := trying(t, "wait 10 s")
	for _, c := range []string{"wait 1 s", "wait 2 s", "wait 3 s"} {
		n.take(t, asks(op(playbook.Update, "misc-00001", c)))
	}
	n.take(t, asks(op(playbook.Update, "misc-00001", "wait 2 s")), asks(op(playbook.Update, "misc-00001", "wait 3 s")))
	n.take(t, asks(op(playbook.Update, "misc-00001", "wait 4 s")))
	n.want(t, "three rivals", map[string]playbook.Status{
		"wait 10 s": active, "wait 1 s": candidate, "wait 2 s": candidate, "wait 3 s": candidate, "wait 4 s": retired,
	})
	for i := range 300 {
		n.take(t, asks(add(fmt.Sprint("advice ", i))))
	}
	count := map[playbook.Status]int{}
	for _, s := range n.statuses() {
		count[s]++
	}
	if count[candidate] != gate.MaxWaiting || count[probation] != 8 {
		t.Errorf("got %v, want 8 on probation and %d waiting", count, gate.MaxWaiting)
	}
}

func TestProposalsOnShownBullets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why      string
		ops      []playbook.Op
		want     map[string]playbook.Status
		rejected playbook.Reason
	}{
		{
			"a REMOVE of a proven bullet",
			[]playbook.Op{op(playbook.Remove, "misc-00001", "")},
			map[string]playbook.Status{"one": active, "two": active, "new": probation},
			playbook.ReasonStatus,
		},
		{
			"a REMOVE of an unproven one",
			[]playbook.Op{op(playbook.Remove, "misc-00003", "")},
			map[string]playbook.Status{"one": active, "two": active, "new": retired},
			"",
		},
		{
			"a MERGE with other words",
			[]playbook.Op{{Kind: playbook.Merge, Bullet: "misc-00001", Sources: []playbook.BulletID{"misc-00002"}, Content: "one and two"}},
			map[string]playbook.Status{"one": active, "two": active, "new": probation, "one and two": candidate},
			"",
		},
		{
			"a MERGE that ends a proven bullet",
			[]playbook.Op{{Kind: playbook.Merge, Bullet: "misc-00001", Sources: []playbook.BulletID{"misc-00002"}, Content: "One"}},
			map[string]playbook.Status{"one": active, "two": active, "new": probation},
			playbook.ReasonStatus,
		},
		{
			"a MERGE of an unproven bullet",
			[]playbook.Op{{Kind: playbook.Merge, Bullet: "misc-00001", Sources: []playbook.BulletID{"misc-00003"}, Content: "one"}},
			map[string]playbook.Status{"one": active, "two": active},
			"",
		},
		{
			"a SECOND of a proven bullet",
			[]playbook.Op{{Kind: playbook.Confirm, Bullet: "misc-00001"}},
			map[string]playbook.Status{"one": active, "two": active, "new": probation},
			playbook.ReasonDuplicate,
		},
		{
			"an UPDATE of the section",
			[]playbook.Op{{Kind: playbook.Update, Bullet: "misc-00001", Section: "elsewhere", Content: "ONE"}},
			map[string]playbook.Status{"one": active, "two": active, "new": probation},
			"",
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			n := trying(t, "one", "two")
			n.take(t, asks(add("new")))
			n.take(t, asks(test.ops...))
			n.want(t, test.why, test.want)
			got := n.rejected()
			if test.rejected == "" && len(got) > 0 || test.rejected != "" && !slices.Contains(got, test.rejected) {
				t.Errorf("rejected: %q, want %q", got, test.rejected)
			}
		})
	}
}

// TestBulletKeptByPersonStays covers pinned bullets and bullets that a person activated while the gate is on.
func TestBulletKeptByPersonStays(t *testing.T) {
	t.Parallel()
	n := trying(t, "pinned", "put back", "neither")
	n.take(t, edited("pin", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00001", Pinned: true}))
	n.take(t, edited("put back", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00002", Status: active}), edited("added", add("added")))
	for i := range 4 {
		n.take(t, votes(playbook.MintID("others", uint64(i+1)), events.Harmful, 6)...)
	}
	want := map[string]playbook.Status{"pinned": active, "put back": active, "added": active, "neither": probation}
	n.want(t, "six votes against each", want)
	n.take(t, asks(add("new")))
	n.take(t, edited("pin new", playbook.Op{Kind: playbook.Pin, Bullet: n.said(t, "new").ID, Pinned: true}))
	want["new"] = active
	n.want(t, "a pin shows what is on probation", want)
	n.take(t, asks(op(playbook.Update, "misc-00001", "pinned, corrected")))
	want["pinned, corrected"] = candidate
	n.want(t, "its correction waits", want)
}

func TestDriftStartsNewExperiment(t *testing.T) {
	t.Parallel()
	n := trying(t, "old")
	open := func(times int, score float64) {
		for range times {
			n.take(t, tells(score, n.trial(t, "old", playbook.ArmOpen)))
		}
	}
	open(100, 1)
	n.want(t, "it does well", map[string]playbook.Status{"old": active})
	open(60, 0)
	n.want(t, "it does badly", map[string]playbook.Status{"old": probation})
	if k := n.said(t, "old").CurrentExperiment(); k.Number != 1 || k.Open.Count() >= 60 {
		t.Errorf("got %+v, want a new case without the earlier outcomes", k)
	}
	n.outcomes(t, "old", 40, 1, 0)
	n.take(t, votes("misc-00001", events.Harmful, 9)...)
	n.want(t, "chance says that it helps, whatever the votes", map[string]playbook.Status{"old": active})
}

func TestRuleBulletsHaveExperiments(t *testing.T) {
	t.Parallel()
	n := trying(t)
	run := func(vote events.Vote, fs ...events.Finding) {
		for i := range fs {
			fs[i].Vote = vote
		}
		n.take(t, reflected(string(events.NewID()), events.Reflection{Findings: fs}))
	}
	for range 6 {
		run(events.Helpful, sightings[0], sightings[1])
	}
	if b := n.p.ByRule("order/a/b"); b.Status != candidate {
		t.Fatalf("before there is a contrast: %+v", b)
	}
	for range 6 {
		run(events.Harmful, sightings[0])
	}
	b := n.p.ByRule("order/a/b")
	if b.Status != probation || !strings.HasPrefix(b.Content, "a before b: 6 of 6, ") {
		t.Fatalf("the counts support it: got %+v, want it on probation with its counts", b)
	}
	number := b.CurrentExperiment().Number
	run(events.Helpful, sightings[0], sightings[1])
	if b = n.p.ByRule("order/a/b"); b.CurrentExperiment().Number != number || b.Status != probation {
		t.Errorf("more runs: got %+v, want the same case", b)
	}
	n.outcomes(t, b.Content, 40, 1, 0)
	if b = n.p.ByRule("order/a/b"); b.Status != active {
		t.Errorf("it helps: got %+v", b)
	}
	if base := n.p.ByRule("used/b"); base.Status != candidate {
		t.Errorf("a bullet that only counts: got %+v", base)
	}
}

func TestGateModeChanges(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.seed(t, "old", "rival's")
	n.take(t, asks(add("before")))
	n.switched(t, playbook.GateOn)
	n.policy.Gate.Slots = 1
	n.take(t, asks(add("on probation")), asks(add("waiting")), asks(op(playbook.Update, "misc-00002", "rival")), reflected("run", events.Reflection{Findings: []events.Finding{{Key: "used/b", Section: "s", Text: "count", CountOnly: true, Vote: events.Helpful}}}))
	want := map[string]playbook.Status{"old": active, "rival's": active, "before": active, "on probation": probation, "waiting": candidate, "rival": candidate, "count": candidate}
	n.want(t, "on", want)
	for _, mode := range []playbook.Gate{playbook.GateShadow, playbook.GateOff} {
		m := *n
		m.p = *n.p.Clone()
		m.covered = maps.Clone(n.covered)
		m.switched(t, mode)
		want := maps.Clone(want)
		want["on probation"], want["waiting"] = active, active
		m.want(t, string(mode), want)
		if got, set := m.p.Gate(); got != mode || !set {
			t.Errorf("the book's gate is %s, want %s", got, mode)
		}
		m.take(t, asks(add("later")))
		want["later"] = active
		m.want(t, "new advice", want)
	}
}

func TestGateFlagIsOnlyADefault(t *testing.T) {
	t.Parallel()
	n := &draftTest{policy: Policy{Mode: playbook.GateOn}}
	n.take(t, asks(add("one")))
	if mode, set := n.p.Gate(); mode != playbook.GateOn || !set || n.said(t, "one").Status != probation {
		t.Errorf("got %s, %v and %s; want the mode recorded and unchanged", mode, set, n.said(t, "one").Status)
	}
	n.policy.Mode = playbook.GateOff
	n.take(t, asks(add("two")))
	if mode, _ := n.p.Gate(); mode != playbook.GateOn {
		t.Errorf("another flag changed the book's gate to %s", mode)
	}
	m := &draftTest{policy: Policy{Mode: playbook.GateShadow}}
	m.take(t, asks(add("one")))
	if _, set := m.p.Gate(); set {
		t.Error("the default mode shadow is recorded as if a person had chosen it")
	}
}
