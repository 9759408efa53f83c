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
	"debrief/events/service"
	"debrief/generator/selection"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// gated commits one version that sets the gate of book "b".
func (h *house) gated(mode playbook.Gate, ops ...playbook.Op) {
	h.Helper()
	w, err := h.store.Writer(h.Context(), "b")
	h.ok(err)
	_, err = w.Commit(h.Context(), func(natskv.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Covers: make([]playbook.Cover, 9), Gate: mode, Ops: slices.Clone(ops)}}, nil
	})
	h.ok(err)
	h.ok(w.Flush(h.Context()))
}

func add(n uint64, content string, status playbook.Status, share int) playbook.Op {
	return playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: content, Status: status, Share: share}
}

// advice is a book of rules for orders by car and by ship: one is active, the others on probation.
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

// arm is what chance decided about a bullet, "" where it was not tried.
func arm(m *events.Manifest, id playbook.BulletID) playbook.Arm {
	for _, t := range m.Trials {
		if t.Bullet == id {
			return t.Arm
		}
	}
	return ""
}

// consistent: what is shown, what is in the prompt's parts and what chance decided go together.
func (h *house) consistent(name string, m *events.Manifest, shown []playbook.BulletID) {
	h.Helper()
	var parts []playbook.BulletID
	for _, p := range m.Parts {
		if p.Kind == events.PartBullet {
			parts = append(parts, playbook.BulletID(p.Ref))
		}
	}
	if !slices.Equal(parts, shown) {
		h.Errorf("%s: parts %v, shown %v", name, parts, shown)
	}
	for _, t := range m.Trials {
		if slices.Contains(shown, t.Bullet) != (t.Arm != playbook.ArmWithheld) {
			h.Errorf("%s: %s is %s, shown are %v", name, t.Bullet, t.Arm, shown)
		}
		withheld := slices.ContainsFunc(m.Left, func(l events.LeftOut) bool {
			return l.Why == "withheld by chance" && slices.Contains(l.Refs, string(t.Bullet))
		})
		if withheld != (t.Arm == playbook.ArmWithheld) {
			h.Errorf("%s: %s is %s, left out are %+v", name, t.Bullet, t.Arm, m.Left)
		}
	}
}

// TestChanceShowsNewAdviceToAShareOfTheTasks: of those to learn from, the same whenever it is asked; to those that
// measure never.
func TestChanceShowsNewAdviceToAShareOfTheTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	h.gated(playbook.GateOn, advice(30)...)
	m := new(talker)
	h.hire(m, nil, Config{Recall: RecallNone}, brisk)
	d := h.desk(nil, Config{Recall: RecallNone}, brisk)
	const tasks = 150
	shownTo := 0
	for n := range tasks {
		q := task("b", aboutShips)
		q.ID = fmt.Sprint("ship-", n)
		e, refused := h.answer(q)
		if refused != "" {
			t.Fatal(refused)
		}
		h.consistent(q.ID, e.Manifest, shown(e))
		inPrompt := strings.Contains(text(m.last()), "ship masts")
		switch arm(e.Manifest, "misc-00002") {
		case playbook.ArmShown:
			shownTo++
			if !inPrompt {
				t.Error("is shown, and not in the prompt")
			}
		case playbook.ArmWithheld:
			if inPrompt {
				t.Error("is withheld, and in the prompt")
			}
		default:
			t.Fatalf("got trials %+v", e.Manifest.Trials)
		}
		if arm(e.Manifest, "misc-00001") != "" || arm(e.Manifest, "misc-00003") != "" || slices.Contains(shown(e), "misc-00003") || !slices.Contains(shown(e), "misc-00001") {
			t.Fatalf("what is about cars is shown: %v, or tried: %+v", shown(e), e.Manifest.Trials)
		}
		if n%15 > 0 {
			continue
		}
		again := task("b", aboutShips, 1) // a later round, at a version that is pinned
		again.ID, again.Origin.Round = q.ID, 1
		next, err := New(new(talker), nil, Config{}).Answer(t.Context(), d, again)
		h.ok(err)
		if !cmp.Equal(next.Manifest.Trials, e.Manifest.Trials) {
			t.Errorf("the next round: got %+v, want %+v", next.Manifest.Trials, e.Manifest.Trials)
		}
		measured := task("b", aboutShips)
		measured.Purpose = events.Evaluate
		f, refused := h.answer(measured)
		if refused != "" || len(f.Manifest.Trials) > 0 || !slices.Equal(shown(f), []playbook.BulletID{"misc-00001"}) {
			t.Errorf("measured: got %+v, shown %v, %s; want what is active alone", f.Manifest.Trials, shown(f), refused)
		}
	}
	// Five standard deviations around 45.
	if shownTo < 17 || shownTo > 73 {
		t.Errorf("shown to %d of %d tasks, want about 30 %%", shownTo, tasks)
	}
}

// TestTheGateOfTheVersionCounts: a task that pins one gets the bullets, and the gate, as they were.
func TestTheGateOfTheVersionCounts(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.gated("", advice(100)...)                                                                                                                                                         // 1
	h.gated(playbook.GateOn)                                                                                                                                                            // 2
	h.gated("", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: playbook.Probation, Share: 100})                                                                    // 3
	h.gated("", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: playbook.Active})                                                                                   // 4
	h.gated("", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00003", Status: playbook.Probation, Share: 1}, playbook.Op{Kind: playbook.Pin, Bullet: "misc-00003", Pinned: true}) // 5
	h.gated(playbook.GateOff)                                                                                                                                                           // 6
	h.hire(new(talker), nil, Config{Recall: RecallNone}, brisk)
	one, three := playbook.BulletID("misc-00001"), playbook.BulletID("misc-00003")
	open := events.Trial{Bullet: one, Arm: playbook.ArmOpen}
	for v, want := range map[uint64]struct {
		shown  []playbook.BulletID
		trials []events.Trial
	}{
		1: {[]playbook.BulletID{one}, []events.Trial{open}},
		2: {[]playbook.BulletID{one, three}, []events.Trial{{Bullet: three, Case: 1, Arm: playbook.ArmShown}, open}},
		3: {[]playbook.BulletID{one, three}, []events.Trial{{Bullet: three, Case: 2, Arm: playbook.ArmShown}, open}},
		4: {[]playbook.BulletID{one, three}, []events.Trial{open, {Bullet: three, Case: 2, Arm: playbook.ArmOpen}}},
		5: {[]playbook.BulletID{one, three}, []events.Trial{open, {Bullet: three, Case: 3, Arm: playbook.ArmOpen}}},
		6: {[]playbook.BulletID{one}, nil},
	} {
		for _, q := range []*events.Task{task("b", aboutCars, v), task("b", aboutCars)} {
			if q.Playbook == nil && v != 6 {
				continue
			}
			e, refused := h.answer(q)
			if refused != "" || !slices.Equal(slices.Sorted(slices.Values(shown(e))), want.shown) || !cmp.Equal(e.Manifest.Trials, want.trials) {
				t.Errorf("version %d: got %v, %+v %s; want %v, %+v", v, shown(e), e.Manifest.Trials, refused, want.shown, want.trials)
				continue
			}
			h.consistent(fmt.Sprint("version ", v), e.Manifest, shown(e))
		}
	}
}

// TestAFollowedPageTurnsWithTheGate: who has the book open sees the mode move, without another change.
func TestAFollowedPageTurnsWithTheGate(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.gated(playbook.GateOn, advice(100)...)
	d := h.desk(nil, Config{}, brisk)
	for n, mode := range []playbook.Gate{playbook.GateOn, playbook.GateShadow, playbook.GateOn, playbook.GateOff} {
		if n > 0 {
			h.gated(mode)
		}
		reply := h.context(d, &events.ContextRequest{Query: aboutShips, MinVersion: uint64(n + 1)})
		if n > 0 {
			b, err := d.books.open(t.Context(), "b", nil)
			h.ok(err)
			h.ok(b.f.Wait(t.Context(), uint64(n+1)))
			reply = h.context(d, &events.ContextRequest{Query: aboutShips})
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

// TestAnAgentIsTriedAsWell: over NATS, from the context that it is served to the execution that it reports, which can be
// made again. What it asks again within a turn is decided as before; a look decides nothing.
func TestAnAgentIsTriedAsWell(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.gated(playbook.GateOn, advice(50)...)
	d := h.desk(nil, Config{}, brisk)
	stop, err := service.Serve(h.conn.NATS(), d, zerolog.Nop(), nil)
	h.ok(err)
	t.Cleanup(stop)
	ask := func(verb string, request, reply any) {
		t.Helper()
		body, err := json.Marshal(request)
		h.ok(err)
		msg, err := h.conn.NATS().Request(events.ServiceSubject(verb, "b"), body, 10*time.Second)
		h.ok(err)
		if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
			t.Fatalf("%s: %s", code, msg.Header.Get("Nats-Service-Error"))
		}
		h.ok(json.Unmarshal(msg.Data, reply))
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
		if session != "" && !cmp.Equal(first.Manifest.Trials, second.Manifest.Trials) {
			t.Errorf("asked again in one turn: got %+v, then %+v", first.Manifest.Trials, second.Manifest.Trials)
		}
		if len(look.Manifest.Trials) > 0 || len(look.Shown) != 1 {
			t.Errorf("a look: got %+v, shown %v", look.Manifest.Trials, look.Shown)
		}
		var stored events.Stored
		ask(events.VerbReport, &events.Report{ContextID: first.ID, Answer: "three"}, &stored)
		e := h.kept(stored.Handle)
		if !cmp.Equal(e.Manifest.Trials, first.Manifest.Trials) || len(e.Manifest.Trials) != 1 {
			t.Fatalf("got %+v, the context had %+v", e.Manifest.Trials, first.Manifest.Trials)
		}
		h.consistent("the execution", e.Manifest, shown(e))
		if r := h.rebuilt(d, stored.Handle); !r.Verified || !cmp.Equal(r.Manifest.Trials, first.Manifest.Trials) {
			t.Errorf("made again: got %q, missing %v, trials %+v", r.Why, r.Missing, r.Manifest.Trials)
		}
		arms[arm(e.Manifest, "misc-00002")]++
	}
	if arms[playbook.ArmShown] < 5 || arms[playbook.ArmWithheld] < 5 {
		t.Errorf("got %v of 40", arms)
	}
	next := h.context(d, &events.ContextRequest{Session: "s-0", Query: aboutShips})
	if next.Turn != 2 || len(next.Manifest.Trials) != 1 {
		t.Errorf("the next turn: got turn %d, %+v", next.Turn, next.Manifest.Trials)
	}
}

// TestAContextOnTrialCanBeMadeAgain: with what was shown by chance and without what was withheld, when both are gone.
func TestAContextOnTrialCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.gated(playbook.GateOn, append(advice(100), add(5, "Cars: the permit is in the lorry of the car.", playbook.Probation, 0))...)
	h.hire(new(talker), nil, Config{}, brisk)
	q := task("b", aboutCars)
	e, refused := h.answer(q)
	if refused != "" || arm(e.Manifest, "misc-00003") != playbook.ArmShown || arm(e.Manifest, "misc-00005") != playbook.ArmWithheld {
		t.Fatalf("got %+v %s", e.Manifest.Trials, refused)
	}
	h.gated(playbook.GateOff, playbook.Op{Kind: playbook.Remove, Bullet: "misc-00003"}, playbook.Op{Kind: playbook.Remove, Bullet: "misc-00005"})
	d := h.desk(nil, Config{Recall: RecallNone}, brisk)
	if r := h.rebuilt(d, h.handleOf(e.ID)); !r.Verified || !strings.Contains(text(r.Messages), "lorry permit") || strings.Contains(text(r.Messages), "in the lorry") {
		t.Errorf("got %q, missing %v, %q", r.Why, r.Missing, text(r.Messages))
	}
}

// TestWhatIsAskedForIsTried: the words that tell the one rule from the other are in no query, so it bears on none by its
// words alone. When enough have asked for it, it is tried on what speaks of it most, and no more when it had its trials.
func TestWhatIsAskedForIsTried(t *testing.T) {
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
		b.Case = &playbook.Case{Number: 1, Share: 50, Seconded: asks}
		b.Case.Shown[10] = tries
		pg := newPage(new(vectors), 0)
		book := playbook.Restore(1, 0, slices.Values([]*playbook.Bullet{&b, &tier}))
		book.SetGate(playbook.GateOn)
		pg.turn(book)
		return pg.bears(about)(&b) >= selection.Bearing, pg.bears(other)(&b) >= selection.Bearing
	}
	for _, c := range []struct {
		asks, tries int
		want        bool
	}{{0, 0, false}, {16, 0, false}, {32, 0, true}, {32, 8, false}, {1000, 8, true}, {1000, 1000, false}} {
		if got, other := tried(c.asks, c.tries); got != c.want || other && c.asks < 1000 {
			t.Errorf("%d asks and %d tries: tried %t where it is spoken of, %t elsewhere; want %t", c.asks, c.tries, got, other, c.want)
		}
	}
}
