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

// TestRoundsOutliveWorkers kills generators and reflectors at random during samples with several rounds. Each sample must
// have each round once, in order, and one reflection.
func TestRoundsOutliveWorkers(t *testing.T) {
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
		if _, err := conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
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
	eventually(t, 45*time.Second, "every sample ends", func() error { // both roles idle, and no message stored between the two checks
		before, err := conn.Streams(ctx)
		if err != nil {
			return err
		}
		for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
			lag, err := conn.Consumers.Lag(ctx, role)
			if err != nil || !lag.Idle() {
				return fmt.Errorf("%s: %+v, %v", role, lag, err)
			}
		}
		after, err := conn.Streams(ctx)
		if err == nil && !reflect.DeepEqual(before, after) {
			err = errors.New("a message was stored during the check")
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

// checkRounds checks tasks that need two rules. Each failed round reveals one rule, so two rounds fail and the third is
// right.
func (l *ledger) checkRounds() (problems []string) {
	addProblem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	rounds := map[events.ID]*events.Execution{}
	for _, m := range l.executions {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			addProblem("execution %d: %v", m.seq, err)
			continue
		}
		if rounds[e.EventID()] == nil { // a duplicate has the same id
			rounds[e.EventID()] = e.(*events.Execution)
		}
	}
	reflections := map[events.ID]*events.Reflection{}
	ofTask := map[events.ID]int{}
	for _, m := range l.reflections {
		e, err := events.Decode(m.subject, m.header, m.data)
		if err != nil {
			addProblem("reflection %d: %v", m.seq, err)
			continue
		}
		r := e.(*events.Reflection)
		if reflections[r.ID] == nil {
			reflections[r.ID] = r
			ofTask[r.Execution]++
		}
	}
	if len(l.dead) > 0 {
		addProblem("%d dead letters", len(l.dead))
	}
	if got, want := len(rounds), 3*len(l.tasks); got != want {
		addProblem("%d executions of %d tasks, want %d", got, len(l.tasks), want)
	}
	if got, want := len(reflections), len(l.tasks); got != want {
		addProblem("%d reflections, want one for each of %d tasks", got, want)
	}
	for _, task := range l.tasks {
		for n := range 3 {
			e := rounds[events.ExecutionID(desk, "", task, n)]
			switch want := []events.Label{events.Failure, events.Failure, events.Success}[n]; {
			case e == nil:
				addProblem("%s: round %d is lost", task, n)
			case len(e.PreviousRounds) != n || e.Origin.Round != n || (e.Outcome.Label == events.Success) != (want == events.Success):
				addProblem("%s: round %d is round %d after %d tries, and ended with %s, want %s", task, n, e.Origin.Round, len(e.PreviousRounds), e.Outcome.Label, want)
			default:
				for k, try := range e.PreviousRounds {
					if try.Execution != events.ExecutionID(desk, "", task, k) || try.Insight == "" {
						addProblem("%s: round %d: try %d is %+v", task, n, k, try)
					}
				}
			}
		}
		last := events.ExecutionID(desk, "", task, 2)
		if ofTask[last] != 1 {
			addProblem("%s: %d reflections on its last round, want 1", task, ofTask[last])
		}
		r := reflections[events.ReflectionID(events.ExecutionID(desk, "", task, 0), "", reflectorVersion(reflections))]
		if r == nil || r.Execution != last || len(r.Lessons) != 2 || r.Usage.Calls != 2 {
			addProblem("%s: got the reflection %+v, want both rules from two calls", task, r)
		}
	}
	return problems
}

// reflectorVersion returns the version of any reflection; all are from one program.
func reflectorVersion(all map[events.ID]*events.Reflection) string {
	for _, r := range all {
		return r.Reflector
	}
	return ""
}
