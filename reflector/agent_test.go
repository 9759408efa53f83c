package reflector

import (
	"fmt"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
)

// airline is an agent whose system prompt exceeds the budget by far. One of its passages is about cancellations.
func airline() *events.Agent {
	var prompt strings.Builder
	prompt.WriteString("You are an airline agent.\n")
	for i := range 200 {
		fmt.Fprintf(&prompt, "\n## Chapter %d\n\nOn meals of class %d: a vegetarian menu has the code V%d. Lounges open at %d.\n", i, i, i, i%24)
		if i == 120 {
			prompt.WriteString("\n## Cancellations\n\nA basic economy flight can be cancelled only with travel insurance.\n\n- Booked in the last 24 hours: always.\n")
		}
	}
	return &events.Agent{SystemPrompt: prompt.String(), Tools: []events.Tool{
		{Name: "cancel_reservation", Description: "Cancels a reservation.\nThe API does not check the rules."}, {Name: "book", Description: strings.Repeat("Books a flight. ", 400)},
	}}
}

// cancellation is a failed run of the airline's agent.
func cancellation() *events.Execution {
	e := taskRun("1", events.Failure, "get_reservation", "cancel_reservation")
	e.Question = "Please cancel my basic economy flight."
	e.Agent = airline()
	return e
}

func TestPromptQuotesTheAgentWithinItsBudget(t *testing.T) {
	t.Parallel()
	for _, budget := range []int{50, 300, 1000, 3000} {
		p := reflectionPrompt(cancellation(), Config{EvidenceBudget: budget})
		quotes := quotesOf(t, p)
		system, tools := quotes[quoteSystem], quotes[quoteTools]
		if n := chat.Tokens(system) + chat.Tokens(tools); n > budget+20 { // marks of gaps are not counted
			t.Errorf("budget %d: got %d tokens", budget, n)
		}
		if !strings.Contains(tools, "cancel_reservation") {
			t.Errorf("budget %d: got tools %q, want the tool that was called", budget, tools)
		}
		if budget == 50 {
			continue
		}
		for _, want := range []string{"## Cancellations\n", "A basic economy flight can be cancelled only with travel insurance.", "passages left out]"} {
			if !strings.Contains(system, want) {
				t.Errorf("budget %d: the system prompt lacks %q: %.300s", budget, want, system)
			}
		}
		if !strings.Contains(tools, "cancel_reservation: Cancels a reservation. The API does not check the rules.\n") || !strings.Contains(tools, "book: Books a flight.") {
			t.Errorf("budget %d: got tools %.300q", budget, tools)
		}
		if !strings.Contains(p.Messages[0].Text, chat.PromptAgentRules) {
			t.Error("the instructions do not mention the system prompt")
		}
	}
	short := cancellation()
	short.Agent = &events.Agent{SystemPrompt: "Be brief.\n\n\nAsk first."}
	if got := quotesOf(t, reflectionPrompt(short, Config{}))[quoteSystem]; got != short.Agent.SystemPrompt {
		t.Errorf("got %q, want the whole system prompt", got)
	}
}

// TestPromptWithoutAgentIsUnchanged compares the prompts of a run with and without a description that must not be quoted.
func TestPromptWithoutAgentIsUnchanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*events.Execution){
		"a success":           func(e *events.Execution) { e.Outcome.Label = events.Success },
		"an empty agent":      func(e *events.Execution) { e.Agent = &events.Agent{} },
		"an agent by name":    func(e *events.Execution) { e.Agent = &events.Agent{Ref: strings.Repeat("ab", 32)} },
		"a run without steps": func(e *events.Execution) { e.Steps, e.Agent = nil, nil },
	} {
		e := cancellation()
		change(e)
		plain := *e
		plain.Agent = nil
		got, want := reflectionPrompt(e, Config{}), reflectionPrompt(&plain, Config{})
		if got.Messages[0].Text != want.Messages[0].Text || got.Messages[1].Text != want.Messages[1].Text {
			t.Errorf("%s: got another prompt than without an agent", name)
		}
	}
}

// TestPassagesKeepTheText splits system prompts of any form.
func TestPassagesKeepTheText(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]string{
		"paragraphs":        "a\nb\n\n# H\ntext\n\n\nend",
		"a long line":       strings.Repeat("Do this first. ", 500),
		"a line of letters": strings.Repeat("x", 5000),
		"no UTF-8":          strings.Repeat("\xff", 3000),
		"a long list":       strings.Repeat("- one rule of many\n", 300),
	} {
		passages := passagesOf(prompt)
		for _, p := range passages {
			if len(p) > maxPassage+2 || !strings.HasSuffix(p, "\n") {
				t.Errorf("%s: got a passage of %d bytes", name, len(p))
			}
		}
		joined := strings.Join(strings.Fields(strings.Join(passages, " ")), "")
		if want := strings.Join(strings.Fields(prompt), ""); joined != want {
			t.Errorf("%s: got %d bytes of text, want %d", name, len(joined), len(want))
		}
	}
}

// TestReflectorLoadsTheAgent stores a run, whose description becomes a blob, and checks the prompt as a model receives it.
func TestReflectorLoadsTheAgent(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	model := new(promptModel)
	r := bustest.Must(New(model, Config{}))
	e := cancellation()
	receipt := publish(t, conn, e)
	stored, err := conn.Events.Find(t.Context(), events.StreamExecutions, receipt.Seq, func(events.ID) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if a := stored.(*events.Execution).Agent; a == nil || a.Ref == "" || a.SystemPrompt != "" {
		t.Fatalf("got the agent %+v in the stream, want its name", a)
	}
	got := newWorker(r, conn).handle(t.Context(), &bus.Delivery{Event: stored, Seq: receipt.Seq})
	if got.Err != nil || len(got.Events) != 1 {
		t.Fatalf("got %+v, want a reflection", got)
	}
	if system := quotesOf(t, model.last)[quoteSystem]; !strings.Contains(system, "only with travel insurance") {
		t.Errorf("got the system prompt %.200q", system)
	}
	if ref := got.Events[0].(*events.Reflection); ref.EvidenceTokens < 1000 || ref.EvidenceTokens > 3020 {
		t.Errorf("got %d tokens of evidence, want up to the budget", ref.EvidenceTokens)
	}
}
