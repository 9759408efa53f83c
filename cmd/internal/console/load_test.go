package console

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/liveness"
	"debrief/generator"
	"debrief/playbook"
	"debrief/playbook/history"
)

// maxPage is the maximum size of a page with a list, in bytes.
const maxPage = 200 << 10

// loadSizes are the numbers of stored bullets and executions: large ones with DEBRIEF_LONG.
func loadSizes() (bullets, executions int) {
	if os.Getenv("DEBRIEF_LONG") != "" {
		return 10_000, 100_000
	}
	return 400, 800
}

// largeInstallation returns an installation without roles that has a large playbook and many executions.
func largeInstallation(t testing.TB) *installation {
	t.Helper()
	bullets, n := loadSizes()
	in := &installation{secrets: map[string]string{}}
	t.Cleanup(in.close)
	s := &seeding{TB: t, installation: in, say: plain, builder: in.startServers(t), now: time.Now().UTC()}
	s.manyBullets(bullets)
	s.manyExecutions(n)
	s.manyVotes(n)
	s.runs()
	s.deadLetter("default", events.RoleGenerator, events.DeadError, 1)
	s.seeded.bullets, s.seeded.sessions, s.seeded.versions = []string{"misc-00100", "misc-00000"}, []string{"s-3"}, []string{"1"}
	in.seeded = s.seeded
	health, err := liveness.NewProcess(in.conn, "debrief up", liveness.Floor).ServeReports()
	check(t, err)
	in.closers = append(in.closers, health)
	return in
}

// manyBullets fills the playbook default with bullets of all states that have records.
func (s *seeding) manyBullets(n int) {
	s.Helper()
	states := []playbook.Status{playbook.Active, playbook.Active, playbook.Active, playbook.Probation, playbook.Candidate, playbook.Retired, playbook.Quarantined}
	var deltas []*playbook.Delta
	for from := 0; from < n; from += 100 {
		d := &playbook.Delta{Author: "ada", Time: s.ago(n - from), Gate: playbook.GateStrict}
		for i := from; i < min(n, from+100); i++ {
			b := &playbook.Bullet{
				ID: playbook.BulletID(fmt.Sprintf("misc-%05d", i)), Section: fmt.Sprint("section_", i%20), Status: states[i%len(states)], Helpful: i % 30, Harmful: i % 7, CreatedAt: s.ago(n - i), UpdatedAt: s.ago(n - i),
				Content:    fmt.Sprintf("If the parcel has the number %d, ask for the invoice of the month before, and compare the address with that of the order.", i),
				Experiment: &playbook.Experiment{Number: 1, Standing: playbook.StandingNew, Shown: scores(i%50, i%20), Withheld: scores(i%40, i%25), Cited: scores(i%30, i%10), Recent: "++-"},
			}
			d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: b})
		}
		deltas = append(deltas, d)
	}
	s.commit(s, "default", deltas...)
}

// manyExecutions stores executions of sessions with ten turns, with eight publishers.
func (s *seeding) manyExecutions(n int) {
	s.Helper()
	var publishers sync.WaitGroup
	for p := range 8 {
		publishers.Go(func() {
			for i := p; i < n; i += 8 {
				e := &events.Execution{
					Book: "default",
					ID:   events.ExecutionID("default", "", fmt.Sprint("t-", i), 0), RunID: fmt.Sprint("t-", i), Session: fmt.Sprint("s-", i/10), Turn: i%10 + 1, Question: fmt.Sprintf("Which parcel is late on day %d, and who pays for it?", i), Answer: "Parcel 7.",
					Purpose: events.Evaluate, Outcome: events.Outcome{Label: events.LabelOf(float64(i%3) / 2), Score: float64(i%3) / 2}, Version: 1, Shown: []events.ShownBullet{{ID: playbook.BulletID(fmt.Sprintf("misc-%05d", i%1000)), Content: "Ask."}},
					Model: "simulated", Usage: chat.Usage{Calls: 1, InputTokens: 900, OutputTokens: 40}, Started: s.now.Add(-time.Duration(n-i) * time.Second), Duration: time.Second,
				}
				receipt, err := s.conn.Publish(context.Background(), e, bus.PublishOptions{})
				if err != nil {
					s.Error(err)
					return
				}
				if i == n/2 {
					s.seeded.executions = []string{string(receipt.Handle)}
				}
			}
		})
	}
	publishers.Wait()
}

// manyVotes stores what a Curator learns from the executions: a version for 50 of them, with their evidence, a vote on a bullet of each,
// and an outcome of the experiment on the bullet misc-00000, which all of them saw.
func (s *seeding) manyVotes(n int) {
	s.Helper()
	var deltas []*playbook.Delta
	for from := 0; from < n; from += 50 {
		d := &playbook.Delta{Author: history.Curator, Time: s.now.Add(-time.Duration(n-from) * time.Second)}
		popular := playbook.Op{Kind: playbook.AddExposures, Bullet: "misc-00000", ExperimentNumber: 1}
		for i := from; i < min(n, from+50); i++ {
			k := len(d.Covers)
			d.Covers = append(d.Covers, playbook.Cover{ID: string(events.NewID()), Seq: uint64(i + 1), Evidence: &playbook.Evidence{
				Execution: fmt.Sprintf("%d-%08x", i+1, i), Sample: fmt.Sprint("t-", i), Session: fmt.Sprint("s-", i/10), Excerpt: fmt.Sprintf("Which parcel is late on day %d, and who pays for it?", i), Outcome: string(events.LabelOf(float64(i%3) / 2)), Score: float64(i%3) / 2, Reflector: "r1", Model: "simulated",
			}})
			d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: playbook.BulletID(fmt.Sprintf("misc-%05d", i%1000)), Helpful: 1, Support: []int{k}})
			popular.Support = append(popular.Support, k)
			popular.Exposures = append(popular.Exposures, playbook.Exposure{Arm: playbook.ArmShown, Score: i % 3 * playbook.MaxScore / 2})
		}
		d.Ops = append(d.Ops, popular)
		deltas = append(deltas, d)
	}
	s.commit(s, "default", deltas...)
}

// TestPagesOfLargePlaybook measures the size of each page, and reports the time of its first request and the median of the next.
// With DEBRIEF_LONG=1 the playbook has 10,000 bullets and 100,000 executions:
//
//	DEBRIEF_LONG=1 go test ./cmd/internal/console -v -timeout 20m -run TestPagesOfLargePlaybook | grep LOAD
func TestPagesOfLargePlaybook(t *testing.T) {
	if testing.Short() {
		t.Skip("stores thousands of objects: run without -short")
	}
	if os.Getenv("DEBRIEF_LONG") == "" {
		t.Parallel() // without measurements
	}
	in := largeInstallation(t)
	bullets, n := loadSizes()
	t.Logf("LOAD %d bullets, %d executions", bullets, n)
	popular := address{"/books/{book}/bullets/{id}", "/books/default/bullets/misc-00000", true} // all executions saw it
	for _, a := range append(in.mains(t), popular) {
		var took []time.Duration
		var got pageResponse
		before := cpuTime(t)
		for range 6 {
			began := time.Now()
			got = get(t, in.open, a.path)
			took = append(took, time.Since(began))
		}
		cpu := (cpuTime(t) - before) / 6
		if got.status != http.StatusOK || len(got.body) > maxPage {
			t.Errorf("%s: got status %d and %d bytes, want at most %d", a.path, got.status, len(got.body), maxPage)
		}
		first := took[0]
		slices.Sort(took)
		t.Logf("LOAD %-45s first %6.1f ms, median %6.1f ms, CPU %6.1f ms, %7d bytes", a.pattern, ms(first), ms(took[len(took)/2]), ms(cpu), len(got.body))
	}
}

// TestFirstLoads measures the first request for each page of a server that has just started, while its indexes fill. Run it with the sizes of
// TestPagesOfLargePlaybook:
//
//	DEBRIEF_LONG=1 go test ./cmd/internal/console -v -timeout 20m -run TestFirstLoads | grep FIRST
func TestFirstLoads(t *testing.T) {
	if testing.Short() {
		t.Skip("stores thousands of objects: run without -short")
	}
	if os.Getenv("DEBRIEF_LONG") == "" {
		t.Parallel() // without measurements
	}
	in := largeInstallation(t)
	for _, a := range in.mains(t) {
		builder := generator.NewContextBuilder(in.conn, nil, generator.Config{})
		views := index.New(in.conn, nil)
		server := in.serve(api.New(builder, api.Options{Conn: in.conn, Index: views, Log: failures}))
		ctx, stop := context.WithCancel(t.Context())
		var follows sync.WaitGroup
		follows.Go(func() { views.Run(ctx) })
		began := time.Now()
		got := get(t, server, a.path)
		first := time.Since(began)
		if got.status != http.StatusOK {
			t.Errorf("%s: got status %d: %s", a.path, got.status, got.body)
		}
		for views.Reading() { // as long as it takes on a busy machine
			time.Sleep(10 * time.Millisecond)
		}
		filled := time.Since(began)
		began = time.Now()
		if got := get(t, server, a.path); got.status != http.StatusOK {
			t.Errorf("%s: got status %d after the index was read", a.path, got.status)
		}
		t.Logf("FIRST %-45s %6.1f ms, read after %6.1f ms, then %6.1f ms", a.pattern, ms(first), ms(filled), ms(time.Since(began)))
		stop()
		follows.Wait()
		server.Close()
		builder.Close()
	}
}

// cpuTime returns the CPU time of this process, which includes the NATS server.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkPages measures the pages with the sizes of TestPagesOfLargePlaybook.
func BenchmarkPages(b *testing.B) {
	in := largeInstallation(b)
	for _, a := range in.mains(b) {
		b.Run(a.pattern, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if got := get(b, in.open, a.path); got.status != http.StatusOK {
					b.Fatalf("got status %d", got.status)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(ms(took[len(took)/2]), "median-ms")
		})
	}
}
