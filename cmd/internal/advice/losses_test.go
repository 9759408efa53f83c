package advice

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestLosses counts the lines and the calls of a burst, and of a loss after it.
func TestLosses(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &losses{log: zerolog.New(&out), interval: time.Hour}
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() { l.add(errors.New("late")) })
	}
	all.Wait()
	check := func(name string, want ...int) {
		t.Helper()
		var got []int
		for dec := json.NewDecoder(bytes.NewReader(out.Bytes())); dec.More(); {
			var line struct{ Calls int }
			if err := dec.Decode(&line); err != nil {
				t.Fatal(err)
			}
			got = append(got, line.Calls)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: got lines with %v calls, want %v", name, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: got lines with %v calls, want %v", name, got, want)
			}
		}
	}
	check("a burst", 1)
	l.endInterval()
	check("the end of the interval", 1, 999)
	l.endInterval()
	check("a quiet interval", 1, 999)
	l.add(errors.New("again"))
	check("a later loss", 1, 999, 1)
}
