package integration

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestKilledCuratorsLeaveNoReflection kills curators of many playbooks under load, with the default ack wait. Each reflection must be in the
// log once. The test prints the longest time from the publish of a reflection to its commit.
func TestKilledCuratorsLeaveNoReflection(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const books, pace = 20, 5 * time.Millisecond
	kills := 2
	if os.Getenv(longEnv) != "" {
		kills = 10
	}
	_, url := startServer(t)
	conn := connect(t, url)
	var curators []*process
	for i := range 3 {
		curators = append(curators, startWorker(t, fmt.Sprint("curator", i+1), events.RoleCurator, "--nats", url))
	}
	ctx, stop := whileStreamsMove(t, conn, time.Minute, events.RoleCurator)
	defer stop()
	published := make(map[uint64]time.Time)
	quiet := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			select {
			case <-quiet:
				return
			case <-time.After(pace):
			}
			book := playbook.Book(fmt.Sprint("book-", i%books))
			execution := events.ExecutionID(book, "", fmt.Sprint("run-", i), 0)
			r, err := conn.Publish(ctx, &events.Reflection{
				Book: book, ID: events.ReflectionID(execution, "", "test"), Execution: execution, Handle: events.NewHandle(uint64(i+1), execution),
				Reflector: "test", Question: "What is six times seven?", Outcome: events.Outcome{Label: events.Success, Score: 1},
				Reasoning: "The answer is right.", Created: time.Now().UTC(),
			}, bus.PublishOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			published[r.Seq] = time.Now()
		}
	})
	for i := range kills {
		pause(ctx, 4*time.Second)
		p := curators[i%len(curators)]
		p.kill()
		pause(ctx, 4*time.Second) // longer than the others need to notice it
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	close(quiet)
	publisher.Wait()
	awaitSettled(t, ctx, conn)
	longest, late := checkCoveredOnce(t, ctx, conn, books, published)
	t.Logf("%d kills, %d reflections: the longest waited %s, %d waited more than 2 s", kills, len(published), longest.Round(time.Millisecond), late)
}

// checkCoveredOnce reports reflections that a log covers twice, or that none covers. It returns the longest time from publish to commit.
func checkCoveredOnce(t *testing.T, ctx context.Context, conn *bus.Conn, books int, published map[uint64]time.Time) (longest time.Duration, late int) {
	t.Helper()
	store := deltalog.New(conn.JetStream())
	covered := make(map[uint64]bool)
	for i := range books {
		err := store.ReadLog(ctx, playbook.Book(fmt.Sprint("book-", i)), func(r *deltalog.Record) error {
			for _, c := range r.Covers {
				if covered[c.Seq] {
					t.Errorf("reflection %d is covered twice", c.Seq)
				}
				covered[c.Seq] = true
				wait := r.Time.Sub(published[c.Seq])
				longest = max(longest, wait)
				if wait > 2*time.Second {
					late++
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for seq := range published {
		if !covered[seq] {
			t.Errorf("reflection %d is lost", seq)
		}
	}
	return longest, late
}
