package capture

import (
	"testing"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/direct"
)

// FuzzStoredRun decodes arbitrary bytes as a run and as its calls. All accepted values must be usable, and a report must fit.
func FuzzStoredRun(f *testing.F) {
	seed := func(v any) []byte {
		data, err := events.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	full := &run{
		ID: "id", Owner: "ann", Book: "b", TurnItem: 1, Block: &Block{Text: "t", ContextID: "c"}, Earlier: []placement{{0, "q", "h"}},
		Attempts: []attempt{{ID: "a", Call: 1, Try: 1, State: complete}, {ID: "b", Call: 2, After: 1, Try: 1}}, Calls: 2,
		Started: at, Active: at, Parts: []*part{{Call: 1, Try: 1}}, Tail: []modelapi.Item{{Role: modelapi.RoleTool, Results: []modelapi.ToolResult{{CallID: "a"}}}}, Next: "no",
	}
	reply := newItem(modelapi.Item{Role: modelapi.RoleAssistant, Text: "t", Calls: []modelapi.ToolCall{{ID: "a", Name: "n"}}})
	f.Add(seed(full), seed(&part{Call: 1, Try: 1, Question: "q", Complete: true, Reply: reply, Begun: at, Ended: at}))
	f.Add(seed(&run{ID: "id"}), seed(&part{Call: 2, Complete: true, Items: []modelapi.Item{{Role: modelapi.RoleTool}, {Role: modelapi.RoleUser, Text: "u"}}}))
	f.Add(seed(&run{Attempts: []attempt{{Call: -1, Try: -1, State: 9}}}), seed(&part{Call: -1, Complete: true}))
	f.Add([]byte{}, []byte("\xc1"))
	f.Fuzz(func(t *testing.T, runData, callData []byte) {
		r, err := decode[run](&direct.Message{Header: events.SchemaHeader(), Data: runData})
		if err != nil {
			return
		}
		now := at.Add(time.Hour)
		_, _, _ = r.isDue(now, time.Minute), r.lastReply(), r.placements()
		list := []candidate{{revision{r, 1}, 1}}
		_ = openOnly(list)
		_, _ = repeatedStart(list, 1)
		if a, err := r.clone().addAttempt("new", r.lastReply(), 1, 0, now); err == nil && a.ID != "new" {
			t.Errorf("began %+v", a)
		}
		c, err := decode[part](&direct.Message{Header: events.SchemaHeader(), Data: callData})
		if err != nil {
			return
		}
		c.shrink()
		if report := newReport(r, []*part{c, c}); report != nil && size(report) > maxReport {
			t.Errorf("a report of %d bytes", size(report))
		}
	})
}
