package outcome

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"debrief/events"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	score := func(s float64) events.Outcome { return events.Outcome{Score: s, Label: events.LabelOf(s)} }
	said := func(s float64, feedback string) events.Outcome {
		return events.Outcome{Score: s, Label: events.LabelOf(s), Feedback: feedback}
	}
	several := func(s float64, named ...any) events.Outcome {
		o := score(s)
		for i := 0; i < len(named); i += 2 {
			switch value := named[i+1].(type) {
			case int:
				o.Scores = append(o.Scores, events.NamedScore{Name: named[i].(string), Score: float64(value)})
			case float64:
				o.Scores = append(o.Scores, events.NamedScore{Name: named[i].(string), Score: value})
			}
		}
		return o
	}
	for raw, want := range map[string]events.Outcome{
		``: {}, `null`: {}, `""`: {}, `"unknown"`: {Label: events.Unknown},
		`true`: score(1), `false`: score(0), `1`: score(1), `0`: score(0), `0.7`: score(0.7), `-0`: score(0), `-1`: score(0), `1e-1`: score(0.1),
		`"0.5"`: score(0.5), `".5"`: score(0.5), `"success"`: score(1), `"FAILURE"`: score(0), `"partial"`: score(0.5), `"yes"`: score(1), `" Wrong "`: score(0),
		`"👍"`: score(1), `"👎"`: score(0), `"👍🏽"`: score(1), `" 👎️ "`: score(0), `"up"`: score(1), `"thumbs_down"`: score(0), `"thumbs-up"`: score(1), `"upvote"`: score(1), `"down-voted"`: score(0), `"+1"`: score(1), `"-1"`: score(0),
		`"POSITIVE"`: score(1), `"NEGATIVE"`: score(0), `"neutral"`: score(0.5), `"resolved"`: score(1), `"not_ok"`: score(0),
		`"4/5"`: score(0.8), `"4 of 5"`: score(0.8), `"3 out of 4"`: score(0.75), `"80%"`: score(0.8), `"5 stars"`: score(1), `"4 out of 5 stars"`: score(0.75), `"1/5 stars"`: score(0), `"1/10 stars"`: score(0.1), `"1 star"`: score(0), `"★★★☆☆"`: score(0.5), `"⭐⭐⭐⭐⭐"`: score(1),
		`{"score": 1}`: score(1), `{"score": 0}`: score(0), `{"score": "0.5"}`: score(0.5), `{"score": true}`: score(1), `{"label": "success"}`: score(1), `{"label": "PARTIAL"}`: score(0.5),
		`{"score": 7, "range": [-10, 10]}`: score(0.85), `{"score": -10, "range": [-10, 10]}`: score(0), `{"score": 7, "range": "0-10"}`: score(0.7), `{"score": 4, "min": 0, "max": 8}`: score(0.5),
		`{"rating": 4, "out_of": 5}`: score(0.8), `{"score": 50, "scale": 100}`: score(0.5), `{"score": "4/5"}`: score(0.8), `{"stars": 5}`: score(1), `{"stars": 1}`: score(0), `{"stars": 3}`: score(0.5),
		`{"score": 0.5, "min": 0}`: score(0.5), `{"score": 0.5, "max": 2}`: score(0.25), `{"stars": 4, "min": 1}`: score(0.75),
		`{"thumbs": "up"}`: score(1), `{"thumb": "down"}`: score(0), `{"rating": "👍"}`: score(1), `{"sentiment": "POSITIVE"}`: score(1), `{"value": false}`: score(0), `{"correct": true}`: score(1),
		`{"score": {"value": 0.5}}`:                                                      score(0.5),
		`{"name": "correctness", "score": 1}`:                                            score(1),
		`{"scores": {"correctness": 0, "tone": 1}}`:                                      several(0, "correctness", 0, "tone", 1),
		`{"scores": {"quality": 0.5}}`:                                                   score(0.5),
		`{"scores": {"a": 0.1, "b": 0.9}, "leading": "b"}`:                               several(0.9, "a", 0.1, "b", 0.9),
		`{"scores": [{"name": "accuracy", "score": 0.5}, {"name": "cost", "value": 1}]}`: several(0.5, "accuracy", 0.5, "cost", 1),
		`{"accuracy": 0.5, "tone": 1}`:                                                   several(0.5, "accuracy", 0.5, "tone", 1),
		`{"score": 0.2, "scores": [{"name": "a", "score": 1}]}`:                          several(0.2, "a", 1),
		`{"score": 0.9, "label": "success"}`:                                             {Score: 0.9, Label: events.Success},
		`{"score": 0.3, "label": "failure"}`:                                             {Score: 0.3, Label: events.Failure},
		`{"score": 0.8, "rating": " Thumbs-up "}`:                                        {Score: 0.8, Label: events.Success},
		`{"score": 0.2, "rating": "👎🏽"}`:                                                 {Score: 0.2, Label: events.Failure},
		`{"score": 0, "label": "unknown"}`:                                               {Label: events.Unknown},
		`{"score": 0, "label": "", "feedback": "late"}`:                                  {Feedback: "late"},
		`{"score": 1, "text": "well done"}`:                                              said(1, "well done"),
		`{"score": 0, "comment": "It is shelf 9."}`:                                      said(0, "It is shelf 9."),
		`{"text": "It is shelf 9."}`:                                                     {Feedback: "It is shelf 9."},
		`{"label": "bad", "feedback": "no", "by": "kim"}`:                                {Label: events.Failure, Feedback: "no", By: "kim"},
		`{"score": 1, "label": "success", "feedback": "", "by": "k"}`:                    {Score: 1, Label: events.Success, By: "k"},
		`{"label": "failure", "inferred": true}`:                                         {Label: events.Failure, Inferred: true},
	} {
		if got, err := (Decoder{}).Decode([]byte(raw)); err != nil || !reflect.DeepEqual(got.Outcome, want) {
			t.Errorf("%s: got %+v, %v, want %+v", raw, got, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`2`, `-0.1`, `7`, `"purple"`, `"1.5"`, `[]`, `[true]`, `{}`, `{"score": 7}`, `{"score": 11, "range": [-10, 10]}`, `{"score": 1, "range": [5, 5]}`, `{"score": 1, "range": "wide"}`,
		`{"label": "purple"}`, `{"score": "purple"}`, `{"quality": "purple"}`, `{"scores": {"a": 0.1, "b": 0.9}}`, `{"scores": {"a": 5}}`, `{"scores": 7}`, `"6/5"`, `"6 stars"`, `"nan"`, `1e400`, `{"score": [1]}`,
		`{"score": 1, "label": "failure"}`, `{"score": 0, "label": "success"}`, `{"score": 1, "label": "partial"}`, `{"score": 1, "label": "unknown"}`, `{"score": 1, "thumbs": "down"}`, `{"score": 1, "correct": false}`,
		`{"score": 1, "score": 0}`, `{"score": 7, "min": 0}`, `{"score": -0.5, "min": -1}`, `{"score": 1, "max": "10"}`, `{"score": 1, "min": "a", "max": 2}`, `"{\"label\":\"success\"}"`, `{`,
	} {
		if got, err := (Decoder{}).Decode([]byte(raw)); err == nil {
			t.Errorf("%s: got %+v, want an error", raw, got)
		}
	}
	for _, nested := range []string{`{"score":%s}`, `{"scores":{"correct":%s}}`} { // each level is read once for each level around it
		begin, end, _ := strings.Cut(nested, "%s")
		raw := strings.Repeat(begin, 100) + "1" + strings.Repeat(end, 100)
		if _, err := (Decoder{}).Decode([]byte(raw)); err == nil {
			t.Errorf("%s in itself 100 times: got no error", nested)
		}
	}
	if _, err := (Decoder{}).Decode([]byte(`"purple"`)); err == nil || !strings.Contains(err.Error(), Accepted) {
		t.Errorf("got %v, want the accepted forms", err)
	}
}

func TestViolationNeedsPermission(t *testing.T) {
	t.Parallel()
	want := events.Outcome{Label: events.Failure, Feedback: "leaked a key", Violation: true}
	for _, raw := range []string{
		`{"violation": true, "feedback": "leaked a key"}`, `{"violation": true, "score": 1, "label": "success", "feedback": "leaked a key"}`,
		`{"VIOLATION": true, "label": "unknown", "feedback": "leaked a key"}`,
	} {
		if got, err := (Decoder{Reviews: true}).Decode([]byte(raw)); err != nil || !reflect.DeepEqual(got.Outcome, want) {
			t.Errorf("%s: got %+v, %v, want %+v", raw, got, err, want)
		}
		if got, err := (Decoder{}).Decode([]byte(raw)); !errors.Is(err, ErrViolation) {
			t.Errorf("%s without permission: got %+v, %v, want ErrViolation", raw, got, err)
		}
		if got, err := Parse(raw); !errors.Is(err, ErrViolation) {
			t.Errorf("%s in a header: got %+v, %v, want ErrViolation", raw, got, err)
		}
	}
	if got, err := (Decoder{}).Decode([]byte(`{"score": 1, "violation": false}`)); err != nil || got.Score != 1 || got.Violation || len(got.Ignored) > 0 {
		t.Errorf("no violation: got %+v, %v", got, err)
	}
	if got, err := (Decoder{Reviews: true}).Decode([]byte(`{"score": 1, "violation": "minor"}`)); err == nil {
		t.Errorf("a violation that is a word: got %+v, want an error", got)
	}
}

// TestJudgeNeedsPermission decodes outcomes that take the name of a judge.
func TestJudgeNeedsPermission(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"score": 1, "by": "judge/m/1"}`, `{"label": "bad", "evaluator": " judge/m/1 "}`, `{"score": 1, "rater": "Judge/m"}`, `{"score": {"value": 1, "by": "judge/m/1"}}`, `{"feedback": "x", "By": "judge/m"}`,
	} {
		if got, err := (Decoder{}).Decode([]byte(raw)); !errors.Is(err, ErrJudge) {
			t.Errorf("%s: got %+v, %v, want ErrJudge", raw, got, err)
		}
		if got, err := Parse(raw); !errors.Is(err, ErrJudge) {
			t.Errorf("%s in a header: got %+v, %v, want ErrJudge", raw, got, err)
		}
		if got, err := (Decoder{Recorder: "file"}).Decode([]byte(raw)); err != nil || !strings.HasPrefix(got.By, "file:") || got.Judge() != "" {
			t.Errorf("%s in a recording: got %+v, %v, want the name of the recorder before that of the judge", raw, got, err)
		}
	}
	for _, raw := range []string{`{"score": 1, "by": "judge/m/1"}`, `{"score": {"value": 1, "by": "judge/m/1"}}`} {
		if got, err := (Decoder{Reviews: true}).Decode([]byte(raw)); err != nil || got.By != "judge/m/1" {
			t.Errorf("%s with permission: got %+v, %v", raw, got, err)
		}
	}
	if got, err := (Decoder{Reviews: true}).Decode([]byte(`{"score": {"value": 0, "violation": true}}`)); err != nil || !got.Violation {
		t.Errorf("a violation inside of the score, with permission: got %+v, %v", got, err)
	}
	if got, err := (Decoder{}).Decode([]byte(`{"score": 1, "by": "judge"}`)); err != nil || got.By != "judge" {
		t.Errorf("a person named judge: got %+v, %v", got, err)
	}
}

// TestNamedScoresAreEncodedAndDecoded decodes what an outcome with named scores is encoded as.
func TestNamedScoresAreEncodedAndDecoded(t *testing.T) {
	t.Parallel()
	first, err := Decoder{}.Decode([]byte(`{"scores": {"correct": 0.5, "tone": 1, "cost": 0}, "reason": "half"}`))
	if err != nil || len(first.Scores) != 3 {
		t.Fatalf("got %+v, %v", first, err)
	}
	raw, err := json.Marshal(first.Outcome)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := (Decoder{}).Decode(raw); err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("%s: got %+v, %v, want %+v", raw, again, err, first)
	}
	if got, err := (Decoder{}).Decode([]byte(`{"score": 1, "scores": {"rouge": 37.2}}`)); err != nil || got.Score != 1 || len(got.Scores) > 0 || strings.Join(got.Ignored, " ") != "scores" {
		t.Errorf("unreadable scores beside a score: got %+v, %v", got, err)
	}
}

func TestDecodeNamesIgnoredFields(t *testing.T) {
	t.Parallel()
	got, err := Decoder{}.Decode([]byte(`{"score": 1, "confidence": 0.4, "Trace": "x"}`))
	if err != nil || strings.Join(got.Ignored, " ") != "Trace confidence" || !reflect.DeepEqual(got.Outcome, events.Outcome{Score: 1, Label: events.Success}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDecoderLeading(t *testing.T) {
	t.Parallel()
	d := Decoder{Leading: Lead("tone")}
	if got, err := d.Decode([]byte(`{"scores": {"accuracy": 0, "tone": 1}}`)); err != nil || got.Score != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := d.Decode([]byte(`{"scores": {"accuracy": 0, "cost": 1}}`)); err == nil {
		t.Errorf("got %+v, want an error that the leading score is missing", got)
	}
	_, err := Decoder{}.Decode([]byte(`{"scores": {"Accuracy": 0, "accuracy": 1}, "leading": "accuracy"}`))
	if err == nil || !strings.Contains(err.Error(), "is several among") {
		t.Errorf("got %v, want an error that two scores have the leading name", err)
	}
	_, err = Decoder{}.Decode([]byte(`{"scores": {"accuracy": 0, "success": 1, "tone": 1}}`))
	if err == nil || !strings.Contains(err.Error(), "name the one that counts") {
		t.Errorf("got %v, want an error that asks for the score that counts", err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]float64{"true": 1, "0.25": 0.25, ".5": 0.5, "POSITIVE": 1, "down": 0, "4/5": 0.8, `{"stars": 5}`: 1, `"wrong"`: 0, "+1": 1, "-1": 0} {
		if got, err := Parse(word); err != nil || got.Score != want || got.Label != events.LabelOf(want) {
			t.Errorf("%s: got %+v, %v, want %v", word, got, err, want)
		}
	}
	if got, err := Parse(" "); err != nil || !reflect.DeepEqual(got, events.Outcome{}) {
		t.Errorf("got %+v, %v, want no outcome", got, err)
	}
	for _, word := range []string{"7", "purple", "nan", "+Inf"} {
		if got, err := Parse(word); err == nil {
			t.Errorf("%s: got %+v, want an error", word, got)
		}
	}
}

// FuzzDecode decodes any text. The outcome has a known label and a score from 0 to 1.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`true`, `0.7`, `"👍"`, `"1e-1"`, `"nan"`, `"-0"`, `1e400`, `"\ud83d"`, `{"score":7,"range":[-10,10]}`, `{"scores":[{"name":"a","score":1}]}`, `{"score":1e308,"range":[-1e308,1e308]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		d, err := Decoder{}.Decode([]byte(raw))
		if err == nil && !(d.Score >= 0 && d.Score <= 1) {
			t.Errorf("%q: got %+v", raw, d)
		}
		o, err := Parse(raw)
		if err == nil && !(o.Score >= 0 && o.Score <= 1) {
			t.Errorf("%q: got %+v", raw, o)
		}
	})
}
