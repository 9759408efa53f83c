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

// TestWrongCuratorsFailTheAudit is the control of TestEveryReflectionCountsOnce: racing curators that lack one part of the
// protocol must fail the same checks, and complete ones must pass them. It prints the problems of each.
func TestWrongCuratorsFailTheAudit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, test := range []struct {
		name  string
		start func(t testing.TB, name, url string) *process
		blind bool
		want  string // the kind of problem that must be found; "" for none
	}{
		{"nothing amiss", startWrongCurator(byID), false, ""},
		{"a watermark instead of the covered set", startWrongCurator(watermark), false, "lost"},
		{"the floor without the covered set", startWrongCurator(floorAlone), false, "twice"},
		// Of two deltas with the same predecessor, only one can be folded. The covers of the other one have no effect. The
		// chain lets readers detect such a log.
		{"no compare-and-swap", startCurator, true, "chain"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, url := startServer(t)
			conn := connect(t, url)
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			curators := startCurators(t, 3, url, test.start)
			h := newExpectedBook(t, ctx, conn, "raced")
			for _, b := range curators {
				b.newCrashProxy.blind.Store(test.blind)
			}
			points, most := []crashPoint{crashPoints[0], crashPoints[1]}, 4 // before and after the delta
			if test.blind {
				points, most = []crashPoint{frozenAtDelta}, 1 // the late delta is accepted
			}
			struck := h.raceWith(t, ctx, conn, curators, points, most)
			if !test.blind { // blind curators do not become idle
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
				t.Errorf("got problems, want none:\n%s", strings.Join(sum.problems, "\n"))
			}
			found := ""
			for _, kind := range kinds {
				found += fmt.Sprintf(" %s %d", kind, sum.count(kind))
			}
			t.Logf("%d reflections and edits in %d deltas, struck %d times:%s", sum.events, sum.deltas, struck, found)
		})
	}
}

// raceWith publishes votes in bursts, on which the curators race, and strikes at every other burst, at the crash points in
// turn, at most most times. It returns the number of strikes, which can be lower, because the curator with the trap may
// receive no message of the burst.
func (h *expectedBook) raceWith(t *testing.T, ctx context.Context, conn *bus.Conn, curators []*racingCurator, points []crashPoint, most int) (struck int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	for burst := range 8 {
		b := curators[burst%len(curators)]
		set := b.newCrashProxy.arm(points[burst/2%len(points)], 300*time.Millisecond)
		strike := burst%2 == 0 && struck < most
		if !strike {
			b.newCrashProxy.disarm(set)
		}
		for range 25 {
			r := h.newReflection()
			r.Tags = []events.BulletTag{{ID: h.seeds[rng.IntN(len(h.seeds))], Tag: events.Helpful}}
			if err := h.publish(ctx, conn, r); err != nil {
				t.Fatal(err)
			}
		}
		if !strike {
			pause(ctx, 100*time.Millisecond) // separates the bursts
			continue
		}
		wait, cancel := context.WithTimeout(ctx, time.Second)
		select {
		case <-set.struck:
		case <-wait.Done():
		}
		cancel()
		if b.newCrashProxy.disarm(set) {
			continue
		}
		<-set.struck
		struck++
		if err := b.start(); err != nil { // does nothing if it runs
			t.Fatal(err)
		}
	}
	return struck
}
