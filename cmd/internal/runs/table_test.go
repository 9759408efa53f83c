package runs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"debrief/cmd/internal/runs/source"
	"debrief/events"
)

// answers reads question-and-answer logs as "question=answer label".
func answers(t *testing.T, name, text string) ([]string, Report, error) {
	t.Helper()
	got, report, err := read(t, name, text)
	var list []string
	for _, e := range got {
		list = append(list, fmt.Sprintf("%s=%s %s", e.Question, e.Answer, e.Outcome.Label))
	}
	return list, report, err
}

func TestAnswerLogs(t *testing.T) {
	t.Parallel()
	three := []string{"q1=a1 success", "q2=a2 failure", "q3=a3 unknown"}
	for name, text := range map[string]string{
		"CSV":               "question,answer,score\nq1,a1,1\nq2,a2,0\nq3,a3,\n",
		"CSV with words":    "Answer,Question,Correct\r\na1,q1,yes\r\na2,q2,FALSE\r\na3,q3,\r\n",
		"semicolons":        "input;output;label\nq1;a1;success\n\nq2;a2;failure\nq3;a3;",
		"tabs":              "prompt\tresponse\tpassed\nq1\ta1\ttrue\nq2\ta2\tfalse\nq3\ta3\t\n",
		"lines":             `{"question":"q1","answer":"a1","score":1.0}` + "\n" + `{"question":"q2","answer":"a2","score":0}` + "\n" + `{"question":"q3","answer":"a3"}`,
		"lines with others": `{"input":"q1","output":"a1","correct":true}` + "\n" + `{"prompt":"q2","completion":"a2","passed":"no"}` + "\n" + `{"query":"q3","response":"a3","is_correct":null}`,
		"a list":            `[{"id":1,"question":"q1","answer":"a1","score":1},{"id":2,"question":"q2","answer":"a2","label":"failure"},{"id":3,"question":"q3","answer":"a3"}]`,
	} {
		got, report, err := answers(t, "f.csv", text)
		if err != nil || report.Skipped != 0 || !reflect.DeepEqual(got, three) {
			t.Errorf("%s: got %q, report %+v, error %v", name, got, report, err)
		}
	}
}

func TestInvalidRowsAreSkipped(t *testing.T) {
	t.Parallel()
	rows := `question,answer,target,id
"two
  lines, ""quoted""",a1,t,1
a 5" pipe,a2,,2

q4,a4,,4
too,many,fields,in,this
q5,"a5",,5
,no question,,6
"open,a7,,7
`
	got, report, err := answers(t, "f.csv", rows)
	want := []string{"two\n  lines, \"quoted\"=a1 unknown", "q4=a4 unknown", "q5=a5 unknown"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, report %+v, error %v", got, report, err)
	}
	if all, _, err := read(t, "f.csv", rows); err != nil || all[0].Target != "t" || all[1].Target != "" {
		t.Errorf("got %+v, error %v, want the target of the first row", all, err)
	}
	var lines []int
	for _, p := range report.Problems {
		lines = append(lines, p.Line)
	}
	if !reflect.DeepEqual(lines, []int{4, 7, 9, 10}) {
		t.Errorf("got problems %v, want lines 4, 7, 9 and 10", report.Problems)
	}
}

func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	text := "question,answer\nq,a\n\"" + strings.Repeat("x\n", 1<<20)
	var got []string
	f := fileReader{Reader: &Reader{Book: "book"}, limit: 2000, fn: func(e *events.Execution) error { got = append(got, e.Question); return nil }}
	if err := f.read(t.Context(), strings.NewReader(text)); !errors.Is(err, source.ErrTooLarge) || !reflect.DeepEqual(got, []string{"q"}) {
		t.Errorf("got %q, error %v, want the first row and ErrTooLarge", got, err)
	}
}

// TestFormattedEvents reads events over several lines, as jq prints them.
func TestFormattedEvents(t *testing.T) {
	t.Parallel()
	want := one(t, claude)
	if e := one(t, strings.ReplaceAll(claude, `{"type"`, "{\n  \"type\"")); e.ID != want.ID || !reflect.DeepEqual(e.Steps, want.Steps) {
		t.Errorf("got %+v, want %+v", e, want)
	}
	_, report, err := read(t, "f", "{\n\"question\":\"q\",\"answer\":\"a\"}\n\n{\n\"x\":1}\n{\n\"y\":\n1}\n{\"z\":1}\n")
	if err != nil || report.Runs != 1 || len(report.Problems) != 3 || report.Problems[0].Line != 4 || report.Problems[1].Line != 6 || report.Problems[2].Line != 9 {
		t.Errorf("got %+v, error %v, want problems in lines 4, 6 and 9", report, err)
	}
}

func TestUnknownTablesNameTheirColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"input,tokens\nq,1\n":   `line 1: unknown format: a table needs columns for question and answer, found "input", "tokens"`,
		"Yes, this is a text\n": "line 1: invalid JSON at byte 0",
	} {
		if _, _, err := read(t, "f", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzTable(f *testing.F) {
	fuzz(f, "question,answer,score\nq,a,1\n\"x\ny\",b,0\n", "input;output\n\"a;b\n\"", "prompt\tresponse\n\"\"\"\t\"")
}
