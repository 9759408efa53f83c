package capture

import (
	"strings"
	"testing"

	"debrief/cmd/internal/modelapi"
	"debrief/events"
)

func TestInfer(t *testing.T) {
	t.Parallel()
	const ok, bad = events.Success, events.Failure
	tool := func(name string, label events.Label) events.Step {
		return events.Step{Calls: []events.ToolCall{{Tool: name, Outcome: label}}}
	}
	end := func(steps ...events.Step) ending {
		return ending{Steps: steps, Finish: modelapi.FinishStop, Last: true}
	}
	next := func(text string) ending {
		return ending{Question: "Which rate applies to the invoice of the baker?", Finish: modelapi.FinishStop, Last: true, Next: text}
	}
	with := func(e ending, finish modelapi.Finish) ending { e.Finish = finish; return e }
	for name, test := range map[string]struct {
		end  ending
		want events.Label
	}{
		"stop":                           {end(), events.Unknown},
		"tools worked":                   {end(tool("a", ok), tool("a", ok)), events.Unknown},
		"the last tool failed":           {end(tool("a", ok), tool("a", bad)), bad},
		"the last of parallel failed":    {end(events.Step{Calls: []events.ToolCall{{Tool: "a", Outcome: ok}, {Tool: "b", Outcome: bad}}}), bad},
		"no result after a failure":      {end(tool("a", bad), tool("a", events.Unknown)), bad},
		"timeout":                        {end(tool("a", events.TimedOut)), bad},
		"recovered":                      {end(tool("a", bad), tool("a", ok)), ok},
		"recovered, then another":        {end(tool("a", bad), tool("a", ok), tool("b", ok)), ok},
		"another tool worked":            {end(tool("a", bad), tool("b", ok)), events.Unknown},
		"recovered, then failed":         {end(tool("a", bad), tool("a", ok), tool("b", bad)), bad},
		"recovered, and goes on":         {with(end(tool("a", bad), tool("a", ok)), modelapi.FinishTools), events.Unknown},
		"refusal":                        {with(end(), modelapi.FinishRefusal), bad},
		"length":                         {with(end(), modelapi.FinishLength), bad},
		"rejected request":               {ending{Finish: modelapi.FinishTools, Status: 400}, bad},
		"too large request":              {ending{Finish: modelapi.FinishTools, Status: 413}, bad},
		"too many requests":              {ending{Finish: modelapi.FinishTools, Status: 429}, events.Unknown},
		"wrong key":                      {ending{Finish: modelapi.FinishTools, Status: 401}, events.Unknown},
		"failed server":                  {ending{Finish: modelapi.FinishTools, Status: 503}, events.Unknown},
		"rejected, then repeated":        {ending{Finish: modelapi.FinishStop, Status: 400, Last: true}, events.Unknown},
		"next: no":                       {next("No, the other one."), bad},
		"next: that's wrong":             {next("That's wrong: he is abroad"), bad},
		"next: that’s wrong":             {next("that’s wrong"), bad},
		"next: that is not right":        {next("That is not right"), bad},
		"next: this doesn't work":        {next("this still doesn't compile"), bad},
		"next: still fails":              {next("Still fails with the same error"), bad},
		"next: you're wrong":             {next("You're wrong about the baker"), bad},
		"next: wrong":                    {next("wrong."), bad},
		"next: no thanks":                {next("No, thanks"), events.Unknown},
		"next: no problem":               {next("no problem. Now the next one"), events.Unknown},
		"next: now":                      {next("Now do the same for the butcher"), events.Unknown},
		"next: nobody":                   {next("Nobody pays that. Who is next?"), events.Unknown},
		"next: that's not all":           {next("That's not all I need, add the tax"), events.Unknown},
		"next: wrongly":                  {next("wrongly spelled names: list them"), events.Unknown},
		"next: thanks":                   {next("Thanks! Now the butcher."), ok},
		"next: perfect":                  {next("perfect"), ok},
		"next: yes, that works":          {next("Yes, that works"), ok},
		"next: great, but":               {next("great, but it is too long"), events.Unknown},
		"next: greatest":                 {next("greatest common divisor of 12 and 18?"), events.Unknown},
		"next: repeated":                 {next("which rate applies to the invoice of the BAKER"), bad},
		"next: nearly repeated":          {next("Which rate applies to the baker of the invoice, please?"), bad},
		"next: another question":         {next("Which rate applies to the order of the butcher?"), events.Unknown},
		"next: go on":                    {ending{Question: "go on", Finish: modelapi.FinishStop, Last: true, Next: "go on"}, events.Unknown},
		"next: template":                 {ending{Question: strings.Repeat("Translate this text. ", 30) + "one", Next: strings.Repeat("Translate this text. ", 30) + "two"}, events.Unknown},
		"next: long text repeated":       {ending{Question: strings.Repeat("Translate this text. ", 30), Next: strings.Repeat("translate this text ", 30)}, bad},
		"the user before a failed tool":  {ending{Steps: []events.Step{tool("a", bad)}, Next: "Thank you"}, ok},
		"the user before a token limit":  {ending{Finish: modelapi.FinishLength, Next: "thanks"}, ok},
		"no question and no next":        {ending{}, events.Unknown},
		"only white space":               {next(" \n "), events.Unknown},
		"a correction in a later line":   {next("See:\nno, that is wrong"), events.Unknown},
		"an empty text repeats no other": {ending{Next: "which of these four"}, events.Unknown},
	} {
		got := infer(&test.end)
		if got.Label != test.want {
			t.Errorf("%s: got %s (%s), want %s", name, got.Label, got.Feedback, test.want)
		}
		said := strings.TrimSpace(test.end.Next)
		if told := got.Known() || said != ""; told != got.Inferred || told != (got.Feedback != "") || (got.Score == 1) != (got.Label == ok) {
			t.Errorf("%s: got %+v", name, got)
		}
		if !strings.Contains(got.Feedback, said) {
			t.Errorf("%s: got feedback %q, want the words of the user", name, got.Feedback)
		}
	}
}
