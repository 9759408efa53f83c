package draft

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// trying returns a playbook with a gate and the given learned bullets.
func trying(t *testing.T, mode playbook.Gate, contents ...string) *draftTest {
	t.Helper()
	n := new(draftTest)
	n.switched(t, mode)
	for _, c := range contents {
		n.take(t, asks(add(c)))
	}
	n.deltas = nil
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

// asksAfter returns a reflection with proposals on a failed run. The run cited a bullet, and the reflection does not blame it.
func (n *draftTest) asksAfter(t rapid.TB, content string, ops ...playbook.Op) *Item {
	t.Helper()
	cited := n.exposure(t, content, playbook.ArmOpen)
	return reflected(string(events.NewID()), events.Reflection{
		Outcome: events.Outcome{Label: events.Failure}, Exposures: []events.Exposure{cited}, Tags: []events.BulletTag{{ID: cited.Bullet, Tag: events.Neutral}},
	}, ops...)
}

// asksLate returns a reflection with proposals, whose outcome came with feedback as many messages after the execution.
func asksLate(messages uint64, ops ...playbook.Op) *Item {
	id := events.NewID()
	return reflected(string(id), events.Reflection{Handle: events.NewHandle(1, id), FeedbackSeq: 1 + messages, FirstOutcome: true}, ops...)
}

// tells returns a reflection with the outcome of a task to which bullets are applicable.
func tells(score float64, trials ...events.Exposure) *Item {
	return reflected(string(events.NewID()), events.Reflection{Outcome: events.Outcome{Label: events.Partial, Score: score}, FirstRoundScore: score, Exposures: trials})
}

// exposure returns an exposure that cites the bullet unless it is withheld.
func (n *draftTest) exposure(t rapid.TB, content string, arm playbook.Arm) events.Exposure {
	t.Helper()
	b := n.said(t, content)
	return events.Exposure{Bullet: b.ID, Experiment: b.CurrentExperiment().Number, Arm: arm, Cited: arm != playbook.ArmWithheld}
}

// cite takes one task for each character of a record, + or -, whose answer cites the bullet.
func (n *draftTest) cite(t rapid.TB, content, record string) {
	t.Helper()
	for _, mark := range record {
		n.take(t, tells(scoreOfMark(mark), n.exposure(t, content, playbook.ArmOpen)))
	}
}

func scoreOfMark(mark rune) float64 {
	if mark == playbook.RecentSuccess {
		return 1
	}
	return 0
}

// outcomes takes tasks of both arms with the given outcomes.
func (n *draftTest) outcomes(t rapid.TB, content string, times int, shown, withheld float64) {
	t.Helper()
	var batch []*Item
	for range times {
		batch = append(batch, tells(shown, n.exposure(t, content, playbook.ArmShown)), tells(withheld, n.exposure(t, content, playbook.ArmWithheld)))
	}
	n.take(t, batch...)
}

// blames returns a failed task that cited a bullet, with a lesson.
func (n *draftTest) blames(t rapid.TB, content string, lesson playbook.Op, tags ...events.BulletTag) *Item {
	t.Helper()
	k := tells(0, n.exposure(t, content, playbook.ArmOpen))
	k.Reflection.Tags = tags
	k.Proposals = []Proposal{{Op: lesson}}
	return k
}

// fails is a record that makes a bullet retire, and drifts one that ends the trust in a bullet.
const (
	fails  = "---------"
	drifts = "+++++++++++++++++++++--------"
)

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

func TestNewBulletsByMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[playbook.Gate]playbook.Status{playbook.GateOff: active, playbook.GateGuard: active, playbook.GateStrict: probation} {
		n := trying(t, mode, "new")
		n.want(t, string(mode), map[string]playbook.Status{"new": want})
		e := n.said(t, "new").CurrentExperiment()
		if mode == playbook.GateOff && e.Standing != "" || mode != playbook.GateOff && (e.Standing != playbook.StandingNew || e.Number != 1) {
			t.Errorf("%s: got %+v", mode, e)
		}
	}
}

// TestProposalsOnShownBullets has a bullet that outcomes support, one that a person added, and a new one.
func TestProposalsOnShownBullets(t *testing.T) {
	t.Parallel()
	merge := func(into, from playbook.BulletID, content string) playbook.Op {
		return playbook.Op{Kind: playbook.Merge, Bullet: into, Sources: []playbook.BulletID{from}, Content: content}
	}
	const supported, kept, unproven = "misc-00001", "misc-00002", "misc-00003"
	for name, test := range map[string]struct {
		op       playbook.Op
		changes  map[string]playbook.Status // to the three bullets; "" for a bullet that is gone
		rejected []playbook.Reason
	}{
		"REMOVE supported":         {op(playbook.Remove, supported, ""), nil, []playbook.Reason{playbook.ReasonSupported}},
		"REMOVE kept":              {op(playbook.Remove, kept, ""), nil, []playbook.Reason{playbook.ReasonSupported}},
		"REMOVE new":               {op(playbook.Remove, unproven, ""), map[string]playbook.Status{"one more": retired}, nil},
		"UPDATE supported":         {op(playbook.Update, supported, "uno"), map[string]playbook.Status{"uno": candidate}, nil},
		"UPDATE kept":              {op(playbook.Update, kept, "due"), map[string]playbook.Status{"due": candidate}, nil},
		"UPDATE new":               {op(playbook.Update, unproven, "tre"), map[string]playbook.Status{"one more": "", "tre": active}, nil},
		"MERGE new into supported": {merge(supported, unproven, "one"), map[string]playbook.Status{"one more": ""}, nil},
		"MERGE, other content":     {merge(supported, unproven, "both"), map[string]playbook.Status{"both": candidate}, nil},
		"MERGE supported into new": {merge(unproven, supported, "one more"), nil, []playbook.Reason{playbook.ReasonSupported}},
		"MERGE kept into new":      {merge(unproven, kept, "one more"), nil, []playbook.Reason{playbook.ReasonSupported}},
		"MERGE kept, supported":    {merge(supported, kept, "one"), nil, []playbook.Reason{playbook.ReasonSupported}},
		"CONFIRM supported":        {op(playbook.Confirm, supported, ""), nil, []playbook.Reason{playbook.ReasonDuplicate}},
		"UPDATE of a section": {
			playbook.Op{Kind: playbook.Update, Bullet: supported, Section: "elsewhere", Content: "ONE"}, nil, nil,
		},
	} {
		n := trying(t, playbook.GateGuard, "one")
		n.cite(t, "one", "+")
		n.take(t, edited("two", add("two")))
		n.take(t, asks(add("one more")))
		n.deltas = nil
		n.take(t, asks(test.op))
		want := map[string]playbook.Status{"one": active, "two": active, "one more": active}
		for content, status := range test.changes {
			if want[content] = status; status == "" {
				delete(want, content)
			}
		}
		n.want(t, name, want)
		if got := n.rejected(); !slices.Equal(got, test.rejected) {
			t.Errorf("%s: rejected %q, want %q", name, got, test.rejected)
		}
		if b := n.p.Bullet("misc-00004"); b != nil && (b.Replaces != test.op.Bullet || b.CurrentExperiment().Standing != playbook.StandingNew) {
			t.Errorf("%s: got %+v, want it to replace %s", name, b, test.op.Bullet)
		}
	}
}

// TestFeedbackIsNoOtherRequest checks that a candidate waits for another execution: later feedback on the execution that requested it does not confirm it.
func TestFeedbackIsNoOtherRequest(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "one")
	n.p.Bullet(n.said(t, "one").ID).Pinned = true
	n.cite(t, "one", strings.Repeat("+", goodWeight+5))
	first := n.asksAfter(t, "one", add("two"))
	n.take(t, first)
	feedback := func() *Item {
		again := n.asksAfter(t, "one", add("two"))
		again.Reflection.Execution, again.Reflection.Feedback, again.Reflection.FeedbackSeq = first.Reflection.Execution, again.ID, n.p.Version()
		again.Contribution, again.EarlierDone = history.NewContribution(string(first.Reflection.SampleID())), true
		for _, d := range n.deltas {
			again.Contribution.Apply(d)
		}
		return again
	}
	n.take(t, feedback())
	n.take(t, feedback())
	n.want(t, "feedback on the same execution", map[string]playbook.Status{"one": active, "two": candidate})
	n.take(t, asks(add("two")))
	n.want(t, "another execution", map[string]playbook.Status{"one": active, "two": active})
}

// TestDoubtOfKnownErrors checks that the measured error of a judge decides in place of the rate of successes: advice of one failure waits if
// most failures are false.
func TestDoubtOfKnownErrors(t *testing.T) {
	t.Parallel()
	poor := &playbook.Judge{Name: "judge/m/1", Right: 98, Wrong: 98, FalseFailures: 19, FalseSuccesses: 19} // 20 % by the rule of succession
	exact := &playbook.Judge{Name: "judge/m/1", Right: 998, Wrong: 998}
	long := strings.Repeat("+", goodWeight+20)
	for name, test := range map[string]struct {
		judge  *playbook.Judge
		record string
		want   playbook.Status
	}{
		// Of the rate 0.75 a poor judge gives, 0.92 are right: a failure is false with 0.18 / 0.25.
		"few tasks, poor judge":    {poor, "+++-+++-", candidate},
		"few tasks, no judge":      {nil, "+++-+++-", active},
		"many failures, poor":      {poor, strings.Repeat("+-", goodWeight), active},
		"many successes, exact":    {exact, long + strings.Repeat("-", 20), active},
		"many successes, no judge": {nil, long + strings.Repeat("-", 20), candidate},
	} {
		n := trying(t, playbook.GateGuard, "one")
		n.p.Bullet(n.said(t, "one").ID).Pinned = true // so that failures do not retire it
		by := ""
		if test.judge != nil {
			n.take(t, &Item{Edit: &events.Edit{ID: events.NewID(), Author: "ann", Judge: test.judge}})
			by = test.judge.Name
		}
		for _, mark := range test.record {
			k := tells(scoreOfMark(mark), n.exposure(t, "one", playbook.ArmOpen))
			k.Reflection.Outcome.By = by
			n.take(t, k)
		}
		n.take(t, n.asksAfter(t, "one", add("two")))
		n.want(t, name, map[string]playbook.Status{"one": active, "two": test.want})
	}
}

// TestMergeRestsOnItsBullets checks that a merge without executions of its own rests on those behind its bullets, and not on the execution
// of the reflection that happens to carry it.
func TestMergeRestsOnItsBullets(t *testing.T) {
	t.Parallel()
	inSession := func(seq uint64, ops ...playbook.Op) *Item {
		item := reflected(fmt.Sprint(seq), events.Reflection{Handle: events.NewHandle(seq, events.NewID())}, ops...)
		item.Seq = seq
		return item
	}
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateGuard, playbook.GateStrict} {
		n := new(draftTest)
		n.switched(t, mode)
		n.take(t, inSession(7, add("one")), inSession(8, add("two")))
		n.take(t, inSession(9, playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Sources: []playbook.BulletID{"misc-00002"}, Content: "one, two"}))
		if got, want := n.said(t, "one, two").LearnedFrom, []uint64{7, 8}; !slices.Equal(got, want) {
			t.Errorf("%s: learned from %v, want %v", mode, got, want)
		}
	}
}

// TestAdviceWaitsForOutcomes checks that advice of one execution waits while many new bullets have no outcome, and that outcomes of either
// kind end the wait. Advice does not wait if outcomes come soon.
func TestAdviceWaitsForOutcomes(t *testing.T) {
	t.Parallel()
	untested := func() (n *draftTest) {
		n = trying(t, playbook.GateGuard, "one")
		n.cite(t, "one", "+")
		n.p.Bullet(n.said(t, "one").ID).Pinned = true // so that failures do not retire it
		for i := range maxUntested {
			n.take(t, asks(add(fmt.Sprintf("rule %d", i))))
		}
		return n
	}
	for name, test := range map[string]struct {
		evidence func(*draftTest)
		want     playbook.Status
	}{
		"no outcome": {func(*draftTest) {}, candidate},
		"a citation": {func(n *draftTest) { n.cite(t, "rule 3", "+") }, active},
		"both arms":  {func(n *draftTest) { n.outcomes(t, "rule 3", 1, 1, 1) }, active},
		"many":       {func(n *draftTest) { n.cite(t, "one", strings.Repeat("+-", testedOutcomes*maxUntested/2)) }, active}, // outcomes keep up
		"one arm":    {func(n *draftTest) { n.take(t, tells(1, n.exposure(t, "rule 3", playbook.ArmWithheld))) }, candidate},
	} {
		n := untested()
		test.evidence(n)
		n.take(t, asksLate(lateAfter, add("more")))
		if got := n.said(t, "more"); got.Shown() != (test.want == active) {
			t.Errorf("%s: got %s, want %s", name, got.Status, test.want)
		}
		n.take(t, asksLate(lateAfter, add("more")))
		if got := n.said(t, "more"); !got.Shown() {
			t.Errorf("%s, second request: got %s, want active", name, got.Status)
		}
	}
	for _, soon := range []*Item{asks(add("more")), asksLate(lateAfter-1, add("more"))} {
		n := untested()
		n.take(t, soon)
		if got := n.said(t, "more"); !got.Shown() {
			t.Errorf("outcome %d messages after the execution: got %s, want active", soon.Reflection.FeedbackSeq, got.Status)
		}
	}
}

// TestRemovalNeedsAsManyRequests checks that one execution cannot remove a bullet that two requested, and that two can.
func TestRemovalNeedsAsManyRequests(t *testing.T) {
	t.Parallel()
	fromTwo := func(proposed playbook.Op) []*Item {
		items := []*Item{asks(), asks(proposed)}
		items[0].Seq, items[1].Seq = 1, 2
		items[1].Proposals[0].From = items
		return items
	}
	n := trying(t, playbook.GateGuard, "one")
	n.take(t, fromTwo(add("two"))...)
	n.deltas = nil
	n.take(t, asks(op(playbook.Remove, "misc-00002", "")))
	n.want(t, "one execution", map[string]playbook.Status{"one": active, "two": active})
	if got := n.rejected(); !slices.Equal(got, []playbook.Reason{playbook.ReasonSupported}) {
		t.Errorf("rejected %q, want %q", got, playbook.ReasonSupported)
	}
	n.take(t, fromTwo(op(playbook.Remove, "misc-00002", ""))...)
	n.want(t, "two executions", map[string]playbook.Status{"one": active, "two": retired})
}

// TestFailedBulletLosesSupport checks that a proposal can change a bullet whose tasks fail.
func TestFailedBulletLosesSupport(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "one")
	n.cite(t, "one", "+--")
	n.take(t, asks(op(playbook.Update, "misc-00001", "uno")))
	n.want(t, "UPDATE", map[string]playbook.Status{"uno": active})
	if e := n.said(t, "uno").CurrentExperiment(); e.Number != 2 || e.Standing != playbook.StandingNew || e.Outcomes() != 0 {
		t.Errorf("got %+v, want the record of a new wording", e)
	}
}

// TestFirstBullet checks the first bullet of a playbook. If tasks without it succeed, and all that cite it fail, it is out within five
// tasks. If most tasks fail anyway, and it helps, it stays.
func TestFirstBullet(t *testing.T) {
	t.Parallel()
	task := func(rng *rand.Rand, rate float64) (score float64) {
		if rng.Float64() < rate {
			score = 1
		}
		return score
	}
	n := trying(t, playbook.GateGuard)
	for range 10 {
		n.take(t, tells(1))
	}
	n.take(t, asks(add("ruins all")))
	tasks := 0
	for ; n.said(t, "ruins all").Shown() && tasks < 50; tasks++ {
		n.take(t, tells(0, n.exposure(t, "ruins all", playbook.ArmOpen)))
	}
	if tasks > 5 {
		t.Errorf("a bullet that ruins all stays for %d tasks, want at most 5", tasks)
	}
	lost := 0
	for seed := range uint64(20) { // one task of ten succeeds without the bullet, and half of them with it
		rng := rand.New(rand.NewPCG(seed, 1))
		n := trying(t, playbook.GateGuard)
		for range 10 {
			n.take(t, tells(task(rng, 0.1)))
		}
		n.take(t, asks(add("helps")))
		for range 30 {
			if n.said(t, "helps").Shown() {
				n.take(t, tells(task(rng, 0.5), n.exposure(t, "helps", playbook.ArmOpen)))
			}
		}
		if !n.said(t, "helps").Shown() {
			lost++
		}
	}
	t.Logf("a bullet that helps is gone in %d of 20 hard worlds", lost)
	if lost > 1 {
		t.Errorf("a bullet that helps is gone in %d of 20 hard worlds, want at most 1", lost)
	}
}

func TestDriftReleasesCandidates(t *testing.T) {
	t.Parallel()
	for mode, after := range map[playbook.Gate]map[string]playbook.Status{
		playbook.GateGuard:  {"old": retired, "correction": active, "against": active},
		playbook.GateStrict: {"old": probation, "correction": probation, "against": probation},
	} {
		n := trying(t, mode, "old")
		n.cite(t, "old", "+++")
		n.take(t, asks(op(playbook.Update, "misc-00001", "correction")), n.blames(t, "old", add("against")))
		want := map[string]playbook.Status{"old": active, "correction": candidate, "against": candidate}
		n.cite(t, "old", strings.TrimRight(drifts, "-"))
		n.want(t, "no drift", want)
		n.cite(t, "old", drifts[strings.Index(drifts, "-"):])
		n.want(t, string(mode), after)
		if e := n.said(t, "old").CurrentExperiment(); e.Number != 2 || e.Standing != playbook.StandingSuspect {
			t.Errorf("%s: got %+v, want a new record", mode, e)
		}
	}
}

// TestRetiredBulletReturns checks the number of requests for the first and the second return.
func TestRetiredBulletReturns(t *testing.T) {
	t.Parallel()
	for mode, shown := range map[playbook.Gate]playbook.Status{playbook.GateGuard: active, playbook.GateStrict: probation} {
		n := trying(t, mode, "other", "unlucky", "taken out")
		n.cite(t, "other", strings.Repeat("+", 60))
		n.take(t, edited("out", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: retired}))
		want := map[string]playbook.Status{"other": active, "unlucky": retired, "taken out": retired}
		ask := func() { n.take(t, asks(add("unlucky")), asks(add("taken out"))) }
		for round, requests := range []int{2, 4} {
			n.cite(t, "unlucky", fails)
			n.want(t, "it fails", want)
			for range requests - 1 {
				ask()
			}
			n.want(t, "too few requests", want)
			ask()
			want["unlucky"] = shown
			n.want(t, fmt.Sprint(requests, " requests"), want)
			want["unlucky"] = retired
			if e := n.said(t, "unlucky").CurrentExperiment(); e.Number != round+2 || e.Outcomes() != 0 || e.Standing != playbook.StandingNew {
				t.Errorf("got %+v, want an empty record", e)
			}
		}
	}
}

// TestPersonDecides covers pinned bullets and bullets that a person added, activated or retired.
func TestPersonDecides(t *testing.T) {
	t.Parallel()
	for _, mode := range []playbook.Gate{playbook.GateGuard, playbook.GateStrict} {
		n := trying(t, mode, "pinned", "put back", "neither", "other")
		n.cite(t, "other", strings.Repeat("+", 60))
		set := func(status playbook.Status) playbook.Op {
			return playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00002", Status: status}
		}
		n.take(t, edited("pin", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00001", Pinned: true}),
			edited("out", set(retired)), edited("back", set(active)), edited("add", add("added")))
		for _, content := range []string{"pinned", "put back", "neither", "added"} {
			n.cite(t, content, fails)
			n.outcomes(t, content, 20, 0, 1)
		}
		want := map[string]playbook.Status{"pinned": active, "put back": active, "neither": candidate, "added": active, "other": active}
		if mode == playbook.GateStrict {
			want["pinned"] = n.said(t, "pinned").Status // a pin does not change the status
		}
		n.want(t, string(mode), want)
		n.take(t, edited("in", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: active}))
		n.cite(t, "neither", fails)
		want["neither"] = active
		n.want(t, "a person puts it back", want)
	}
}

func TestStrictProbationEndsByRecord(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateStrict, "helps", "fails", "idle")
	n.policy.Gate.MaxOutcomes = 60
	n.cite(t, "helps", strings.Repeat("+", 60))
	n.cite(t, "fails", fails)
	want := map[string]playbook.Status{"helps": active, "fails": retired, "idle": probation}
	n.want(t, "records", want)
	uncited := func(times int) {
		for range times {
			x := n.exposure(t, "idle", playbook.ArmShown)
			x.Cited = false
			n.take(t, tells(0.5, x), tells(0.5, n.exposure(t, "idle", playbook.ArmWithheld)))
		}
	}
	uncited(29)
	n.want(t, "58 outcomes", want)
	uncited(1)
	want["idle"] = retired
	n.want(t, "60 outcomes", want)
	for content, code := range map[string]playbook.Reason{"fails": playbook.ReasonFails, "idle": playbook.ReasonNoBenefit} {
		if got := reasonOf(t, n, n.said(t, content).ID, retired); got != code {
			t.Errorf("%s: reason %q, want %q", content, got, code)
		}
	}
	if got := reasonOf(t, n, n.said(t, "helps").ID, active); got != playbook.ReasonTrusted {
		t.Errorf("reason: %q", got)
	}
}

// TestExperimentDecides checks the decisions by the random arms, for a bullet that is never cited.
func TestExperimentDecides(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "helps", "harms")
	n.outcomes(t, "helps", 30, 1, 0)
	n.outcomes(t, "harms", 30, 0, 1)
	n.want(t, "30 outcomes in each arm", map[string]playbook.Status{"helps": active, "harms": retired})
	if got := reasonOf(t, n, n.said(t, "harms").ID, retired); got != playbook.ReasonHarms {
		t.Errorf("reason: %q", got)
	}
	if got := n.said(t, "helps").CurrentExperiment().Standing; got != playbook.StandingProven {
		t.Errorf("standing: %q", got)
	}
}

func TestModeChangeReleasesBullets(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateStrict, "old", "new")
	n.cite(t, "old", "+++")
	n.take(t, asks(op(playbook.Update, "misc-00001", "correction")), n.blames(t, "old", add("against")))
	want := map[string]playbook.Status{"old": active, "new": probation, "correction": candidate, "against": candidate}
	n.want(t, "strict", want)
	for mode, changes := range map[playbook.Gate]map[string]playbook.Status{
		playbook.GateGuard: {"new": active},
		playbook.GateOff:   {"new": active, "against": active},
	} {
		m := *n
		m.p = *n.p.Clone()
		m.covered = maps.Clone(n.covered)
		m.switched(t, mode)
		want := maps.Clone(want)
		maps.Copy(want, changes)
		m.want(t, string(mode), want)
		if got, set := m.p.Gate(); got != mode || !set {
			t.Errorf("the gate is %s, want %s", got, mode)
		}
		m.take(t, asks(add("later")))
		want["later"] = active
		m.want(t, "new advice", want)
	}
}

func TestGateFlagIsOnlyADefault(t *testing.T) {
	t.Parallel()
	n := &draftTest{policy: Config{GateMode: playbook.GateStrict}}
	n.take(t, asks(add("one")))
	if mode, set := n.p.Gate(); mode != playbook.GateStrict || !set || n.said(t, "one").Status != probation {
		t.Errorf("got %s, %v and %s; want the mode recorded and unchanged", mode, set, n.said(t, "one").Status)
	}
	n.policy.GateMode = playbook.GateOff
	n.take(t, asks(add("two")))
	if mode, _ := n.p.Gate(); mode != playbook.GateStrict {
		t.Errorf("another flag changed the gate to %s", mode)
	}
	m := &draftTest{policy: Config{GateMode: playbook.GateGuard}}
	m.take(t, asks(add("one")))
	if _, set := m.p.Gate(); set {
		t.Error("the default mode is recorded as if a person had chosen it")
	}
}
