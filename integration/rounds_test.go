package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// TestRoundsOutliveTheirWorkers: generators and reflectors are killed at random moments while tasks go from one to the
// other. Every sample has its rounds, each once, in order, and ends with one reflection.
func TestRoundsOutliveTheirWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(chooseSeed(t), 1))
	_, url := startServer(t)
	model := startModel(t, 20*time.Millisecond)
	var workers []*process
	for i, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleGenerator, events.RoleReflector} {
		args := []string{"--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--ack-wait", "1s"}
		if role == events.RoleReflector {
			args = append(args, "--rounds", "3")
		}
		workers = append(workers, startWorker(t, fmt.Sprint(role, i/2+1), role, args...))
	}
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tasks := invoices(rng, 60)
	for _, task := range tasks {
		if _, err := conn.Publish(ctx, task, bus.Marks{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range rng.Perm(len(workers)) {
		pause(ctx, time.Duration(50+rng.IntN(150))*time.Millisecond)
		workers[at].kill()
		if err := workers[at].start(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 45*time.Second, "every sample ends", func() error { // each role in turn is idle, while nothing is stored
		before, err := conn.Streams(ctx)
		if err != nil {
			return err
		}
		for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
			lag, err := conn.Lag(ctx, role)
			if err != nil || !lag.Idle() {
				return fmt.Errorf("%s: %+v, %v", role, lag, err)
			}
		}
		after, err := conn.Streams(ctx)
		if err == nil && !reflect.DeepEqual(before, after) {
			err = errors.New("something was stored meanwhile")
		}
		return err
	})
	l, err := readLedger(ctx, conn.JetStream(), desk)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		l.tasks = append(l.tasks, task.ID)
	}
	for _, p := range l.checkRounds() {
		t.Error(p)
	}
}

// checkRounds goes through what came of tasks that need two rules, of which each round is told one: two rounds fail, and
// the third is right.
func (l *ledger) checkRounds() (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	rounds := map[events.ID]*events.Execution{}
	for _, m := range l.executions {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			complain("execution %d: %v", m.seq, err)
			continue
		}
		if rounds[e.EventID()] == nil { // stored again, it is the same one
			rounds[e.EventID()] = e.(*events.Execution)
		}
	}
	reflections := map[events.ID]*events.Reflection{}
	ofTask := map[events.ID]int{}
	for _, m := range l.reflections {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			complain("reflection %d: %v", m.seq, err)
			continue
		}
		r := e.(*events.Reflection)
		if reflections[r.ID] == nil {
			reflections[r.ID] = r
			ofTask[r.Execution]++
		}
	}
	if len(l.dead) > 0 {
		complain("%d dead letters", len(l.dead))
	}
	if got, want := len(rounds), 3*len(l.tasks); got != want {
		complain("%d executions of %d tasks, want %d", got, len(l.tasks), want)
	}
	if got, want := len(reflections), len(l.tasks); got != want {
		complain("%d reflections, want one for each of %d tasks", got, want)
	}
	for _, task := range l.tasks {
		for n := range 3 {
			e := rounds[events.ExecutionID(desk, task, n)]
			switch want := []events.Label{events.Failure, events.Failure, events.Success}[n]; {
			case e == nil:
				complain("%s: round %d is lost", task, n)
			case len(e.Tries) != n || e.Origin.Round != n || (e.Outcome.Label == events.Success) != (want == events.Success):
				complain("%s: round %d is round %d after %d tries, and ended with %s, want %s", task, n, e.Origin.Round, len(e.Tries), e.Outcome.Label, want)
			default:
				for k, try := range e.Tries {
					if try.Execution != events.ExecutionID(desk, task, k) || try.Insight == "" {
						complain("%s: round %d: try %d is %+v", task, n, k, try)
					}
				}
			}
		}
		last := events.ExecutionID(desk, task, 2)
		if ofTask[last] != 1 {
			complain("%s: %d reflections on its last round, want 1", task, ofTask[last])
		}
		r := reflections[events.ReflectionID(events.ExecutionID(desk, task, 0), "", reflectorVersion(reflections))]
		if r == nil || r.Execution != last || len(r.Lessons) != 2 || r.Usage.Calls != 2 {
			complain("%s: got the reflection %+v, want both rules from two calls", task, r)
		}
	}
	return problems
}

// reflectorVersion is that of any of them: all are by one program.
func reflectorVersion(all map[events.ID]*events.Reflection) string {
	for _, r := range all {
		return r.Reflector
	}
	return ""
}
