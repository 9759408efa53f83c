package runs

import (
	"reflect"
	"strings"
	"testing"

	"debrief/events"
)

func TestOutcomesFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"table":      "id,score\ns-1,1\nother,0\n",
		"lines":      `{"session_id":"s-1","reward":1}` + "\n" + `{"run_id":"other","correct":false}`,
		"a list":     `[{"id":"s-1","score":1,"feedback":""},{"id":"other","score":0}]`,
		"ids":        `{"s-1": true, "other": "failure"}`,
		"over lines": "{\n\"s-1\": {\"score\": 1},\n\"other\": 0}",
		"SWE-bench":  `{"total":2,"resolved_ids":["s-1"],"unresolved_ids":["other"]}`,
		"gzip":       gzipped("id,score\ns-1,1\nother,0\n"),
	} {
		o, err := ReadOutcomes(t.Context(), "o", strings.NewReader(text), "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []*events.Execution
		r := &Reader{Book: "book", Outcomes: o}
		if _, err := r.Read(t.Context(), "f", strings.NewReader(claude), func(e *events.Execution) error { got = append(got, e); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || !reflect.DeepEqual(got[0].Outcome, events.Outcome{Score: 1, Label: events.Success, By: "outcomes file"}) {
			t.Errorf("%s: got %+v", name, got)
		}
		if n, ids := o.Unused(); n != 1 || !reflect.DeepEqual(ids, []string{"other"}) || o.Applied != 1 || o.Kept != 0 {
			t.Errorf("%s: got %+v, unused %d %q", name, o, n, ids)
		}
	}
}

func TestOutcomesByFileAndTrial(t *testing.T) {
	t.Parallel()
	o, err := ReadOutcomes(t.Context(), "o", strings.NewReader(`{"task_id":7,"trial":1,"score":1}{"id":"x-1","score":0}`), "")
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{Book: "book", Outcomes: o}
	labels := map[string]events.Label{}
	keep := func(e *events.Execution) error {
		labels[e.RunID[:strings.LastIndexByte(e.RunID, '/')]] = e.Outcome.Label
		return nil
	}
	for name, text := range map[string]string{
		"x-1.traj.gz": gzipped(`{"history":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`),
		"tau.json":    "[" + tau("7", "0", "null", hello+`,{"role":"assistant","content":"a"}`) + "," + tau("7", "1", "null", hello) + "," + tau("7", "1", "0", hello) + "]",
	} {
		if _, err := r.Read(t.Context(), name, strings.NewReader(text), keep); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]events.Label{"swe-agent": events.Failure, "tau-bench/7/0": events.Unknown, "tau-bench/7/1": events.Failure}
	if !reflect.DeepEqual(labels, want) || o.Applied != 2 || o.Kept != 1 {
		t.Errorf("got %v, %d applied, %d kept; want %v", labels, o.Applied, o.Kept, want)
	}
}

func TestInvalidOutcomes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "no outcome found",
		"id,score\n":                      "no outcome found",
		"name,points\nx,1\n":              "unknown format",
		"id,score\nx,9\n":                 "line 2: field score: a score outside 0 to 1 needs its range",
		"id,score\n,1\n":                  `line 2: fields id, score: required, got "score"`,
		"id,score\nx,\n":                  `line 2: fields id, score: required, got "id"`,
		"id,score\nx,1\nx,0\n":            "has two scores",
		`{"x": "purple"}`:                 `field "x": field score: got`,
		`{"x": 1} y`:                      "line 1: invalid JSON at byte 0",
		`[{"id":"x","score":1}`:           "truncated",
		`{"resolved_ids": "x"}`:           "field resolved_ids: got a JSON string, want a list",
		"\x1f\x8b\x08garbage":             "decompress gzip",
		`{"id":"x","score":1}{"id":"x"`:   "line 1: invalid JSON at byte 9: unexpected end",
		`[{"id":"x","score":1},{"id":1}]`: "element 1: ",
	} {
		if o, err := ReadOutcomes(t.Context(), "o.csv", strings.NewReader(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, error %v, want %q", text, o, err, want)
		}
	}
}

func FuzzOutcomes(f *testing.F) {
	f.Add([]byte("id,score\nx,1"))
	f.Add([]byte(`[{"id":"x","score":1}]`))
	f.Add([]byte(`{"resolved_ids":["a"],"x":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ReadOutcomes(t.Context(), "f", strings.NewReader(string(data)), "")
		if (err == nil) != (o != nil) || o != nil && len(o.byID) == 0 {
			t.Errorf("got %+v, error %v", o, err)
		}
	})
}
