package worth

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// world is a simulated playbook. Eight sessions are open at a time. The runs of a session are correlated, and so are its durations. The
// share of hard tasks drifts from 20 to 80 %. Of the outcomes 30 % are missing and 20 % are wrong.
type world struct {
	effect   float64 // of the playbook on the success rate of a hard task; a third of it on an easy one
	easy     float64 // added to the success rates
	longest  float64 // number of runs of a session; the logarithm of the number is uniform
	sessions int
	share    func(session int) playbook.Share // of the playbook when a session begins
}

// simulated is a session of a world.
type simulated struct {
	Session
	left    int        // runs
	rates   [2]float64 // success rates without and with the playbook
	log     [2]float64 // mean logarithms of the duration in milliseconds
	control *events.Control
	rated   bool // it has an outcome
}

// wrong is the part of the outcomes that is wrong.
const wrong = 0.2

func (w *world) begin(r *rand.Rand, a *playbook.Admission, i int) *simulated {
	share, name := w.share(i), fmt.Sprint("session ", i)
	s := &simulated{
		control: &events.Control{Held: a.InControl("b", "owner", name, share), Share: share.PerMille()},
		left:    int(math.Exp(r.Float64() * math.Log(w.longest+0.999))),
	}
	rate, effect := 0.75, w.effect/3
	if hard := 0.2 + 0.6*float64(i)/float64(w.sessions); r.Float64() < hard {
		rate, effect = 0.4, w.effect
	}
	rate += w.easy + 0.2*(r.Float64()+r.Float64()-1)
	for arm := range s.rates {
		s.rates[arm] = min(0.98, max(0.02, rate+float64(arm)*effect))
	}
	common := 7 + 1.2*r.NormFloat64()
	s.log = [2]float64{common, common + w.effect}
	return s
}

// run returns a run of the session and the effect of the playbook on its recorded outcome.
func (s *simulated) run(r *rand.Rand) *events.Execution {
	arm := 1
	if s.control.Held {
		arm = 0
	}
	e := &events.Execution{Control: s.control, Duration: time.Duration(math.Exp(s.log[arm]+1.5*r.NormFloat64()) * float64(time.Millisecond))}
	success := r.Float64() < s.rates[arm]
	if r.Float64() < wrong {
		success = !success
	}
	switch {
	case r.Float64() < 0.3: // the outcome is missing
	case success:
		e.Outcome.Label = events.Success
	default:
		e.Outcome.Label = events.Failure
	}
	return e
}

// result says what happened in a world, at any of its looks.
type result struct {
	missed, reversed, decided bool // the interval of the points missed the effect, had the wrong sign, did not contain 0
	missedTime                bool // the interval of the time missed the effect
	held, expected, variance  float64
}

// play simulates a world, and looks after each outcome. The effect at a look is the mean over the sessions with an outcome so far.
func (w *world) play(seed uint64) (out result) {
	r := rand.New(rand.NewPCG(seed, 1))
	a := &playbook.Admission{ControlSalt: fmt.Appendf(nil, "salt %d", seed)}
	var sums Sums
	var open []*simulated
	begun, n, effects := 0, 0.0, 0.0
	for begun < w.sessions || len(open) > 0 {
		if begun < w.sessions && len(open) < 8 {
			s := w.begin(r, a, begun)
			begun++
			open = append(open, s)
			p := float64(s.control.Share) / 1000
			out.expected += p
			out.variance += p * (1 - p)
			if s.control.Held {
				out.held++
			}
			continue
		}
		i := r.IntN(len(open))
		s := open[i]
		e := s.run(r)
		before := s.Session
		s.Add(e, 0)
		sums.Replace(&before, &s.Session)
		if e.Outcome.Label != "" {
			if !s.rated {
				s.rated = true
				n++
				effects += (1 - 2*wrong) * (s.rates[1] - s.rates[0])
			}
			out.look(&sums, effects/n, w.effect)
		}
		if s.left--; s.left == 0 {
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	return out
}

// look compares the intervals with the effect on the score and the effect on the logarithm of the time.
func (out *result) look(sums *Sums, effect, onTime float64) {
	if i, ok := sums.difference(score); ok {
		out.missed = out.missed || effect < i.low || effect > i.high
		out.reversed = out.reversed || i.low > 0 && effect < 0 || i.high < 0 && effect > 0
		out.decided = out.decided || i.low > 0 || i.high < 0
	}
	if i, ok := sums.difference(duration); ok {
		out.missedTime = out.missedTime || onTime < i.low || onTime > i.high
	}
}

// TestIntervalCoversAtAllLooks simulates playbooks without an effect, good ones and harmful ones, and looks after each outcome. The interval
// covers the effect at all looks in at least 95 % of the runs, has the right sign whenever it does not contain zero, and finds large
// effects. Where the effect is about one point, one sign in a hundred may be wrong. Time has heavy tails. The size of the control group is within its binomial bound.
//
//	DEBRIEF_LONG=1 go test ./cmd/internal/api/worth -run Covers -v -timeout 30m | grep COVERAGE
func TestIntervalCoversAtAllLooks(t *testing.T) {
	t.Parallel()
	runs, sessions := 40, 400
	if os.Getenv("DEBRIEF_LONG") != "" {
		runs, sessions = 500, 1000
	}
	constant := func(share playbook.Share) func(int) playbook.Share {
		return func(int) playbook.Share { return share }
	}
	shares := map[string]func(int) playbook.Share{
		"10%": constant("10%"), "50%": constant("50%"),
		"50% then 5%": func(i int) playbook.Share {
			if i < sessions/4 {
				return "50%"
			}
			return "5%"
		},
		"changes often": func(i int) playbook.Share { return []playbook.Share{"2%", "20%", "1%", "50%", "5%"}[i/50%5] },
	}
	if runs == 500 {
		shares["5%"] = constant("5%")
		shares["5% then 50%"] = func(i int) playbook.Share {
			if i < sessions/2 {
				return "5%"
			}
			return "50%"
		}
	}
	for name, share := range shares {
		for _, kind := range []world{{}, {easy: 0.5}, {effect: 0.3}, {effect: 0.3, easy: -0.4}, {effect: 0.3, easy: 0.5}, {effect: -0.3}, {effect: -0.3, easy: 0.5}} {
			for _, longest := range []float64{1, 200} {
				w := kind
				w.longest, w.sessions, w.share = longest, sessions, share
				if isSlow := longest > 1 && name != "50%"; isSlow && (runs < 500 || w.easy != 0 || name == "changes often" || name == "5% then 50%") {
					continue
				}
				t.Run(fmt.Sprintf("share %s, effect %g, easy %g, up to %g runs", name, w.effect, w.easy, longest), func(t *testing.T) {
					t.Parallel()
					isLarge := w.effect != 0 && w.easy == 0 && name == "50%" && longest > 1
					w.check(t, runs, isLarge)
				})
			}
		}
	}
}

// check simulates a world with several seeds. The interval of a world with a large effect must also find it in most of the runs.
func (w *world) check(t *testing.T, runs int, isLarge bool) {
	t.Helper()
	var missed, reversed, decided, missedTime int
	for seed := range uint64(runs) {
		x := w.play(seed)
		count(&missed, x.missed)
		count(&reversed, x.reversed)
		count(&decided, x.decided)
		count(&missedTime, x.missedTime)
		if sd := math.Sqrt(x.variance); math.Abs(x.held-x.expected) > 4.5*sd {
			t.Errorf("seed %d: got %.0f sessions in the control group, want %.0f, standard deviation %.1f", seed, x.held, x.expected, sd)
		}
	}
	t.Logf("COVERAGE %s: %d runs, missed %d, decided %d, wrong sign %d, time missed %d", t.Name(), runs, missed, decided, reversed, missedTime)
	limit, wrongSigns := runs/20, 0
	if w.effect > 0 && w.easy > 0 { // nearly all tasks succeed, so the effect is about one point
		wrongSigns = runs / 100
	}
	if missed > limit || missedTime > limit || reversed > wrongSigns {
		t.Errorf("got %d and %d runs of %d whose interval missed the effect, and %d with a wrong sign", missed, missedTime, runs, reversed)
	}
	if isLarge && decided < runs*3/4 {
		t.Errorf("got a decision in %d of %d runs", decided, runs)
	}
}

func count(n *int, b bool) {
	if b {
		*n++
	}
}
