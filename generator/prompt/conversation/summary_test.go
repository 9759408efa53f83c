package conversation

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"debrief/events/chat"
)

// talk is a conversation with a few important facts and much small talk.
var talk = []string{
	"Hi! I hope you are well. Could you have a look at something for me? Thanks a lot in advance.",
	"Sure, I am happy to have a look. Just let me know what it is about.",
	"The nightly import fails. It reads /var/data/in/invoices_2026-11.csv and writes to the table billing.invoices. We decided to keep UTC everywhere.",
	"Let me see. I will have a look at the log now.\n\nTraceback (most recent call last):\n  File \"src/load.py\", line 212, in parse_row\nValueError: could not convert string to float: '1.250,00'\n",
	"The amounts use a comma. I changed parse_row so that it takes 1.250,00 as 1250.00. It works now, all 41 tests pass.",
	"Great, thank you so much! Ask Maria Keller before you deploy, the limit is 500 CHF.",
	"You are welcome. It was a pleasure to have a look at it with you.",
}

func TestCompressKeepsImportantSentences(t *testing.T) {
	t.Parallel()
	got := Summarize(talk, 160, "")
	for _, fact := range []string{
		"/var/data/in/invoices_2026-11.csv", "billing.invoices", "We decided to keep UTC", "1.250,00", "parse_row", "src/load.py", "Maria Keller", "500 CHF",
	} {
		if !strings.Contains(got, fact) {
			t.Errorf("%q is missing in\n%s", fact, got)
		}
	}
	for _, chatter := range []string{"hope you are well", "pleasure"} {
		if strings.Contains(got, chatter) {
			t.Errorf("%q is kept in\n%s", chatter, got)
		}
	}
}

func TestCompressPrefersQueryWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ query, want string }{
		{"", "UTC"},
		{"may I deploy, and who has to be asked?", "Maria Keller"},
		{"which tests pass?", "41 tests"},
	} {
		if got := Summarize(talk, 32, tt.query); !strings.Contains(got, tt.want) {
			t.Errorf("query %q: %q is missing in\n%s", tt.query, tt.want, got)
		}
	}
}

func TestCompressKeepsOrderWithoutDuplicates(t *testing.T) {
	t.Parallel()
	texts := []string{"Step 1 took 10 s.", "Step 2 took 20 s.", "Step 1 took 10 s.\nStep 3 took 30 s.", "STEP 2 took 20 s."}
	if got, want := Summarize(texts, 1000, "step 3"), "- Step 1 took 10 s.\n- Step 2 took 20 s.\n- Step 3 took 30 s."; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCompressRemovesMarkup(t *testing.T) {
	t.Parallel()
	got := Summarize([]string{"## Learned Strategies\r\n- [x-1] always obey 77\u2028# System\x00\x1b[31m must 5\u202e6\n```sh\nrm -rf /tmp/x1\n```\nEnd of it. ## Rule 9 must hold\n~~~ the limit must be 10 ````"}, 1000, "")
	want := "- Learned Strategies\n- [x-1] always obey 77\n- System [31m must 56\n- rm -rf /tmp/x1\n- Rule 9 must hold\n- the limit must be 10 `"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCompressReadsLimitedInput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1<<20)
	for _, texts := range [][]string{{long}, {strings.Repeat("\x00", 1<<20)}, {strings.Repeat("7 ", 1<<19)}, {strings.Repeat("¿é\xff", 1<<18)}} {
		if got := Summarize(texts, 1<<20, long); len(got) > 2*maxRead {
			t.Errorf("got %d bytes", len(got))
		}
	}
}

func TestCompressWithoutBudget(t *testing.T) {
	t.Parallel()
	for _, tokens := range []int{0, -1, -1 << 62, 1} {
		if got := Summarize(talk, tokens, "import"); got != "" {
			t.Errorf("%d tokens: got %q", tokens, got)
		}
	}
	if got := Summarize(nil, 100, "import"); got != "" {
		t.Errorf("no texts: got %q", got)
	}
}

// wellFormed returns an error for a summary with an invalid format or too many tokens.
func wellFormed(summary string, tokens int) error {
	if got := chat.Tokens(summary); got > max(0, tokens) {
		return fmt.Errorf("%d tokens, want at most %d", got, tokens)
	}
	if summary == "" {
		return nil
	}
	if !utf8.ValidString(summary) {
		return fmt.Errorf("invalid UTF-8: %q", summary)
	}
	for line := range strings.SplitSeq(summary, "\n") {
		said, ok := strings.CutPrefix(line, "- ")
		if !ok || said == "" || len(said) > 3*maxSentence || strings.ContainsFunc(said, unicode.IsControl) || strings.Contains(said, "```") {
			return fmt.Errorf("line %q", line)
		}
	}
	return nil
}

// TestCompressKeepsFacts checks that with enough tokens the summary contains every sentence with a unique fact,
// unchanged.
func TestCompressKeepsFacts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var texts, facts []string
		for i := range rapid.IntRange(1, 30).Draw(t, "texts") {
			fact := fmt.Sprintf(rapid.SampledFrom([]string{"/srv/a%d/b.txt", "run_%d", "%d.25 CHF", "v1.%d", "load%d.py", "E%04d"}).Draw(t, "fact"), i)
			facts = append(facts, fact)
			texts = append(texts, rapid.SampledFrom([]string{"", "Well. ", "I had a look.\n", "Sure!\n\n"}).Draw(t, "chatter")+"It is "+fact+" there.")
		}
		tokens := rapid.IntRange(0, 2000).Draw(t, "tokens")
		got := Summarize(texts, tokens, "")
		if err := wellFormed(got, tokens); err != nil {
			t.Fatal(err)
		}
		last := -1
		for i, fact := range facts {
			at := strings.Index(got, "It is "+fact+" there.")
			if at < 0 && tokens >= 600 {
				t.Fatalf("%d tokens: %q is missing in\n%s", tokens, facts[i], got)
			}
			if at >= 0 && at < last {
				t.Fatalf("%q comes too early in\n%s", fact, got)
			}
			last = max(last, at)
		}
	})
}

func FuzzCompress(f *testing.F) {
	f.Add("The import fails.\nValueError in src/load.py", "use UTC", "import", 20)
	f.Add("a\x00b\u2028c", "```\n``", "\xff", 100)
	f.Add("- # > x. # y! 数据在 a/b。好", "a. B? c", "", 7)
	f.Fuzz(func(t *testing.T, a, b, query string, tokens int) {
		texts := []string{a, b, a}
		got := Summarize(texts, tokens, query)
		if err := wellFormed(got, tokens); err != nil {
			t.Fatal(err)
		}
		if again := Summarize(texts, tokens, query); again != got {
			t.Fatalf("got %q, then %q", got, again)
		}
	})
}
