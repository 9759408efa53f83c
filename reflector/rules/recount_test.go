package rules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/reflector/rules"
)

// The tests here count the evidence again, without the code under test: from a list of calls in a form of their own.

// move is a call of a random run: of the tool "send" with two arguments, or of another tool.
type move struct {
	tool, key, value string
	fails            bool
}

// worlds decide whether a call of "send" fails, so that each kind of remedy has evidence somewhere.
var worlds = []func(r *rand.Rand, before []move, m move) bool{
	func(r *rand.Rand, _ []move, _ move) bool { return r.IntN(3) == 0 },
	func(r *rand.Rand, before []move, _ move) bool { return !anyMove(before, "unlock") || r.IntN(20) == 0 },
	func(_ *rand.Rand, before []move, m move) bool {
		return !slices.ContainsFunc(before, func(b move) bool { return b.key == m.key })
	},
	func(r *rand.Rand, _ []move, m move) bool { return m.value[0] != 'a' || r.IntN(20) == 0 },
	func(r *rand.Rand, before []move, m move) bool {
		return m.value[0] != 'a' || !anyMove(before, "refresh")
	},
}

func anyMove(moves []move, tool string) bool {
	return slices.ContainsFunc(moves, func(m move) bool { return m.tool == tool })
}

func randomRun(r *rand.Rand, fails func(*rand.Rand, []move, move) bool) []move {
	var moves []move
	for range 2 + r.IntN(9) {
		m := move{tool: "send", key: strings.Repeat(string(rune('k'+r.IntN(2))), 50), value: strings.Repeat(string(rune('a'+r.IntN(2))), 50)}
		if r.IntN(4) == 0 {
			m = move{tool: []string{"unlock", "refresh"}[r.IntN(2)]}
		} else {
			m.fails = fails(r, moves, m)
		}
		moves = append(moves, m)
	}
	return moves
}

// execution returns the run of the moves: one step for each.
func execution(task string, n int, moves []move) *events.Execution {
	var steps []step
	for _, m := range moves {
		s := step{m.tool, `{}`, "ok"}
		if m.tool == "send" {
			s.arguments = fmt.Sprintf(`{"key":%q,"value":%q}`, m.key, m.value)
		}
		if m.fails {
			s.output = "!temporarily rejected"
		}
		steps = append(steps, s)
	}
	e := run(task, steps...)
	e.ID = events.Hash(task, fmt.Sprint(n))
	return e
}

// tally is a count of one remedy, as the test counts it.
type tally struct {
	worked, failed int
	tasks          map[string]bool
}

// recount counts each remedy of the error of "send" again.
func recount(runs map[string][][]move) (met, repeated int, tallies map[string]*tally) {
	tallies = map[string]*tally{}
	for task, list := range runs {
		for _, moves := range list {
			worked, failed, seen := map[string]bool{}, map[string]bool{}, false
			for i, m := range moves {
				if !m.fails {
					continue
				}
				seen = true
				for j := i + 1; j < len(moves); j++ {
					if moves[j].tool != "send" || moves[j].key != m.key && moves[j].value != m.value {
						continue
					}
					into := worked
					if moves[j].fails {
						into = failed
					}
					for _, name := range remediesAgain(m, moves[i+1:j], moves[j]) {
						into[name] = true
					}
					into["any"] = true
					if m.key == moves[j].key && m.value == moves[j].value {
						into["unchanged"] = true
					}
					break
				}
			}
			if !seen {
				continue
			}
			met++
			if failed["any"] {
				repeated++
			}
			for name := range worked {
				add(tallies, name).worked++
				add(tallies, name).tasks[task] = true
			}
			for name := range failed {
				add(tallies, name).failed++
			}
		}
	}
	return met, repeated, tallies
}

func add(tallies map[string]*tally, name string) *tally {
	if tallies[name] == nil {
		tallies[name] = &tally{tasks: map[string]bool{}}
	}
	return tallies[name]
}

// remediesAgain names the differences between two calls of "send" as lessons do.
func remediesAgain(from move, between []move, to move) []string {
	var names, calls []string
	for _, m := range between {
		if m.tool != "send" {
			calls = append(calls, "call `"+m.tool+"` first")
		}
	}
	names = append(names, calls...)
	for name, differs := range map[string]bool{"key": from.key != to.key, "value": from.value != to.value} {
		if !differs {
			continue
		}
		names = append(names, "change `"+name+"`")
	}
	if from.key == to.key && from.value == to.value && len(calls) == 0 {
		names = append(names, "call it again with the same arguments")
	}
	return names
}

func TestEvidenceIsCountedAgain(t *testing.T) {
	t.Parallel()
	checked := map[string]int{}
	sets := 400
	if testing.Short() {
		sets = 100
	}
	for seed := range uint64(sets) {
		r := rand.New(rand.NewPCG(seed, 17))
		runs := map[string][][]move{}
		x := rules.NewErrors()
		for i := range 20 {
			task := fmt.Sprint("task ", r.IntN(6))
			moves := randomRun(r, worlds[seed%uint64(len(worlds))])
			runs[task] = append(runs[task], moves)
			x.Add(execution(task, i, moves))
		}
		met, repeated, tallies := recount(runs)
		for _, l := range x.Lessons() {
			check(t, l)
			e := l.Error
			checked[e.Remedy]++
			want := add(tallies, e.Remedy)
			if e.Runs != met || e.Repeated != repeated || e.Worked != want.worked || e.Failed != want.failed || len(l.Executions) == 0 {
				t.Errorf("seed %d: got %+v\nwant %d runs, %d repeated, %+v", seed, e, met, repeated, want)
			}
			if e.Tasks != len(want.tasks) || e.Tasks < 2 || 2*e.Worked <= e.Runs {
				t.Errorf("seed %d: %+v: want the evidence of most runs and of %d tasks", seed, e, len(want.tasks))
			}
		}
	}
	t.Logf("checked %v", checked)
	if len(checked) < 2 {
		t.Errorf("got evidence for %v, want more kinds of remedies", checked)
	}
}
