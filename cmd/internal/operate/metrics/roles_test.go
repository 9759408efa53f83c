package metrics

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestStoreIsReportedAfterATimeout reads the use of the store, after a scrape in which the server did not answer in time.
func TestStoreIsReportedAfterATimeout(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	c := &connection{conn: conn}
	reported := func(ctx context.Context) int {
		values := make(chan prometheus.Metric, 10)
		c.store(ctx, values)
		return len(values)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := reported(ended); got != 0 {
		t.Errorf("without time: got %d values, want none", got)
	}
	if got := reported(t.Context()); got != 2 {
		t.Errorf("after that: got %d values, want the use and its limit", got)
	}
}
