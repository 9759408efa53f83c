package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/train/report"
)

func TestLocalPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/books/a?x=1": "/books/a?x=1", "": "/", "//evil.example": "/", "https://evil.example": "/", "/\\evil.example": "/", "javascript:alert(1)": "/",
		"/\tx": "/", "x": "/", "/%2f": "/%2f", "///x": "/", "/a\r\nSet-Cookie: x": "/",
	} {
		if got := localPath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestWithParameter(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"/b?state=active":      {"/b?after=3", "state", "active"},
		"/b?section=a+%26+b":   {"/b?section=x", "section", "a & b"},
		"/b":                   {"/b?q=x", "q", ""},
		"/b?after=7&q=x":       {"/b?q=x", "after", "7"},
		"/books/a%2Fb?at=17":   {"/books/a%2Fb", "at", "17"},
		"/b?from=1&to=2":       {"/b", "from", "1", "to", "2"},
		"/b?q=%22%3E%3Cscript": {"/b", "q", `"><script`},
	} {
		if got, err := withParameter(args[0], args[1:]...); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", args, got, err, want)
		}
	}
	if _, err := withParameter("/b", "q"); err == nil || strings.Contains(err.Error(), "%!") {
		t.Errorf("a name without a value: got %v", err)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{999: "999\u00a0B", 18_600: "18.6\u00a0kB", 999_949: "999.9\u00a0kB", 999_950: "1.0\u00a0MB", 999_999_999: "1.0\u00a0GB", 2e15: "2000.0\u00a0TB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestTook(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "–", 24969344: "25\u00a0ms", 30604597: "30.6\u00a0ms", 5199: "5.2\u00a0µs", 66584: "66.6\u00a0µs", 1234567890: "1.23\u00a0s", 75 * time.Second: "1\u00a0m15\u00a0s"} {
		if got := took(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

func TestMarksPoolVersions(t *testing.T) {
	t.Parallel()
	point := func(version uint64, n, known, right int) index.Point {
		return index.Point{Version: &version, Cell: index.Cell{Executions: n, Accuracy: report.Share(right, known)}}
	}
	got := accuracyMarks("with", outcomesOf([]index.Point{point(1, 15, 15, 3), point(2, 10, 5, 5), point(3, 40, 30, 30), point(4, 3, 0, 0), point(5, 2, 2, 1)}), minOutcomes)
	if len(got) != 3 || got[0].Step != 25 || got[0].Value != 40 || got[1].Step != 65 || got[1].Value != 100 || got[2].Value != 50 {
		t.Errorf("got %+v", got)
	}
	if !strings.HasPrefix(got[0].Title, "with 40.0\u00a0%, 8 of 20\u00a0outcomes") || !strings.HasSuffix(got[0].Title, "version 1 to version 2") {
		t.Errorf("got %q", got[0].Title)
	}
	if got := accuracyMarks("with", nil, minOutcomes); got != nil {
		t.Errorf("got %+v", got)
	}
}

// TestLogarithmicAxis: the ticks of e-values above 10,000 are two or more powers of ten apart.
func TestLogarithmicAxis(t *testing.T) {
	t.Parallel()
	var got []string
	for _, y := range newChart(340, chartSize{Height: 240, MaxY: 5, Log: true}).YTicks {
		got = append(got, y.Label)
	}
	if want := []string{"1", "100", "10000", "1e+06"}; !slices.Equal(got, want) {
		t.Errorf("got the labels %q, want %q", got, want)
	}
}
