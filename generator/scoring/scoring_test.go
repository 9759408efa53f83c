package scoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/chat"
)

func TestEvaluate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, evaluator, target, answer string
		want                            events.Label
	}{
		{"no target", "", "", "42", events.Unknown},
		{"no target for an evaluator", BySteps, "", "42", events.Unknown},
		{"text is the default", "", "Paris", " Paris\n", events.Success},
		{"text is compared as it is", ByText, "42", "42.0", events.Failure},
		{"case counts", ByText, "Paris", "paris", events.Failure},
		{"no answer is wrong", ByText, "Paris", "", events.Failure},
		{"a sentence with the answer", ByText, "42", "The answer is 42.", events.Success},
		{"a sentence in bold", "", "42", "**The final answer is: 42.**", events.Success},
		{"a sentence with a number", ByNumber, "3.5", "The answer is $3.50.", events.Success},
		{"a sentence with another answer", ByText, "42", "The answer is not 42.", events.Failure},
		{"a sentence and more", ByText, "42", "The answer is 42.\nOr 43.", events.Failure},
		{"the sentence itself", ByText, "The answer is 42.", "The answer is 42.", events.Success},
		{"numbers however written", ByNumber, "1234.50", "$1,234.5", events.Success},
		{"a currency behind the number", ByNumber, "12", "12.00 EUR", events.Success},
		{"a typographic minus", ByNumber, "-3", "−3", events.Success},
		{"another number", ByNumber, "12", "12.01", events.Failure},
		{"text where there is no number", ByNumber, "none", "none", events.Success},
		{"a list is no number", ByNumber, "12", "1, 2", events.Failure},
		{"a list without spaces is no number", ByNumber, "12", "1,2", events.Failure},
		{"a decimal comma is no thousands separator", ByNumber, "314", "3,14", events.Failure},
		{"equal decimal commas", ByNumber, "3,14", "3,14", events.Success},
		{"thousands", ByNumber, "-1234567.5", "-$1,234,567.50", events.Success},
		{"lakhs", ByNumber, "1234567", "12,34,567", events.Success},
		{"a number in bold", ByNumber, "42", "**42**", events.Success},
		{"a number as code", ByNumber, "42.5", "`42.50`", events.Success},
		{"an abbreviation in a sentence", ByText, "U.S.", "The answer is **U.S.**", events.Success},
		{"an abbreviation at the end of a sentence", ByText, "U.S.", "The answer is U.S.", events.Success},
		{"a full stop of the answer itself", ByText, "Paris.", "Paris", events.Failure},
		{"NaN is no number", ByNumber, "NaN", "nan", events.Failure},
		{"infinity is no number", ByNumber, "1e999", "2e999", events.Failure},
		{"hexadecimal is text", ByNumber, "16", "0x10", events.Failure},
		{"an expression is not worked out", ByNumber, "4", "2+2", events.Failure},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Evaluate(&events.Task{Target: test.target, Evaluator: test.evaluator}, Answer{Final: test.answer})
			if err != nil || got.Label != test.want {
				t.Fatalf("got %+v, %v, want %s", got, err, test.want)
			}
			if (got.Score == 1) != (test.want == events.Success) || (got.By == "") != (test.want == events.Unknown) {
				t.Errorf("got %+v, want a score and an author that match the label", got)
			}
		})
	}
}

const stepsTarget = `{"answer":"96.50","steps":[{"name":"goods","amount":"100.00"},{"name":"tier discount","amount":"-16.10"},{"name":"region tax","amount":"12.60"}]}`

func TestEvaluateSteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, reasoning, answer, feedback string
		score                             float64
	}{
		{"right, however it came about", "", "96.5", "The answer is right.", 1},
		{
			"the first wrong step", "goods: 100.00\ntier discount: -16.10\nregion tax: 0.00\n", "83.90",
			"The answer is wrong: expected 96.50, got 83.90. First wrong step: region tax: expected 12.60, got 0.00.", 1.0 / 3,
		},
		{
			"the first of two", "goods: 100.00\ntier discount: 0.00\nregion tax: 0.00", "100.00",
			"The answer is wrong: expected 96.50, got 100.00. First wrong step: tier discount: expected -16.10, got 0.00.", 1.0 / 6,
		},
		{
			"a step that is missing", "goods: 100\nregion tax: 12.60", "",
			"The answer is wrong: expected 96.50, got nothing. First wrong step: tier discount: expected -16.10, got nothing.", 1.0 / 6,
		},
		{
			"a sentence as answer", "goods: 1.00", "I do not know.",
			"The answer is wrong: expected 96.50, got I do not know. First wrong step: goods: expected 100.00, got 1.00.", 0,
		},
		{
			"lines as models write them", "1. **Goods**: 100.00\n- Tier Discount: −16.10 EUR\n* region tax: $1.00\nregion tax: soon", "83",
			"The answer is wrong: expected 96.50, got 83. First wrong step: region tax: expected 12.60, got $1.00.", 1.0 / 3,
		},
		{
			"the last word on a step counts", "goods: 1\ngoods: 100.00\ntier discount: -16.10\nregion tax: 1\nregion tax: 12.60", "9",
			"The answer is wrong: expected 96.50, got 9. Every step is right, but the result is not.", 0.5,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Evaluate(&events.Task{Target: stepsTarget, Evaluator: BySteps}, Answer{Reasoning: test.reasoning, Final: test.answer})
			if err != nil || got.Feedback != test.feedback || got.Score != test.score || (got.Score == 1) != (got.Label == events.Success) {
				t.Errorf("got %+v, %v, want %q and %.2f", got, err, test.feedback, test.score)
			}
		})
	}
}

func TestEvaluateWithTolerance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		evaluator, target, answer string
		want                      events.Label
	}{
		{"numeric:0.01", "12", "12.01", events.Success},
		{"numeric:0.01", "12", "11.99", events.Success},
		{"numeric:0.01", "12", "12.0101", events.Failure},
		{"numeric:0.1", "1.2", "1.3", events.Success}, // the difference is 0.10000000000000009 in binary
		{"numeric:0", "12", "12.00", events.Success},
		{"numeric:0", "12", "12.0000001", events.Failure},
		{"numeric:1%", "200", "$202", events.Success},
		{"numeric:1%", "200", "202.1", events.Failure},
		{"numeric:1%", "-200", "-198", events.Success},
		{"numeric:1%", "0", "0.001", events.Failure},
		{"numeric:0.5%", "1,000", "995", events.Success},
		{"numeric:5", "about ten", "about ten", events.Success},
		{"numeric:5", "10", "about ten", events.Failure},
		{"numeric:5", "10", "", events.Failure},
	} {
		o, err := Evaluate(&events.Task{Target: test.target, Evaluator: test.evaluator}, Answer{Final: test.answer})
		if err != nil || o.Label != test.want || o.By != test.evaluator {
			t.Errorf("%s, %s for %s: got %+v, %v, want %s", test.evaluator, test.answer, test.target, o, err, test.want)
		}
	}
}

func TestEvaluateList(t *testing.T) {
	t.Parallel()
	const target = "DebtInstrumentFaceAmount,InterestExpense,DebtInstrumentFaceAmount,Goodwill"
	for _, test := range []struct {
		name, answer, feedback string
		score                  float64
		label                  events.Label
	}{
		{"all", " debtinstrumentfaceamount, InterestExpense ,DEBTINSTRUMENTFACEAMOUNT,Goodwill\n", "The answer is right.", 1, events.Success},
		{"a comma at the end", target + ", ", "The answer is right.", 1, events.Success},
		{
			"one is off", "DebtInstrumentFaceAmount,InterestExpense,Goodwill,Goodwill",
			"3 of 4 entries are right, 4 were given. Wrong entries: number 3: expected DebtInstrumentFaceAmount, got Goodwill.", 0.75, events.Partial,
		},
		{
			"each in its place", "InterestExpense,DebtInstrumentFaceAmount,Goodwill,DebtInstrumentFaceAmount",
			"0 of 4 entries are right, 4 were given. Wrong entries: number 1: expected DebtInstrumentFaceAmount, got InterestExpense; number 2: expected InterestExpense, got DebtInstrumentFaceAmount; number 3: expected DebtInstrumentFaceAmount, got Goodwill; number 4: expected Goodwill, got DebtInstrumentFaceAmount.", 0, events.Failure,
		},
		{
			"one is missing", "DebtInstrumentFaceAmount,InterestExpense,DebtInstrumentFaceAmount",
			"3 of 4 entries are right, 3 were given. Wrong entries: number 4: expected Goodwill, got nothing.", 0.75, events.Partial,
		},
		{
			"one too many", target + ",Goodwill",
			"4 of 4 entries are right, 5 were given. Wrong entries: number 5: expected nothing, got Goodwill.", 0.8, events.Partial,
		},
		{
			"none", " ",
			"0 of 4 entries are right, 0 were given. Wrong entries: number 1: expected DebtInstrumentFaceAmount, got nothing; number 2: expected InterestExpense, got nothing; number 3: expected DebtInstrumentFaceAmount, got nothing; number 4: expected Goodwill, got nothing.", 0, events.Failure,
		},
	} {
		o, err := Evaluate(&events.Task{Target: target, Evaluator: ByList}, Answer{Final: test.answer})
		if err != nil || o.Score != test.score || o.Label != test.label || o.Feedback != test.feedback || o.By != ByList {
			t.Errorf("%s: got %+v, %v, want %v, %s and %q", test.name, o, err, test.score, test.label, test.feedback)
		}
	}
}

func TestEvaluatePattern(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		evaluator, target, answer string
		want                      events.Label
	}{
		{ByPattern, `\d{4}-\d{2}`, " 2026-11\n", events.Success},
		{ByPattern, `\d{4}-\d{2}`, "in 2026-11", events.Failure},
		{ByPattern, `yes|no`, "yes, or no", events.Failure}, // the whole text, also for alternatives
		{ByPattern, `(?i)paris`, "PARIS", events.Success},
		{ByPattern, `a.b`, "a\nb", events.Failure},
		{ByPattern, `.*`, "", events.Success},
		{ByPattern, `(?m)^a$`, "a\nb", events.Failure},
		{"regex:search", `\bParis\b`, "It is Paris.", events.Success},
		{"regex:search", `\bParis\b`, "It is Parisian.", events.Failure},
		{"regex:search", `^Paris`, "It is Paris.", events.Failure},
	} {
		o, err := Evaluate(&events.Task{Target: test.target, Evaluator: test.evaluator}, Answer{Final: test.answer})
		if err != nil || o.Label != test.want {
			t.Errorf("%s %s on %q: got %+v, %v, want %s", test.evaluator, test.target, test.answer, o, err, test.want)
		}
	}
}

func TestEvaluateJSON(t *testing.T) {
	t.Parallel()
	const target = `{"a": [1, {"b": "x"}], "c": null, "n": 1200}`
	const wrong = "The answer is wrong: expected " + target + ", got "
	for _, test := range []struct{ answer, feedback string }{
		{`{"n":1.2e3,"c":null,"a":[1.0,{"b":"\u0078"}]}`, "The answer is right."},
		{"```json\n{\"n\": 1200, \"c\": null, \"a\": [1, {\"b\": \"x\"}]}\n```", "The answer is right."},
		{"```\r\n" + target + "```\n", "The answer is right."},
		{`{"a":[1,{"b":"<y>"}],"c":null,"n":1200}`, wrong + `{"a":[1,{"b":"<y>"}],"c":null,"n":1200}.`},
		{`{"a":[1],"c":null,"n":1200}`, wrong + `{"a":[1],"c":null,"n":1200}.`},
		{`{"a":[1,{"b":"x"},2],"c":null,"n":1200}`, wrong + `{"a":[1,{"b":"x"},2],"c":null,"n":1200}.`},
		{`{"a":[1,{"b":"x"}],"n":1200}`, wrong + `{"a":[1,{"b":"x"}],"n":1200}.`},
		{`{"a":[1,{"b":"x"}],"c":null,"n":1200,"b":false}`, wrong + `{"a":[1,{"b":"x"}],"c":null,"n":1200,"b":false}.`},
		{`{"a":[1,{"b":"x"}],"c":null,"n":"1200"}`, wrong + `{"a":[1,{"b":"x"}],"c":null,"n":"1200"}.`},
		{`{"a":{"0":1},"c":null,"n":1200}`, wrong + `{"a":{"0":1},"c":null,"n":1200}.`},
		{`[]`, wrong + `[].`},
		{`{"a":`, `The answer is not valid JSON: unexpected EOF. Expected {"a": [1, {"b": "x"}], "c": null, "n": 1200}, got {"a":.`},
		{``, `The answer is not valid JSON: empty. Expected {"a": [1, {"b": "x"}], "c": null, "n": 1200}, got nothing.`},
		{target + target, `The answer is not valid JSON: unexpected data after the value. Expected {"a": [1, {"b": "x"}], "c": null, "n": 1200}, got ` + target + target + `.`},
	} {
		o, err := Evaluate(&events.Task{Target: target, Evaluator: ByJSON}, Answer{Final: test.answer})
		if err != nil || o.Feedback != test.feedback || (o.Label == events.Success) != strings.HasSuffix(o.Feedback, "right.") {
			t.Errorf("%s: got %+v, %v, want %q", test.answer, o, err, test.feedback)
		}
	}
}

// A word alone in a fence is the value, not the name of a language.
func TestEvaluateJSONInAFenceOfOneLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ target, answer string }{
		{"42", "```42```"},
		{"-1.5", "```-1.5```"},
		{"true", "```true```"},
		{"42", "```json 42```"},
		{`{"a":1}`, "```json{\"a\":1}```"},
	} {
		o, err := Evaluate(&events.Task{Target: test.target, Evaluator: ByJSON}, Answer{Final: test.answer})
		if err != nil || o.Label != events.Success {
			t.Errorf("%s: got %+v, %v, want a success", test.answer, o, err)
		}
	}
}

// A model may give the value itself in place of its JSON as a text. The Generator reads a list of texts, or a text, without quotes.
func TestEvaluateJSONOfAField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		target, field string
		want          events.Label
	}{
		{`["a", "b c"]`, `["a","b c"]`, events.Success},
		{`["a", "b c"]`, `["b c","a"]`, events.Failure},
		{`"x"`, `"x"`, events.Success},
		{`null`, `""`, events.Failure},
		{`{"a":[1,"b"]}`, `{"a":[1,"b"]}`, events.Success},
		{`[1,2]`, `[1,2]`, events.Success},
	} {
		o, err := Evaluate(&events.Task{Target: test.target, Evaluator: ByJSON}, Answer{Final: chat.FieldText([]byte(test.field))})
		if err != nil || o.Label != test.want {
			t.Errorf("%s for %s: got %+v, %v, want %s", test.field, test.target, o, err, test.want)
		}
	}
}

// Values are compared exactly, also beyond float64.
func TestNumbersOfJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"1", "1.0", true},
		{"100", "1e2", true},
		{"0.00120", "12E-4", true},
		{"-0", "0.0", true},
		{"-1", "1", false},
		{"9007199254740993", "9007199254740992", false},
		{"1e99999", "10e99998", true},
		{"1e2147483647", "10e2147483646", false}, // equal, but out of range
		{"1e99999999999", "1e99999999999", true},
		{"0e99999999999", "0", true},
		{"0.1", "0.10000000000000000001", false},
	} {
		if got := equalJSONNumber(test.a, test.b); got != test.want || equalJSONNumber(test.b, test.a) != got {
			t.Errorf("%s and %s: got %v, want %v", test.a, test.b, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(-2000, 2000).Draw(t, "a"), rapid.Int64Range(-2000, 2000).Draw(t, "b")
		zeros := rapid.IntRange(0, 3).Draw(t, "zeros")
		x := fmt.Sprint(a) + strings.Repeat("0", zeros) + fmt.Sprintf("e-%d", zeros)
		y := fmt.Sprint(b) + "." + strings.Repeat("0", 1+zeros)
		if got := equalJSONNumber(x, y); got != (a == b) {
			t.Fatalf("%s and %s: got %v", x, y, got)
		}
	})
}

// The order of keys and white space do not matter. One changed leaf is found.
func TestReencodedJSONIsEqual(t *testing.T) {
	t.Parallel()
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Map(rapid.Int64(), func(n int64) any { return n }), rapid.Map(rapid.String(), func(s string) any { return s }))
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.String(), value(depth-1), 0, 4), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		target, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := json.MarshalIndent(v, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		task := &events.Task{Target: string(target), Evaluator: ByJSON}
		if o, err := Evaluate(task, Answer{Final: string(answer)}); err != nil || o.Label != events.Success {
			t.Fatalf("got %+v, %v", o, err)
		}
		if o, err := Evaluate(task, Answer{Final: `[` + string(answer) + `]`}); err != nil || o.Label != events.Failure {
			t.Fatalf("in a list: got %+v, %v", o, err)
		}
	})
}

// The score is compared with a simple count.
func TestListScoreIsShareOfCorrectEntries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entry := rapid.SampledFrom([]string{"a", "b", "c d"})
		want := rapid.SliceOfN(entry, 1, 6).Draw(t, "want")
		got := rapid.SliceOfN(entry, 1, 6).Draw(t, "got")
		good := 0
		for i := range want {
			if i < len(got) && got[i] == want[i] {
				good++
			}
		}
		o, err := Evaluate(&events.Task{Target: strings.Join(want, ","), Evaluator: ByList}, Answer{Final: strings.ToUpper(strings.Join(got, " , "))})
		if err != nil || o.Score != float64(good)/float64(max(len(want), len(got))) || (o.Label == events.Success) != slices.Equal(want, got) {
			t.Fatalf("got %+v, %v with %d right", o, err, good)
		}
	})
}

func TestInvalidEvaluatorsAndTargets(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]events.Task{
		"unknown evaluator":               {Target: "1", Evaluator: "vibes"},
		"unknown evaluator, no target":    {Evaluator: "vibes"},
		"target of steps is no JSON":      {Target: "96.50", Evaluator: BySteps},
		"target of steps has no answer":   {Target: `{"steps":[]}`, Evaluator: BySteps},
		"target of steps has no steps":    {Target: `{"answer":"5"}`, Evaluator: BySteps},
		"target of steps is another JSON": {Target: `{"answer":96.5}`, Evaluator: BySteps},
		"invalid pattern":                 {Target: `a(`, Evaluator: ByPattern},
		"pattern invalid on its own":      {Target: `a)|(b`, Evaluator: ByPattern},
		"a pattern to search":             {Target: `[`, Evaluator: "regex:search"},
		"target is no JSON":               {Target: `{"a":`, Evaluator: ByJSON},
		"target is two JSON values":       {Target: `1 2`, Evaluator: ByJSON},
		"unknown program":                 {Evaluator: "program:judge"},
	} {
		_, err := Evaluate(&task, Answer{Final: "1"})
		if !errors.Is(err, ErrNotScorable) || !strings.Contains(err.Error(), task.Evaluator) {
			t.Errorf("%s: got %v, want ErrNotScorable that names the evaluator", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "default", "exact", "formula", "numeric", "numeric:0", "numeric:1e-3", "numeric:1%", "numeric:2.5%", "list", "list:ignore-extra", "regex", "regex:search", "json", "steps", "program:my-judge_2"} {
		if err := Check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"Exact", "exact ", "exact:", "numeric:", "numeric:-1", "numeric:x", "numeric:%", "numeric:NaN", "numeric:1e999", "lists", "list:",
		"regex:", "regex:find", "json:a", "steps:", "program", "program:", "program:../x", "program:a b", "program:" + strings.Repeat("a", 65),
	} {
		if err := Check(bad); !errors.Is(err, ErrNotScorable) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: got %v, want ErrNotScorable that names it", bad, err)
		}
	}
}

func FuzzEvaluate(f *testing.F) {
	f.Add("goods: 100", "96.50", "96.5")
	f.Add("::::\n-:-", "NaN", "1e400")
	f.Add("", "```json\n[1e5]```", "[100000]")
	f.Add("", "a,B ,,c", "A,b")
	f.Add("", `{"a":{"b":[0e1]}}`, `{"a":{"b":[-0]},"c":[[]]}`)
	f.Fuzz(func(t *testing.T, reasoning, final, target string) {
		for _, evaluator := range []string{"", ByText, ByNumber, "numeric:0.1", "numeric:3%", ByList, ByPattern, "regex:search", ByJSON, BySteps} {
			o, err := Evaluate(&events.Task{Target: target, Evaluator: evaluator}, Answer{Reasoning: reasoning, Final: final})
			if err == nil && (math.IsNaN(o.Score) || o.Score < 0 || o.Score > 1 || o.Label == "" || (o.Score == 1) != (o.Label == events.Success)) {
				t.Errorf("%s: got %+v", evaluator, o)
			}
			if err != nil && !errors.Is(err, ErrNotScorable) || strings.Contains(o.Feedback, "\n") || !utf8.ValidString(o.Feedback) {
				t.Errorf("%s: got %+v, %v, want ErrNotScorable or one line of feedback", evaluator, o, err)
			}
			if err == nil && target != "" && evaluator != BySteps && !strings.HasPrefix(evaluator, ByPattern) {
				if o, err := Evaluate(&events.Task{Target: target, Evaluator: evaluator}, Answer{Final: target}); strings.TrimSpace(target) != "" && (err != nil || o.Label != events.Success) {
					t.Errorf("%s: the target itself: got %+v, %v", evaluator, o, err)
				}
			}
		}
		if o, err := Evaluate(&events.Task{Target: stepsTarget, Evaluator: BySteps}, Answer{Reasoning: reasoning, Final: final}); err != nil || strings.Contains(o.Feedback, "\n") {
			t.Errorf("got %+v, %v, want one line of feedback", o, err)
		}
	})
}

// TestTagsIgnoreExtraEntries checks the scorer of FiNER: entries after the last one of the target do not count.
func TestTagsIgnoreExtraEntries(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]float64{
		"Ab,Cd": 1, " ab , CD ,Ef": 1, "Ab,Cd,": 1, "Ab": 0.5, "Ef,Ab,Cd": 0, "": 0, "Ab,Ef,Cd": 0.5,
	} {
		o, err := Evaluate(&events.Task{Target: "Ab,Cd", Evaluator: ByTags}, Answer{Final: answer})
		if err != nil || o.Score != want || o.By != ByTags {
			t.Errorf("%q: got %+v, error %v, want %v", answer, o, err, want)
		}
	}
}

// The default accepts what a person would, with the question's rounding; "exact" compares letters, and "formula" compares as
// the scorer of the tasks.
func TestDefaultAndFormula(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		evaluator, question, target, answer string
		right                               bool
	}{
		{"", "", "0.2", "0.20", true},
		{"", "", "Bonn", "In Bonn.", true},
		{"", "", "yes", "Yes", true},
		{"", "Round to 2 decimal places.", "0.67", "0.6667", true},
		{"", "", "0.67", "0.6667", false},
		{"default", "", "a, b", "b, a", false},
		{"exact", "", "0.2", "0.20", false},
		{"exact", "", "yes", "Yes", false},
		{"formula", "", "1,000.0", "1000", true},
		{"formula", "", "5.0", " 5", true},
		{"formula", "", "5.0", "$5", false},
		{"formula", "", "5.0", "5.01", false},
		{"formula", "", "no", "no", true},
	} {
		o, err := Evaluate(&events.Task{Question: tt.question, Target: tt.target, Evaluator: tt.evaluator}, Answer{Final: tt.answer})
		if err != nil || (o.Label == events.Success) != tt.right {
			t.Errorf("%q: target %q, answer %q: got %+v, %v, want right: %v", tt.evaluator, tt.target, tt.answer, o, err, tt.right)
		}
	}
}
