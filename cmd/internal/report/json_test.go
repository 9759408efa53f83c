package report

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReportRoundTrip(t *testing.T) {
	t.Parallel()
	data, err := example().json()
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(example(), &got); d != "" {
		t.Errorf("want what was written, got (-want +got):\n%s", d)
	}
}

func TestJSONHasNoNaNAndNoNullLists(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	r := &Report{
		Points: []Point{{Set: "train", Score: Score{N: 1, Accuracy: nan, Mean: inf}}},
		Epochs: []Epoch{{Train: Score{Accuracy: nan}, Validation: &Score{Mean: -inf}}},
		Before: &Score{Accuracy: nan}, After: &Score{Accuracy: inf},
		Paired: &Pair{Difference: nan, Low: -inf, High: inf, P: nan},
		Timing: Timing{nan, inf, nan, nan, []EpochTime{{1, RoleTime{nan, inf}, RoleTime{}, RoleTime{}}}}, Cost: Cost{Curator: Usage{Dollars: nan}},
	}
	data, err := r.json()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("null")) {
		t.Errorf("got a null in %s", data)
	}
	var got Report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if want := (Pair{Low: -1, High: 1, P: 1}); *got.Paired != want {
		t.Errorf("got %+v of what is not known, want what claims nothing: %+v", *got.Paired, want)
	}
	if !math.IsNaN(r.Points[0].Score.Accuracy) || !math.IsNaN(r.Epochs[0].Train.Accuracy) || !math.IsNaN(r.Paired.P) {
		t.Error("writing changed the report")
	}
	if err := (&Report{}).page(&bytes.Buffer{}); err != nil {
		t.Errorf("an empty report: %v", err)
	}
}

func TestComparableOmitsVolatileParts(t *testing.T) {
	t.Parallel()
	bytesOf := func(change func(*Report)) string {
		r := example()
		change(r)
		data, err := r.json()
		if err != nil {
			t.Fatal(err)
		}
		if data, err = comparableJSON(data); err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	same := bytesOf(func(*Report) {})
	if got := bytesOf(func(r *Report) {
		r.Run, r.Timing, r.Cost = Run{Name: "other", Begun: time.Now(), Resumed: 20}, Timing{Seconds: 1}, Cost{Generator: Usage{Calls: 1}}
	}); got != same {
		t.Error("another run, timing and cost: got other bytes, want the same")
	}
	for name, change := range map[string]func(*Report){
		"a point":     func(r *Report) { r.Points[3].Score.Right++ },
		"a hash":      func(r *Report) { r.Best.StateHash = "x" },
		"a setting":   func(r *Report) { r.Settings[0].Value = "x" },
		"a bullet":    func(r *Report) { r.Bullets[0].Shown++ },
		"an operator": func(r *Report) { r.Operations["ADD"]++ },
		"a loss":      func(r *Report) { r.Losses = nil },
	} {
		if bytesOf(change) == same {
			t.Errorf("%s differs: got the same bytes", name)
		}
	}
	shuffled, err := comparableJSON([]byte(`{"b":1.50,"timing":1,"a":{"d":12345678901234567890,"c":"<"},"run":{},"cost":0}`))
	if want := "{\n  \"a\": {\n    \"c\": \"<\",\n    \"d\": 12345678901234567890\n  },\n  \"b\": 1.50\n}\n"; err != nil || string(shuffled) != want {
		t.Errorf("got %s (%v), want sorted keys and numbers as they were written: %s", shuffled, err, want)
	}
	for _, bad := range []string{"", "null", "[]", "{", "{} {}", "x"} {
		if _, err := comparableJSON([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "decode report: ") {
			t.Errorf("%q: got %v, want an error", bad, err)
		}
	}
}

func FuzzComparableJSON(f *testing.F) {
	data, err := (&Report{Losses: make([]Loss, 1)}).json()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"run":1,"a":[1e400,-0,"\ud800"],"a":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := comparableJSON(data)
		if err != nil {
			return
		}
		if twice, err := comparableJSON(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("got %q of %q (%v), want the same again", twice, once, err)
		}
	})
}
