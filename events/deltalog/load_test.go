package deltalog_test

import (
	"errors"
	"testing"

	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/natsd"
	"debrief/events/natserr"
)

// A program that attaches to a server which no role has used yet learns the reason.
func TestLoadWithoutStreams(t *testing.T) {
	t.Parallel()
	server, err := natsd.Start(natsd.Config{Sync: "1m"})
	check(t, err)
	t.Cleanup(server.Close)
	nc, err := server.Connect()
	check(t, err)
	t.Cleanup(nc.Close)
	conn, err := bus.Attach(nc, bus.Options{})
	check(t, err)
	if _, err := deltalog.Load(t.Context(), conn, "b"); !errors.Is(err, natserr.ErrNoStreams) {
		t.Errorf("got %v, want ErrNoStreams", err)
	}
}
