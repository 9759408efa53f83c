package reflector

import (
	"strings"
	"testing"

	"debrief/events"
)

// TestRecordsOnlyWhereTheyAreRead checks that the prompt asks for records only of runs whose next context has them: not of runs that got
// advice in a call through the gateway.
func TestRecordsOnlyWhereTheyAreRead(t *testing.T) {
	t.Parallel()
	step := events.Step{Calls: []events.ToolCall{{Tool: "find_order", Output: "409", Outcome: events.Failure}}}
	for name, test := range map[string]struct {
		session  string
		manifest *events.Manifest
		want     bool
	}{
		"agent in a session":          {"s", &events.Manifest{}, true},
		"agent without a context":     {"s", nil, true},
		"gateway":                     {"s", &events.Manifest{Advice: true}, false},
		"without a session to follow": {"", &events.Manifest{}, false},
	} {
		e := &events.Execution{
			Session: test.session, Question: "Where is A-1?", Manifest: test.manifest, Steps: []events.Step{step},
			Outcome: events.Outcome{Label: events.Failure},
		}
		p := reflectionPrompt(e, Config{})
		if got := strings.Contains(p.Messages[0].Text, `"records"`); got != test.want {
			t.Errorf("%s: asks for records: %t", name, got)
		}
		t.Logf("%s: %d tokens", name, p.Tokens())
	}
}
