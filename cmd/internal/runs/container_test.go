package runs

import (
	"fmt"
	"strings"
	"testing"

	"debrief/events"
)

// TestContainersOfAnySize reads a list of runs inside an object that is larger than the limit of a run.
func TestContainersOfAnySize(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 50 {
		list = append(list, fmt.Sprintf(`{"id":"%d","task_id":"%d","messages":[{"role":"assistant","content":"hi"},{"role":"user","content":"q"},{"role":"assistant","content":"%s"}],"reward_info":{"reward":%d}}`, i, i, strings.Repeat("x", 100), i%2))
	}
	text := `{"info":{"agent_info":{"llm":"m"}},"tasks":[{"x":1}],"simulations":[` + strings.Join(list, ", ") + `],"more":{"a":[1]}}`
	for name, text := range map[string]string{"one line": text, "two files": text[:len(text)-1] + "} \n" + text, "lines": strings.ReplaceAll(text, ",", ",\n")} {
		runs, right := 0, 0
		f := fileReader{Reader: &Reader{Book: "book"}, base: "x", limit: 1000, fn: func(e *events.Execution) error {
			runs++
			if e.Outcome.Label == events.Success {
				right++
			}
			if e.Model != "m" || e.Question != "q" || len(e.Steps) != 2 {
				t.Errorf("%s: got %+v", name, e)
			}
			return nil
		}}
		err := f.read(t.Context(), strings.NewReader(text))
		if want := 50 * strings.Count(text, "simulations"); err != nil || runs != want || right != want/2 || f.report.Skipped != 0 {
			t.Errorf("%s: got %d runs, %d right, report %+v, error %v", name, runs, right, f.report, err)
		}
	}
}

func TestDamagedContainers(t *testing.T) {
	t.Parallel()
	const run = `{"task_id":"1","messages":[{"role":"assistant","content":"a"}],"termination_reason":"user_stop"}`
	for text, want := range map[string]string{
		`{"simulations":[` + run:                     "truncated",
		`{"simulations":[` + run + `]`:               "truncated",
		`{"simulations":[` + run + `] x`:             "unexpected data after the list",
		`{"simulations":[` + run + `],"a":1} x`:      "unexpected 'x'",
		`{"simulations":[` + run + `,{"task_id":1]}`: "element 2",
		`{"simulations":[` + run + `],3:1}`:          "invalid field after the list",
	} {
		got, report, err := read(t, "f", text)
		if len(got) != 1 || report.Runs != 1 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %d runs, error %v, want %q", text, len(got), err, want)
		}
	}
}

// TestListsInsideRuns checks that a run with a list under the name of a container is a run.
func TestListsInsideRuns(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"question":"q","data":[{"x":1}],"answer":"a"}`,
		`{"id":"x","spans":[1,2],"question":"q","answer":"a"}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"data":[{"x":1}]}`,
	} {
		if e := one(t, text); e.Question != "q" || e.Answer != "a" {
			t.Errorf("%s: got %+v", text, e)
		}
	}
}
