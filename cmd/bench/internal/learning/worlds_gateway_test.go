package learning

import (
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/tools"
	"debrief/cmd/internal/train/report"
)

// TestWorldsThroughGateway checks that an unchanged agent learns behind the gateway from feedback by the ids of responses. Inferred
// outcomes alone bring no bullet into use and cost no right answer, and a gateway that only observes changes no answer.
func TestWorldsThroughGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &worldsBench{part: &curvesPart, worlds: []string{tools.Name}, arms: []string{gatewayArm, skilledArm, observeArm}, seeds: 1, tasks: 80, heldOut: 60}
	rows := measure(t, b)
	if len(rows) != 6 {
		t.Fatalf("got %d rows, want 2 checkpoints of each arm", len(rows))
	}
	gain := func(i int) float64 { return rows[i+1].Values[accuracyKey].Mean - rows[i].Values[accuracyKey].Mean }
	// An inferred outcome alone activates no bullet, so 80 tasks without reports need not help. They must not harm.
	for i, want := range map[int]float64{0: 0.01, 2: 0} {
		after := rows[i+1].Values
		if got := gain(i); got < want || after["dead_letters"].Mean > 0 {
			t.Errorf("%s: before %+v, after 80 tasks %+v, want at least %.0f points more", rows[i].Arm, rows[i].Values, after, 100*want)
		}
	}
	skilled, observed := rows[3].Values, rows[5].Values
	if skilled[leastKey].Mean < -0.05 || skilled[trainedKey].Mean < observed[trainedKey].Mean-0.05 {
		t.Errorf("inferred outcomes: got %+v, want no fewer right answers than %+v", skilled, observed)
	}
	if skilled["active_bullets"].Mean != 0 {
		t.Errorf("inferred outcomes: %.0f bullets in use, want none without a report", skilled["active_bullets"].Mean)
	}
	if gain(4) != 0 || observed[leastKey].Mean != 0 || observed[trainedKey].Mean == 0 {
		t.Errorf("observed: got %+v, want the answers of the agent alone", observed)
	}
}

// TestArgumentsOfCalls checks that arguments keep their names, values and order.
func TestArgumentsOfCalls(t *testing.T) {
	t.Parallel()
	const plain = "service=merlin window=night approver=data-officer"
	object := jsonArguments(plain)
	if want := `{"service": "merlin", "window": "night", "approver": "data-officer"}`; object != want {
		t.Errorf("got %s, want %s", object, want)
	}
	if got := plainArguments(object); got != plain {
		t.Errorf("got %q, want %q", got, plain)
	}
}

// TestGatewayGoals checks that a loss of one seed, no gain, and a gap to the agent of the API are missed goals.
func TestGatewayGoals(t *testing.T) {
	t.Parallel()
	missed := func(gateway, inferred, least float64) (n int) {
		at := func(arm string, tasks int, accuracy, least float64) worldRow {
			return worldRow{World: tools.Name, Arm: arm, Tasks: tasks, Values: map[string]report.Estimate{
				accuracyKey: {Mean: accuracy, Low: accuracy - 0.05, High: accuracy + 0.05}, leastKey: {Mean: least},
			}}
		}
		s := new(Table)
		gatewayGoals(s, []worldRow{
			at(string(defaultGate), 600, 0.8, 0), at(gatewayArm, 600, gateway, 0), at(skilledArm, 0, 0.25, 0), at(skilledArm, 600, inferred, least),
		}, worlds.Names())
		if len(s.Goals) != 3 {
			t.Fatalf("got goals %+v, want 3", s.Goals)
		}
		for _, g := range s.Goals {
			if !g.Met {
				n++
			}
		}
		return n
	}
	if got := missed(0.78, 0.5, 0); got != 0 {
		t.Errorf("all met: got %d missed goals", got)
	}
	if got := missed(0.7, 0.2, -0.01); got != 3 {
		t.Errorf("none met: got %d missed goals, want 3", got)
	}
}
