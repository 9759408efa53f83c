package capture

import (
	"strings"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

func TestInfer(t *testing.T) {
	t.Parallel()
	const ok, bad = events.Success, events.Failure
	tool := func(name string, label events.Label) events.Step {
		return events.Step{Calls: []events.ToolCall{{Tool: name, Outcome: label}}}
	}
	end := func(steps ...events.Step) ending {
		return ending{Steps: steps, Finish: modelapi.FinishStop, EndsComplete: true}
	}
	next := func(text string) ending {
		return ending{Question: "Which rate applies to the invoice of the baker?", Finish: modelapi.FinishStop, EndsComplete: true, Next: text}
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
		"rejected, then repeated":        {ending{Finish: modelapi.FinishStop, Status: 400, EndsComplete: true}, events.Unknown},
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
		"next: a wrong way":              {next("That's wrong-way traffic: what is the fine?"), events.Unknown},
		"next: wrongly":                  {next("wrongly spelled names: list them"), events.Unknown},
		"next: thanks":                   {next("Thanks! Now the butcher."), ok},
		"next: perfect":                  {next("perfect"), ok},
		"next: yes, that works":          {next("Yes, that works"), ok},
		"next: great, but":               {next("great, but it is too long"), events.Unknown},
		"next: greatest":                 {next("greatest common divisor of 12 and 18?"), events.Unknown},
		"next: repeated":                 {next("which rate applies to the invoice of the BAKER"), bad},
		"next: nearly repeated":          {next("Which rate applies to the invoice of the baker, please?"), bad},
		"next: another question":         {next("Which rate applies to the order of the butcher?"), events.Unknown},
		"next: go on":                    {ending{Question: "go on", Finish: modelapi.FinishStop, EndsComplete: true, Next: "go on"}, events.Unknown},
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
		if !got.Inferred || (got.Score == 1) != (got.Label == ok) {
			t.Errorf("%s: got %+v, want an inferred outcome with the score of its label", name, got)
		}
		words := strings.TrimSpace(test.end.Next)
		if reason := got.Known() || words != ""; reason != (got.Feedback != "") || !strings.Contains(got.Feedback, words) {
			t.Errorf("%s: got feedback %q, want the reason of a known outcome and the words of the user", name, got.Feedback)
		}
	}
}

// TestMessages has the next messages of users, with what a careful reader infers from them.
func TestMessages(t *testing.T) {
	t.Parallel()
	const ok, bad, none = events.Success, events.Failure, events.Unknown
	for _, tt := range []struct {
		question, next string
		want           events.Label
	}{
		// Names, numbers and other beginnings that look like praise or a correction.
		{"", "Perfect Storm: is that one in stock, too?", none},
		{"", "Great Expectations, who wrote it?", none},
		{"", "Great Britain and Ireland, please", none},
		{"", "Excellent Cleaning Ltd. has sent invoice 7", none},
		{"", "Awesome Oscillator: explain it", none},
		{"", "Perfect tense of to go?", none},
		{"", "Perfect numbers below 1000?", none},
		{"", "No. 5 on your list, who directed it?", none},
		{"", "No. 10 Downing Street: since when?", none},
		{"", "no.7 please", none},
		{"", "No. of orders per month?", none},
		{"", "ok. thanks, but it is still wrong", none},
		{"", "ok. thanks, it works. But next?", none},
		{"", "ok. thanks! Now the butcher, but slowly", ok},
		{"", "No, 5 of them", none},
		{"", "No one knows that. Who is next?", none},
		{"", "No Country for Old Men: is it in stock?", none},
		{"", "Wrong Turn: is it in stock?", none},
		{"", "Incorrect entries: list them", none},
		{"", "Thanks to Kim we have a list. Sort it.", none},
		{"", "Thank you letter for Kim, please", none},
		{"", "Thanksgiving: when is it?", none},
		{"", "That is not the only order, list all", none},
		{"", "It is not urgent, but add the tax", none},
		{"", "This does not include tax, right?", none},
		{"", "Still water or sparkling?", none},
		{"", "Works councils: what do they do?", none},
		{"", "Great, can you do it in French?", none},
		{"", "Thanks in advance! Which shelf holds it?", none},
		{"", "Thanks for nothing", none},
		{"", "Great, but it is too long", none},
		{"", "Thanks. But it is the wrong shelf.", none},
		{"", "No thanks", none},
		{"", "No, that's all", none},
		{"", "No, that's right", none},
		{"", "no worries, next one", none},
		{"", "Notes on the meeting: shorten them", none},
		{"", "Nope (2022) and Us (2019): compare them", none},
		{"", "Perfekt, und wie heißt die Mehrzahl?", none},
		{"", "Nein", none}, // the rules know English only, and the Reflector reads the words
		{"", "不对", none},
		// Praise and corrections.
		{"", "No, it is shelf 9.", bad},
		{"", "no", bad},
		{"", "Nope.", bad},
		{"", "Wrong!", bad},
		{"", "That's not right", bad},
		{"", "That is wrong, it's shelf 9", bad},
		{"", "It still doesn't work", bad},
		{"", "Still broken", bad},
		{"", "You're wrong", bad},
		{"", "not quite, try again", bad},
		{"", "Thanks!", ok},
		{"", "Thank you so much!", ok},
		{"", "Perfect, thank you", ok},
		{"", "Great work!", ok},
		{"", "ok, that works", ok},
		{"", "LGTM", ok},
		{"", "Thanks, that helped", ok},
		{"", "Great! Now the butcher.", ok},
		// Repetitions, and lists of similar tasks.
		{"Please read invoice INV-1001 and reply with its total and its due date as JSON.", "Please read invoice INV-1002 and reply with its total and its due date as JSON.", none},
		{"Which rate applies to the invoice of Miller and Sons in March?", "Which rate applies to the invoice of Baker and Sons in March?", none},
		{"Translate the sentence \"the house is red\" into German, and explain it.", "Translate the sentence \"the house is old\" into German, and explain it.", none},
		{"Please translate the word house into German with an example sentence.", "Please translate the word garden into German with an example sentence.", none},
		{"Wie lautet die Rechnung der Firma Weber aus dem Monat März?", "Wie lautet die Rechnung der Firma Weber aus dem Monat April?", none},
		{"¿Cuál es la capital de la provincia de Soria y su río?", "¿Cuál es la capital de la provincia de Lugo y su río?", none},
		{"Which shelf holds the red atlas?", "Which shelf holds the red atlas, please?", bad},
		{"Which shelf holds the red atlas?", "I asked which shelf holds the RED atlas", bad},
		{"Cancel order 4711 and refund the customer.", "Please cancel order 4711 and refund the customer again", bad},
		{"Wo steht der rote Atlas im Regal?", "Bitte, wo steht der rote Atlas im Regal?", bad},
	} {
		e := ending{Question: tt.question, Finish: modelapi.FinishStop, EndsComplete: true, Next: tt.next}
		if got := infer(&e); got.Label != tt.want {
			t.Errorf("question %q, next %q: got %s (%s), want %s", tt.question, tt.next, got.Label, got.Feedback, tt.want)
		}
	}
}
