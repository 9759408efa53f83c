package runs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHostileTracesTakeBoundedTime reads traces of some MB that make searches expensive: many calls of one tool without results,
// many tool spans without calls, long arguments that differ, and many equal messages.
func TestHostileTracesTakeBoundedTime(t *testing.T) {
	t.Parallel()
	n := 3_000
	if testing.Short() {
		n = 1_000
	}
	var calls, spans, messages []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"id":"c%d","function":{"name":"f","arguments":"{\"a\": %d}"}}`, i, i))
		spans = append(spans, fmt.Sprintf(`{"id":"s%d","type":"TOOL","name":"f","input":{"a":-%d},"output":"x","startTime":"2031-05-17T10:00:01Z"}`, i, i))
		messages = append(messages, `{"role":"tool","content":"x"}`)
	}
	var longCalls, longSpans []string
	for i := range 700 {
		long := fmt.Sprintf(`{"a":%d,"b":[0%s]}`, i, strings.Repeat(",111111", 1_000))
		longCalls = append(longCalls, fmt.Sprintf(`{"function":{"name":"f","arguments":%q}}`, long))
		longSpans = append(longSpans, fmt.Sprintf(`{"id":"s%d","type":"TOOL","name":"f","input":{"c":0,%s,"output":"x","startTime":"2031-05-17T10:00:01Z"}`, i, long[1:]))
	}
	model := func(output string) string {
		return `{"id":"m","type":"GENERATION","startTime":"2031-05-17T10:00:00Z","input":[{"role":"user","content":"q"},` + strings.Join(messages, ",") + `],"output":` + output + `}`
	}
	for name, text := range map[string]string{
		"calls and spans": `{"observations":[` + model(`{"role":"assistant","tool_calls":[`+strings.Join(calls, ",")+`]}`) + "," + strings.Join(spans, ",") + `]}`,
		"long arguments":  `{"observations":[` + model(`{"role":"assistant","tool_calls":[`+strings.Join(longCalls, ",")+`]}`) + "," + strings.Join(longSpans, ",") + `]}`,
		"spans":           `{"observations":[` + model(`"a"`) + "," + strings.Join(spans, ",") + `]}`,
		"deep":            `{"id":"l","run_type":"llm","inputs":{"messages":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `},"outputs":{"output":"a"}}`,
		"nested":          strings.Repeat(`{"id":"l","run_type":"chain","child_runs":[`, 3000) + strings.Repeat("]}", 3000),
		"JSON in text":    `{"openinference.span.kind":"LLM","input.value":"` + strings.Repeat(`[\"`, n) + `","output.value":"a"}`,
	} {
		began := time.Now()
		_, report, err := read(t, "f", text)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %d bytes took %s", name, len(text), took)
		}
		t.Logf("%s: %d bytes in %s, %d runs, error %v", name, len(text), time.Since(began).Round(time.Millisecond), report.Runs, err != nil)
	}
}
