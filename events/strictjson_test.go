package events_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

const maxTokens = 1 << 18

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, body, names string }{
		{"empty", "", "empty"},
		{"only space", " \n\t", "empty"},
		{"null", "null", "the body: "},
		{"a list", `[{"answer":"x"}]`, "the body: "},
		{"a typo", `{"anwser":"x"}`, `field "anwser"`},
		{"a typo further in", `{"steps":[{"tool_calls":[{"tol":"x"}]}]}`, `unknown field "steps[0].tool_calls[0].tol"`},
		{"no string", `{"answer":7}`, "answer: want a string, got the number"},
		{"no list", `{"steps":{}}`, "steps: want a list, got an object"},
		{"no object", `{"outcome":"good"}`, "outcome: want an object, got a string"},
		{"no whole number", `{"duration_ns":1.5}`, "duration_ns: want a whole number, got the number 1.5"},
		{"a number that is too large", `{"outcome":{"score":1e999}}`, "outcome.score: "},
		{"a number of a thousand digits", `{"duration_ns":` + strings.Repeat("9", 1000) + `}`, strings.Repeat("9", 33) + "…"},
		{"no time", `{"started":"yesterday"}`, `started: want a time such as 2026-11-20T12:00:00Z`},
		{"after the end", `{"answer":"x"} {"answer":"y"}`, "the body: "},
		{"after the end, no JSON", `{"answer":"x"}}`, "the body: "},
		{"cut off", `{"answer":"x"`, "the body: "},
		{"cut off in a string", `{"answer":"x`, "the body: "},
		{"cut off in an escape", `{"answer":"x\`, "the body: "},
		{"no quotes", `{answer:"x"}`, "byte 1: "},
		{"NUL in a string", "{\"answer\":\"\x00\"}", "byte 11: "},
		{"twice", `{"answer":"x","answer":"y"}`, `field "answer"`},
		{"twice, in two spellings", `{"answer":"x","Answer" : "y"}`, `field "Answer"`},
		{"twice, further in", `{"steps":[{"text":"a"},{"text":"b","text":"c"}]}`, `field "steps[1].text"`},
		{"twice, in an escaped name", `{"answer":"x","\u0061nswer":"x"}`, `field "answer"`},
		{"a hundred thousand deep", strings.Repeat(`{"a":`, 100_000), "64"},
		{"a hundred thousand lists deep", `{"steps":` + strings.Repeat("[", 100_000), "64"},
		{"closed more often than opened", `{"steps":[]}` + strings.Repeat("]}", 100), "the body: "},
		{"a million values", `{"steps":[` + strings.Repeat("{},", 1_000_000) + `{}]}`, "262144"},
		{"a hundred fields", `{` + manyFields(100) + `}`, `field "f0"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := events.DecodeStrict([]byte(test.body), new(events.Report))
			if err == nil || !strings.Contains(err.Error(), test.names) {
				t.Errorf("got %v, want an error that names %s", err, test.names)
			}
		})
	}
}

// TestWindowIsANumberOrAWord decodes the window of a context in the forms that clients write.
func TestWindowIsANumberOrAWord(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		window string
		want   events.Turns
		err    string
	}{
		{`3`, "3", ""},
		{`"3"`, "3", ""},
		{`"none"`, "none", ""},
		{`null`, "", ""},
		{`2.5`, "", "window: want a whole number of user turns, none or adaptive, got 2.5"},
		{`true`, "", "window: want a whole number of user turns, none or adaptive, got true"},
		{`[3]`, "", "window: want a whole number of user turns, none or adaptive, got [3]"},
	} {
		t.Run(test.window, func(t *testing.T) {
			t.Parallel()
			var r events.ContextRequest
			err := events.DecodeStrict([]byte(`{"query": "q", "window": `+test.window+`}`), &r)
			if r.Window != test.want || err == nil != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("got %q and error %v, want %q and error %q", r.Window, err, test.want, test.err)
			}
		})
	}
}

func manyFields(n int) string {
	var fields []string
	for i := range n {
		fields = append(fields, fmt.Sprintf(`"f%d":0`, i))
	}
	return strings.Join(fields, ",")
}

func TestDecodeRepairsTexts(t *testing.T) {
	t.Parallel()
	var r events.Report
	body := "\r\n{\"answer\":\"a\xffb \\ud800 \\u0000 \\\" , { \", \"run_id\":\"x\"}\n "
	if err := events.DecodeStrict([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if want := "a\uFFFDb \uFFFD \x00 \" , { "; r.Answer != want || r.RunID != "x" {
		t.Errorf("got %q and %q, want %q", r.Answer, r.RunID, want)
	}
}

// TestDecodeRoundTrip decodes the JSON of random reports.
func TestDecodeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) events.Step {
			return events.Step{
				Text: text.Draw(t, "text"),
				Calls: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) events.ToolCall {
					return events.ToolCall{Tool: text.Draw(t, "tool"), Arguments: text.Draw(t, "arguments"), Output: text.Draw(t, "output")}
				}), 0, 3).Draw(t, "calls"),
				Record: &events.Record{Calls: []events.CallRecord{{Next: []string{text.Draw(t, "next")}}}},
			}
		}), 0, 4).Draw(t, "steps")
		want := events.Report{
			Book: "b", ContextID: events.ID(text.Draw(t, "context")), Steps: steps, Answer: text.Draw(t, "answer"),
			Cited:    []playbook.BulletID{"x"},
			Outcome:  events.Outcome{Score: rapid.Float64().Draw(t, "score"), Label: events.Success},
			Usage:    chat.Usage{Calls: rapid.Int().Draw(t, "calls"), Cost: rapid.Float64().Draw(t, "cost")},
			Started:  time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "started"), 0).UTC(),
			Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
		}
		body, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got events.Report
		if err := events.DecodeStrict(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestDecodeIsBoundedInMemory is not parallel, because it measures the memory of the process.
func TestDecodeIsBoundedInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	body := []byte(`{"steps":[` + strings.Repeat("{},", maxTokens/2-10) + `{}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var r events.Report
	if err := events.DecodeStrict(body, &r); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	got := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d bytes of nothing but steps: %d MB allocated", len(body), got>>20)
	if got > 160<<20 { // at most two fifths are live at once: the list grows by copying
		t.Errorf("%d MB for %d bytes", got>>20, len(body))
	}
}

// FuzzDecodeStrict checks that each accepted body is an object within the limits, and that the plain library decodes it
// equally.
func FuzzDecodeStrict(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"answer":"x","steps":[{"text":"a","tool_calls":[{"tool":"t","output":"o"}]}]}`, `{"answer":"\"","Answer":1}`,
		`{"query":"q","limit":1e3,"playbook":0}`, `{"a":{"a":[{"a":"a"}]}}`, "{\"answer\":\"\xff\\u0000\"}", `{"steps":[{"toolCalls":[{}]}]}`, `{"execution":"1-ab12cd34","outcome":{"score":0.5}}`,
		strings.Repeat("[", 70), `{"answer":"x"}}`, `{"x":"\\"}`, `{"x":"\`,
	} {
		for kind := range uint8(3) {
			f.Add(kind, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		fresh := func() any {
			return []any{new(events.ContextRequest), new(events.Report), new(events.FeedbackRequest)}[kind%3]
		}
		got := fresh()
		if err := events.DecodeStrict(body, got); err != nil {
			if text := text.Line(err.Error(), 500); len(text) > 500+len("…") || strings.ContainsAny(text, "\r\n\x00") || !utf8.ValidString(text) {
				t.Errorf("an error that fits no header: %q", text)
			}
			return
		}
		want := fresh()
		options := jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.MatchCaseSensitiveDelimiter(false)) // those of encoding/json, but toolCalls is tool_calls
		if err := jsonv2.Unmarshal(body, want, options); err != nil {
			t.Fatalf("accepts %q, the library returns %v", body, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-library +ours:\n%s", diff)
		}
		if deep := bytes.Count(body, []byte("{")) + bytes.Count(body, []byte("[")); deep > maxTokens {
			t.Errorf("took %d values", deep)
		}
	})
}

func BenchmarkDecodeReport(b *testing.B) {
	r := events.Report{Answer: "done"}
	for range 200 {
		r.Steps = append(r.Steps, events.Step{Text: strings.Repeat("thought ", 20), Calls: []events.ToolCall{{Tool: "read", Arguments: `{"path":"a"}`, Output: strings.Repeat("line of output\n", 300)}}})
	}
	body, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := events.DecodeStrict(body, new(events.Report)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGuardFields uses bodies with field names that take longest to compare.
func BenchmarkGuardFields(b *testing.B) {
	body := []byte(`{"steps":[` + strings.Repeat("{"+manyFields(32)+"},", 7000) + `{}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := events.DecodeStrict(body, new(events.Report)); err == nil { // the first name is unknown, after the check of all
			b.Fatal("want an error")
		}
	}
}
