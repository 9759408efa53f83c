package generator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/generator/prompt/assembly"
	"debrief/playbook"
	"debrief/playbook/admit"
)

// saltFor returns a salt with which a session of the common owner is in the control group of playbook "b", or is not.
func saltFor(session string, share playbook.Share, held bool) []byte {
	for i := 0; ; i++ {
		a := playbook.Admission{ControlSalt: fmt.Append(nil, i)}
		if a.InControl("b", "", session, share) == held {
			return a.ControlSalt
		}
	}
}

// task answers a task and returns what the model received.
func (f *fixture) task(cb *ContextBuilder, change func(*events.Task)) (prompt string, e *events.Execution) {
	f.Helper()
	m := new(echoModel)
	t := &events.Task{Book: "b", ID: string(events.NewID()), Session: "s", Question: shipQuestion, Created: time.Now()}
	change(t)
	e, err := bustest.Must(New(m, nil, Config{})).Answer(f.Context(), cb, t)
	f.ok(err)
	return chatText(m.last()), e
}

// TestControlGroupGetsNoLearnedText reads what a model receives in the session of a reflection, by its arm. History stays: the turns of
// the session, and the reflection on the earlier round of the task itself.
func TestControlGroupGetsNoLearnedText(t *testing.T) {
	t.Parallel()
	const roundAdvice = "look below deck first"
	learned := []string{shipBullet, shipInsight, shipError, shipApproach, shipRecord}
	round := []events.PreviousRound{{Execution: events.Hash("round"), Answer: "four", Approach: roundAdvice}}
	for name, held := range map[string]bool{"in the control group": true, "with advice": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := playbook.MintID("others", 9)
			f.commitDelta(playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: id, Section: "others", Content: shipBullet}, {Kind: playbook.Pin, Bullet: id}}})
			cb := f.newBuilder(nil, Config{Recall: RecallNone}, testTimeouts) // a recalled run would be there without its records
			f.storeReflection(cb, nil)
			version := f.commitDelta(playbook.Delta{Control: "25%", ControlSalt: saltFor("s", "25%", held)})
			f.awaitVersion(cb, version)
			want := &events.Control{Held: held, Share: 250}
			prompts := map[string]string{}
			check := func(name, prompt string, shown []events.ShownBullet, m *events.Manifest, got *events.Control) {
				prompts[name] = prompt
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: arm -want +got:\n%s", name, diff)
				}
				if held && len(shown)+len(m.Exposures) > 0 {
					t.Errorf("%s: shown %v, exposures %v", name, shown, m.Exposures)
				}
			}
			prompt, e := f.task(cb, func(t *events.Task) { t.PreviousRounds, t.Origin.Round = round, 1 })
			check("task", prompt, e.Shown, e.Manifest, e.Control)
			if !strings.Contains(prompt, roundAdvice) || e.ReportedByAgent() {
				t.Errorf("the reflection on the earlier round of the task is missing: %s", prompt)
			}
			for name, r := range map[string]*events.ContextRequest{
				"context":               {Session: "s", Window: "1"},
				"advice of the gateway": {Session: "s", Advice: true},
				"context of a run":      {RunID: "s"},
			} {
				r.Query = shipQuestion
				reply := f.context(cb, r)
				check(name, chatText(reply.Messages), reply.Shown, &reply.Manifest, reply.Control)
				if (len(reply.Messages) == 0) != (held && r.Advice) {
					t.Errorf("%s: got %d messages", name, len(reply.Messages))
				}
			}
			for name, r := range map[string]*events.ContextRequest{"dry run": {DryRun: true}, "pinned version": {Playbook: &version}} {
				r.Query, r.Session = shipQuestion, "s"
				reply := f.context(cb, r)
				prompts[name] = chatText(reply.Messages)
				if reply.Control != nil {
					t.Errorf("%s: counted in arm %+v", name, reply.Control)
				}
			}
			if !strings.Contains(prompts["context"], "a bowsprit") {
				t.Errorf("the turn of the session is missing: %s", prompts["context"])
			}
			for name, prompt := range prompts {
				for _, text := range learned {
					if held && strings.Contains(prompt, text) {
						t.Errorf("%s: learned text in the control group: %s", name, text)
					}
				}
				if !held && !strings.Contains(prompt, shipBullet) {
					t.Errorf("%s: the bullet is missing", name)
				}
			}
			cb.admit = func(admit.Text) admit.Decision { return admit.Decision{Verdict: admit.Shown} }
			if prompt, _ := f.task(cb, func(*events.Task) {}); !strings.Contains(prompt, shipBullet) || !strings.Contains(prompt, shipInsight) {
				t.Error("control: without admission the prompts are the same")
			}
		})
	}
}

// TestControlIsKept: a session keeps arm and share in another process, and when a person changes the share or switches it off and on. A
// run without a session is a session of its own, also in its later rounds.
func TestControlIsKept(t *testing.T) {
	t.Parallel()
	a, b := newFixturePair(t)
	salt := saltFor("s", "1%", true)
	v := a.commitDelta(playbook.Delta{Ops: bullet(1, 0), Control: "1%", ControlSalt: salt})
	first, second := a.newBuilder(nil, Config{}, testTimeouts), b.newBuilder(nil, Config{}, testTimeouts)
	arm := func(f *fixture, cb *ContextBuilder, session string) string {
		f.awaitVersion(cb, v)
		c := f.context(cb, &events.ContextRequest{Query: "When?", Session: session}).Control
		if c == nil {
			return "none"
		}
		return fmt.Sprint(*c)
	}
	held, advised := fmt.Sprint(events.Control{Held: true, Share: 10}), fmt.Sprint(events.Control{Share: 10})
	var other string // enters the control group with 50%
	for i := 0; other == ""; i++ {
		name := fmt.Sprint("t", i)
		a := playbook.Admission{ControlSalt: salt}
		if a.InControl("b", "", name, "50%") && !a.InControl("b", "", name, "1%") {
			other = name
		}
	}
	if got := arm(a, first, "s") + arm(a, first, other); got != held+advised {
		t.Errorf("the first contexts: got %s", got)
	}
	for _, share := range []playbook.Share{"50%", "0.1%", playbook.ShareOff, "50%"} {
		v = a.commitDelta(playbook.Delta{Control: share})
		want := held + advised
		if share == playbook.ShareOff {
			want = "nonenone"
		}
		if got := arm(b, second, "s") + arm(b, second, other); got != want {
			t.Errorf("share %s in another process: got %s, want %s", share, got, want)
		}
	}
	if got := arm(b, second, other+" of another name"); !strings.HasSuffix(got, "500}") {
		t.Errorf("a new session: got %s, want the new share", got)
	}
	run := string(events.NewID())
	_, e1 := a.task(first, func(t *events.Task) { t.ID, t.Session = run, "" })
	named := a.context(first, &events.ContextRequest{Query: "When?", RunID: run + " of an agent"}).Control
	v = a.commitDelta(playbook.Delta{Control: "0.1%"})
	b.awaitVersion(second, v)
	_, e2 := b.task(second, func(t *events.Task) { t.ID, t.Session, t.Origin.Round = run, "", 1 })
	if e1.Control == nil || !cmp.Equal(e1.Control, e2.Control) {
		t.Errorf("two rounds of a run: got %+v and %+v", e1.Control, e2.Control)
	}
	subAgent := b.context(second, &events.ContextRequest{Query: "Who?", RunID: run + " of an agent"}).Control
	if named == nil || !cmp.Equal(named, subAgent) {
		t.Errorf("a run without a session and its sub-agent: got %+v and %+v", named, subAgent)
	}
}

// TestControlOfManyRuns: of the runs without a session, the share is in the control group.
func TestControlOfManyRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.awaitVersion(f.newBuilder(nil, Config{}, testTimeouts), f.commitDelta(playbook.Delta{Ops: bullet(1, 0), Control: "10%", ControlSalt: []byte("salt")}))
	cb := f.newBuilder(nil, Config{Limits: assembly.Limits{Reflections: -1}}, testTimeouts)
	const n = 1000
	held := 0
	for range n {
		if c := f.context(cb, &events.ContextRequest{Query: "When?", Unstored: true}).Control; c != nil && c.Held {
			held++
		}
	}
	if held < 60 || held > 140 { // 4 standard deviations
		t.Errorf("%d of %d runs in the control group, want about %d", held, n, n/10)
	}
}

// TestExcludedFromControl: these runs have no arm, and get advice.
func TestExcludedFromControl(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	version := f.commitDelta(playbook.Delta{Ops: bullet(1, 0)})
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	task := func(change func(*events.Task)) func() (string, *events.Control) {
		return func() (string, *events.Control) {
			prompt, e := f.task(cb, change)
			return prompt, e.Control
		}
	}
	context := func(r events.ContextRequest) func() (string, *events.Control) {
		return func() (string, *events.Control) {
			r.Query, r.Session = shipQuestion, "s"
			reply := f.context(cb, &r)
			return chatText(reply.Messages), reply.Control
		}
	}
	for share, excluded := range map[playbook.Share]map[string]func() (string, *events.Control){
		playbook.ShareOff: {"share off: a task": task(func(*events.Task) {}), "share off: a context": context(events.ContextRequest{})},
		"50%": {
			"evaluation":                       task(func(t *events.Task) { t.Purpose = events.Evaluate }),
			"training":                         task(func(t *events.Task) { t.Origin.Run = "r" }),
			"a pinned run":                     task(func(t *events.Task) { t.Session, t.Playbook = "", &version }),
			"a caller with the scope operate":  context(events.ContextRequest{Caller: events.Caller{Uncontrolled: true}}),
			"the same for advice, in a header": context(events.ContextRequest{Caller: events.Caller{Uncontrolled: true}, Advice: true}),
		},
	} {
		f.awaitVersion(cb, f.commitDelta(playbook.Delta{Control: share, ControlSalt: saltFor("s", "50%", true)}))
		for name, ask := range excluded {
			if prompt, arm := ask(); arm != nil || !strings.Contains(prompt, "advice 1") {
				t.Errorf("%s: got arm %+v and prompt %s", name, arm, prompt)
			}
		}
	}
}

// TestControlOfReports: a report has the arm of its context, and without one that of its session. The session of a report that no context
// was served for has none.
func TestControlOfReports(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.awaitVersion(cb, f.commitDelta(playbook.Delta{Ops: bullet(1, 0), Control: "50%", ControlSalt: saltFor("s", "50%", true)}))
	hostile := "s/*.> \u202e" + strings.Repeat("long", 200)
	arm := func(r events.Report) *events.Control {
		r.Book, r.Question, r.Answer = "b", "When?", "now"
		if r.RunID == "" {
			r.RunID = string(events.NewID())
		}
		stored, err := cb.Report(t.Context(), &r)
		f.ok(err)
		return f.readExecution(stored.Handle).Control
	}
	if got := arm(events.Report{Session: "s"}); got != nil {
		t.Errorf("a session without a context: got %+v", got)
	}
	run := f.context(cb, &events.ContextRequest{Query: "When?", RunID: "r"}).Control
	if got := arm(events.Report{RunID: "r"}); run == nil || !cmp.Equal(got, run) {
		t.Errorf("a run without a session, whose report names no context: got %+v, want %+v", got, run)
	}
	for _, session := range []string{"s", hostile} {
		reply := f.context(cb, &events.ContextRequest{Query: "When?", Session: session})
		free := f.context(cb, &events.ContextRequest{Query: "When?", Session: session, Caller: events.Caller{Uncontrolled: true}})
		for name, test := range map[string]struct {
			report events.Report
			want   *events.Control
		}{
			"of its context":                {events.Report{ContextID: reply.ID}, reply.Control},
			"of the session":                {events.Report{Session: session}, reply.Control},
			"of a context without an arm":   {events.Report{ContextID: free.ID, Session: session}, nil},
			"evaluation":                    {events.Report{ContextID: reply.ID, Purpose: events.Evaluate}, nil},
			"of another owner":              {events.Report{Session: session, Caller: events.Caller{Owner: string(events.Hash("o"))}}, nil},
			"of an unknown session":         {events.Report{Session: session + "t"}, nil},
			"of a run of the same owner":    {events.Report{}, nil},
			"begun before the arm":          {events.Report{Session: session, Started: time.Now().Add(-time.Hour)}, nil},
			"begun since then":              {events.Report{Session: session, Started: time.Now()}, reply.Control},
			"of a context of its own owner": {events.Report{ContextID: reply.ID, Caller: events.Caller{Owner: string(events.Hash("o"))}}, nil},
		} {
			if diff := cmp.Diff(test.want, arm(test.report)); diff != "" {
				t.Errorf("session %.8q, %s: -want +got:\n%s", session, name, diff)
			}
		}
		if reply.Control == nil {
			t.Errorf("session %.8q has no arm", session)
		}
	}
	f.awaitVersion(cb, f.commitDelta(playbook.Delta{Control: playbook.ShareOff}))
	if got := arm(events.Report{Session: "s"}); got != nil {
		t.Errorf("with the share off: got %+v", got)
	}
}

// TestControlRecallsItsSessionOnly: with recall from the whole playbook, a control group does not see other sessions, which had advice.
func TestControlRecallsItsSessionOnly(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"in the control group": true, "with advice": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.commitDelta(playbook.Delta{Ops: bullet(1, 0), Control: "50%", ControlSalt: saltFor("s", "50%", held)})
			_, r := f.storeExecution("elsewhere", shipQuestion, "three masts, as [others-00001] says")
			cb := f.newBuilder(nil, Config{Recall: RecallBook}, testTimeouts)
			f.waitRead(cb, r)
			reply := f.context(cb, &events.ContextRequest{Query: shipQuestion, Session: "s", System: "You count."})
			if got := strings.Contains(chatText(reply.Messages), "three masts"); got == held {
				t.Errorf("recalled: %t in %s", got, chatText(reply.Messages))
			}
		})
	}
}
