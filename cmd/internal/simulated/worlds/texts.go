package worlds

import (
	"fmt"
	"slices"
	"strings"
)

// WriteTasks returns the first n tasks with different questions. next returns the next task, or false for one to skip. The ids are the name
// of the list and a number.
func WriteTasks(list string, n int, next func() (Task, bool)) []Task {
	seen := make(map[string]bool)
	out := make([]Task, 0, n)
	for len(out) < n {
		t, ok := next()
		if !ok || seen[t.Question] {
			continue
		}
		seen[t.Question] = true
		t.ID = fmt.Sprintf("%s-%05d", list, len(out)+1)
		out = append(out, t)
	}
	return out
}

// ByHand states rules, each in one of its wordings.
func ByHand[R any](seed uint64, rules []R, rule func(R) Rule) []string {
	out := make([]string, len(rules))
	for i := range rules {
		r := rule(rules[i])
		out[i] = r.Text(Draw(seed, "by hand", r.Condition()))
	}
	return out
}

// Platitudes returns 40 combinations of two lists. Each next one is stride further in the list of all combinations.
func Platitudes(stride int, starts, ends []string) []string {
	out := make([]string, 40)
	for i := range out {
		k := i * stride % (len(starts) * len(ends))
		out[i] = starts[k%len(starts)] + " " + ends[k/len(starts)]
	}
	return out
}

// Distinct returns the first n different texts of a sequence.
func Distinct(n int, write func(i int) string) []string {
	seen := make(map[string]bool)
	var out []string
	for i := 0; len(out) < n; i++ {
		if text := write(i); !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return slices.Clip(out)
}

// InventedNames returns all names of a beginning and an end, with a capital first letter. The end changes faster.
func InventedNames(beginnings, ends string) (names []string) {
	for _, b := range strings.Fields(beginnings) {
		for _, e := range strings.Fields(ends) {
			names = append(names, strings.ToUpper(b[:1])+b[1:]+e)
		}
	}
	return names
}
