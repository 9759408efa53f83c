package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// TestWrongRulesAreFoundOut is the control of TestEveryReflectionCountsOnce: racing curators that lack one part of the
// protocol must fail the same checks, and those that lack none must pass them. What is printed is what each lost.
func TestWrongRulesAreFoundOut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, test := range []struct {
		name  string
		start func(t testing.TB, name, url string) *process
		blind bool
		want  string // the kind of problem that must be among those found; none when empty
	}{
		{"nothing amiss", startNaive(byID), false, ""},
		{"a watermark instead of the covered set", startNaive(watermark), false, "lost"},
		{"the floor without the covered set", startNaive(floorAlone), false, "twice"},
		// Of two deltas that follow one and the same, one can be folded. What the other one covers is settled without
		// effect, and who folds the log past the two refuses it: that is the chain's part.
		{"no compare-and-swap", startCurator, true, "chain"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, url := startServer(t)
			conn := connect(t, url)
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			curators := besiege(t, 3, url, test.start)
			h := newTruth(t, ctx, conn, "raced")
			for _, b := range curators {
				b.tap.blind.Store(test.blind)
			}
			points, most := []crashPoint{crashPoints[0], crashPoints[1]}, 4 // before and after the delta
			if test.blind {
				points, most = []crashPoint{frozenAtDelta}, 1 // it comes late, and is taken all the same
			}
			struck := h.raceWith(t, ctx, conn, curators, points, most)
			if !test.blind { // those do not come to an end
				awaitSettled(t, ctx, conn)
			}
			sum := summary{}
			eventually(t, 10*time.Second, "problems found", func() error {
				l, err := h.ledger(ctx, conn)
				if err != nil {
					return err
				}
				a := l.check()
				h.check(a)
				sum = summary{}
				sum.add(h, l, a)
				if test.want != "" && sum.count(test.want) == 0 {
					return fmt.Errorf("%d problems, none of kind %q: %s", len(sum.problems), test.want, strings.Join(sum.problems, "; "))
				}
				return nil
			})
			if test.want == "" && len(sum.problems) > 0 {
				t.Errorf("got problems where there are none:\n%s", strings.Join(sum.problems, "\n"))
			}
			found := ""
			for _, kind := range kinds {
				found += fmt.Sprintf(" %s %d", kind, sum.count(kind))
			}
			t.Logf("%d reflections and edits in %d deltas, struck %d times:%s", sum.events, sum.deltas, struck, found)
		})
	}
}

// raceWith publishes votes in bursts, for the curators to race on, and strikes at every other burst, at one crash point
// after the other, up to so often. It returns how often it did: the curator that it waits for need not have got any of
// the burst.
func (h *truth) raceWith(t *testing.T, ctx context.Context, conn *bus.Conn, curators []*besieged, points []crashPoint, most int) (struck int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	for burst := range 8 {
		b := curators[burst%len(curators)]
		set := b.tap.arm(points[burst/2%len(points)], 300*time.Millisecond)
		strike := burst%2 == 0 && struck < most
		if !strike {
			b.tap.disarm(set)
		}
		for range 25 {
			r := h.newReflection()
			r.Tags = []events.BulletTag{{ID: h.seeds[rng.IntN(len(h.seeds))], Tag: events.Helpful}}
			if err := h.publish(ctx, conn, r); err != nil {
				t.Fatal(err)
			}
		}
		if !strike {
			pause(ctx, 100*time.Millisecond) // a burst apiece
			continue
		}
		wait, cancel := context.WithTimeout(ctx, time.Second)
		select {
		case <-set.struck:
		case <-wait.Done():
		}
		cancel()
		if b.tap.disarm(set) {
			continue
		}
		<-set.struck
		struck++
		if err := b.start(); err != nil { // unless it lives
			t.Fatal(err)
		}
	}
	return struck
}
