package traces_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"debrief/events"
	"debrief/reflector/rules/remedy"
)

// lessonsOf returns the lessons about errors that the runs teach.
func lessonsOf(runs []*events.Execution) []remedy.Lesson {
	x := remedy.New(remedy.Config{})
	for _, e := range runs {
		x.Add(e)
	}
	return x.Lessons()
}

func contentsOf(lessons []remedy.Lesson) []string {
	var all []string
	for _, l := range lessons {
		all = append(all, l.Content)
	}
	return all
}

// attemptsAgain returns the pairs of a failed call of a tool with an error and the next call of the tool that has an
// argument in common with it.
func attemptsAgain(calls []rawCall, tool, said string) (pairs [][2]rawCall) {
	for i, c := range calls {
		if c.tool != tool || !strings.Contains(c.output, said) {
			continue
		}
		for _, d := range calls[i+1:] {
			if d.tool != tool {
				continue
			}
			shares := false
			was, is := parsed(c.arguments), parsed(d.arguments)
			for name, v := range was {
				switch w := v.(type) {
				case float64, bool:
				case string:
					shares = shares || len(w) > 2 && reflect.DeepEqual(v, is[name])
				default:
					shares = shares || reflect.DeepEqual(v, is[name])
				}
			}
			if shares {
				pairs = append(pairs, [2]rawCall{c, d})
				break
			}
		}
	}
	return pairs
}

// paid returns the sum of the payments of a booking.
func paid(c rawCall) (sum float64) {
	methods, _ := parsed(c.arguments)["payment_methods"].([]any)
	for _, m := range methods {
		amount, _ := m.(map[string]any)["amount"].(float64)
		sum += amount
	}
	return sum
}

// TestRemediesInServiceRuns checks the lessons of 150 real runs, and counts their evidence again from the raw file.
func TestRemediesInServiceRuns(t *testing.T) {
	t.Parallel()
	raw := dataFile(t, tauFile)
	var runs []*taskRun
	if err := json.Unmarshal(raw, &runs); err != nil {
		t.Fatal(err)
	}
	got := lessonsOf(read(t, tauFile, raw))
	want := []string{
		"If `book_reservation` answers \"payment amount does not add up, total price is <n>, but paid <n>\", make `payment_methods` add up to the first number in the error.",
	}
	if c := contentsOf(got); !reflect.DeepEqual(c, want) {
		t.Fatalf("got  %q\nwant %q", c, want)
	}

	const adds = "payment amount does not add up"
	var pay remedy.Evidence
	payTasks := map[int]bool{}
	for _, r := range runs {
		calls := rawCalls(r.rawRun)
		var worked, failed, repeated, metPay bool
		for _, c := range calls {
			metPay = metPay || c.tool == "book_reservation" && strings.Contains(c.output, adds)
		}
		for _, p := range attemptsAgain(calls, "book_reservation", adds) {
			_, after, _ := strings.Cut(p[0].output, "total price is ")
			number, _, _ := strings.Cut(after, ",")
			var price float64
			_ = json.Unmarshal([]byte(number), &price)
			exact := paid(p[1]) == price && paid(p[0]) != price
			worked = worked || exact && !strings.HasPrefix(p[1].output, "Error")
			failed = failed || exact && strings.Contains(p[1].output, adds)
			repeated = repeated || strings.Contains(p[1].output, adds)
		}
		count(&pay, metPay, worked, failed, repeated)
		if worked {
			payTasks[r.RunID] = true
		}
	}
	pay.Tasks = len(payTasks)
	for i, want := range []remedy.Evidence{pay} {
		e := got[i].Evidence[0]
		if len(e.Examples) == 0 || len(e.Examples) > 5 {
			t.Errorf("got %d examples", len(e.Examples))
		}
		t.Logf("%+v", e)
		e.Error, e.Remedy, e.Examples = "", "", nil
		if !reflect.DeepEqual(e, want) {
			t.Errorf("got  %+v\nwant %+v", e, want)
		}
	}
}

func count(e *remedy.Evidence, met, worked, failed, repeated bool) {
	for n, is := range map[*int]bool{&e.Runs: met, &e.Worked: worked, &e.Failed: failed, &e.Repeated: repeated} {
		if is {
			*n++
		}
	}
}

// TestRemediesInCodingRuns checks that single coding runs teach nothing, because an error needs two tasks. If each
// recording stood for two tasks, the lessons would be these.
func TestRemediesInCodingRuns(t *testing.T) {
	t.Parallel()
	var runs, twice []*events.Execution
	for _, name := range []string{"ctf-crypto-katy", "ctf-web-i-got-id", "function-calling-simple", "marshmallow-1867-function-calling", "pydicom-1458"} {
		e := read(t, name+".traj", dataFile(t, "swe-agent/"+name+".traj"))[0]
		second := *e
		second.Origin.Task = "another task"
		runs, twice = append(runs, e), append(twice, e, &second)
	}
	for _, name := range []string{"claude-code/full-session-two.jsonl", "kayba/b3db607f-7ae8-4089-b806-44800e961672.jsonl", "kayba/f967d602-325a-4a45-8d54-ee17484cfd96.jsonl"} {
		runs = append(runs, read(t, filepath.Base(name), dataFile(t, name))...)
	}
	if got := contentsOf(lessonsOf(runs)); len(got) > 0 {
		t.Errorf("got %q, want nothing", got)
	}
	want := []string{
		"If `edit` answers \"E999 IndentationError: unexpected indent\", correct the white space at the start of lines in `replacement_text`.",
	}
	if got := contentsOf(lessonsOf(twice)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestRemediesInReproductions checks the recordings with known wrong lessons.
func TestRemediesInReproductions(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"read-first.claude-code.jsonl": {"Before `Edit`, call `Read` with the same `file_path`. Otherwise `Edit` can answer \"File has not been read yet.\"."},
		"indentation-is-the-fix.traj":  nil, // one task
		"unparsable-arguments.json":    nil, // no errors
		"false-denominator.json":       nil,
	} {
		raw, err := os.ReadFile(filepath.Join("../../../../shared/findings", name))
		if err != nil {
			t.Skipf("no reproductions: %v", err)
		}
		if got := contentsOf(lessonsOf(read(t, name, raw))); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
