package liveness

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/events/bus"
)

// healthy returns the measurements of a healthy role.
func healthy() measurements {
	return measurements{
		Role: "reflector", Workers: 1, State: bus.Running, InState: time.Hour, Learns: true,
		SinceSuccess: time.Second, SinceLearned: time.Second, P95: time.Second,
	}
}

func with(f func(*measurements)) measurements {
	w := healthy()
	f(&w)
	return w
}

func TestAssess(t *testing.T) {
	t.Parallel()
	const reason = "no JSON in the answer"
	for _, row := range []struct {
		what    string
		input   measurements
		want    Level
		problem Problem // "" if green
	}{
		{"idle", with(func(f *measurements) { f.SinceSuccess, f.SinceLearned = time.Hour, time.Hour }), Green, ""},
		{"at work", with(func(f *measurements) { f.Pending, f.Oldest = 9, time.Second }), Green, ""},
		{"behind, and working it off", with(func(f *measurements) { f.Pending, f.Oldest = 900, time.Hour }), Green, ""},
		{"work has just come after a quiet hour", with(func(f *measurements) {
			f.Pending, f.Oldest, f.SinceSuccess = 1, time.Minute, time.Hour
		}), Green, ""},
		{"and now for too long", with(func(f *measurements) {
			f.Pending, f.Oldest, f.SinceSuccess = 1, time.Minute+1, time.Hour
		}), Red, Stalled},
		{"nothing goes well", with(func(f *measurements) {
			f.Pending, f.Oldest, f.SinceSuccess = 7, time.Hour, 61*time.Second
		}), Red, Stalled},
		{"slow, as usual", with(func(f *measurements) {
			f.Pending, f.Oldest, f.SinceSuccess, f.P95 = 7, time.Hour, 89*time.Second, 30*time.Second
		}), Green, ""},
		{"slower than three times as usual", with(func(f *measurements) {
			f.Pending, f.Oldest, f.SinceSuccess, f.P95 = 7, time.Hour, 91*time.Second, 30*time.Second
		}), Red, Stalled},
		{"no worker, no messages", measurements{Role: "curator", State: bus.Stopped}, Yellow, NoWorker},
		{"no worker, a new message", measurements{Role: "curator", Pending: 1, Oldest: time.Second}, Yellow, NoWorker},
		{"no worker, messages wait", measurements{Role: "curator", Pending: 2, Oldest: 61 * time.Second}, Red, NoWorker},
		{"paused just now", with(func(f *measurements) { f.State, f.InState, f.Reason, f.Unhealthy = bus.Paused, time.Second, reason, 1 }), Yellow, NotRunning},
		{"paused for a while", with(func(f *measurements) { f.State, f.InState, f.Unhealthy = bus.Paused, 31*time.Second, 1 }), Red, NotRunning},
		{"paused for too long", with(func(f *measurements) { f.State, f.InState, f.Unhealthy = bus.Paused, 61*time.Second, 1 }), Red, NotRunning},
		{"paused again and again, and nothing went well", with(func(f *measurements) {
			f.State, f.InState, f.Pending, f.Oldest, f.SinceSuccess = bus.Paused, time.Second, 3, time.Hour, time.Hour
		}), Red, NotRunning},
		{"unreachable just now", with(func(f *measurements) { f.State, f.InState = bus.Unavailable, time.Minute }), Yellow, NotRunning},
		{"unreachable for too long", with(func(f *measurements) { f.State, f.InState = bus.Unavailable, time.Minute+1 }), Red, NotRunning},
		{"outdated", with(func(f *measurements) { f.State, f.InState, f.Reason = bus.Outdated, 0, "version 2" }), Red, NotRunning},
		{"some of many do not work", with(func(f *measurements) { f.Workers, f.Unhealthy = 3, 2 }), Yellow, Unhealthy},
		{"nothing to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned = 20, 61*time.Second }), Yellow, NotLearning},
		{"little to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned = 19, time.Hour }), Green, ""},
		{"quick, and nothing to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned = 1000, time.Minute }), Green, ""},
		{"never expected to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned, f.Learns = 1000, time.Hour, false }), Green, ""},
		{"tasks fail, and nothing changes", with(func(f *measurements) { f.Outcomes, f.Failures = 100, 50 }), Red, NoProgress},
		{"some tasks fail, and nothing changes", with(func(f *measurements) { f.Outcomes, f.Failures = 250, 50 }), Yellow, NoProgress},
		{"few tasks fail", with(func(f *measurements) { f.Outcomes, f.Failures = 1000, 100 }), Green, ""},
		{"all of a few tasks fail", with(func(f *measurements) { f.Outcomes, f.Failures = 49, 49 }), Green, ""},
		{"a dead letter, and all well again", with(func(f *measurements) { f.SinceSuccess = time.Hour }), Green, ""},
		{"a dead letter, and nothing since", with(func(f *measurements) { f.DeadLetters, f.SinceSuccess = 1, 61*time.Second }), Yellow, DeadLetters},
		{"nothing but dead letters", with(func(f *measurements) { f.DeadLetters, f.SinceSuccess = 5, 61*time.Second }), Red, DeadLetters},
		{"dead letters a moment ago", with(func(f *measurements) { f.DeadLetters, f.SinceSuccess = 50, time.Minute }), Green, ""},
		{"half of its age", with(func(f *measurements) { f.Pending, f.Oldest, f.Retention = 1, 15*24*time.Hour, 30*24*time.Hour }), Red, Expiring},
		{"not yet half of its age", with(func(f *measurements) { f.Pending, f.Oldest, f.Retention = 1, 15*24*time.Hour-1, 30*24*time.Hour }), Green, ""},
		{"kept for ever", with(func(f *measurements) { f.Pending, f.Oldest = 1, 1000*24*time.Hour }), Green, ""},
		{"nearly full", with(func(f *measurements) { f.Pending, f.Bytes, f.MaxBytes = 1, 80, 100 }), Red, NearlyFull},
		{"not nearly full", with(func(f *measurements) { f.Pending, f.Bytes, f.MaxBytes = 1, 79, 100 }), Green, ""},
		{"full of acknowledged messages", with(func(f *measurements) { f.Bytes, f.MaxBytes = 100, 100 }), Green, ""},
	} {
		v := assess(row.input, Floor)
		if v.Level != row.want || (v.Level == Green) != (len(v.Reasons) == 0) || len(v.Reasons) != len(v.Problems) {
			t.Errorf("%s: got %+v, want %s", row.what, v, row.want)
		}
		if row.problem != "" && !slices.Contains(v.Problems, row.problem) {
			t.Errorf("%s: got %+v, want %s", row.what, v, row.problem)
		}
	}
}

func TestNumbersInReasons(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{15 * 24 * time.Hour: "15 days", 61*time.Second + 1: "1m1s", 1234 * time.Millisecond: "1.23s"} {
		if got := brief(d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if one, two := messages(1), messages(2); !strings.HasPrefix(one, "1 message ") || !strings.HasPrefix(two, "2 messages ") {
		t.Errorf("got %q and %q", one, two)
	}
}

func anyMeasurements(t *rapid.T) measurements {
	d := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "ns"))
	})
	f := measurements{
		Role: "curator", Workers: rapid.IntRange(0, 3).Draw(t, "workers"),
		State:   rapid.SampledFrom([]bus.State{bus.Running, bus.Unavailable, bus.Paused, bus.Outdated}).Draw(t, "state"),
		InState: d.Draw(t, "in state"), Pending: rapid.Uint64Range(0, 3).Draw(t, "waiting"), Oldest: d.Draw(t, "oldest"),
		SinceSuccess: d.Draw(t, "settled"), P95: d.Draw(t, "p95") / 1000, Learns: rapid.Bool().Draw(t, "learns"), SinceLearned: d.Draw(t, "learned"),
		WithoutLearning: rapid.Uint64Range(0, 40).Draw(t, "fruitless"), Retention: d.Draw(t, "keep"),
		Bytes: rapid.Uint64Range(0, 100).Draw(t, "bytes"), MaxBytes: rapid.Uint64Range(0, 100).Draw(t, "most"),
	}
	f.DeadLetters = rapid.Uint64Range(0, 10).Draw(t, "buried")
	f.Unhealthy = rapid.IntRange(0, f.Workers).Draw(t, "ailing")
	return f
}

// TestAssessIsMonotone: a longer wait never improves the verdict, and a longer floor never worsens it.
func TestAssessIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := anyMeasurements(t)
		floor := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "floor"))
		v := assess(f, floor)
		later := f
		later.Oldest += time.Hour
		later.SinceSuccess += time.Hour
		later.InState += time.Hour
		later.SinceLearned += time.Hour
		if w := assess(later, floor); w.Level.Rank() < v.Level.Rank() {
			t.Fatalf("an hour later %+v is better than %+v", w, v)
		}
		if w := assess(f, floor+time.Hour); w.Level.Rank() > v.Level.Rank() {
			t.Fatalf("with a longer floor %+v is worse than %+v", w, v)
		}
		if (v.Level == Green) != (len(v.Reasons) == 0) {
			t.Fatalf("%+v has no reason, or one too many", v)
		}
		if f.Pending == 0 && f.DeadLetters < maxDeadLetters && f.Workers > 0 && f.State == bus.Running && v.Level == Red {
			t.Fatalf("idle and at work: %+v", v)
		}
		if f.Pending > 0 && min(f.Oldest, f.SinceSuccess) > maxWait(floor, f.P95) && v.Level != Red {
			t.Fatalf("nothing went well while work waited: %+v", v)
		}
	})
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ floor, p95, want time.Duration }{
		{time.Minute, 0, time.Minute},
		{time.Minute, 20 * time.Second, time.Minute},
		{time.Minute, 21 * time.Second, 63 * time.Second},
	} {
		if got := maxWait(row.floor, row.p95); got != row.want {
			t.Errorf("floor %s, p95 %s: got %s, want %s", row.floor, row.p95, got, row.want)
		}
	}
}
