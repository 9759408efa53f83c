package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/simulated/worlds"
	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat/openai"
	"debrief/reflector"
)

const (
	deskRule = "A packed order needs a hold before its address changes."
	deskTool = "Puts an order on hold, so that it can be changed."
)

// deskTools are the tools of an agent, in the form of an API. The agent does not use the tool that it needs.
func deskTools(function bool) []map[string]any {
	var list []map[string]any
	for _, t := range [][2]string{{"change_address", "Changes the address of an order."}, {"hold_order", deskTool}} {
		tool := map[string]any{"name": t[0], "description": t[1]}
		if function {
			tool = map[string]any{"type": "function", "function": tool}
		}
		list = append(list, tool)
	}
	return list
}

// TestReflectorSeesTheAgentOfTheGateway sends a run through the gateway, in each API, and rates it. The prompt of the Reflector, as the
// provider receives it, has the system prompt and the tools of the agent.
func TestReflectorSeesTheAgentOfTheGateway(t *testing.T) {
	t.Parallel()
	system := deskRule + "\n" + strings.Repeat("Be polite to the customer. ", 40)
	question := []message{user("Please change the address of order A-102.")}
	for path, fields := range map[string]map[string]any{
		"/v1/chat/completions": {"messages": append([]message{{"role": "system", "content": system}}, question...), "tools": deskTools(true)},
		"/v1/messages":         {"messages": question, "system": system, "tools": deskTools(false), "max_tokens": 100},
		"/v1/responses":        {"input": question, "instructions": system, "tools": deskTools(false)},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := openSideWith(t, func(r *simulated.Request) simulated.Answer {
				if strings.Contains(string(r.Body), "You look at one finished attempt") {
					return simulated.Answer{Text: `{"reasoning": "r", "key_insight": "Hold a packed order before you change where it goes.", "section": "orders"}`}
				}
				return simulated.Answer{Text: "The order is packed, I cannot change it."}
			})
			model := bustest.Must(openai.New(openai.Config{BaseURL: s.fake.URL + "/v1", Model: "m"}))
			s.start(bustest.Must(reflector.New(model, reflector.Config{})))
			fields["model"] = "m"
			body, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			_, status, reply := s.post(path, body, "X-Api-Key", "k")
			var id struct{ ID string }
			if err := json.Unmarshal(reply, &id); err != nil || status != http.StatusOK {
				t.Fatalf("got status %d: %s", status, reply)
			}
			rating := fmt.Sprintf(`{"execution": %q, "outcome": false}`, id.ID)
			if _, status, reply := s.post("/api/v1/feedback", []byte(rating)); status != http.StatusCreated {
				t.Fatalf("got status %d: %s", status, reply)
			}
			e := s.executions(1)[0]
			if e.Agent == nil || e.Agent.Ref == "" || e.Agent.SystemPrompt != "" {
				t.Errorf("the execution has the agent %+v, want its name", e.Agent)
			}
			if e.Outcome.Label != events.Failure {
				t.Errorf("got the outcome %+v", e.Outcome)
			}
			prompt := s.awaitPrompt()
			quotes := worlds.ReadQuotes(prompt)
			if got := quotes["system prompt of the agent"]; got != strings.TrimSpace(system) {
				t.Errorf("got the system prompt %.200q", got)
			}
			if got := quotes["tools of the agent"]; !strings.Contains(got, "hold_order: "+deskTool) {
				t.Errorf("got the tools %q", got)
			}
		})
	}
}

// awaitPrompt waits for the prompt of the Reflector, as the provider received it.
func (s *side) awaitPrompt() string {
	s.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, r := range s.received() {
			if strings.HasPrefix(r.Last().Text, "Outcome: failure") {
				return r.Last().Text
			}
		}
	}
	s.Fatal("the Reflector has not asked its model")
	return ""
}
