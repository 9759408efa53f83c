package draft

import (
	"fmt"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestDoubtfulAdviceWaits checks that advice of one execution waits for a second one if many tasks succeeded and the execution followed a
// trusted bullet, and not otherwise.
func TestDoubtfulAdviceWaits(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("+", goodWeight+5)
	for record, want := range map[string]playbook.Status{
		good:                            candidate,
		good[:goodWeight/2]:             active, // too few
		strings.Repeat("+-", len(good)): active, // too many of them failed
	} {
		n := trying(t, playbook.GateGuard, "one")
		n.p.Bullet(n.said(t, "one").ID).Pinned = true // so that failures do not retire it
		n.cite(t, "one", record)
		n.take(t, n.asksAfter(t, "one", add("two")))
		n.want(t, "first request after "+record, map[string]playbook.Status{"one": active, "two": want})
		n.take(t, n.asksAfter(t, "one", add("two")))
		n.want(t, "second request after "+record, map[string]playbook.Status{"one": active, "two": active})
		n.take(t, n.asksAfter(t, "two", add("three"))) // the bullet two is new
		n.want(t, "request of a run without a trusted bullet", map[string]playbook.Status{"one": active, "two": active, "three": active})
	}
}

// TestAdviceForAnotherPartDoesNotWait checks that a trusted bullet makes advice wait only if the flaw can be in what the bullet decides. It cannot
// be there if a part of the answer was right and the reflection calls the bullet helpful.
func TestAdviceForAnotherPartDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		score float64
		vote  events.Vote
		want  playbook.Status
	}{
		{0.5, events.Helpful, active},
		{0.5, events.Neutral, candidate},
		{0.5, "", candidate},
		{0, events.Helpful, candidate},
	} {
		t.Run(fmt.Sprint(c.score, c.vote), func(t *testing.T) {
			t.Parallel()
			n := trying(t, playbook.GateGuard, "one")
			n.cite(t, "one", strings.Repeat("+", goodWeight+5))
			cited := n.exposure(t, "one", playbook.ArmOpen)
			n.take(t, reflected(string(events.NewID()), events.Reflection{
				Outcome: events.Outcome{Label: events.Partial, Score: c.score}, FirstRoundScore: c.score,
				Exposures: []events.Exposure{cited}, Tags: []events.BulletTag{{ID: cited.Bullet, Tag: c.vote}},
			}, add("two")))
			n.want(t, "advice of one run", map[string]playbook.Status{"one": active, "two": c.want})
		})
	}
}

// TestMergeDoesNotShowAWaitingCorrection checks that a correction of one execution is shown by a second execution only: a merge with the
// bullet that it corrects neither shows its text nor hides that bullet.
func TestMergeDoesNotShowAWaitingCorrection(t *testing.T) {
	t.Parallel()
	merge := func(into, from playbook.BulletID, content string) *Item {
		return asks(playbook.Op{Kind: playbook.Merge, Bullet: into, Sources: []playbook.BulletID{from}, Content: content})
	}
	for name, test := range map[string]struct {
		into, from string
		support    bool
		refused    bool
	}{
		"into the bullet, without an execution":     {into: "wait 10 s", from: "wait 20 s", refused: true},
		"into the bullet, with another execution":   {into: "wait 10 s", from: "wait 20 s", support: true},
		"into the correction, without an execution": {into: "wait 20 s", from: "wait 10 s", refused: true},
		"into the correction, with an execution":    {into: "wait 20 s", from: "wait 10 s", support: true, refused: true},
	} {
		n := trying(t, playbook.GateGuard, "other", "wait 10 s")
		n.cite(t, "other", strings.Repeat("+", goodWeight+5))
		n.take(t, n.asksAfter(t, "other", op(playbook.Update, n.said(t, "wait 10 s").ID, "wait 20 s")))
		before := map[string]playbook.Status{"other": active, "wait 10 s": active, "wait 20 s": candidate}
		n.want(t, "one execution", before)
		n.deltas = nil
		item := merge(n.said(t, test.into).ID, n.said(t, test.from).ID, "wait 20 s, not 10 s")
		if test.support {
			item.Proposals[0].From = []*Item{item}
		}
		n.take(t, item)
		if test.refused {
			n.want(t, name, before)
		} else {
			n.want(t, name, map[string]playbook.Status{"other": active, "wait 20 s, not 10 s": active})
		}
		if got := n.rejected(); (len(got) == 1) != test.refused || test.refused && got[0] != playbook.ReasonStatus {
			t.Errorf("%s: rejected %q, want refused: %v", name, got, test.refused)
		}
	}
}

// TestDoubtfulUpdateWaits checks that one execution cannot change the text of an unproven bullet either, where many tasks succeeded.
func TestDoubtfulUpdateWaits(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "one", "two")
	n.cite(t, "one", strings.Repeat("+", goodWeight+5))
	two := n.said(t, "two").ID
	n.take(t, n.asksAfter(t, "one", op(playbook.Update, two, "due")))
	n.want(t, "first request", map[string]playbook.Status{"one": active, "two": active, "due": candidate})
	n.take(t, n.asksAfter(t, "one", op(playbook.Update, two, "due")))
	n.want(t, "second request", map[string]playbook.Status{"one": active, "two": retired, "due": active})
}

func TestCorrectionTakesPlaceAndOldBulletReturns(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "wait 10 s", "other")
	n.cite(t, "wait 10 s", "++++--")
	n.cite(t, "other", strings.Repeat("+", 60)) // the typical score
	update := func(content string) *Item { return asks(op(playbook.Update, "misc-00001", content)) }
	n.take(t, update("wait 20 s"), update("wait 30 s"))
	want := map[string]playbook.Status{"wait 10 s": active, "other": active, "wait 20 s": candidate, "wait 30 s": candidate}
	n.want(t, "one request each", want)
	n.take(t, asks(add("WAIT 20 s")))
	n.want(t, "confirmed, but the bullet works", want)
	n.cite(t, "wait 10 s", "-")
	n.take(t, asks(add("WAIT 20 s")))
	want["wait 10 s"], want["wait 20 s"] = retired, active
	n.want(t, "confirmed, and the bullet fails", want)
	if why := reasonOf(t, n, "misc-00001", retired); why != playbook.ReasonReplaced {
		t.Errorf("reason: %q", why)
	}
	n.take(t, asks(add("wait 10 s")), asks(add("wait 10 s")))
	n.want(t, "the replaced bullet does not return beside its correction", want)
	n.cite(t, "wait 20 s", fails)
	want["wait 10 s"], want["wait 20 s"] = active, retired
	n.want(t, "the correction fails", want)
	if why := reasonOf(t, n, n.said(t, "wait 20 s").ID, retired); why != playbook.ReasonFails {
		t.Errorf("reason: %q", why)
	}
	if why := reasonOf(t, n, "misc-00001", active); why != playbook.ReasonReturned {
		t.Errorf("reason: %q", why)
	}
	if e := n.said(t, "wait 10 s").CurrentExperiment(); e.Cited.Count() != 7 || e.Standing != playbook.StandingTrusted {
		t.Errorf("it returned with the record %+v, want its own", e)
	}
}

// TestChainOfCorrections checks that a correction of a correction keeps the first bullet out, and that one of them is shown at a time.
func TestChainOfCorrections(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "wait 10 s", "other")
	n.cite(t, "wait 10 s", "++++---")
	n.cite(t, "other", strings.Repeat("+", 60)) // the typical score
	correct := func(old, content string) {
		n.take(t, asks(op(playbook.Update, n.said(t, old).ID, content)))
		n.take(t, asks(add(content)))
	}
	correct("wait 10 s", "wait 20 s")
	n.cite(t, "wait 20 s", "++++---")
	correct("wait 20 s", "wait 30 s")
	want := map[string]playbook.Status{"wait 10 s": retired, "other": active, "wait 20 s": retired, "wait 30 s": active}
	n.want(t, "corrected twice", want)
	for range 6 {
		n.take(t, asks(add("wait 10 s")))
	}
	n.want(t, "the first one is requested again", want)
	n.cite(t, "wait 30 s", fails)
	want["wait 20 s"], want["wait 30 s"] = active, retired
	n.want(t, "the last one fails", want)
}

func TestStrictCorrectionHasExperimentFirst(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateStrict, "wait 10 s")
	n.cite(t, "wait 10 s", "+++")
	n.want(t, "three successes", map[string]playbook.Status{"wait 10 s": active})
	n.take(t, asks(op(playbook.Update, "misc-00001", "wait 20 s")))
	want := map[string]playbook.Status{"wait 10 s": active, "wait 20 s": candidate}
	n.want(t, "one request", want)
	n.cite(t, "wait 10 s", "---")
	n.take(t, asks(op(playbook.Update, "misc-00001", "wait 20 s")))
	want["wait 20 s"] = probation
	n.want(t, "confirmed", want)
	n.cite(t, "wait 20 s", "+++")
	want["wait 10 s"], want["wait 20 s"] = retired, active
	n.want(t, "a good record", want)
}

func TestAdviceAgainstSupportedBulletWaits(t *testing.T) {
	t.Parallel()
	n := trying(t, playbook.GateGuard, "one", "two", "unproven")
	n.cite(t, "one", "++++++")
	n.cite(t, "two", "++++++")
	blames := func(id playbook.BulletID, vote events.Vote) events.BulletTag {
		return events.BulletTag{ID: id, Tag: vote}
	}
	past := n.blames(t, "one", add("past"))
	past.Reflection.Exposures[0].Experiment = 7
	success := n.blames(t, "one", add("success"))
	success.Reflection.FirstRoundScore = 1
	n.take(t,
		n.blames(t, "one", add("against one")), n.blames(t, "one", add("blames one"), blames("misc-00001", events.Harmful)),
		n.blames(t, "one", add("blames another"), blames("misc-00001", events.Neutral)),
		n.blames(t, "unproven", add("against unproven")), past, success,
	)
	want := map[string]playbook.Status{
		"one": active, "two": active, "unproven": candidate, "against one": candidate, "blames one": candidate,
		"blames another": active, "against unproven": active, "past": active, "success": active,
	}
	n.want(t, "failures", want)
	for content, contests := range map[string]playbook.BulletID{"against one": "misc-00001", "blames one": "misc-00001", "past": "", "blames another": ""} {
		if got := n.said(t, content).Contests; got != contests {
			t.Errorf("%q contests %q, want %q", content, got, contests)
		}
	}
	n.take(t, asks(add("against one"), add("Against one")))
	want["against one"] = active
	n.want(t, "confirmed", want)
	if why := reasonOf(t, n, n.said(t, "against one").ID, active); why != playbook.ReasonConfirmed {
		t.Errorf("reason: %q", why)
	}
	if got := n.said(t, "against one").CurrentExperiment().Confirmations; got != 1 {
		t.Errorf("one reflection with the same request twice: %d confirmations, want 1", got)
	}
}
