package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// raceStats counts the faults of a curatorRace.
type raceStats struct {
	large    atomic.Bool // whether to publish edits with several deltas
	mu       sync.Mutex
	struck   map[string]int
	requeued int

	conn    *bus.Conn
	atPoint fault // curators killed at a crash point
	atAll   fault // curators killed at random
	server  fault // servers killed
	freeze  fault // curators frozen
	waits   sync.WaitGroup
}

func newRaceStats(conn *bus.Conn) *raceStats {
	d := &raceStats{struck: map[string]int{}, conn: conn}
	for f, name := range map[*fault]string{
		&d.atPoint: "SIGKILL of a racing curator at each point of its commit", &d.atAll: "SIGKILL of a racing curator at random",
		&d.server: "SIGKILL of the server under racing curators", &d.freeze: "SIGSTOP of a racing curator, longer than the ack wait",
	} {
		f.name, f.promise = name, "each reflection and edit has its effect once"
	}
	return d
}

// hit counts an injected fault, and measures in the background the time until a delta is stored again.
func (d *raceStats) hit(t *testing.T, ctx context.Context, f *fault) {
	f.hit()
	began := time.Now()
	d.waits.Go(func() {
		awaitMore(t, ctx, d.conn, events.RoleCurator, f.name)
		f.recovered(time.Since(began))
	})
}

func (d *raceStats) add(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.struck[what]++
}

// Names of the faults that are not at crash points.
const (
	killedAtRandom = "at random"
	killedServer   = "the server"
	frozenAtRandom = "frozen at random"
	refusedLate    = "late deltas refused"
)

// summary is the result of a run, over all books.
type summary struct {
	raceStats *raceStats
	took      time.Duration

	events, again, deltas, bullets, sightings int
	problems                                  []string
	letters                                   []string
}

func (s *summary) add(h *expectedBook, l *ledger, a *audit) {
	s.events += len(h.published)
	s.again += h.again
	s.deltas += len(l.deltas)
	s.bullets += a.fold.Len()
	s.sightings += len(l.seen)
	s.letters = a.letters // of all books
	for _, p := range a.problems {
		s.problems = append(s.problems, string(h.book)+": "+p)
	}
}

// count returns the number of problems of a kind.
func (s *summary) count(kind string) (n int) {
	for _, p := range s.problems {
		if strings.Contains(p, ": "+kind+": ") {
			n++
		}
	}
	return n
}

// kinds are the kinds of problems that an audit finds.
var kinds = []string{"lost", "twice", "torn", "chain", "view", "votes", "truth"}

// report logs the summary and fails the test with the problems.
func (s *summary) report(t *testing.T) {
	t.Helper()
	var b strings.Builder
	row := func(what string, n int) { fmt.Fprintf(&b, "\n  %-34s %6d", what, n) }
	fmt.Fprintf(&b, "in %s", s.took.Round(100*time.Millisecond))
	row("reflections and edits", s.events)
	row("published once more", s.again)
	row("deltas", s.deltas)
	row("bullets", s.bullets)
	row("versions seen by followers", s.sightings)
	kills := 0
	for _, p := range crashPoints {
		row("killed "+p.name, s.raceStats.struck[p.name])
		kills += s.raceStats.struck[p.name]
	}
	row("killed "+killedAtRandom, s.raceStats.struck[killedAtRandom])
	row("kills of curators", kills+s.raceStats.struck[killedAtRandom])
	row("kills of the server", s.raceStats.struck[killedServer])
	for _, what := range []string{frozenAtRandom, frozenAtDelta.name, refusedLate} {
		row(what, s.raceStats.struck[what])
	}
	row("dead letters, requeued", s.raceStats.requeued)
	for _, kind := range kinds {
		row(kind, s.count(kind))
	}
	t.Log(b.String())
	for _, reason := range slices.Sorted(maps.Keys(reasons(s.letters))) {
		t.Logf("dead letters: %d %s", reasons(s.letters)[reason], reason)
	}
	for _, f := range []*fault{&s.raceStats.atPoint, &s.raceStats.atAll, &s.raceStats.server, &s.raceStats.freeze} {
		f.lost = s.count("lost") + s.count("twice")
		f.report(t)
	}
	for i, p := range s.problems {
		if i == 20 {
			t.Errorf("%d more problems", len(s.problems)-i)
			break
		}
		t.Error(p)
	}
}

// reasons counts letters by the text after the first colon.
func reasons(letters []string) map[string]int {
	n := map[string]int{}
	for _, l := range letters {
		_, reason, _ := strings.Cut(l, ": ")
		n[reason]++
	}
	return n
}
