package bus

import (
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/natsd"
	"debrief/events/streams"
)

// limits returns the ages and sizes of the streams of a server.
func limits(t *testing.T, c *Conn) map[string]StreamState {
	t.Helper()
	all, err := c.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]StreamState{}
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName
}

// TestLimitsOfExistingStreamsChange sets limits of streams with messages, twice. A plan alone changes nothing, and the limits that are not
// chosen stay.
func TestLimitsOfExistingStreamsChange(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	srv := serve(t, natsd.Config{})
	c := open(t, srv, fastPolicy)
	publishTasks(t, c, "main", 3)
	set := func(apply bool, chosen ...streams.Setting) {
		t.Helper()
		steps, err := PlanStreams(t.Context(), c, 1, chosen)
		if err == nil && apply {
			err = ApplySteps(t.Context(), c, steps)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	executions := streams.Setting{Name: "executions-age", Value: int64(90 * day)}
	set(false, executions)
	if got := limits(t, c)[events.StreamExecutions].MaxAge; got != 30*day {
		t.Errorf("after a plan: got %s", got)
	}
	set(true, executions, streams.Setting{Name: "tasks-size", Value: 100 << 20})
	set(true, streams.Setting{Name: "dead-age", Value: int64(14 * day)})
	open(t, srv, fastPolicy) // keeps them
	got := limits(t, c)
	for name, want := range map[string]time.Duration{
		events.StreamExecutions: 90 * day, "KV_captures": 97 * day, events.StreamDead: 14 * day, "OBJ_blobs": 112 * day,
		events.StreamReflections: 30 * day, events.StreamDeltas: 0,
	} {
		if got[name].MaxAge != want {
			t.Errorf("%s: got the age %s, want %s", name, got[name].MaxAge, want)
		}
	}
	if s := got[events.StreamTasks]; s.MaxBytes != 100<<20 || s.Messages != 3 || s.Oldest.IsZero() || s.Used() == 0 {
		t.Errorf("got %+v", s)
	}
}

// TestSizesBeyondTheStoreAreExplained: the server reserves sizes.
func TestSizesBeyondTheStoreAreExplained(t *testing.T) {
	t.Parallel()
	c := open(t, serve(t, natsd.Config{MaxStore: 1 << 30}), fastPolicy)
	steps, err := PlanStreams(t.Context(), c, 1, []streams.Setting{{Name: "executions-size", Value: 2 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	if err := ApplySteps(t.Context(), c, steps); err == nil || !strings.Contains(err.Error(), "max_file") {
		t.Errorf("got %v, want the remedy", err)
	}
}

// TestConsumerPlan lists missing and different consumers, and creates none.
func TestConsumerPlan(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	for range 2 {
		steps, err := c.Consumers.Plan(t.Context())
		if err != nil || len(steps) != len(streams.Roles) || !steps[0].Create {
			t.Fatalf("got %+v and error %v", steps, err)
		}
	}
	if err := c.Consumers.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if steps, err := c.Consumers.Plan(t.Context()); err != nil || len(steps) != 0 {
		t.Errorf("got %+v and error %v", steps, err)
	}
	other := fastPolicy
	other.AckWait = time.Minute
	c2 := openOn(t, c.nc, other)
	steps, err := c2.Consumers.Plan(t.Context())
	if err != nil || len(steps) == 0 || steps[0].Create || steps[0].Changes[0].Setting != "ack_wait" {
		t.Errorf("got %+v and error %v", steps, err)
	}
}
