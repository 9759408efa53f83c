package deltalog_test

import (
	"errors"
	"testing"

	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/events/natserr"
)

// A program that attaches to a server which no role has used yet learns the reason.
func TestLoadWithoutStreams(t *testing.T) {
	t.Parallel()
	conn, err := bus.Attach(bustest.Server(t)(), bus.Options{})
	check(t, err)
	if _, err := deltalog.Load(t.Context(), conn, "b"); !errors.Is(err, natserr.ErrNoStreams) {
		t.Errorf("got %v, want ErrNoStreams", err)
	}
}
