package deltalog_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// TestRecentDeltasReadTheEndOfTheLog: a curator reads them for each playbook that it opens, also for one with a log of many deltas.
func TestRecentDeltasReadTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	longLog(t, js, "b", 2500)
	w := writer(t, s, "b")
	requests, err := nc.SubscribeSync("$JS.API.DIRECT.GET." + events.StreamDeltas)
	check(t, err)
	var versions []uint64
	check(t, w.RecentDeltas(t.Context(), 300, func(d *playbook.Delta) { versions = append(versions, d.Version) }))
	check(t, nc.Flush())
	if len(versions) != 300 || versions[0] != 2201 || versions[299] != 2500 {
		t.Errorf("got %d versions, %v to %v, want 2201 to 2500", len(versions), versions[0], versions[len(versions)-1])
	}
	first, err := requests.NextMsg(time.Second)
	check(t, err)
	var request struct{ Seq uint64 }
	check(t, json.Unmarshal(first.Data, &request))
	if request.Seq != 1000 {
		t.Errorf("read from sequence %d, want 1000", request.Seq)
	}
}
