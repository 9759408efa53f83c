package generator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/playbook"
)

// commitGate commits one version that sets the gate of playbook "b".
func (f *fixture) commitGate(mode playbook.Gate, ops ...playbook.Op) {
	f.Helper()
	w, err := f.store.Writer(f.Context(), "b")
	f.ok(err)
	_, err = w.Commit(f.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Covers: make([]playbook.Cover, 9), Gate: mode, Ops: slices.Clone(ops)}}, nil
	})
	f.ok(err)
	f.ok(w.Flush(f.Context()))
}

func add(n uint64, content string, status playbook.Status, standing playbook.Standing) playbook.Op {
	return playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: content, Status: status, Standing: standing}
}

// advice returns rules for orders by car, ship and train: one that is never in an experiment, two with this status and standing,
// and one candidate.
func advice(status playbook.Status, standing playbook.Standing) []playbook.Op {
	return []playbook.Op{
		add(1, "Cars: weigh the car twice.", playbook.Active, playbook.StandingKept),
		add(2, "Ships: count the ship masts.", status, standing),
		add(3, "Cars: a car needs a lorry permit.", status, standing),
		add(4, "Trains: couple the train waggons.", playbook.Candidate, standing),
	}
}

const (
	aboutCars  = "A car needs what? Car lorry permit, twice to weigh cars."
	aboutShips = "How many masts does the ship have? Count, and count ships."
)

// arm returns the experiment arm of a bullet, "" without an experiment.
func arm(m *events.Manifest, id playbook.BulletID) playbook.Arm {
	for _, x := range m.Exposures {
		if x.Bullet == id {
			return x.Arm
		}
	}
	return ""
}

// checkExposures checks that shown bullets, manifest parts and experiment arms agree.
func (f *fixture) checkExposures(name string, m *events.Manifest, shown []playbook.BulletID) {
	f.Helper()
	count := 0
	for _, p := range m.Parts {
		if p.Kind == events.PartBullet {
			count += p.Count
		}
	}
	if count != len(shown) {
		f.Errorf("%s: the manifest has %d bullets, shown %v", name, count, shown)
	}
	for _, x := range m.Exposures {
		if slices.Contains(shown, x.Bullet) != (x.Arm == playbook.ArmShown) {
			f.Errorf("%s: %s is %s, shown are %v", name, x.Bullet, x.Arm, shown)
		}
		withheld := slices.ContainsFunc(m.Omitted, func(l events.Omission) bool {
			return l.Why == "withheld by chance" && slices.Contains(l.Refs, string(x.Bullet))
		})
		if withheld != (x.Arm == playbook.ArmWithheld) {
			f.Errorf("%s: %s is %s, left out are %+v", name, x.Bullet, x.Arm, m.Omitted)
		}
	}
}

// A task shows the same bullets whenever it is repeated. Guard withholds one bullet from a half of the tasks. Strict shows the bullets
// on probation to a half of the tasks, and withholds one of them from a half of these. Evaluations have no experiments.
func TestBulletsAreShownToHalfOfTheTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	one, two, three := playbook.BulletID("misc-00001"), playbook.BulletID("misc-00002"), playbook.BulletID("misc-00003")
	for _, tt := range []struct {
		gate       playbook.Gate
		advice     []playbook.Op
		evaluation []playbook.BulletID // also of a task without an experiment
	}{
		{playbook.GateGuard, advice(playbook.Active, playbook.StandingSuspect), []playbook.BulletID{one, two, three}},
		{playbook.GateStrict, advice(playbook.Probation, playbook.StandingSuspect), []playbook.BulletID{one}},
	} {
		f := newFixture(t)
		f.commitGate(tt.gate, tt.advice...)
		m := new(echoModel)
		f.startWith(m, nil, Config{Recall: RecallNone}, testTimeouts)
		cb := f.newBuilder(nil, Config{Recall: RecallNone}, testTimeouts)
		const tasks = 60
		arms := map[playbook.Arm]int{}
		for n := range tasks {
			q := task("b", aboutShips)
			q.ID = fmt.Sprint("ship-", n)
			e, refused := f.answer(q)
			if refused != "" {
				t.Fatal(refused)
			}
			f.checkExposures(q.ID, e.Manifest, shown(e))
			want := []playbook.BulletID{one, two, three}
			drawn := arm(e.Manifest, two)
			switch drawn {
			case "":
				want = tt.evaluation
			case playbook.ArmWithheld:
				want = []playbook.BulletID{one, three}
			}
			arms[drawn]++
			// The other bullet on probation, or suspect, does not apply to ships.
			if len(e.Manifest.Exposures) > 1 || (drawn == "") != (len(e.Manifest.Exposures) == 0) || !slices.Equal(slices.Sorted(slices.Values(shown(e))), want) {
				t.Fatalf("%s: got %+v, shown %v, want %v", tt.gate, e.Manifest.Exposures, shown(e), want)
			}
			if text := chatText(m.last()); strings.Contains(text, "ship masts") != slices.Contains(want, two) || strings.Contains(text, "lorry permit") != slices.Contains(want, three) {
				t.Errorf("%s: shown %v in the prompt %q", tt.gate, want, text)
			}
			if n%15 > 0 {
				continue
			}
			again := task("b", aboutShips, 1) // a later round, at a pinned version
			again.ID, again.Origin.Round = q.ID, 1
			next, err := bustest.Must(New(new(echoModel), nil, Config{})).Answer(t.Context(), cb, again)
			f.ok(err)
			if !cmp.Equal(next.Manifest.Exposures, e.Manifest.Exposures) {
				t.Errorf("%s: the next round: got %+v, want %+v", tt.gate, next.Manifest.Exposures, e.Manifest.Exposures)
			}
			measured := task("b", aboutShips)
			measured.Purpose = events.Evaluate
			evaluated, refused := f.answer(measured)
			if refused != "" || len(evaluated.Manifest.Exposures) > 0 || !slices.Equal(slices.Sorted(slices.Values(shown(evaluated))), tt.evaluation) {
				t.Errorf("%s: evaluation: got %+v, shown %v, %s; want %v", tt.gate, evaluated.Manifest.Exposures, shown(evaluated), refused, tt.evaluation)
			}
		}
		least := map[playbook.Arm]int{playbook.ArmShown: 11, playbook.ArmWithheld: 11} // five standard deviations
		if tt.gate == playbook.GateStrict {
			least = map[playbook.Arm]int{"": 11, playbook.ArmShown: 1, playbook.ArmWithheld: 1}
		}
		for a := range least {
			if arms[a] < least[a] {
				t.Errorf("%s: got %v of %d tasks, want at least %v", tt.gate, arms, tasks, least)
			}
		}
		if len(arms) != len(least) {
			t.Errorf("%s: got %v, want the arms of %v", tt.gate, arms, least)
		}
	}
}

// A task that pins a version gets the bullets and the gate of that version.
func TestGateOfPinnedVersionApplies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	three := playbook.BulletID("misc-00003")
	status := func(s playbook.Status, standing playbook.Standing, restart bool) playbook.Op {
		return playbook.Op{Kind: playbook.SetStatus, Bullet: three, Status: s, Standing: standing, Restart: restart}
	}
	f.commitGate("", advice(playbook.Active, playbook.StandingSuspect)...)                                                      // 1
	f.commitGate(playbook.GateOff)                                                                                              // 2
	f.commitGate(playbook.GateStrict, status(playbook.Probation, playbook.StandingSuspect, true))                               // 3
	f.commitGate("", status(playbook.Active, playbook.StandingKept, false))                                                     // 4
	f.commitGate("", status(playbook.Probation, "suspect", true), playbook.Op{Kind: playbook.Pin, Bullet: three, Pinned: true}) // 5
	f.commitGate(playbook.GateGuard, playbook.Op{Kind: playbook.Pin, Bullet: three}, status(playbook.Active, "suspect", true))  // 6
	f.startWith(new(echoModel), nil, Config{Recall: RecallNone}, testTimeouts)
	const tasks = 12
	for v, number := range map[uint64]int{1: 1, 2: 0, 3: 2, 4: 0, 5: 0, 6: 4} { // of the experiment, 0 for none
		drawn := 0
		for n := range tasks {
			q := task("b", aboutCars, v)
			if q.ID = fmt.Sprintf("car-%d-%d", v, n); v == 6 && n%2 == 0 {
				q.Playbook = nil
			}
			e, refused := f.answer(q)
			if refused != "" || len(e.Manifest.Exposures) > min(number, 1) {
				t.Errorf("version %d: got %+v %s; want experiment %d", v, e.Manifest.Exposures, refused, number)
				continue
			}
			want := []playbook.BulletID{"misc-00001", "misc-00002", three}
			switch arm(e.Manifest, three) {
			case "":
				if v == 3 { // not a task of the bullets on probation
					want = slices.Delete(want, 2, 3)
				}
			case playbook.ArmWithheld:
				want = slices.Delete(want, 2, 3)
				fallthrough
			default:
				if drawn++; e.Manifest.Exposures[0].Experiment != number {
					t.Errorf("version %d: got %+v, want experiment %d", v, e.Manifest.Exposures, number)
				}
			}
			if got := slices.Sorted(slices.Values(shown(e))); !slices.Equal(got, want) {
				t.Errorf("version %d: got %v, want %v", v, got, want)
			}
			f.checkExposures(fmt.Sprint("version ", v), e.Manifest, shown(e))
		}
		if v != 3 && drawn != tasks*min(number, 1) || v == 3 && (drawn == 0 || drawn == tasks) {
			t.Errorf("version %d: %d of %d tasks are in an experiment", v, drawn, tasks)
		}
	}
}

// An index that follows the playbook changes with the gate, even without changed bullets.
func TestIndexFollowsGateChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateStrict, advice(playbook.Probation, playbook.StandingSuspect)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	for n, mode := range []playbook.Gate{playbook.GateStrict, playbook.GateGuard, playbook.GateStrict, playbook.GateOff} {
		if n > 0 {
			f.commitGate(mode)
		}
		reply := f.context(cb, &events.ContextRequest{Query: aboutShips, MinVersion: uint64(n + 1)})
		if n > 0 {
			b, err := cb.playbooks.get(t.Context(), "b")
			f.ok(err)
			f.ok(b.follower.Wait(t.Context(), uint64(n+1)))
		}
		drawn := 0
		for n := range 30 {
			reply = f.context(cb, &events.ContextRequest{Session: fmt.Sprint("s-", n), Query: aboutShips})
			if arm(&reply.Manifest, "misc-00002") != "" {
				drawn++
			}
		}
		if (drawn > 0) != (mode == playbook.GateStrict) || drawn == 30 {
			t.Errorf("%s at version %d: %d of 30 contexts are in an experiment", mode, reply.Version, drawn)
		}
	}
}

// An agent requests contexts and reports executions over NATS. Repeated requests in a turn get the same arms. A dry
// run has no experiment. The outcome counts for the bullet of the experiment and for the cited bullets.
func TestExperimentsOnServedContexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateGuard, advice(playbook.Active, playbook.StandingSuspect)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	stop, err := service.Serve(f.conn.NATS(), cb, zerolog.Nop(), nil)
	f.ok(err)
	t.Cleanup(stop)
	ask := func(verb string, request, reply any) {
		t.Helper()
		body, err := json.Marshal(request)
		f.ok(err)
		msg, err := f.conn.NATS().Request(events.ServiceSubject(verb, "b", ""), body, 10*time.Second)
		f.ok(err)
		if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
			t.Fatalf("%s: %s", code, msg.Header.Get("Nats-Service-Error"))
		}
		f.ok(json.Unmarshal(msg.Data, reply))
	}
	two, three := playbook.BulletID("misc-00002"), playbook.BulletID("misc-00003")
	arms := make(map[playbook.Arm]int)
	for n := range 40 {
		session := fmt.Sprint("s-", n)
		if n >= 20 {
			session = ""
		}
		var first, second, look events.ContextReply
		ask(events.VerbContext, &events.ContextRequest{Session: session, Query: aboutShips}, &first)
		ask(events.VerbContext, &events.ContextRequest{Session: session, Query: aboutShips, Steps: []events.Step{{Speaker: "assistant", Text: "I look."}}}, &second)
		ask(events.VerbContext, &events.ContextRequest{Session: session, Query: aboutShips, DryRun: true}, &look)
		if session != "" && !cmp.Equal(first.Manifest.Exposures, second.Manifest.Exposures) {
			t.Errorf("second request in a turn: got %+v, then %+v", first.Manifest.Exposures, second.Manifest.Exposures)
		}
		if len(look.Manifest.Exposures) > 0 || len(look.Shown) != 3 {
			t.Errorf("dry run: got %+v, shown %v", look.Manifest.Exposures, look.Shown)
		}
		var stored events.StoredReply
		ask(events.VerbReport, &events.Report{ContextID: first.ID, Answer: "three", Cited: []playbook.BulletID{two, three, "misc-00099"}}, &stored)
		e := f.readExecution(stored.Handle)
		if !cmp.Equal(e.Manifest.Exposures, first.Manifest.Exposures) || len(e.Manifest.Exposures) != 1 {
			t.Fatalf("got %+v, the context had %+v", e.Manifest.Exposures, first.Manifest.Exposures)
		}
		f.checkExposures("the execution", e.Manifest, shown(e))
		drawn := arm(e.Manifest, two)
		want := []events.Exposure{
			{Bullet: two, Experiment: 1, Arm: drawn, Cited: drawn == playbook.ArmShown, Wording: e.Manifest.Exposures[0].Wording},
			{Bullet: three, Experiment: 1, Arm: playbook.ArmOpen, Cited: true},
		}
		if d := cmp.Diff(want, e.Exposures()); d != "" {
			t.Errorf("exposures, -want +got: %s", d)
		}
		if hasWording := want[0].Wording != 0; hasWording != (drawn == playbook.ArmWithheld) {
			t.Errorf("arm %s: got the wording %d, want one of a withheld bullet only", drawn, want[0].Wording)
		}
		if r := f.rebuild(cb, stored.Handle); !r.Verified || !cmp.Equal(r.Manifest.Exposures, first.Manifest.Exposures) {
			t.Errorf("rebuilt: got %q, missing %v, exposures %+v", r.Reasons, r.Missing, r.Manifest.Exposures)
		}
		arms[drawn]++
	}
	if arms[playbook.ArmShown] < 5 || arms[playbook.ArmWithheld] < 5 {
		t.Errorf("got %v of 40", arms)
	}
	next := f.context(cb, &events.ContextRequest{Session: "s-0", Query: aboutShips})
	if next.Turn != 2 || len(next.Manifest.Exposures) != 1 {
		t.Errorf("the next turn: got turn %d, %+v", next.Turn, next.Manifest.Exposures)
	}
}

// TestExperimentsOnAdvice: a conversation keeps the advice of earlier turns, so the arms of a bullet are those of the session. The gateway
// takes earlier advice out of its calls; each of its contexts has arms of its own.
func TestExperimentsOnAdvice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateGuard, advice(playbook.Active, playbook.StandingSuspect)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	arms := make(map[playbook.Arm]int)
	for n := range 30 {
		request := &events.ContextRequest{Session: fmt.Sprint("s-", n), Query: aboutShips, Advice: true}
		first := f.context(cb, request)
		if len(first.Manifest.Exposures) != 1 {
			t.Fatalf("got %+v, want one experiment", first.Manifest.Exposures)
		}
		for range 4 {
			if again := f.context(cb, request); !cmp.Equal(again.Manifest.Exposures, first.Manifest.Exposures) {
				t.Fatalf("session %d: got %+v, then %+v", n, first.Manifest.Exposures, again.Manifest.Exposures)
			}
		}
		arms[first.Manifest.Exposures[0].Arm]++
	}
	if arms[playbook.ArmShown] < 4 || arms[playbook.ArmWithheld] < 4 {
		t.Errorf("got %v of 30 sessions, want both arms", arms)
	}
}

// The bullet was removed since: it is in the rebuilt context if it was shown, and not if it was withheld.
func TestRebuildContextWithExperiment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateGuard, advice(playbook.Active, playbook.StandingSuspect)...)
	f.startWith(new(echoModel), nil, Config{}, testTimeouts)
	executions := make(map[playbook.Arm]*events.Execution)
	for n := 0; len(executions) < 2 && n < 50; n++ {
		q := task("b", aboutCars)
		q.ID = fmt.Sprint("car-", n)
		e, refused := f.answer(q)
		if refused != "" || len(e.Manifest.Exposures) != 1 {
			t.Fatalf("got %+v %s", e, refused)
		}
		executions[arm(e.Manifest, "misc-00003")] = e
	}
	f.commitGate(playbook.GateOff, playbook.Op{Kind: playbook.Remove, Bullet: "misc-00003"})
	cb := f.newBuilder(nil, Config{Recall: RecallNone}, testTimeouts)
	for _, a := range []playbook.Arm{playbook.ArmShown, playbook.ArmWithheld} {
		r := f.rebuild(cb, f.handleOf(executions[a].ID))
		if !r.Verified || strings.Contains(chatText(r.Messages), "needs a lorry permit") != (a == playbook.ArmShown) {
			t.Errorf("%s: got %q, missing %v, %q", a, r.Reasons, r.Missing, chatText(r.Messages))
		}
	}
}

// helped returns a delta in which tasks with this question cited a bullet with success.
func helped(id playbook.BulletID, question string, tasks int) *playbook.Delta {
	d := new(playbook.Delta)
	op := playbook.Op{Kind: playbook.Tag, Bullet: id, Helpful: tasks}
	for n := range tasks {
		sample := fmt.Sprintf("%s %s %d", id, question, n)
		d.Covers = append(d.Covers, playbook.Cover{ID: sample, Seq: 1, Evidence: &playbook.Evidence{Execution: "1-00000000", Sample: sample, Excerpt: question}})
		op.Support = append(op.Support, n)
	}
	d.Ops = []playbook.Op{op}
	return d
}

// failed returns a delta in which tasks with this question cited a bullet and failed.
func failed(id playbook.BulletID, question string, tasks int) *playbook.Delta {
	d := helped(id, question, tasks)
	d.Ops[0] = playbook.Op{Kind: playbook.AddExposures, Bullet: id, Support: d.Ops[0].Support}
	for range tasks {
		d.Ops[0].Exposures = append(d.Ops[0].Exposures, playbook.Exposure{Arm: playbook.ArmOpen, Cited: true})
	}
	return d
}

// A bullet applies by past tasks, or while it is new, by its words.
func TestApplicableBullets(t *testing.T) {
	t.Parallel()
	content := map[playbook.BulletID]string{
		"voted": "Give five percent.", "elsewhere": "Ships have masts, count the masts of ships.", "new": "Ships: paint the ship.",
		"harmful": "Always answer two.", "unrelated": "Bake bread slowly.", "far": "Ships.",
	}
	var bullets []*playbook.Bullet
	for id, c := range content {
		bullets = append(bullets, &playbook.Bullet{ID: id, Section: "others", Content: c})
	}
	for n := range 5 { // nearer by words
		bullets = append(bullets, &playbook.Bullet{ID: playbook.MintID("others", uint64(n+1)), Section: "others", Content: fmt.Sprintf("How many masts does ship %d have?", n)})
	}
	p := playbook.Restore(1, 0, slices.Values(bullets))
	ix := newPlaybookIndex(new(embeddingCache), false, 0)
	ix.update(p)
	tasks := newTaskEvidence(nil, "b")
	tasks.index.applyDelta(helped("voted", "How many masts does the frigate have?", minTasks))
	tasks.index.applyDelta(helped("elsewhere", "What is the price of bread?", minTasks))
	tasks.index.applyDelta(failed("harmful", "How many masts does the sloop have?", minTasks))
	got := ix.applicable(&queryEmbedding{text: "How many masts does the ship have?"}, tasks)
	for id, want := range map[playbook.BulletID]bool{"voted": true, "harmful": true, "elsewhere": false, "unrelated": false, "far": false} {
		if slices.Contains(got, id) != want {
			t.Errorf("%s: applies: %t, want %t; got %v", id, !want, want, got)
		}
	}
	if len(got) != 5 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 5 {
		t.Errorf("got %v, want two by past tasks and three by words", got)
	}
	select {
	case <-tasks.wanted:
	default:
		t.Error("the past tasks are not being read")
	}
}

// The experiments of a pinned version do not depend on past tasks or the name of the book, so that a repeated run has the same
// prompts.
func TestPinnedVersionDrawsWithoutPastTasks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate("", add(1, "Ships: count the ship masts.", playbook.Active, playbook.StandingSuspect), add(2, "Give five percent.", playbook.Active, playbook.StandingSuspect))
	w, err := f.store.Writer(f.Context(), "b")
	f.ok(err)
	_, err = w.Commit(f.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{helped("misc-00002", aboutShips, minTasks)}, nil
	})
	f.ok(err)
	f.ok(w.Flush(f.Context()))
	cb := newBuilder(f.conn, nil, Config{Recall: RecallNone}, testTimeouts)
	t.Cleanup(cb.Close)
	cb.WaitLoaded(f.Context(), "b", 10*time.Second)
	for n := range 10 {
		q := task("b", aboutShips, 2)
		q.ID = fmt.Sprint("ship-", n)
		e, err := bustest.Must(New(new(echoModel), nil, Config{})).Answer(t.Context(), cb, q)
		f.ok(err)
		if arm(e.Manifest, "misc-00001") == "" || arm(e.Manifest, "misc-00002") != "" {
			t.Errorf("got %+v, want an experiment with the bullet that has the words", e.Manifest.Exposures)
		}
	}
}
