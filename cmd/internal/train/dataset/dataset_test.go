package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"debrief/events"
)

var sameTasks = cmpopts.IgnoreUnexported(events.Task{})

func set(t *testing.T, text string, o Options) *Set {
	t.Helper()
	s, err := Read(t.Context(), "tasks.jsonl", strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFields(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		line string
		o    Options
		want events.Task
	}{
		"ours": {
			`{"id":"a","question":"q","context":"c","target":"t","evaluator":"steps","session":"s","metadata":{"x":[1]}}`,
			Options{},
			events.Task{ID: "a", Question: "q", Context: "c", Target: "t", Evaluator: "steps", Session: "s"},
		},
		"a number is a text":      {`{"id":7,"question":"q","target":4.50}`, Options{}, events.Task{ID: "7", Question: "q", Target: "4.50"}},
		"an object is its JSON":   {`{"id":"a","question":"q","context":[ 1, "é" ],"target":{ "x": 1 }}`, Options{}, events.Task{ID: "a", Question: "q", Context: `[1,"é"]`, Target: `{"x":1}`}},
		"ground truth":            {`{"id":"a","question":"q","ground_truth":"t"}`, Options{}, events.Task{ID: "a", Question: "q", Target: "t"}},
		"target before it":        {`{"id":"a","question":"q","ground_truth":"g","target":"t"}`, Options{}, events.Task{ID: "a", Question: "q", Target: "t"}},
		"unless that is null":     {`{"id":"a","question":"q","ground_truth":"g","target":null}`, Options{}, events.Task{ID: "a", Question: "q", Target: "g"}},
		"a context alone":         {`{"id":"a","context":"c","target":"t"}`, Options{}, events.Task{ID: "a", Question: "c", Target: "t"}},
		"the evaluator asked for": {`{"id":"a","question":"q","target":"2","evaluator":"list"}`, Options{Evaluator: "exact"}, events.Task{ID: "a", Question: "q", Target: "2", Evaluator: "exact"}},
		"other names": {
			`{"nr":"a","in":{"prompt":"q","a.b":"c"},"target":"x","gold":"t"}`,
			Options{Fields: map[string]string{"id": "nr", "question": "in.prompt", "context": "in.a.b", "target": "gold"}},
			events.Task{ID: "a", Question: "q", Context: "c", Target: "t"},
		},
		"a context with the name question": {
			`{"id":"a","context":"c","target":"t"}`, Options{Fields: map[string]string{"question": "context"}}, events.Task{ID: "a", Question: "c", Target: "t"},
		},
		"a mapped field is not a default": {
			`{"id":"a","question":"q","context":"c","ground_truth":"t","target":"c"}`,
			Options{Fields: map[string]string{"context": "target"}},
			events.Task{ID: "a", Question: "q", Context: "c", Target: "t"},
		},
		"equal texts":                      {`{"id":"a","question":"c","context":" c\n"}`, Options{}, events.Task{ID: "a", Question: "c"}},
		"what is mapped has no other name": {`{"id":"a","question":"q","target":"t"}`, Options{Fields: map[string]string{"target": "gold"}}, events.Task{ID: "a", Question: "q"}},
	} {
		s := set(t, test.line, test.o)
		if diff := cmp.Diff([]events.Task{test.want}, s.Tasks, sameTasks); diff != "" || s.Invalid > 0 {
			t.Errorf("%s: %v, unread %d, %s", name, s.Problems, s.Invalid, diff)
		}
	}
}

func TestInvalidSamplesAreSkipped(t *testing.T) {
	t.Parallel()
	good := func(n int) string { return fmt.Sprintf(`{"id":"good%d","question":"q"}`, n) }
	long := `{"question":"` + strings.Repeat("x", maxSample) + `"}`
	for name, test := range map[string]struct {
		text    string
		o       Options
		line    int
		problem string // "" without a problem
	}{
		"blank lines":                   {"\n" + good(1) + "\n\n \t\r\n" + good(2) + "\n\n", Options{}, 0, ""},
		"a mark and carriage returns":   {"\xef\xbb\xbf" + good(1) + "\r\n" + good(2) + "\r\n", Options{}, 0, ""},
		"no end of the last line":       {good(1) + "\n" + good(2), Options{}, 0, ""},
		"half a line":                   {good(1) + "\n" + `{"question":"q` + "\n" + good(2), Options{}, 2, "invalid JSON"},
		"half a line at the end":        {good(1) + "\n" + good(2) + "\n" + `{"question":`, Options{}, 3, "unexpected end"},
		"two in a line":                 {good(1) + "\n" + good(3) + good(4) + "\n" + good(2), Options{}, 2, "invalid JSON"},
		"a list in a line":              {good(1) + "\n[1]\n" + good(2), Options{}, 2, "want an object"},
		"a number":                      {good(1) + "\n\n42\n" + good(2), Options{}, 3, "want an object"},
		"null":                          {good(1) + "\nnull\n" + good(2), Options{}, 2, "want an object"},
		"prose":                         {good(1) + "\nsome text\n" + good(2), Options{}, 2, "invalid JSON"},
		"a comment":                     {good(1) + "\n# " + good(3) + "\n" + good(2), Options{}, 2, "invalid JSON"},
		"bytes":                         {good(1) + "\n{\"question\":\"\xff\"}\n" + good(2), Options{}, 2, "UTF-8"},
		"no question":                   {good(1) + "\n" + `{"target":"t"}` + "\n" + good(2), Options{}, 2, "question: "},
		"an empty question":             {good(1) + "\n" + `{"question":" "}` + "\n" + good(2), Options{}, 2, "question: "},
		"a question of another kind":    {good(1) + "\n" + `{"question":["q"]}` + "\n" + good(2), Options{}, 2, "question: "},
		"an evaluator without a target": {good(1) + "\n" + `{"question":"q","evaluator":"exact"}` + "\n" + good(2), Options{}, 2, "target: "},
		"an evaluator that is none": {
			good(1) + "\n" + `{"question":"q","target":"t","evaluator":"sh -c id"}` + "\n" + good(2),
			Options{Check: func(name string) error {
				if name != "" {
					return fmt.Errorf("no evaluator %q", name)
				}
				return nil
			}},
			2, `"sh -c id"`,
		},
		"an id that is too long": {good(1) + "\n" + `{"question":"q","id":"` + strings.Repeat("x", 257) + `"}` + "\n" + good(2), Options{}, 2, "id: "},
		"an id for the terminal": {good(1) + "\n" + `{"question":"q","id":"\u001b[2J"}` + "\n" + good(2), Options{}, 2, "id: "},
		"a mapped field that is not there": {
			`{"id":"good1","p":"q"}` + "\n" + `{"question":"q"}` + "\n" + `{"id":"good2","p":"q"}`,
			Options{Fields: map[string]string{"question": "p"}},
			2, `"p"`,
		},
		"a line that is too long":     {good(1) + "\n" + long + "\n" + good(2), Options{}, 2, "too large"},
		"an id that comes twice":      {good(1) + "\n" + good(2) + "\n" + good(1), Options{}, 3, `id "good1": `},
		"a list":                      {" [\n" + good(1) + ",\n" + good(2) + "]\n", Options{}, 0, ""},
		"an element that is a number": {"[" + good(1) + ",\n 42 ,\n" + good(2) + "]", Options{}, 2, "element"},
		"an element that is a text":   {"[" + good(1) + ",\"]\\\"\"," + good(2) + "]", Options{}, 2, "element"},
		"an element that is too long": {"[" + good(1) + ",\n" + long + "\n," + good(2) + "]", Options{}, 2, "element"},
		"an element of many lines":    {"[{\"id\":\"good1\",\n\"question\":\n\"q\"},\n" + good(2) + ",\n{}]", Options{}, 3, "element"},
		"a list that is cut off":      {"[" + good(1) + "," + good(2) + ",\n" + `{"id":"good3","ques`, Options{}, 3, "cannot be read from here"},
		"a list without its end":      {"[" + good(1) + "," + good(2), Options{}, 3, "cannot be read from here"},
		"lists one after the other":   {"[" + good(1) + "]\n[" + good(2) + "]", Options{}, 0, ""},
		"something behind a list":     {"[" + good(1) + "," + good(2) + "]\n]", Options{}, 3, "cannot be read from here"},
	} {
		s := set(t, test.text, test.o)
		var ids []string
		for _, task := range s.Tasks {
			ids = append(ids, task.ID)
		}
		if got := strings.Join(ids, " "); got != "good1 good2" {
			t.Errorf("%s: got tasks %q, want the two good ones", name, got)
		}
		switch {
		case test.problem == "" && s.Invalid == 0:
		case s.Invalid != 1 || len(s.Problems) != 1 || test.problem == "":
			t.Errorf("%s: got %d unread and %v, want %q", name, s.Invalid, s.Problems, test.problem)
		case !strings.HasSuffix(s.Problems[0].Place, fmt.Sprint(" ", test.line)) || !strings.Contains(s.Problems[0].Error(), test.problem) || len(s.Problems[0].Reason) > 400:
			t.Errorf("%s: got %v, want place %d: %q", name, &s.Problems[0], test.line, test.problem)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestLongLinesAreNotKept: a line that is too long needs no more memory than the longest valid one. The test measures all allocations,
// so it does not run in parallel.
func TestLongLinesAreNotKept(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	{
		in := io.MultiReader(strings.NewReader(`{"question":"`), io.LimitReader(endless{}, 16*maxSample), strings.NewReader("\"}\n,{}"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(t.Context(), "x", in, Options{})
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "too large") || got > 8*maxSample {
			t.Errorf("got %v, and %d MiB of allocations", err, got>>20)
		}
	}
}

func TestFilesWithoutATask(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                  "x.jsonl",
		" \n\n":             "x.jsonl",
		"\xef\xbb\xbf":      "x.jsonl",
		"[]":                "x.jsonl",
		"[ ] \n":            "x.jsonl",
		"name,value\n1,2\n": "line 1: ",
		"{}\n{}":            "line 1: question: ",
		"[{}]":              "element 1: question: ",
		"[":                 "x.jsonl",
	} {
		_, err := Read(t.Context(), "x.jsonl", strings.NewReader(text), Options{})
		if !errors.Is(err, errFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	broken := errors.New("the disk is gone")
	in := io.MultiReader(strings.NewReader(`{"question":"q"}`+"\n"), iotest.ErrReader(broken))
	if _, err := Read(t.Context(), "x", in, Options{}); !errors.Is(err, broken) {
		t.Errorf("got %v, want what went wrong with the file", err)
	}
	for want, o := range map[string]Options{
		`field "answer": `: {Fields: map[string]string{"answer": "a"}},
		`field "target": `: {Fields: map[string]string{"target": ""}},
		"max samples: ":    {MaxSamples: -1},
	} {
		if _, err := Read(t.Context(), "x", strings.NewReader("{}"), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestIDs: a sample without an id gets the same id at each reading, independent of its formatting, and equal samples
// get different ids.
func TestIDs(t *testing.T) {
	t.Parallel()
	a := set(t, "{\"question\":\"q\",\"target\":\"t\"}\n{\"question\":\"q\",\"target\":\"t\"}\n", Options{})
	b := set(t, "\n{ \"target\":\"t\", \"question\":\"\\u0071\" }\n", Options{})
	if len(a.Tasks) != 2 || a.Tasks[0].ID == a.Tasks[1].ID || a.Invalid != 0 {
		t.Errorf("got %+v", a)
	}
	if a.Tasks[1].ID != b.Tasks[0].ID || !strings.HasPrefix(b.Tasks[0].ID, "line-2-") {
		t.Errorf("got %q and %q, want one id", a.Tasks[1].ID, b.Tasks[0].ID)
	}
	c := set(t, "[{\"question\":\"q\"},\n{\"question\":\"q\"}]", Options{})
	d := set(t, "[{\"question\":\"q\"},{\"question\":\"q\"}]", Options{})
	if c.Tasks[1].ID != d.Tasks[1].ID || c.Tasks[0].ID == c.Tasks[1].ID {
		t.Errorf("got %q and %q of lists that say the same", c.Tasks[1].ID, d.Tasks[1].ID)
	}
}

func TestMaxSamples(t *testing.T) {
	t.Parallel()
	const text = "{\"question\":\"1\"}\nbad\n{\"question\":\"2\"}\n{\"question\":\"3\"}\n"
	all, some := set(t, text, Options{}), set(t, text, Options{MaxSamples: 2})
	if len(some.Tasks) != 2 || some.Invalid != 1 || some.SHA256 != all.SHA256 || len(all.SHA256) != 64 {
		t.Errorf("got %+v of %+v", some, all)
	}
}

func TestManyProblems(t *testing.T) {
	t.Parallel()
	s := set(t, strings.Repeat("bad\n", 3*maxProblems)+`{"question":"q"}`, Options{})
	if s.Invalid != 3*maxProblems || len(s.Problems) != maxProblems || len(s.Tasks) != 1 {
		t.Errorf("got %d unread, %d problems, %d tasks", s.Invalid, len(s.Problems), len(s.Tasks))
	}
}

func TestWriteRoundTrip(t *testing.T) {
	t.Parallel()
	tasks := []events.Task{
		{ID: "1", Question: "<a & b>\n\u2028\"", Context: " c ", Target: `{"answer":"1"}`, Evaluator: "steps", Session: "s"},
		{ID: "2", Question: "q"},
	}
	var buf bytes.Buffer
	if err := Write(&buf, tasks); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(buf.String(), "\n"); n != 2 || !strings.Contains(buf.String(), "<a & b>") {
		t.Errorf("got %d lines: %s", n, &buf)
	}
	if diff := cmp.Diff(tasks, set(t, buf.String(), Options{}).Tasks, sameTasks); diff != "" {
		t.Error(diff)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbf[{\"question\":\"q\"},1,\"\\\"\",[{}] {}]x"), "a.b")
	f.Add([]byte("{\"a\":{\"b\":\"q\"}}\r\n\r\n{"), "a.b")
	f.Add([]byte(`{"question":"q","target":"t","id":1}`+"\n"+`{"context":"c","target":"1"}`), "")
	f.Add([]byte("\u00a0\n\u0085"), "")
	f.Fuzz(func(t *testing.T, data []byte, question string) {
		var o Options
		if question != "" {
			o.Fields = map[string]string{"question": question}
		}
		s, err := Read(t.Context(), "fuzz", bytes.NewReader(data), o)
		if err != nil {
			return
		}
		for _, p := range s.Problems {
			if p.Place == "" || p.Reason == "" {
				t.Errorf("got %+v, want its place and a reason", p)
			}
		}
		seen := map[string]bool{}
		for i := range s.Tasks {
			if err := s.Tasks[i].Validate(); err != nil || seen[s.Tasks[i].ID] {
				t.Errorf("%v, %v", err, s.Tasks[i])
			}
			seen[s.Tasks[i].ID] = true
		}
		var buf bytes.Buffer
		if err := Write(&buf, s.Tasks); err != nil {
			t.Fatal(err)
		}
		again, err := Read(t.Context(), "again", &buf, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Tasks, again.Tasks, sameTasks); diff != "" {
			t.Error(diff)
		}
	})
}
