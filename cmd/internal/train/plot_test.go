package train

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlotHasOneMarkForEachMeasurement(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 6, plotColumns, plotColumns + 1, 500} {
		var all []measured
		for i := range n {
			all = append(all, measured{i, share(float64(i)/float64(n), 200)})
		}
		got := plot("x", all)
		_, drawn, _ := strings.Cut(got, "\n")
		if marks, want := strings.Count(drawn, "o"), min(n, plotColumns); marks != want {
			t.Errorf("%d measurements: %d marks, want %d in\n%s", n, marks, want, got)
		}
		for line := range strings.Lines(got) {
			if utf8.RuneCountInString(line) > besideColumn-4 {
				t.Errorf("%d measurements: the line %q is too long", n, line)
			}
		}
	}
}

func TestPlotDrawsIntervals(t *testing.T) {
	t.Parallel()
	got := plot("Accuracy", []measured{{0, share(0, 10)}, {1, share(0.5, 10)}, {2, share(1, 200)}})
	want := `Accuracy
100 ┤               o
    ┤
 75 ┤         |
    ┤         |
 50 ┤         o
    ┤         |
 25 ┤   |     |
    ┤   |
  0 ┤   o
        0     1     2`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := beside(80, "a\nb", "c"); got != "a\nb\n\nc\n" {
		t.Errorf("80 columns: got %q", got)
	}
	if got := beside(0, "a\nb", "c"); got != "a"+strings.Repeat(" ", besideColumn-1)+"c\nb\n" {
		t.Errorf("without a width: got %q", got)
	}
}
