package replay

import (
	"testing"
	"time"

	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

func TestRoleTimer(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	origin := events.Origin{Run: "r", Epoch: 1}
	execution := func(run string, epoch, from, seconds int) bus.Stored {
		return bus.Stored{Event: &events.Execution{
			Origin: events.Origin{Run: run, Epoch: epoch}, Started: at(from), Duration: time.Duration(seconds) * time.Second, Usage: chat.Usage{Duration: time.Second},
		}}
	}
	timer := roleTimer{run: "r", epochs: map[int]*epochSpans{}, inputs: map[uint64]input{}}
	for _, s := range []bus.Stored{
		execution("r", 0, 0, 2),
		execution("r", 1, 20, 5), execution("r", 1, 10, 5), execution("r", 1, 12, 6), execution("r", 1, 13, 1), // 10 to 18, 20 to 25
		execution("other", 1, 30, 100),
		{Event: &events.Execution{Origin: origin, Duration: time.Hour}}, // without a start
		{Event: nil},
	} {
		timer.addExecution(s)
	}
	for _, s := range []bus.Stored{
		{Seq: 1, Time: at(28), Event: &events.Reflection{Origin: origin, Created: at(26), Usage: chat.Usage{Duration: 2 * time.Second}}},
		{Seq: 2, Time: at(29), Event: &events.Reflection{Origin: origin, Created: at(27)}},
		{Seq: 3, Time: at(99), Event: &events.Reflection{Origin: events.Origin{Run: "other", Epoch: 1}, Created: at(1)}},
		{Seq: 7, Time: at(50), Event: &events.Reflection{Origin: events.Origin{Run: "r", Epoch: 2}, Created: at(49)}},
	} {
		timer.addReflection(s)
	}
	gather := []events.Handle{events.NewHandle(1, events.NewID())}
	timer.addEdit(bus.Stored{Seq: 5, Time: at(40), Event: &events.Edit{Author: author, Gather: gather}})
	timer.addEdit(bus.Stored{Seq: 6, Time: at(1), Event: &events.Edit{Author: "ann", Gather: gather}})
	for _, delta := range []playbook.Delta{
		{Time: at(43), Covers: []playbook.Cover{{Seq: 1}, {Seq: 2}, {Seq: 5}}}, // from the edit, not from the reflections
		{Time: at(54), Covers: []playbook.Cover{{Seq: 7}, {Seq: 3}}},           // online: from the reflection
		{Time: at(90), Covers: []playbook.Cover{{Seq: 6}}},
	} {
		timer.addDelta(&deltalog.Record{Delta: delta})
	}
	for epoch, want := range []report.EpochTime{
		{Generator: report.RoleTime{Wall: 2, Model: 1}},
		{Generator: report.RoleTime{Wall: 13, Model: 4}, Reflector: report.RoleTime{Wall: 3, Model: 2}, Curator: report.RoleTime{Wall: 3}},
		{Reflector: report.RoleTime{Wall: 1}, Curator: report.RoleTime{Wall: 4}},
	} {
		e := timer.epochs[epoch]
		got := report.EpochTime{Generator: e.generator.time(), Reflector: e.reflector.time(), Curator: e.curator.time()}
		if got != want {
			t.Errorf("epoch %d: got %+v, want %+v", epoch, got, want)
		}
	}
	if len(timer.epochs) != 3 {
		t.Errorf("got %d epochs, want 3", len(timer.epochs))
	}
}
