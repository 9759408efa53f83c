package rules

import (
	"fmt"
	"testing"

	"debrief/events"
)

// long returns a run with this number of calls: lookups, changes, a shell, and a few errors.
func long(calls int) *events.Execution {
	var lines []string
	for i := range calls {
		switch i % 8 {
		case 0:
			lines = append(lines, fmt.Sprintf(`get_order {"order_id":"W%d"} => {"id":"W%d","items":[1,2,3]}`, i, i))
		case 1:
			lines = append(lines, fmt.Sprintf(`bash {"command":"cd /repo && grep -rn name%d src | head -5"} => src/a%d.py:3: name`, i, i))
		case 2:
			lines = append(lines, fmt.Sprintf(`open src/a%d.py => 1: name = 2`, i-1))
		case 3:
			lines = append(lines, fmt.Sprintf(`edit {"path":"src/a%d.py","text":"name = 3"} => ok`, i-2))
		case 4:
			lines = append(lines, `bash {"command":"python -m pytest tests/test_a.py -q 2>&1 | tail -20"} => 3 passed`)
		case 5:
			lines = append(lines, fmt.Sprintf(`update_order {"order_id":"W%d","items":[{"id":1,"price":%d}]} => Error: price does not add up, total %d`, i-5, i, i+1))
		case 6:
			lines = append(lines, fmt.Sprintf(`calculate {"expression":"%d + 1"} => %d`, i, i+1))
		default:
			lines = append(lines, fmt.Sprintf(`update_order {"order_id":"W%d","items":[{"id":1,"price":%d}]} => ok`, i-7, i))
		}
	}
	return executionOf(events.Success, lines...)
}

func BenchmarkAdd(b *testing.B) {
	for _, calls := range []int{20, 200} {
		e := long(calls)
		e.Origin.Task = "t"
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			a := NewAnalysis()
			b.ReportAllocs()
			for b.Loop() {
				a.Add(e)
			}
		})
	}
}
