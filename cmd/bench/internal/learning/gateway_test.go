package learning

import (
	"testing"

	"debrief/cmd/internal/simulated/worlds/tools"
)

// TestWorldsThroughGateway checks that an unchanged agent learns behind the gateway from feedback by the ids of responses. Inferred
// outcomes alone bring no bullet into use and cost no right answer, and a gateway that only observes changes no answer.
func TestWorldsThroughGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &measurement{part: &curvesPart, worlds: []string{tools.Name}, arms: []string{gatewayArm, skilledArm, observeArm}, seeds: 1, tasks: 80, heldOut: 60}
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
