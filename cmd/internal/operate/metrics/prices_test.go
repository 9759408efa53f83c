package metrics

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"debrief/events/chat"
)

func TestBuiltInTable(t *testing.T) {
	t.Parallel()
	table, err := LoadPrices("")
	if err != nil || table.Date == "" || len(table.Models) == 0 {
		t.Fatalf("got %+v and error %v", table, err)
	}
	for model, want := range map[string]string{
		"gpt-4o": "gpt-4o", "gpt-4o-2024-08-06": "gpt-4o", "openai/gpt-4o-mini": "gpt-4o-mini", "claude-sonnet-4-5-20250929": "claude-sonnet-4-5",
		"gpt-4o-audio": "", "llama3": "", "": "", "gpt-4o-2024": "",
	} {
		if got, ok := table.Name(model); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, want %q", model, got, want)
		}
	}
	usage := chat.Usage{InputTokens: 1_000_000, CachedTokens: 400_000, OutputTokens: 100_000}
	if got, want := table.Dollars("gpt-4o", usage), 0.6*2.5+0.4*1.25+0.1*10; math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v dollars, want %v", got, want)
	}
}

func TestFileReplacesTheTable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, words string }{
		"valid":         {"date: 2030-01-02\nmodels: {llama3: {input: 1, output: 2}}", ""},
		"no date":       {"models: {}", "date: want a day"},
		"unknown field": {"date: 2030-01-02\nmodels: {m: {price: 1}}", "invalid table"},
		"negative":      {"date: 2030-01-02\nmodels: {m: {input: -1}}", "m: must be at least 0"},
		"too many":      {"date: 2030-01-02\nmodels:\n" + pricedModels(101), "at most 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "prices.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			table, err := LoadPrices(file)
			if test.words == "" {
				_, has := table.Name("llama3")
				_, hadBefore := table.Name("gpt-4o")
				if err != nil || !has || hadBefore {
					t.Errorf("got %+v and error %v", table, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
	if _, err := LoadPrices("nowhere"); err == nil {
		t.Error("got no error for a missing file")
	}
}

// pricedModels returns the lines of n models.
func pricedModels(n int) string {
	var lines strings.Builder
	for i := range n {
		lines.WriteString("  m" + strings.Repeat("1", i+1) + ": {input: 1}\n")
	}
	return lines.String()
}

func TestErrorsOfATableAreSorted(t *testing.T) {
	t.Parallel()
	_, err := parse([]byte("date: 2030-01-02\nmodels: {d: {input: -1}, b: {input: -1}, e: {input: -1}, a: {input: -1}, c: {input: -1}, f: {input: -1}}"))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 6 || !slices.IsSorted(lines) {
		t.Errorf("got %q, want six errors in the order of the models", lines)
	}
}
