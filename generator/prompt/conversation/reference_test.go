package conversation

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// earlier holds the interactions of a session, oldest first.
var earlier = []string{
	"How do I list the pods in staging?\nRun `kubectl get pods -n staging`, it prints one line a pod.",                                    // 0
	"The parser crashes on empty input.\nTraceback (most recent call last): ValueError: empty input. I guard against it in src/parse.py.", // 1
	"Which currency fee applies to CHF?\nFor CHF the currency fee is 8 % of the amount.",                                                  // 2
	"Write a SQL query for overdue invoices.\nSELECT id FROM invoices WHERE due < now()",                                                  // 3
	"Run the unit tests.\nran pytest tests/: 41 passed, 0 failed",                                                                         // 4
	"Deploy the billing module.\nError: image not found: billing:1.2. I pushed the image and ran `helm upgrade billing`.",                 // 5
	"Add a function that rounds amounts.\nfunc Round(x float64) float64 in money.go rounds half up.",                                      // 6
	"Rename the README title.\nDone, README.md now begins with Debrief.",                                                                  // 7
}

func referred(query string, candidates []string) int {
	return FindReferenced(query, len(candidates), func(i int) string { return candidates[i] })
}

func TestReferred(t *testing.T) {
	t.Parallel()
	const none = -1
	for _, tt := range []struct {
		query string
		want  int
	}{
		// The last interaction.
		{"do that for CHANGELOG.md too", 7},
		{"Do it for the parser as well.", 7},
		{"again", 7},
		{"try again", 7},
		{"Please run it again!", 7},
		{"Do the same for the license", 7},
		{"And now the same for LICENSE", 7},
		{"now do that for the other file", 7},
		{"repeat that", 7},
		{"once more, please", 7},
		{"It failed again.", 7},

		// By kind.
		{"the same command as before", 5},
		{"Use the same command for production", 5},
		{"the earlier error", 5},
		{"I get the same error", 5},
		{"what was the previous query?", 3},
		{"show me the last error again", 5},
		{"Put it in the same file as last time", 7},
		{"Change the previous function so that it rounds down", 6},
		{"what was the error?", 5},

		// By shared words.
		{"what we did with the parser", 1},
		{"What did we do about the crash on empty input?", 1},
		{"how did you list the pods", 0},
		{"Which command did you run for staging?", 0},
		{"deploy the billing module again", 5},
		{"as before, but for the currency fee of USD", 2},
		{"You said something about the CHF fee, is it still right?", 2},
		{"do you remember the query for invoices?", 3},
		{"use the function we wrote for amounts", 6},
		{"let's go back to the parser", 1},
		{"run the tests again", 4},
		{"What was the command for the pods again?", 0},
		{"Like the query you wrote for the invoices, but for orders", 3},
		{"I asked about pods earlier", 0},
		{"the same approach we’ve used for the README title", 7},

		// By ordinal.
		{"like the first time", 0},
		{"same as the last time", 7},
		{"use the first command again", 0},
		{"repeat the first query", 3},
		{"the second error we saw", 5},
		{"the first error we saw", 1},
		{"your first answer", 0},
		{"like the second time", 1},

		// Not a reference.
		{"run the tests before you push", none},
		{"Run the linter before committing.", none},
		{"What is the currency fee for EUR?", none},
		{"deploy the billing module", none},
		{"First run the tests, then push.", none},
		{"Read the first line of src/parse.py", none},
		{"show me the last 10 commits", none},
		{"print the last element of the list", none},
		{"Stop at the first error.", none},
		{"write a function that returns the previous element", none},
		{"do both at the same time", none},
		{"put both functions in the same file", none},
		{"The server crashes when a user logs in again", none},
		{"Make sure that it does not fail again", none},
		{"retry if the request fails again", none},
		{"I have never seen this before.", none},
		{"an earlier version of Python", none},
		{"return earlier if the list is empty", none},
		{"did you know that CHF is Swiss?", none},
		{"remember to run the tests", none},
		{"Check that both return the same value", none},
		{`replace the text "the same command as before" with "again"`, none},
		{"translate `like the first time` into German", none},
		{"the day before", none},
		{"What was the result of the 1998 election?", none},
		{"find the first error in the log", none},
		{"what do you need", none},
		{"explain how you would list the pods", none},
		{"the previous month", none},
		{"ask again and again until it works", none},
		{"Explain what recursion is", none},
		{"", none},
		{"?", none},
		{"\xff\x00", none},

		// A reference to an unknown topic.
		{"what we did with the spectrometer", none},
		{"How did you fix the scheduler?", none},
	} {
		if got := referred(tt.query, earlier); got != tt.want {
			t.Errorf("%q: got %d, want %d", tt.query, got, tt.want)
		}
	}
}

func TestReferredWithoutCandidates(t *testing.T) {
	t.Parallel()
	if got := referred("again", nil); got != -1 {
		t.Errorf("got %d, want -1", got)
	}
	if got := referred("again", []string{""}); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}

// TestSharedWordsAreNotReference checks that a query without a reference phrase selects nothing.
func TestSharedWordsAreNotReference(t *testing.T) {
	t.Parallel()
	nouns := strings.Fields("parser tests invoices billing module staging pods README command error query function file")
	verbs := strings.Fields("list fix deploy run test open write check rename explain")
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.SampledFrom(verbs).Draw(t, "verb") + " the " + strings.Join(rapid.SliceOfN(rapid.SampledFrom(nouns), 1, 6).Draw(t, "nouns"), " and the ")
		if got := referred(q, earlier); got != -1 {
			t.Fatalf("%q: got %d, want -1", q, got)
		}
	})
}

func FuzzReferred(f *testing.F) {
	f.Add("the same command as before", "run it")
	f.Add("again \" again", "\xff")
	f.Add("don't re-run it’s we’ve before.", "a/b")
	f.Fuzz(func(t *testing.T, query, candidate string) {
		if got := referred(query, []string{candidate, "", candidate}); got < -1 || got > 2 {
			t.Fatalf("got %d of 3 candidates", got)
		}
	})
}
