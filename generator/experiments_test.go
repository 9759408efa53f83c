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
	"debrief/events/deltalog"
	"debrief/events/service"
	"debrief/generator/prompt/selection"
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

func add(n uint64, content string, status playbook.Status, share int) playbook.Op {
	return playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: content, Status: status, Share: share}
}

// advice returns rules for orders by car, ship and train: one active, two on probation, one candidate.
func advice(share int) []playbook.Op {
	return []playbook.Op{
		add(1, "Cars: weigh the car twice.", playbook.Active, 0),
		add(2, "Ships: count the ship masts.", playbook.Probation, share),
		add(3, "Cars: a car needs a lorry permit.", playbook.Probation, share),
		add(4, "Trains: couple the train waggons.", playbook.Candidate, 0),
	}
}

const (
	aboutCars  = "A car needs what? Car lorry permit, twice to weigh cars."
	aboutShips = "How many masts does the ship have? Count, and count ships."
)

// arm returns the experiment arm of a bullet, "" without an experiment.
func arm(m *events.Manifest, id playbook.BulletID) playbook.Arm {
	for _, t := range m.Exposures {
		if t.Bullet == id {
			return t.Arm
		}
	}
	return ""
}

// checkTrials checks that shown bullets, manifest parts and experiment arms agree.
func (f *fixture) checkTrials(name string, m *events.Manifest, shown []playbook.BulletID) {
	f.Helper()
	var parts []playbook.BulletID
	for _, p := range m.Parts {
		if p.Kind == events.PartBullet {
			parts = append(parts, playbook.BulletID(p.Ref))
		}
	}
	if !slices.Equal(parts, shown) {
		f.Errorf("%s: parts %v, shown %v", name, parts, shown)
	}
	for _, t := range m.Exposures {
		if slices.Contains(shown, t.Bullet) != (t.Arm != playbook.ArmWithheld) {
			f.Errorf("%s: %s is %s, shown are %v", name, t.Bullet, t.Arm, shown)
		}
		withheld := slices.ContainsFunc(m.Omitted, func(l events.Omission) bool {
			return l.Why == "withheld by chance" && slices.Contains(l.Refs, string(t.Bullet))
		})
		if withheld != (t.Arm == playbook.ArmWithheld) {
			f.Errorf("%s: %s is %s, left out are %+v", name, t.Bullet, t.Arm, m.Omitted)
		}
	}
}

// A task shows the same bullets whenever it is repeated. Tasks for evaluation never show bullets on probation.
func TestProbationBulletsAreShownToShareOfTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateOn, advice(30)...)
	m := new(echoModel)
	f.startWith(m, nil, Config{Recall: RecallNone}, testTimeouts)
	cb := f.newBuilder(nil, Config{Recall: RecallNone}, testTimeouts)
	const tasks = 150
	shownTo := 0
	for n := range tasks {
		q := task("b", aboutShips)
		q.ID = fmt.Sprint("ship-", n)
		e, refused := f.answer(q)
		if refused != "" {
			t.Fatal(refused)
		}
		f.checkTrials(q.ID, e.Manifest, shown(e))
		inPrompt := strings.Contains(chatText(m.last()), "ship masts")
		switch arm(e.Manifest, "misc-00002") {
		case playbook.ArmShown:
			shownTo++
			if !inPrompt {
				t.Error("shown, but not in the prompt")
			}
		case playbook.ArmWithheld:
			if inPrompt {
				t.Error("withheld, but in the prompt")
			}
		default:
			t.Fatalf("got trials %+v", e.Manifest.Exposures)
		}
		if arm(e.Manifest, "misc-00001") != "" || arm(e.Manifest, "misc-00003") != "" || slices.Contains(shown(e), "misc-00003") || !slices.Contains(shown(e), "misc-00001") {
			t.Fatalf("bullet about cars shown: %v, or in an experiment: %+v", shown(e), e.Manifest.Exposures)
		}
		if n%15 > 0 {
			continue
		}
		again := task("b", aboutShips, 1) // a later round, at a pinned version
		again.ID, again.Origin.Round = q.ID, 1
		next, err := New(new(echoModel), nil, Config{}).Answer(t.Context(), cb, again)
		f.ok(err)
		if !cmp.Equal(next.Manifest.Exposures, e.Manifest.Exposures) {
			t.Errorf("the next round: got %+v, want %+v", next.Manifest.Exposures, e.Manifest.Exposures)
		}
		measured := task("b", aboutShips)
		measured.Purpose = events.Evaluate
		f, refused := f.answer(measured)
		if refused != "" || len(f.Manifest.Exposures) > 0 || !slices.Equal(shown(f), []playbook.BulletID{"misc-00001"}) {
			t.Errorf("evaluation: got %+v, shown %v, %s; want the active bullet only", f.Manifest.Exposures, shown(f), refused)
		}
	}
	// Five standard deviations around 45.
	if shownTo < 17 || shownTo > 73 {
		t.Errorf("shown to %d of %d tasks, want about 30 %%", shownTo, tasks)
	}
}

// A task that pins a version gets the bullets and the gate of that version.
func TestGateOfPinnedVersionApplies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate("", advice(100)...)                                                                                                                                                         // 1
	f.commitGate(playbook.GateOn)                                                                                                                                                            // 2
	f.commitGate("", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: playbook.Probation, Share: 100})                                                                    // 3
	f.commitGate("", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: playbook.Active})                                                                                   // 4
	f.commitGate("", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: playbook.Probation, Share: 1}, playbook.Op{Kind: playbook.Pin, Bullet: "misc-00003", Pinned: true}) // 5
	f.commitGate(playbook.GateOff)                                                                                                                                                           // 6
	f.startWith(new(echoModel), nil, Config{Recall: RecallNone}, testTimeouts)
	one, three := playbook.BulletID("misc-00001"), playbook.BulletID("misc-00003")
	open := events.Exposure{Bullet: one, Arm: playbook.ArmOpen}
	for v, want := range map[uint64]struct {
		shown  []playbook.BulletID
		trials []events.Exposure
	}{
		1: {[]playbook.BulletID{one}, []events.Exposure{open}},
		2: {[]playbook.BulletID{one, three}, []events.Exposure{{Bullet: three, Experiment: 1, Arm: playbook.ArmShown}, open}},
		3: {[]playbook.BulletID{one, three}, []events.Exposure{{Bullet: three, Experiment: 2, Arm: playbook.ArmShown}, open}},
		4: {[]playbook.BulletID{one, three}, []events.Exposure{open, {Bullet: three, Experiment: 2, Arm: playbook.ArmOpen}}},
		5: {[]playbook.BulletID{one, three}, []events.Exposure{open, {Bullet: three, Experiment: 3, Arm: playbook.ArmOpen}}},
		6: {[]playbook.BulletID{one}, nil},
	} {
		for _, q := range []*events.Task{task("b", aboutCars, v), task("b", aboutCars)} {
			if q.Playbook == nil && v != 6 {
				continue
			}
			e, refused := f.answer(q)
			if refused != "" || !slices.Equal(slices.Sorted(slices.Values(shown(e))), want.shown) || !cmp.Equal(e.Manifest.Exposures, want.trials) {
				t.Errorf("version %d: got %v, %+v %s; want %v, %+v", v, shown(e), e.Manifest.Exposures, refused, want.shown, want.trials)
				continue
			}
			f.checkTrials(fmt.Sprint("version ", v), e.Manifest, shown(e))
		}
	}
}

// An index that follows the playbook changes with the gate, even without changed bullets.
func TestIndexFollowsGateChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateOn, advice(100)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	for n, mode := range []playbook.Gate{playbook.GateOn, playbook.GateShadow, playbook.GateOn, playbook.GateOff} {
		if n > 0 {
			f.commitGate(mode)
		}
		reply := f.context(cb, &events.ContextRequest{Query: aboutShips, MinVersion: uint64(n + 1)})
		if n > 0 {
			b, err := cb.playbooks.get(t.Context(), "b", nil)
			f.ok(err)
			f.ok(b.follower.Wait(t.Context(), uint64(n+1)))
			reply = f.context(cb, &events.ContextRequest{Query: aboutShips})
		}
		want := playbook.Arm("")
		if mode == playbook.GateOn {
			want = playbook.ArmShown
		}
		if got := arm(&reply.Manifest, "misc-00002"); got != want {
			t.Errorf("%s at version %d: got %q, want %q", mode, reply.Version, got, want)
		}
	}
}

// An agent requests contexts and reports executions over NATS. Repeated requests in a turn get the same arms. A dry
// run has no experiment.
func TestExperimentsOnServedContexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateOn, advice(50)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	stop, err := service.Serve(f.conn.NATS(), cb, zerolog.Nop(), nil)
	f.ok(err)
	t.Cleanup(stop)
	ask := func(verb string, request, reply any) {
		t.Helper()
		body, err := json.Marshal(request)
		f.ok(err)
		msg, err := f.conn.NATS().Request(events.ServiceSubject(verb, "b"), body, 10*time.Second)
		f.ok(err)
		if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
			t.Fatalf("%s: %s", code, msg.Header.Get("Nats-Service-Error"))
		}
		f.ok(json.Unmarshal(msg.Data, reply))
	}
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
		if len(look.Manifest.Exposures) > 0 || len(look.Shown) != 1 {
			t.Errorf("dry run: got %+v, shown %v", look.Manifest.Exposures, look.Shown)
		}
		var stored events.StoredReply
		ask(events.VerbReport, &events.Report{ContextID: first.ID, Answer: "three"}, &stored)
		e := f.readExecution(stored.Handle)
		if !cmp.Equal(e.Manifest.Exposures, first.Manifest.Exposures) || len(e.Manifest.Exposures) != 1 {
			t.Fatalf("got %+v, the context had %+v", e.Manifest.Exposures, first.Manifest.Exposures)
		}
		f.checkTrials("the execution", e.Manifest, shown(e))
		if r := f.rebuild(cb, stored.Handle); !r.Verified || !cmp.Equal(r.Manifest.Exposures, first.Manifest.Exposures) {
			t.Errorf("rebuilt: got %q, missing %v, trials %+v", r.Reasons, r.Missing, r.Manifest.Exposures)
		}
		arms[arm(e.Manifest, "misc-00002")]++
	}
	if arms[playbook.ArmShown] < 5 || arms[playbook.ArmWithheld] < 5 {
		t.Errorf("got %v of 40", arms)
	}
	next := f.context(cb, &events.ContextRequest{Session: "s-0", Query: aboutShips})
	if next.Turn != 2 || len(next.Manifest.Exposures) != 1 {
		t.Errorf("the next turn: got turn %d, %+v", next.Turn, next.Manifest.Exposures)
	}
}

// Both bullets were removed since: the shown one is in the rebuilt context, the withheld one is not.
func TestRebuildContextWithExperiment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commitGate(playbook.GateOn, append(advice(100), add(5, "Cars: the permit is in the lorry of the car.", playbook.Probation, 0))...)
	f.startWith(new(echoModel), nil, Config{}, testTimeouts)
	q := task("b", aboutCars)
	e, refused := f.answer(q)
	if refused != "" || arm(e.Manifest, "misc-00003") != playbook.ArmShown || arm(e.Manifest, "misc-00005") != playbook.ArmWithheld {
		t.Fatalf("got %+v %s", e.Manifest.Exposures, refused)
	}
	f.commitGate(playbook.GateOff, playbook.Op{Kind: playbook.Remove, Bullet: "misc-00003"}, playbook.Op{Kind: playbook.Remove, Bullet: "misc-00005"})
	cb := f.newBuilder(nil, Config{Recall: RecallNone}, testTimeouts)
	if r := f.rebuild(cb, f.handleOf(e.ID)); !r.Verified || !strings.Contains(chatText(r.Messages), "lorry permit") || strings.Contains(chatText(r.Messages), "in the lorry") {
		t.Errorf("got %q, missing %v, %q", r.Reasons, r.Missing, chatText(r.Messages))
	}
}

// The distinctive words of the rule are in no query, so it does not apply by its words alone. After many requests it
// applies to the nearest query. After enough experiments it does not apply any more.
func TestFrequentlyRequestedBulletIsApplicable(t *testing.T) {
	t.Parallel()
	var band, tier playbook.Bullet
	for i, b := range []*playbook.Bullet{&band, &tier} {
		*b = playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Section: "others", Status: playbook.Probation}
	}
	band.Content = "For volume band B the discount is 2 % of the list price."
	tier.Content = "For customer tier gold the discount is 5 % of the amount."
	about := "Volume band: B. Customer tier: gold. Which discount, and which amount?"
	other := "Customer tier: gold. Which discount, and which amount?"
	tried := func(asks, tries int) (here, elsewhere bool) {
		b := band
		b.Experiment = &playbook.Experiment{Number: 1, Share: 50, Confirmations: asks}
		b.Experiment.Shown[10] = tries
		ix := newPlaybookIndex(new(embeddingCache), false, 0)
		book := playbook.Restore(1, 0, slices.Values([]*playbook.Bullet{&b, &tier}))
		book.SetGate(playbook.GateOn)
		ix.update(book)
		return ix.applicability(about)(&b) >= selection.MinApplicability, ix.applicability(other)(&b) >= selection.MinApplicability
	}
	for _, c := range []struct {
		asks, tries int
		want        bool
	}{{0, 0, false}, {16, 0, false}, {32, 0, true}, {32, 8, false}, {1000, 8, true}, {1000, 1000, false}} {
		if got, other := tried(c.asks, c.tries); got != c.want || other && c.asks < 1000 {
			t.Errorf("%d requests and %d runs: applies to its topic: %t, elsewhere: %t; want %t", c.asks, c.tries, got, other, c.want)
		}
	}
}
