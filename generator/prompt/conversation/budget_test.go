package conversation

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestBudgetBounds checks that the budget is between ½ and 4 × base and at most ¼ base from a previous budget.
func TestBudgetBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := BudgetInput{
			Base:     rapid.OneOf(rapid.IntRange(-1, 100), rapid.IntRange(1000, 50_000), rapid.Just(math.MaxInt)).Draw(t, "base"),
			Previous: rapid.OneOf(rapid.IntRange(-1, 200_000), rapid.Just(math.MaxInt)).Draw(t, "previous"),
			Task:     rapid.SampledFrom([]Task{General, Research, Coding, Debugging, Analysis, "", "cooking"}).Draw(t, "task"),
			Recent:   rapid.SliceOfN(rapid.OneOf(drawText(), rapid.Just(strings.Repeat("an API error? ", 50)+"```")), 0, 15).Draw(t, "recent"),
		}
		got, why := Budget(in)
		base := in.Base
		if base <= 0 {
			base = 8000
		}
		base = min(base, maxBase)
		if 2*got < base || got > 4*base || why == "" {
			t.Fatalf("got %d (%s) of base %d", got, why, base)
		}
		if before := min(max(in.Previous, (base+1)/2), 4*base); in.Previous > 0 && max(got-before, before-got) > base/4 {
			t.Fatalf("got %d (%s), %d before, base %d", got, why, in.Previous, base)
		}
	})
}

func TestBudget(t *testing.T) {
	t.Parallel()
	all := strings.Repeat("The API gave an error. ", 30) + "\n```\nx\n```\nWhat now?"
	for _, tt := range []struct {
		in   BudgetInput
		want int
	}{
		{BudgetInput{}, 8000},
		{BudgetInput{Base: 1000}, 1000},
		{BudgetInput{Task: Research}, 10_400},
		{BudgetInput{Task: Coding}, 12_000},
		{BudgetInput{Task: Debugging}, 16_000},
		{BudgetInput{Task: Analysis}, 20_000},
		{BudgetInput{Recent: []string{"Hello.", "Hello."}}, 4000},
		{BudgetInput{Recent: []string{all}}, 24_000},
		{BudgetInput{Recent: []string{all, "Hello."}}, 14_000},
		{BudgetInput{Recent: append([]string{all}, make([]string, 10)...)}, 4000}, // only the last ten texts count
		{BudgetInput{Recent: []string{all}, Task: Debugging}, 32_000},
		{BudgetInput{Recent: []string{all}, Task: Debugging, Previous: 8000}, 10_000},
		{BudgetInput{Recent: []string{"Hello."}, Previous: 8000}, 6000},
		{BudgetInput{Previous: 8500}, 8000},
		{BudgetInput{Previous: 100_000}, 30_000},
	} {
		got, why := Budget(tt.in)
		if got != tt.want || !strings.HasSuffix(why, fmt.Sprint(": ", tt.want)) {
			t.Errorf("%.100v: got %d (%s), want %d", fmt.Sprint(tt.in), got, why, tt.want)
		}
	}
	if _, why := Budget(BudgetInput{Recent: []string{all, "Hello."}, Task: Coding, Previous: 8000}); why != "8000 × 1.75 (of the last 2: code 1, errors 1, long 1, technical 1, questions 1) × 1.5 (coding), within 4000 to 32000: 21000; at most 2000 from the previous 8000: 10000" {
		t.Errorf("got %s", why)
	}
}

func TestIsTechnical(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Restart the server": true, "see main.go": true, "call parse_row": true, "in ~/work/x": true, "use --force": true,
		"fmt.Println is it": true, "the GitHub page": true,
		"Hello, how are you?": false, "yes and/or no": false, "It took 3.5 days, e.g. Monday.": false, "": false, "Dr. Who": false, "...": false,
	} {
		if got := isTechnical(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		texts []string
		want  Task
	}{
		{nil, General},
		{[]string{"Hello!", "How are you?"}, General},
		{[]string{"Write a function for it"}, Coding},
		{[]string{"Which class do I import?"}, Coding},
		{[]string{"There is a bug, please fix it"}, Debugging},
		{[]string{"It says ValueError"}, Debugging},
		{[]string{"I am debugging it"}, Debugging},
		{[]string{"Find out what there is and learn from it"}, Research},
		{[]string{"searching..."}, Research},

		// Whole words.
		{[]string{"a classic prefix, encoded findable terror, learnedly"}, General},
		{[]string{"CLASS"}, Coding},

		// Ties: debugging, then coding, then research.
		{[]string{"fix the code"}, Debugging},
		{[]string{"find the code"}, Coding},
		{[]string{"find the error"}, Debugging},

		// Each word counts once per text, in any form.
		{[]string{"error errors error error, a function of a class"}, Coding},

		// Later texts count more.
		{[]string{"fix the bug", "now find out what people search for"}, Research},
		{[]string{"now find out what people search for", "fix the bug"}, Debugging},
		{[]string{"code", "code", "code", "find"}, Research},
		{[]string{"a function and a class in code", "find it"}, Coding},
		{append([]string{"fix the bug"}, make([]string, 9)...), Debugging},
		{append([]string{"fix the bug"}, make([]string, 10)...), General},
		{[]string{"\xff\x00code\xff"}, Coding},
	} {
		if got := DetectTask(tt.texts); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.texts, got, tt.want)
		}
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int{
		"":                             3,
		"   ":                          3,
		"- ? !! ... — ) ( :":           3,
		"continue":                     3,
		"run the tests please":         3,
		"refactor the parser":          3, // fewer than 5 words
		"run all the tests please":     5,
		"don't run main.go on Fridays": 5,
		"can you refactor the parser into two files":              7,
		"we are implementing a new parser today":                  7,
		"how would you redesign this whole page":                  7,
		"the implementation of it has to wait":                    7,
		"who is the designer of this nice page":                   5,
		"the designated survivor is on the list":                  5,
		"请帮我修复这个错误":                                               5,
		"继续吧":                                                     3,
		"\xff\xfe \x00 a b":                                       3,
		strings.Repeat("x ", queryBytes) + "refactor":             5,
		strings.Repeat("x", 1<<20):                                3,
		"Bitte implement das jetzt so wie es da steht":            7,
		"REFACTORING, that is what I would like to do next today": 7,
	} {
		if got := TurnCount(query); got != want {
			t.Errorf("%.60q: got %d, want %d", query, got, want)
		}
	}
}

func FuzzBudgetStateTurns(f *testing.F) {
	f.Add("fix the bug in main.go?", 8000)
	f.Add("\xff`code\x00", -1)
	f.Fuzz(func(t *testing.T, text string, previous int) {
		task := DetectTask([]string{text, text})
		if got, _ := Budget(BudgetInput{Previous: previous, Task: task, Recent: []string{text}}); got < 4000 || got > 32_000 {
			t.Fatalf("got a budget of %d", got)
		}
		if n := TurnCount(text); n < 3 || n > 10 {
			t.Fatalf("got %d turns", n)
		}
	})
}
