package events_test

import (
	"strings"
	"testing"

	"debrief/events"
)

func TestTraceID(t *testing.T) {
	t.Parallel()
	const id = "0af7651916cd43dd8448eb211c80319c"
	for _, test := range []struct{ what, text, want string }{
		{"sampled", "00-" + id + "-b7ad6b7169203331-01", id},
		{"not sampled", "00-" + id + "-b7ad6b7169203331-00", id},
		{"a later version of this length", "01-" + id + "-b7ad6b7169203331-ff", id},
		{"empty", "", ""},
		{"the invalid version", "ff-" + id + "-b7ad6b7169203331-01", ""},
		{"upper case", "00-" + strings.ToUpper(id) + "-b7ad6b7169203331-01", ""},
		{"a trace of zeros", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", ""},
		{"a span of zeros", "00-" + id + "-" + strings.Repeat("0", 16) + "-01", ""},
		{"a line break", "00-" + id + "-b7ad6b716920333\n-01", ""},
		{"more than it should be", "00-" + id + "-b7ad6b7169203331-01-more", ""},
		{"a megabyte", strings.Repeat("0", 1<<20), ""},
		{"other separators", "00_" + id + "_b7ad6b7169203331_01", ""},
	} {
		if got := events.TraceID(test.text); got != test.want {
			t.Errorf("%s: got %q, want %q", test.what, got, test.want)
		}
	}
	one, other := events.NewTrace(), events.NewTrace()
	if a, b := events.TraceID(one), events.TraceID(other); a == "" || b == "" || a == b || !strings.HasSuffix(one, "-01") {
		t.Errorf("new traces: got %q and %q, want two different sampled ones", one, other)
	}
}
