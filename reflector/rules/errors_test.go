package rules_test

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"debrief/reflector/rules"
)

func TestLessonsAreDeterministic(t *testing.T) {
	t.Parallel()
	runs := append(tasks(3, step{"read", `{"path":"src/a#.go"}`, "!ENOENT: no such file"}, sh("ls src && grep -r x .", "b#.go"), step{"read", `{"path":"src/lib/a#.go"}`, "ok"}),
		tasks(3, step{"get", `{"id":"a#","kind":"user","x":1}`, "!refused"}, step{"get", `{"id":"a#","kind":"admin","x":2}`, "ok"})...)
	first := learn(runs)
	for range 20 {
		if again := learn(runs); !reflect.DeepEqual(again, first) {
			t.Fatalf("got  %+v\nthen %+v", first, again)
		}
	}
	x := rules.NewErrors()
	for _, e := range runs {
		x.Add(e)
	}
	if a, b := x.Lessons(), x.Lessons(); !reflect.DeepEqual(a, b) {
		t.Errorf("a second call of Lessons differs: %+v, %+v", a, b)
	}
}

// TestMemoryIsBounded adds runs that all differ in arguments and tasks: first with more tools and errors than maxErrors, then
// with more changes of each of 1,000 errors than maxChanges. DEBRIEF_LONG=1 adds twice as many runs.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	x := rules.NewErrors()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	scale := 1
	if os.Getenv("DEBRIEF_LONG") != "" {
		scale = 2
	}
	runs := scale * 9000
	for i := range runs {
		errors := runs
		if i >= scale*5000 {
			errors = scale * 1000
		}
		word := strings.Map(func(r rune) rune { return 'a' + r - '0' }, fmt.Sprint(i%errors))
		var steps []step
		for j := range 10 {
			name := fmt.Sprintf("arg%d%d%s", i, j, strings.Repeat("x", 500))
			steps = append(steps, step{"tool_" + word, fmt.Sprintf(`{"id":"abcd","%s":%d}`, name, i), "!failed for " + word},
				step{fmt.Sprint("help", i, j), `{"id":"abcd"}`, "ok"}, step{"tool_" + word, `{"id":"abcd"}`, "ok"})
		}
		x.Add(run(fmt.Sprint(i), steps...))
	}
	grown := heap() - before
	t.Logf("%d MB after %d runs of 30 calls; %d lessons", grown>>20, runs, len(x.Lessons()))
	if most := uint64(40+10*scale) << 20; grown > most {
		t.Errorf("got %d MB, want at most %d", grown>>20, most>>20)
	}
}

// FuzzAdd adds executions of arbitrary calls. The separators of the input are line ends: tool, arguments, output.
func FuzzAdd(f *testing.F) {
	f.Add("read\n{\"path\":\"a\"}\n!no such file\nls\n{}\nx\nread\n{\"path\":\"/b/a\"}\nok", uint8(2))
	f.Add("Bash\n{\"command\":\"cd x && python y.py\"}\n!No module named 'z'\nBash\n{\"command\":\"pip install z; python y.py\"}\nok", uint8(3))
	f.Add("python\n-c 'print(1)' | tee <<EOF\n!Traceback (most recent call last):", uint8(1))
	f.Fuzz(func(t *testing.T, input string, copies uint8) {
		parts := strings.Split(input, "\n")
		var steps []step
		for i := 0; i+2 < len(parts) && len(steps) < 64; i += 3 {
			steps = append(steps, step{parts[i], parts[i+1], parts[i+2]})
		}
		x := rules.NewErrors()
		for i := range copies % 4 {
			x.Add(run(fmt.Sprint(i), steps...))
		}
		for _, l := range x.Lessons() {
			check(t, l)
		}
	})
}

// BenchmarkAdd adds a run of 30 calls, of which three fail.
func BenchmarkAdd(b *testing.B) {
	var steps []step
	for i := range 9 {
		steps = append(steps, step{"read", fmt.Sprintf(`{"path":"/src/f%d.go","limit":100}`, i), strings.Repeat("line of a file\n", 50)},
			sh("cd /repo && go test ./... | tail -5", "ok"), step{"edit", fmt.Sprintf(`{"path":"/src/f%d.go","text":"abc"}`, i), "ok"})
	}
	for i := range 3 {
		steps[9*i+1] = sh("cd /repo && go test ./...", "!no required module provides package example.com/x; to add it:")
	}
	e := run("task", append(steps, steps[:3]...)...)
	x := rules.NewErrors()
	b.ReportAllocs()
	for b.Loop() {
		x.Add(e)
	}
}
