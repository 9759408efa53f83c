package conversation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// session returns n steps with arguments and outputs of typical sizes.
func session(n int) []events.Step {
	steps := make([]events.Step, n)
	for i := range steps {
		output := fmt.Sprintf("src/file%d.go:%d: func parse(value string) error {\n", i, i) + strings.Repeat("\tif err != nil { return err }\n", 60)
		c := call("search_code", fmt.Sprintf(`{"pattern": "parse_%d", "path": "src/file%d.go", "limit": %d}`, i, i, i), output)
		if i%10 == 9 {
			c = fails("edit_file", fmt.Sprintf(`{"path":"src/file%d.go","text":"a\nb"}`, i), "Error: the file was not found")
		}
		steps[i] = step(c)
	}
	return steps
}

// BenchmarkLines also reports the mean per step, which stays constant as sessions grow.
func BenchmarkLines(b *testing.B) {
	const query = "Why does parsing a duration lose its precision when the value is rounded in src/file7.go?"
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		steps := session(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) { measureItems(b, n, func() { Lines(steps, query) }) })
	}
}

func BenchmarkStuck(b *testing.B) {
	for _, n := range []int{10, 1000} {
		steps := session(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) { measureItems(b, n, func() { Stuck(steps) }) })
	}
}

func BenchmarkRank(b *testing.B) {
	lines := Lines(session(1000), "")
	measureItems(b, len(lines), func() { Rank(lines, 2000) })
}

// BenchmarkMegabyte uses calls with one megabyte of the most expensive content.
func BenchmarkMegabyte(b *testing.B) {
	for name, part := range map[string]string{"lines": "error\n", "brackets": "[", "list": `[1,`, "bytes": "\xff", "spaces": " "} {
		text := strings.Repeat(part, 1<<20/len(part))
		steps := []events.Step{step(call("x", text, text)), step(fails("y", text, text))}
		b.Run(name, func(b *testing.B) { measureItems(b, len(steps), func() { Lines(steps, text) }) })
	}
}

// measureItems runs f, which handles n items, and reports the distribution of the duration per item.
func measureItems(b *testing.B, n int, f func()) {
	b.Helper()
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		f()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/float64(n), "p50-ns/step")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/float64(n), "p99-ns/step")
}
