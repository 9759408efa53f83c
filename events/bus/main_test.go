package bus_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"debrief/events/bus/bustest"
)

// TestMain fails if a server, a connection or a worker is still running after the tests.
func TestMain(m *testing.M) {
	bustest.Prepare()
	code := m.Run()
	if code == 0 {
		// nats.go leaves this goroutine if an upload to the object store ends before the goroutine has started.
		leftover := goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
		if err := goleak.Find(leftover); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
