package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// examples are settings that a table shows with another value than the default.
var examples = []string{"batch", "order"}

// TestPagesShowTheDefaults compares the defaults of settings on the pages with those of the program: values after a flag in
// the first column of a table, and sizes in parentheses.
func TestPagesShowTheDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	t.Parallel()
	defaults := map[string]string{}
	for _, command := range [][]string{{"up"}, {"train", "tasks.jsonl", "--simulated"}} {
		var all []struct{ Name, Value, Origin string }
		if err := json.Unmarshal(run(t, program(t, "debrief"), append(command, "--json", "--show-config")...), &all); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Origin == "default" {
				defaults[s.Name] = s.Value
			}
		}
	}
	inTable := regexp.MustCompile("(?m)^\\| .*?`--([a-z-]+) ([a-z0-9.]+)`[^|]*\\|")
	inText := regexp.MustCompile("`--([a-z-]+)` \\(([0-9]+ [KMG]iB)")
	found := 0
	for _, name := range repositoryFiles(t) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range slices.Concat(inTable.FindAllStringSubmatch(string(text), -1), inText.FindAllStringSubmatch(string(text), -1)) {
			want, known := defaults[m[1]]
			if !known || want == "" || slices.Contains(examples, m[1]) {
				continue
			}
			found++
			if got := bytesOf(m[2]); got != bytesOf(want) {
				t.Errorf("%s: --%s: got %s, want the default %s", name, m[1], m[2], want)
			}
		}
	}
	if found < 6 {
		t.Errorf("found only %d defaults", found)
	}
}

// bytesOf returns a size in bytes, or the text if it is no size.
func bytesOf(text string) string {
	for shift, unit := range map[int]string{10: "KiB", 20: "MiB", 30: "GiB"} {
		number, ok := strings.CutSuffix(text, unit)
		if n, err := strconv.Atoi(strings.TrimSpace(number)); ok && err == nil {
			return strconv.Itoa(n << shift)
		}
	}
	return text
}
