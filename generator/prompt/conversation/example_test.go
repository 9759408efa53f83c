package conversation_test

import (
	"fmt"
	"time"

	"debrief/generator/prompt/conversation"
)

func ExampleFit() {
	now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	items := []conversation.Item{
		{Ref: "question", At: now.Add(-50 * time.Hour), Source: conversation.User, Text: "Why does the import fail?", Tokens: 10, Parent: -1},
		{Ref: "log", At: now.Add(-49 * time.Hour), Source: conversation.Error, Text: "ValueError: 1.250,00", Tokens: 9000, Parent: 0},
		{Ref: "answer", At: now.Add(-48 * time.Hour), Source: conversation.Assistant, Text: "The comma. It is fixed.", Tokens: 10, Parent: 0, Pinned: true},
		{Ref: "thanks", At: now.Add(-time.Hour), Source: conversation.User, Text: "Thanks.", Tokens: 10, Parent: -1},
		{Ref: "query", At: now, Source: conversation.User, Text: "Is it deployed?", Tokens: 10, Parent: -1, Required: true},
	}
	fitted := conversation.Fit(items, now, conversation.Limits{Tokens: 35, Items: 100})
	for _, i := range fitted.Kept {
		fmt.Println("stays:", items[i].Ref)
	}
	for _, l := range fitted.Omitted {
		fmt.Printf("left: %s, %s\n", items[l.Item].Ref, l.Reason)
	}
	// Output:
	// stays: question
	// stays: answer
	// stays: query
	// left: log, larger than the window
	// left: thanks, no room
}

func ExampleFindReferenced() {
	earlier := []string{
		"How do I list the pods? Run `kubectl get pods -n staging`.",
		"Why does the import fail? ValueError: 1.250,00",
		"Thanks. You are welcome.",
	}
	for _, query := range []string{
		"Use the same command as before for production",
		"what did we do about the import?",
		"do that for me too",
		"run the import before you deploy",
	} {
		fmt.Println(conversation.FindReferenced(query, len(earlier), func(i int) string { return earlier[i] }), query)
	}
	// Output:
	// 0 Use the same command as before for production
	// 1 what did we do about the import?
	// 2 do that for me too
	// -1 run the import before you deploy
}

func ExampleSummarize() {
	fmt.Println(conversation.Summarize([]string{
		"Hello! I hope you are well. The nightly import of /srv/in/invoices.csv fails.",
		"Let me have a look at that.\nValueError: could not convert '1.250,00' in parse_row.",
		"We decided to keep all times in UTC. Anything else?",
	}, 60, "import"))
	// Output:
	// - The nightly import of /srv/in/invoices.csv fails.
	// - ValueError: could not convert '1.250,00' in parse_row.
	// - We decided to keep all times in UTC.
}
