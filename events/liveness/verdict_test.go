package liveness

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/events/bus"
)

// well is a role that works.
func well() Facts {
	return Facts{
		Role: "reflector", Workers: 1, State: bus.Running, InState: time.Hour, Learns: true,
		Settled: time.Second, Learned: time.Second, P95: time.Second,
	}
}

func with(f func(*Facts)) Facts {
	w := well()
	f(&w)
	return w
}

func TestTheVerdictInSentences(t *testing.T) {
	t.Parallel()
	const reason = "no JSON in the answer"
	for _, row := range []struct {
		what  string
		facts Facts
		want  Level
		says  string // of one sentence
	}{
		{"idle", with(func(f *Facts) { f.Settled, f.Learned = time.Hour, time.Hour }), Green, ""},
		{"at work", with(func(f *Facts) { f.Waiting, f.Oldest = 9, time.Second }), Green, ""},
		{"behind, and working it off", with(func(f *Facts) { f.Waiting, f.Oldest = 900, time.Hour }), Green, ""},
		{"work has just come after a quiet hour", with(func(f *Facts) {
			f.Waiting, f.Oldest, f.Settled = 1, time.Minute, time.Hour
		}), Green, ""},
		{"and now for too long", with(func(f *Facts) {
			f.Waiting, f.Oldest, f.Settled = 1, time.Minute+1, time.Hour
		}), Red, "1 message waits, the oldest for 1m0s, and none went well for 1h0m0s: red after 1m0s"},
		{"nothing goes well", with(func(f *Facts) {
			f.Waiting, f.Oldest, f.Settled = 7, time.Hour, 61*time.Second
		}), Red, "7 messages wait, the oldest for 1h0m0s, and none went well for 1m1s: red after 1m0s"},
		{"slow, as usual", with(func(f *Facts) {
			f.Waiting, f.Oldest, f.Settled, f.P95 = 7, time.Hour, 89*time.Second, 30*time.Second
		}), Green, ""},
		{"slower than three times as usual", with(func(f *Facts) {
			f.Waiting, f.Oldest, f.Settled, f.P95 = 7, time.Hour, 91*time.Second, 30*time.Second
		}), Red, "red after 1m30s"},
		{"nobody runs, nothing waits", Facts{Role: "curator", State: bus.Stopped}, Yellow, "no curator runs"},
		{"nobody runs, work has come", Facts{Role: "curator", Waiting: 1, Oldest: time.Second}, Yellow, "no curator runs"},
		{"nobody runs, work waits", Facts{Role: "curator", Waiting: 2, Oldest: 61 * time.Second}, Red, "no curator runs: 2 messages wait, the oldest for 1m1s"},
		{"paused just now", with(func(f *Facts) { f.State, f.InState, f.Reason, f.Ailing = bus.Paused, time.Second, reason, 1 }), Yellow, "the reflector is paused for 1s: " + reason},
		{"paused for a while", with(func(f *Facts) { f.State, f.InState, f.Ailing = bus.Paused, 31*time.Second, 1 }), Red, "the reflector is paused for 31s"},
		{"paused for too long", with(func(f *Facts) { f.State, f.InState, f.Ailing = bus.Paused, 61*time.Second, 1 }), Red, "the reflector is paused for 1m1s"},
		{"paused again and again, and nothing went well", with(func(f *Facts) {
			f.State, f.InState, f.Waiting, f.Oldest, f.Settled = bus.Paused, time.Second, 3, time.Hour, time.Hour
		}), Red, "the reflector is paused for 1s"},
		{"unreachable just now", with(func(f *Facts) { f.State, f.InState = bus.Unavailable, time.Minute }), Yellow, "unavailable"},
		{"unreachable for too long", with(func(f *Facts) { f.State, f.InState = bus.Unavailable, time.Minute+1 }), Red, "unavailable"},
		{"outdated", with(func(f *Facts) { f.State, f.InState, f.Reason = bus.Outdated, 0, "version 2" }), Red, "the reflector is outdated: version 2"},
		{"some of many do not work", with(func(f *Facts) { f.Workers, f.Ailing = 3, 2 }), Yellow, "2 of 3 workers of the reflector are not at work"},
		{"nothing to learn", with(func(f *Facts) { f.Fruitless, f.Learned = 20, 61*time.Second }), Yellow, "nothing was learned from the last 20 messages, for 1m1s"},
		{"little to learn", with(func(f *Facts) { f.Fruitless, f.Learned = 19, time.Hour }), Green, ""},
		{"quick, and nothing to learn", with(func(f *Facts) { f.Fruitless, f.Learned = 1000, time.Minute }), Green, ""},
		{"never expected to learn", with(func(f *Facts) { f.Fruitless, f.Learned, f.Learns = 1000, time.Hour, false }), Green, ""},
		{"a dead letter, and all well again", with(func(f *Facts) { f.Settled = time.Hour }), Green, ""},
		{"a dead letter, and nothing since", with(func(f *Facts) { f.Buried, f.Settled = 1, 61*time.Second }), Yellow, "dead letters are all that came of the last 1 messages"},
		{"nothing but dead letters", with(func(f *Facts) { f.Buried, f.Settled = 5, 61*time.Second }), Red, "dead letters are all that came of the last 5 messages, and none went well for 1m1s"},
		{"dead letters a moment ago", with(func(f *Facts) { f.Buried, f.Settled = 50, time.Minute }), Green, ""},
		{"half of its age", with(func(f *Facts) { f.Waiting, f.Oldest, f.Keep = 1, 15*24*time.Hour, 30*24*time.Hour }), Red, "the oldest has waited for 15 days of 30 days"},
		{"not yet half of its age", with(func(f *Facts) { f.Waiting, f.Oldest, f.Keep = 1, 15*24*time.Hour-1, 30*24*time.Hour }), Green, ""},
		{"kept for ever", with(func(f *Facts) { f.Waiting, f.Oldest = 1, 1000*24*time.Hour }), Green, ""},
		{"nearly full", with(func(f *Facts) { f.Waiting, f.Bytes, f.MaxBytes = 1, 80, 100 }), Red, "nearly full, and 1 message waits: 80 of 100 bytes"},
		{"not nearly full", with(func(f *Facts) { f.Waiting, f.Bytes, f.MaxBytes = 1, 79, 100 }), Green, ""},
		{"full of what is settled", with(func(f *Facts) { f.Bytes, f.MaxBytes = 100, 100 }), Green, ""},
	} {
		v := Judge(row.facts, Floor)
		if v.Level != row.want || (v.Level == Green) != (len(v.Because) == 0) {
			t.Errorf("%s: got %+v, want %s", row.what, v, row.want)
		}
		if row.says != "" && !slices.ContainsFunc(v.Because, func(s string) bool { return strings.Contains(s, row.says) }) {
			t.Errorf("%s: got %q, want %q", row.what, v.Because, row.says)
		}
	}
}

func anyFacts(t *rapid.T) Facts {
	d := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "ns"))
	})
	f := Facts{
		Role: "curator", Workers: rapid.IntRange(0, 3).Draw(t, "workers"),
		State:   rapid.SampledFrom([]bus.State{bus.Running, bus.Unavailable, bus.Paused, bus.Outdated}).Draw(t, "state"),
		InState: d.Draw(t, "in state"), Waiting: rapid.Uint64Range(0, 3).Draw(t, "waiting"), Oldest: d.Draw(t, "oldest"),
		Settled: d.Draw(t, "settled"), P95: d.Draw(t, "p95") / 1000, Learns: rapid.Bool().Draw(t, "learns"), Learned: d.Draw(t, "learned"),
		Fruitless: rapid.Uint64Range(0, 40).Draw(t, "fruitless"), Keep: d.Draw(t, "keep"),
		Bytes: rapid.Uint64Range(0, 100).Draw(t, "bytes"), MaxBytes: rapid.Uint64Range(0, 100).Draw(t, "most"),
	}
	f.Buried = rapid.Uint64Range(0, 10).Draw(t, "buried")
	f.Ailing = rapid.IntRange(0, f.Workers).Draw(t, "ailing")
	return f
}

// TestTheVerdictIsMonotone: what waits longer, or went well longer ago, is never better; and patience is never worse.
func TestTheVerdictIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		floor := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "floor"))
		v := Judge(f, floor)
		later := f
		later.Oldest += time.Hour
		later.Settled += time.Hour
		later.InState += time.Hour
		later.Learned += time.Hour
		if w := Judge(later, floor); w.Level.Rank() < v.Level.Rank() {
			t.Fatalf("an hour later %+v is better than %+v", w, v)
		}
		if w := Judge(f, floor+time.Hour); w.Level.Rank() > v.Level.Rank() {
			t.Fatalf("with more patience %+v is worse than %+v", w, v)
		}
		if (v.Level == Green) != (len(v.Because) == 0) {
			t.Fatalf("%+v has no reason, or one too many", v)
		}
		if f.Waiting == 0 && f.Buried < buriedMost && f.Workers > 0 && f.State == bus.Running && v.Level == Red {
			t.Fatalf("idle and at work: %+v", v)
		}
		if f.Waiting > 0 && min(f.Oldest, f.Settled) > Limit(floor, f.P95) && v.Level != Red {
			t.Fatalf("nothing went well while work waited: %+v", v)
		}
	})
}

func TestTheLimitIsTheLonger(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ floor, p95, want time.Duration }{
		{time.Minute, 0, time.Minute},
		{time.Minute, 20 * time.Second, time.Minute},
		{time.Minute, 21 * time.Second, 63 * time.Second},
	} {
		if got := Limit(row.floor, row.p95); got != row.want {
			t.Errorf("floor %s, p95 %s: got %s, want %s", row.floor, row.p95, got, row.want)
		}
	}
}
