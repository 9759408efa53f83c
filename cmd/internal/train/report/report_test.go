package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// example is a report with something in each part that decides its fingerprint.
func example() *Report {
	r := New()
	r.Mode = "offline"
	r.Settings = []Setting{{"epochs", "5"}}
	r.Points = []Point{{Epoch: 1, Step: 8, Set: "train", Score: Score{N: 8, Right: 4, Accuracy: 0.5}, Book: Book{Version: 2, StateHash: "ab", Bullets: 3, Step: 8}}}
	r.Operations["ADD"] = 3
	r.Bullets = []Bullet{{ID: "b-1", Content: "Round once.", Shown: 4}}
	r.Losses = []Loss{{Set: "train", Sample: "s-1", Epoch: 1, Reason: "lost"}}
	r.Paired = &Pair{N: 3, Wins: 2, P: 0.5}
	return &r
}

func TestReportRoundTrip(t *testing.T) {
	t.Parallel()
	data, err := marshal(example())
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

func TestEmptyReportHasNoNull(t *testing.T) {
	t.Parallel()
	r := New()
	if data, err := marshal(r); err != nil || bytes.Contains(data, []byte("null")) {
		t.Errorf("got %s, %v, want lists that are not null", data, err)
	}
}

func TestFingerprintOmitsVolatileParts(t *testing.T) {
	t.Parallel()
	fingerprintOf := func(change func(*Report)) string {
		r := example()
		change(r)
		f, err := r.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	same := fingerprintOf(func(*Report) {})
	if fingerprintOf(func(r *Report) {
		r.Run, r.Timing, r.Cost = Run{Name: "other", Begun: time.Now(), Resumed: 20}, Timing{Seconds: 1}, Cost{Generator: Usage{Calls: 1}}
	}) != same {
		t.Error("another run, timing and cost: got another fingerprint, want the same")
	}
	for name, change := range map[string]func(*Report){
		"a point":     func(r *Report) { r.Points[0].Score.Right++ },
		"a hash":      func(r *Report) { r.Points[0].Book.StateHash = "x" },
		"a setting":   func(r *Report) { r.Settings[0].Value = "x" },
		"a bullet":    func(r *Report) { r.Bullets[0].Shown++ },
		"an operator": func(r *Report) { r.Operations["ADD"]++ },
		"a loss":      func(r *Report) { r.Losses = nil },
	} {
		if fingerprintOf(change) == same {
			t.Errorf("%s differs: got the same fingerprint", name)
		}
	}
}

func TestDifferencesIgnoreOrder(t *testing.T) {
	t.Parallel()
	stored := []Setting{{"field", "a=b"}, {"field", "c=d"}, {"seed", "1"}}
	data := []Data{{Set: "train", SHA256: "aa"}}
	if d := Differences(stored, []Setting{{"seed", "1"}, {"field", "a=b"}, {"field", "c=d"}}, data, data); d != nil {
		t.Errorf("got %q for the same settings", d)
	}
	got := strings.Join(Differences(stored, []Setting{{"field", "a=b"}, {"batch", "8"}}, data, nil), "; ")
	if want := "batch: nothing there, 8 here; field: a=b, c=d there, a=b here; seed: 1 there, nothing here; other data"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCostPerBullet(t *testing.T) {
	t.Parallel()
	c := Cost{Generator: Usage{6, 1000, 200, 0.5, 0}, Reflector: Usage{3, 500, 100, 0.3, 0}, Curator: Usage{1, 150, 50, 0.2, 0}}
	if got := NewBulletCost(c, 10, 4); *got != (BulletCost{4, 2.5, 500, 2.5, 0.25}) {
		t.Errorf("got %+v, want a quarter of all", got)
	}
	if got := NewBulletCost(c, 10, 0); got != nil {
		t.Errorf("no bullets: got %+v, want nil", got)
	}
}
