package traces_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/traces"
	"debrief/events"
	"debrief/reflector/rules"
	"debrief/reflector/rules/remedy"
)

// The tests here count the evidence of each bullet again, from the JSON of the recorded files. They share no code with the readers
// and the rules: a run is a list of calls, an error is a pattern, and a remedy is a condition on two calls and those in between.

// plainRun is a run as the test reads it.
type plainRun struct {
	task  string
	calls []plainCall
}

type plainCall struct {
	tool, output string
	arguments    object
	failed       bool
}

// plainRuns returns the runs of a file whose bullets the test can count again, or nil for another file.
func plainRuns(t *testing.T, name string, raw []byte) (runs []plainRun) {
	t.Helper()
	switch {
	case strings.HasPrefix(name, "tau-bench/"):
		var list []taskRun
		parse(t, raw, &list)
		for _, r := range list {
			run := plainRun{task: fmt.Sprint("tau-bench ", r.RunID)}
			for _, c := range rawCalls(r.rawRun) {
				run.calls = append(run.calls, plainCall{c.tool, c.output, parsed(c.arguments), strings.HasPrefix(c.output, "Error")})
			}
			runs = append(runs, run)
		}
	case strings.HasPrefix(name, "tau2/"):
		var file object
		parse(t, raw, &file)
		for _, s := range items(file["simulations"]) {
			runs = append(runs, plainRun{"tau2 " + s.(object)["task_id"].(string), tau2Calls(items(s.(object)["messages"]))})
		}
	case strings.Contains(name, "claude-code"):
		runs = claudeRuns(t, raw)
	}
	return runs
}

func tau2Calls(list []any) (calls []plainCall) {
	at := map[any]int{}
	for _, m := range list {
		m := m.(object)
		for _, c := range items(m["tool_calls"]) {
			c := c.(object)
			if m["role"] == "assistant" {
				at[c["id"]] = len(calls)
				calls = append(calls, plainCall{tool: c["name"].(string), arguments: c["arguments"].(object)})
			}
		}
		if i, ok := at[m["id"]]; ok && m["role"] == "tool" {
			calls[i].output, _ = m["content"].(string)
			calls[i].failed = strings.HasPrefix(calls[i].output, "Error") || m["error"] == true
		}
	}
	return calls
}

func claudeRuns(t *testing.T, raw []byte) (runs []plainRun) {
	t.Helper()
	bySession, at := map[any]int{}, map[any]int{}
	for line := range bytes.Lines(raw) {
		var o object
		parse(t, line, &o)
		m, ok := o["message"].(object)
		if !ok || o["isMeta"] == true {
			continue
		}
		n, known := bySession[o["sessionId"]]
		if !known {
			n = len(runs)
			bySession[o["sessionId"]] = n
			question, _ := m["content"].(string)
			runs = append(runs, plainRun{task: "claude " + question})
		}
		for _, p := range items(m["content"]) {
			p := p.(object)
			switch p["type"] {
			case "tool_use":
				at[p["id"]] = len(runs[n].calls)
				runs[n].calls = append(runs[n].calls, plainCall{tool: p["name"].(string), arguments: p["input"].(object)})
			case "tool_result":
				c := &runs[n].calls[at[p["tool_use_id"]]]
				c.output, _ = p["content"].(string)
				c.failed = p["is_error"] == true
			}
		}
	}
	return runs
}

var placeholders = regexp.MustCompile(`<[a-z]+>`)

// saying returns a pattern of an error with placeholders, in any case.
func saying(text string) *regexp.Regexp {
	parts := placeholders.Split(text, -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?i)` + strings.Join(parts, `\S+`))
}

// nextTry returns the index of the next call of a tool that has an argument in common with a call, or -1.
func nextTry(calls []plainCall, i int) int {
	for j := i + 1; j < len(calls); j++ {
		if calls[j].tool != calls[i].tool {
			continue
		}
		for name, v := range calls[i].arguments {
			if s, isText := v.(string); isText && len(s) < 3 || v == nil {
				continue
			}
			switch v.(type) {
			case float64, bool:
				continue
			}
			if reflect.DeepEqual(v, calls[j].arguments[name]) {
				return j
			}
		}
	}
	return -1
}

// condition reports whether a call after a failed one, with the calls in between, follows a remedy.
type condition func(failed, next *plainCall, between []plainCall) bool

var (
	addUp  = regexp.MustCompile("^make `([a-z_]+)` add up to the first number in the error$")
	before = regexp.MustCompile("^call `([A-Za-z_]+)` with the same `([a-z_]+)` first$")
)

// conditionOf returns the condition of a remedy, or nil if the test does not know it.
func conditionOf(said string, pattern *regexp.Regexp) condition {
	if m := addUp.FindStringSubmatch(said); m != nil {
		return func(failed, next *plainCall, _ []plainCall) bool {
			want := firstNumber(pattern.FindString(failed.output))
			return amounts(next.arguments[m[1]]) == want && amounts(failed.arguments[m[1]]) != want
		}
	}
	if m := before.FindStringSubmatch(said); m != nil {
		return func(failed, next *plainCall, between []plainCall) bool {
			return slices.ContainsFunc(between, func(c plainCall) bool {
				return c.tool == m[1] && !c.failed && c.arguments[m[2]] == failed.arguments[m[2]]
			})
		}
	}
	if said == "" { // a warning
		return func(_, _ *plainCall, _ []plainCall) bool { return false }
	}
	return nil
}

func firstNumber(text string) float64 {
	var n float64
	if json.Unmarshal([]byte(regexp.MustCompile(`[0-9]+(\.[0-9]+)?`).FindString(text)), &n) != nil {
		return math.NaN()
	}
	return n
}

// amounts returns the sum of the amounts in a list of objects.
func amounts(v any) (sum float64) {
	for _, o := range items(v) {
		amount, _ := o.(object)["amount"].(float64)
		sum += amount
	}
	return sum
}

// countAgain counts the evidence of a lesson about an error of a tool.
func countAgain(runs []plainRun, tool string, pattern *regexp.Regexp, follows condition) (e remedy.Evidence) {
	workedIn, metIn := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		var met, worked, failed, repeated bool
		for i := range r.calls {
			c := &r.calls[i]
			if c.tool != tool || !c.failed || !pattern.MatchString(c.output) {
				continue
			}
			met, metIn[r.task] = true, true
			j := nextTry(r.calls, i)
			if j < 0 {
				continue
			}
			next := &r.calls[j]
			again := next.failed && pattern.MatchString(next.output)
			repeated = repeated || again
			if follows(c, next, r.calls[i+1:j]) {
				worked = worked || !next.failed
				failed = failed || again
			}
		}
		count(&e, met, worked, failed, repeated)
		if worked {
			workedIn[r.task] = true
		}
	}
	if e.Tasks = len(workedIn); e.Worked == 0 {
		e.Tasks = len(metIn)
	}
	return e
}

var aboutTool = regexp.MustCompile("(?:If|of|Before) `([^`]+)`")

// checkBullets counts each lesson again and returns their number.
func checkBullets(t *testing.T, name string, r rules.Result, runs []plainRun) int {
	t.Helper()
	for _, l := range r.Lessons {
		if len(l.Errors) == 0 {
			t.Errorf("%s: no second count for %q", name, l.Content)
		}
		for _, e := range l.Errors {
			pattern := saying(e.Error)
			follows, tool := conditionOf(e.Remedy, pattern), aboutTool.FindStringSubmatch(l.Content)
			if follows == nil || tool == nil || !strings.Contains(l.Content, e.Error) {
				t.Errorf("%s: no second count for %q", name, l.Content)
				continue
			}
			want := countAgain(runs, tool[1], pattern, follows)
			want.Error, want.Remedy, want.Examples = e.Error, e.Remedy, e.Examples
			if !reflect.DeepEqual(e, want) || want.Runs == 0 {
				t.Errorf("%s: %s\ngot  %+v\nwant %+v", name, l.Content, e, want)
			}
			t.Logf("%s: %s\n%s", name, l.Content, l.Evidence)
		}
	}
	return len(r.Lessons)
}

// TestEachBulletIsCountedAgain reads every recorded file, alone and then all of them as one playbook, and counts every number in the
// evidence of every bullet again.
func TestEachBulletIsCountedAgain(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../shared/data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	all, allRuns := rules.NewAnalysis(), []plainRun(nil)
	files, bullets := 0, 0
	for _, root := range []string{dir, filepath.Join(dir, "../findings")} {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(root, path)
			alone := rules.NewAnalysis()
			report, err := traces.Read(t.Context(), "book", filepath.Base(path), bytes.NewReader(raw), func(e *events.Execution) error {
				alone.Add(e)
				all.Add(e)
				return nil
			})
			if err != nil && report.Runs == 0 {
				return nil // no recording: a playbook, tasks, expected messages
			}
			runs := plainRuns(t, name, raw)
			allRuns = append(allRuns, runs...)
			files++
			bullets += checkBullets(t, name, alone.Result(), runs)
			return nil
		})
	}
	together := checkBullets(t, "all files", all.Result(), allRuns)
	t.Logf("%d files with %d bullets, %d bullets of all files together", files, bullets, together)
	if files < 25 || bullets < 2 || together != 1 {
		t.Errorf("got %d files with %d bullets, and %d bullets of all files", files, bullets, together)
	}
}
