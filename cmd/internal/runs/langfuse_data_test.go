package runs

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"debrief/events"
)

// dataDir returns the folder of the recorded data.
func dataDir() string { return cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../shared/data") }

// recordedFile returns a file of the recorded data, or skips the test.
func recordedFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dataDir(), name))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	return raw
}

var langfuseNames = []string{
	"claude-agent-2025-12-22", "crewai-2025-07-11", "google-adk-2025-08-28", "langgraph-python-2025-08-22",
	"openai-agents-2025-09-30", "pydantic-ai-2025-06-06", "vercel-aisdk-2025-11-17",
}

// TestLangfuseRuns compares the runs with counts found by reading the files.
func TestLangfuseRuns(t *testing.T) {
	t.Parallel()
	type count struct {
		calls, input, output int
		question, answer     string
		label                events.Label
	}
	for i, want := range []count{
		{2, 34, 232, "What's the weather like in Berlin and New York?", "Great! Here's the current weather", events.Failure},
		{0, 190, 164, "\nCurrent Task: Define the HTML", "I now can give a great answer", events.Unknown},
		{1, 67, 9, "hi", "Hello Langfuse", events.Unknown},
		{1, 168, 66, "Be helpful!", "The search for", events.Unknown},
		{1, 140, 44, "What's the weather in Tokyo?", "The weather in Tokyo is currently sunny", events.Unknown},
		{0, 31, 96, "What is Langfuse?", "Langfuse is a tool", events.Unknown},
		{1, 62, 85, "What is the weather like today in San Francisco?", "", events.Unknown},
	} {
		name := langfuseNames[i]
		got, report, err := read(t, name+".trace.json", string(recordedFile(t, "langfuse/"+name+".trace.json")))
		if err != nil || len(got) != 1 || report.Source != sourceLangfuse {
			t.Errorf("%s: got %d runs, %+v, error %v", name, len(got), report, err)
			continue
		}
		e := got[0]
		calls := 0
		for _, s := range e.Steps {
			for _, c := range s.Calls {
				calls++
				if c.Outcome != events.Success || c.Output == "" {
					t.Errorf("%s: got call %+v, want a result", name, c)
				}
			}
		}
		if calls != want.calls || e.Usage.InputTokens != want.input || e.Usage.OutputTokens != want.output || e.Outcome.Label != want.label ||
			!strings.HasPrefix(e.Question, want.question) || !strings.HasPrefix(e.Answer, want.answer) {
			t.Errorf("%s: got %d calls, usage %+v, outcome %+v, question %.50q, answer %.50q, %d steps; want %+v", name, calls, e.Usage, e.Outcome, e.Question, e.Answer, len(e.Steps), want)
		}
	}
}
