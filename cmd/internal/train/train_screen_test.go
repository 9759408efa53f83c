package train

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"debrief/cmd/internal/train/replay"
)

// With a model that takes longer than the 5 s of a stall for each call, the run says once a minute that it waits, and how far it is.
func TestSlowRunSaysOnceAMinuteThatItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &trainScreen{first: &replay.Progress{}, newest: &replay.Progress{Phase: "epoch 1", Done: 7, Total: 20}}
		var all []string
		for range 16 { // calls of 8 s, for about two minutes
			all = append(all, s.stall("reflector")...)
			time.Sleep(8 * time.Second)
		}
		if len(all) != 4 || !strings.Contains(all[0], "task 7 of 20") || !strings.HasPrefix(all[1], "Waiting for the reflector") {
			t.Errorf("got %q, want the progress and the reason, twice", all)
		}
	})
}
