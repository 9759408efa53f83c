package worth

import (
	"math"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// sums returns the sums of n sessions in each arm, of which the given parts succeed, with an outcome in the given parts of the runs.
func sums(n int, with, without float64, rated ...float64) *Sums {
	s := new(Sums)
	for arm, part := range []float64{with, without} {
		for i := range n {
			var before, after Session
			e := &events.Execution{Control: &events.Control{Held: arm == 1, Share: 500}, Usage: chat.Usage{InputTokens: 100 * (1 + arm)}, Duration: time.Second}
			e.Outcome.Label = events.Failure
			if float64(i) < part*float64(n) {
				e.Outcome.Label = events.Success
			}
			after.Add(e, 0.5)
			for k := range 9 {
				if rated != nil && float64(k) >= 9*rated[arm] {
					e.Outcome.Label = events.Unknown
				}
				after.Add(e, 0)
			}
			s.Replace(&before, &after)
		}
	}
	return s
}

func TestReport(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sums    *Sums
		share   playbook.Share
		status  Status
		summary string
		command string
	}{
		"no control share":          {nil, playbook.ShareOff, Off, "No control share: the effect cannot be measured.", "control 5%"},
		"no session yet":            {nil, "5%", Collecting, "about 400 outcomes are missing, among them those of 20 sessions", ""},
		"too few sessions":          {sums(15, 1, 0), "50%", Collecting, "about 100 outcomes are missing, among them those of 5 sessions", ""},
		"switched off too early":    {sums(15, 1, 0), playbook.ShareOff, Collecting, "about 100 outcomes", "control 5%"},
		"it helps":                  {sums(400, 0.8, 0.5), "50%", Helps, "The playbook helps: +30.0 points", "control 1%"},
		"it helps, a small share":   {sums(400, 0.8, 0.5), "1%", Helps, "helps", "control off"},
		"it helps, measured":        {sums(400, 0.8, 0.5), playbook.ShareOff, Helps, "helps", ""},
		"it harms":                  {sums(400, 0.5, 0.8), "50%", Harms, "The playbook harms: -30.0 points", "review mode first"},
		"it harms, also if off":     {sums(400, 0.5, 0.8), playbook.ShareOff, Harms, "harms", "review mode first"},
		"no difference, few":        {sums(400, 0.5, 0.5), "50%", Unclear, "to tell an effect of 2.0 points from none", ""},
		"a difference, few":         {sums(100, 0.6, 0.5), "50%", Unclear, "to tell an effect of 10.0 points from none", ""},
		"no difference, many":       {sums(30_000, 0.5, 0.5), "50%", NoEffect, "no difference of 2 points or more", "control off"},
		"all sessions have a value": {sums(25, 1, 1), "50%", Unclear, "+0.0 points", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := test.sums.Report("tones", test.share)
			want := test.command
			if want != "" {
				want = "debrief playbook " + want + " --book tones"
			}
			if r.Status != test.status || !strings.Contains(r.Summary, test.summary) || r.Command != want || r.Next == "" || len(r.Warnings) > 0 {
				t.Errorf("got %s %q, command %q, next %q, warnings %q", r.Status, r.Summary, r.Command, r.Next, r.Warnings)
			}
			needs := r.Status == Collecting || r.Status == Unclear
			if (r.Missing != nil) != needs {
				t.Errorf("missing: got %+v", r.Missing)
			}
		})
	}
}

// TestMissingSuffices: with the outcomes that a report asks for, and the same rates, the interval does not contain zero.
func TestMissingSuffices(t *testing.T) {
	t.Parallel()
	r := sums(100, 0.6, 0.5).Report("b", "50%")
	if again := sums(100+r.Missing.Sessions, 0.6, 0.5).Report("b", "50%"); again.Status != Helps {
		t.Errorf("after %d sessions: got %s %s", r.Missing.Sessions, again.Status, again.Summary)
	}
	if few := sums(100+r.Missing.Sessions*9/10, 0.6, 0.5).Report("b", "50%"); few.Status != Unclear {
		t.Errorf("after 90 %% of them: got %s", few.Summary)
	}
}

func TestEffectsOnUsage(t *testing.T) {
	t.Parallel()
	r := sums(100, 0.6, 0.5).Report("b", "50%")
	if e := r.Tokens; e == nil || math.Abs(e.Mean+50) > 1e-9 || e.Low >= -50 || e.High <= -50 || e.High >= 0 {
		t.Errorf("tokens: got %+v, want -50 %%", e)
	}
	if e := r.Cost; e == nil || math.Abs(e.Mean) > 1e-9 || r.With.Cost != 0.5 || r.With.Tokens != 100 || r.Without.Tokens != 200 || r.With.Seconds != 1 {
		t.Errorf("cost: got %+v, arms %+v and %+v", e, r.With, r.Without)
	}
	if e := r.Avoided; e == nil || math.Abs(e.Mean-10) > 1e-9 || e.Low >= 10 {
		t.Errorf("failures avoided: got %+v, want 10", e)
	}
}

// TestWarnings: outcomes that are missing more often in one arm, and sessions of one arm that are not recorded, make a comparison unfair.
func TestWarnings(t *testing.T) {
	t.Parallel()
	if r := sums(200, 0.6, 0.5, 0.9, 0.2).Report("b", "50%"); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "Outcomes are missing more often in one arm") {
		t.Errorf("got %q", r.Warnings)
	}
	s := sums(200, 0.6, 0.5)
	for range 200 {
		var before, after Session
		after.Add(&events.Execution{Control: &events.Control{Share: 500}}, 0)
		s.Replace(&before, &after)
	}
	if r := s.Report("b", "50%"); !strings.Contains(strings.Join(r.Warnings, " "), "The control group has 200 sessions and should have about 300") {
		t.Errorf("got %q", r.Warnings)
	}
}

// TestOnlyReportedOutcomesCount: unknown and inferred outcomes do not count, and feedback replaces an outcome.
func TestOnlyReportedOutcomesCount(t *testing.T) {
	t.Parallel()
	var s Session
	e := &events.Execution{Control: &events.Control{Share: 50}}
	for _, o := range []events.Outcome{{}, {Label: events.Unknown}, {Label: events.Success, Inferred: true}, {Label: events.Partial}, {Score: 0.7}} {
		e.Outcome = o
		s.Add(e, 0)
	}
	if got, ok := s.value(score); !ok || got != 0.6 || s.runs[rated] != 5 {
		t.Errorf("got %v of %d runs, want 0.6 of 5", got, s.runs[rated])
	}
	s.Revise(events.Outcome{Label: events.Partial, Score: 0.5}, events.Outcome{Label: events.Failure})
	s.Revise(events.Outcome{}, events.Outcome{Label: events.Success, Score: 1, Inferred: true})
	if got, _ := s.value(score); got != 0.35 {
		t.Errorf("after feedback: got %v, want 0.35", got)
	}
	for name, c := range map[string]struct {
		e    events.Execution
		want bool
	}{
		"with an arm":   {events.Execution{Control: &events.Control{Share: 1}}, true},
		"without one":   {events.Execution{}, false},
		"invalid":       {events.Execution{Control: &events.Control{Share: 1000}}, false},
		"an evaluation": {events.Execution{Control: &events.Control{Share: 1}, Purpose: events.Evaluate}, false},
		"pinned":        {events.Execution{Control: &events.Control{Share: 1}, Pinned: true}, false},
	} {
		if got := Counts(&c.e); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
