package rules

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/events"
)

const maxCalls = 30

func TestFirstDifference(t *testing.T) {
	t.Parallel()
	const tail = ": of two runs at one task, the one that succeeded did so in {helpful} pairs, the one that failed in {harmful}."
	tests := []struct {
		name      string
		good, bad []string
		key, text string // of the first finding; empty: no difference
	}{
		{"another call", []string{"get(id)", "check(id)", "book(id)"}, []string{"get(id)", "book(id)"}, "pair/get/check/book", "After `get`, call `check` and not `book`" + tail},
		{"other arguments", []string{"get(id)", "book(id, seat)"}, []string{"get(id)", "book(id)"}, "pair/get/book(id, seat)/book(id)", "After `get`, call `book(id, seat)` and not `book(id)`" + tail},
		{"at the start", []string{"a"}, []string{"b"}, "pair/the start/a/b", "After the start, call `a` and not `b`" + tail},
		{"the failed one stopped", []string{"a", "b"}, []string{"a"}, "pair/a/b/nothing more", "After `a`, go on to `b`" + tail},
		{"the failed one went on", []string{"a"}, []string{"a", "b"}, "pair/a/nothing more/b", "After `a`, do not go on to `b`" + tail},
		{"the same", []string{"a", "b"}, []string{"a", "b"}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := FirstDifference(tt.good, tt.bad, maxCalls)
			if tt.key == "" {
				if len(found) > 0 {
					t.Errorf("got %s, want nothing", toJSON(found))
				}
				return
			}
			checkBounds(t, found)
			if len(found) != 2 || found[0].Key != tt.key || found[0].Text != tt.text || found[0].Vote != events.Helpful || !found[0].Paired {
				t.Errorf("got %s\nwant %q: %s", toJSON(found), tt.key, tt.text)
			}
			reversed := FirstDifference(tt.bad, tt.good, maxCalls)
			if found[1].Key != reversed[0].Key || found[1].Vote != events.Harmful || reversed[1].Key != found[0].Key || reversed[1].Vote != events.Harmful {
				t.Errorf("got %s\nreversed: %s, want the same two keys with the votes swapped", toJSON(found), toJSON(reversed))
			}
		})
	}
}

func TestCallNames(t *testing.T) {
	t.Parallel()
	e := executionOf(events.Success, `get {"b":1,"a":"secret"} => x`, `get {"a":2,"b":3} => y`, `bash {"command":"cd /x && git status; pytest -q"} => ok`, `open src/a.py => x`, `edit 1:1 => ok`)
	if got, want := CallNames(e, maxCalls), []string{"get(a, b)", "git status", "pytest", "open .py", "edit .py"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var many []string
	for i := range 2 * maxCalls {
		many = append(many, fmt.Sprintf("tool%d {} => x", i))
	}
	if got := len(CallNames(executionOf(events.Success, many...), maxCalls)); got != maxCalls {
		t.Errorf("got %d calls, want %d", got, maxCalls)
	}
}

// The votes of the two bullets of a pair mirror each other.
func TestOppositeFindingsCountAllPairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.SampledFrom([]string{"a(x)", "a(x, y)", "b", "c"}), 1, 4)
		votes := map[string][2]int{}
		for range rapid.IntRange(1, 20).Draw(t, "pairs") {
			found := FirstDifference(calls.Draw(t, "good"), calls.Draw(t, "bad"), maxCalls)
			for _, f := range found {
				v := votes[f.Key]
				if f.Vote == events.Helpful {
					v[0]++
				} else {
					v[1]++
				}
				votes[f.Key] = v
			}
			if len(found) == 2 {
				a, b := votes[found[0].Key], votes[found[1].Key]
				if a[0] != b[1] || a[1] != b[0] {
					t.Fatalf("%s: %v, %s: %v", found[0].Key, a, found[1].Key, b)
				}
			}
		}
	})
}
