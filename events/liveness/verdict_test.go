package liveness

import (
	"math/rand/v2"
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

func withReplies(total, repaired, invalid int) measurements {
	return with(func(f *measurements) { f.Replies = bus.ReplyStats{Total: total, Repaired: repaired, Invalid: invalid} })
}

// repliesUntil returns the measurements after a burst of unusable replies that ended some time ago.
func repliesUntil(ago time.Duration) measurements {
	f := withReplies(200, 0, 200)
	f.SinceMalformed = ago
	f.Replies.First = time.Unix(0, 0)
	f.Replies.LastMalformed = f.Replies.First.Add(10 * time.Second)
	return f
}

// rareReplies returns the measurements of a role with a malformed reply every ten minutes. The last one is some time ago.
func rareReplies(ago time.Duration) measurements {
	f := withReplies(60, 0, 6)
	f.SinceMalformed = ago
	f.Replies.First = time.Unix(0, 0)
	f.Replies.LastMalformed = f.Replies.First.Add(time.Hour)
	return f
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
		{"only serves requests", with(func(f *measurements) { f.State, f.SinceSuccess = bus.Serving, time.Hour }), Green, ""},
		{"only serves requests, a new message", with(func(f *measurements) { f.State, f.Pending, f.Oldest = bus.Serving, 1, time.Second }), Yellow, NoWorker},
		{"only serves requests, messages wait", with(func(f *measurements) {
			f.State, f.SinceSuccess, f.Pending, f.Oldest = bus.Serving, time.Hour, 1, 61*time.Second
		}), Red, NoWorker},
		{"a key that the model refuses", with(func(f *measurements) { f.State, f.Misconfigured = bus.Unavailable, true }), Red, NotRunning},
		{"unreachable for too long", with(func(f *measurements) { f.State, f.InState = bus.Unavailable, time.Minute+1 }), Red, NotRunning},
		{"outdated", with(func(f *measurements) { f.Outdated = "version 2" }), Red, Outdated},
		{"some of many do not work", with(func(f *measurements) { f.Workers, f.Unhealthy = 3, 2 }), Yellow, Unhealthy},
		{"nothing to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned = 20, 61*time.Second }), Yellow, NotLearning},
		{"little to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned = 19, time.Hour }), Green, ""},
		{"quick, and nothing to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned = 1000, time.Minute }), Green, ""},
		{"never expected to learn", with(func(f *measurements) { f.WithoutLearning, f.SinceLearned, f.Learns = 1000, time.Hour, false }), Green, ""},
		{"tasks fail, and nothing changes", with(func(f *measurements) { f.Outcomes, f.Failures = 100, 50 }), Red, NoProgress},
		{"some tasks fail, and nothing changes", with(func(f *measurements) { f.Outcomes, f.Failures = 250, 50 }), Yellow, NoProgress},
		{"few tasks fail", with(func(f *measurements) { f.Outcomes, f.Failures = 1000, 100 }), Green, ""},
		{"all of a few tasks fail", with(func(f *measurements) { f.Outcomes, f.Failures = 49, 49 }), Green, ""},
		{"1 % of the replies are malformed", withReplies(200, 1, 1), Green, ""},
		{"a few malformed replies of many", withReplies(200, 5, 4), Green, ""},
		{"5 % of the replies are malformed", withReplies(200, 5, 5), Yellow, BadReplies},
		{"all malformed replies are repaired", withReplies(200, 200, 0), Yellow, BadReplies},
		{"four malformed replies, and no others", withReplies(4, 0, 4), Green, ""},
		{"five malformed replies, and no others", withReplies(5, 0, 5), Yellow, BadReplies},
		{"nearly half of the replies are not usable", withReplies(200, 0, 99), Yellow, BadReplies},
		{"half of the replies are not usable", withReplies(200, 0, 100), Red, BadReplies},
		{"half of the replies are not usable, others are repaired", withReplies(40, 10, 20), Red, BadReplies},
		{"one message is at fault for twenty replies", withReplies(39, 0, 20), Yellow, BadReplies},
		{"no malformed reply for as long as the limit", repliesUntil(time.Minute), Red, BadReplies},
		{"no malformed reply for longer", repliesUntil(time.Minute + 1), Green, ""},
		{"malformed replies are rare, and none for a while", rareReplies(30 * time.Minute), Yellow, BadReplies},
		{"malformed replies were rare, and none for longer", rareReplies(30*time.Minute + 1), Green, ""},
		{"no worker, and malformed replies before", measurements{Role: "curator", Replies: bus.ReplyStats{Total: 200, Invalid: 200}}, Yellow, NoWorker},
		{"four doubted outcomes of few", with(func(f *measurements) { f.Replies = bus.ReplyStats{Rated: 10, Doubted: 4} }), Green, ""},
		{"5 % of the outcomes are doubted", with(func(f *measurements) { f.Replies = bus.ReplyStats{Rated: 100, Doubted: 5} }), Green, ""},
		{"10 % of the outcomes are doubted", with(func(f *measurements) { f.Replies = bus.ReplyStats{Rated: 50, Doubted: 5} }), Yellow, Doubts},
		{"a dead letter, and all well again", with(func(f *measurements) { f.SinceSuccess = time.Hour }), Green, ""},
		{"a dead letter, and nothing since", with(func(f *measurements) { f.DeadLetters, f.SinceSuccess = 1, 61*time.Second }), Yellow, DeadLetters},
		{"nothing but dead letters", with(func(f *measurements) { f.DeadLetters, f.SinceSuccess = 5, 61*time.Second }), Red, DeadLetters},
		{"dead letters a moment ago", with(func(f *measurements) { f.DeadLetters, f.SinceSuccess = 50, time.Minute }), Green, ""},
		{"a panic, and all well again", with(func(f *measurements) { f.Panics, f.SincePanic = 1, time.Hour }), Yellow, Panicked},
		{"a panic long ago", with(func(f *measurements) { f.Panics, f.SincePanic = 1, time.Hour+1 }), Green, ""},
		{"half of its age", with(func(f *measurements) { f.Pending, f.Oldest, f.Retention = 1, 15*24*time.Hour, 30*24*time.Hour }), Red, Expiring},
		{"not yet half of its age", with(func(f *measurements) { f.Pending, f.Oldest, f.Retention = 1, 15*24*time.Hour-1, 30*24*time.Hour }), Green, ""},
		{"waits for a slow model", with(func(f *measurements) {
			f.Pending, f.Oldest, f.SinceSuccess, f.Waiting = 7, time.Hour, 61*time.Second, "the model is slow"
		}), Yellow, Waits},
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

// TestReasonsSayWhenAndWhy reads the reasons of workers that take no messages: a duration alone could be the past or the rest of a pause.
func TestReasonsSayWhenAndWhy(t *testing.T) {
	t.Parallel()
	for state, want := range map[bus.State]string{
		bus.Paused:      "the curator paused 31s ago, because its model gave no usable reply; it tries one message at a time until a reply is usable: no JSON",
		bus.Unavailable: "the curator has been unavailable for 31s: no JSON",
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			v := assess(measurements{Role: "curator", Workers: 1, State: state, InState: 31 * time.Second, Reason: "no JSON"}, Floor)
			if !slices.Contains(v.Reasons, want) {
				t.Errorf("got %q, want %q in it", v.Reasons, want)
			}
		})
	}
}

func anyMeasurements(t *rapid.T) measurements {
	d := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "ns"))
	})
	f := measurements{
		Role: "curator", Workers: rapid.IntRange(0, 3).Draw(t, "workers"),
		State:   rapid.SampledFrom([]bus.State{bus.Running, bus.Unavailable, bus.Paused}).Draw(t, "state"),
		InState: d.Draw(t, "in state"), Pending: rapid.Uint64Range(0, 3).Draw(t, "waiting"), Oldest: d.Draw(t, "oldest"),
		SinceSuccess: d.Draw(t, "settled"), P95: d.Draw(t, "p95") / 1000, Learns: rapid.Bool().Draw(t, "learns"), SinceLearned: d.Draw(t, "learned"),
		WithoutLearning: rapid.Uint64Range(0, 40).Draw(t, "fruitless"), Retention: d.Draw(t, "keep"),
		Bytes: rapid.Uint64Range(0, 100).Draw(t, "bytes"), MaxBytes: rapid.Uint64Range(0, 100).Draw(t, "most"),
	}
	f.DeadLetters = rapid.Uint64Range(0, 10).Draw(t, "buried")
	f.Unhealthy = rapid.IntRange(0, f.Workers).Draw(t, "ailing")
	f.Replies, f.SinceMalformed = anyReplies(t), d.Draw(t, "malformed")
	return f
}

func anyReplies(t *rapid.T) (r bus.ReplyStats) {
	r.Total = rapid.IntRange(0, bus.RepliesKept).Draw(t, "replies")
	r.Invalid = rapid.IntRange(0, r.Total).Draw(t, "invalid")
	r.Repaired = rapid.IntRange(0, r.Total-r.Invalid).Draw(t, "repaired")
	return r
}

// TestReplyLevelIsMonotone: a worse reply in place of a better one never improves the level.
func TestReplyLevelIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyReplies(t)
		before := replyLevel(r)
		if r.Repaired > 0 && rapid.Bool().Draw(t, "repair failed") {
			r.Repaired--
			r.Invalid++
		} else if r.Malformed() < r.Total {
			r.Repaired++
		}
		if got := replyLevel(r); got.Rank() < before.Rank() {
			t.Fatalf("%+v: got %s, better than %s before", r, got, before)
		}
	})
}

// TestReplyLevelOfIndependentFaults draws windows of replies. The level must be stable: an operator cannot use an alarm that
// comes and goes.
func TestReplyLevelOfIndependentFaults(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 0))
	for _, row := range []struct {
		rate float64 // of replies that are not usable
		want Level
	}{{0, Green}, {0.01, Green}, {0.1, Yellow}, {0.3, Yellow}, {0.6, Red}} {
		const windows = 1000
		other := 0
		for range windows {
			r := bus.ReplyStats{Total: bus.RepliesKept}
			for range r.Total {
				if draw.Float64() < row.rate {
					r.Invalid++
				}
			}
			if replyLevel(r) != row.want {
				other++
			}
		}
		if other > windows/100 {
			t.Errorf("%.0f %% not usable: %d of %d windows are not %s", 100*row.rate, other, windows, row.want)
		}
	}
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
		later.SinceLearned += time.Hour // but not SinceMalformed: without another malformed reply the fault is over
		if w := assess(later, floor); w.Level.Rank() < v.Level.Rank() {
			t.Fatalf("an hour later %+v is better than %+v", w, v)
		}
		patient := f
		patient.Replies = bus.ReplyStats{} // with a longer floor the fault of a model lasts longer
		if w := assess(patient, floor+time.Hour); w.Level.Rank() > v.Level.Rank() {
			t.Fatalf("with a longer floor %+v is worse than %+v", w, v)
		}
		if (v.Level == Green) != (len(v.Reasons) == 0) {
			t.Fatalf("%+v has no reason, or one too many", v)
		}
		if f.Pending == 0 && f.DeadLetters < maxDeadLetters && f.Workers > 0 && f.State == bus.Running && replyLevel(f.Replies) != Red && v.Level == Red {
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
