package api

import (
	"fmt"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestExperiment: the evidence follows the outcomes in the log, and a new wording starts again.
func TestExperiment(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	writer, err := deltalog.New(w.admin.JetStream()).Writer(t.Context(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	commit := func(ops ...playbook.Op) {
		t.Helper()
		_, err := writer.Commit(t.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
			d := &playbook.Delta{Author: "test", Time: time.Now().UTC(), Ops: ops}
			if ops[0].Kind == playbook.AddExposures {
				for i := range ops[0].Exposures {
					d.Covers = append(d.Covers, playbook.Cover{ID: string(events.NewID()), Seq: uint64(i + 1), Evidence: &playbook.Evidence{Execution: "1-00000000"}})
					ops[0].Support = append(ops[0].Support, i)
				}
				d.Ops[0].ExperimentNumber = func() int { e := s.Playbook().Bullet("misc-00001").CurrentExperiment(); return e.Number }()
			}
			return []*playbook.Delta{d}, nil
		})
		if err == nil {
			err = writer.Flush(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	outcomes := func(shown, withheld int) (op playbook.Op) {
		op = playbook.Op{Kind: playbook.AddExposures, Bullet: "misc-00001"}
		for range 10 {
			op.Exposures = append(op.Exposures, playbook.Exposure{Arm: playbook.ArmShown, Score: shown}, playbook.Exposure{Arm: playbook.ArmWithheld, Score: withheld})
		}
		return op
	}
	commit(playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "Weigh the parcel."}, playbook.Op{Kind: playbook.Add, Bullet: "misc-00002", Section: "others", Content: "Weigh the parcel twice."}, playbook.Op{Kind: playbook.Add, Bullet: "misc-00003", Section: "others", Content: "Call the customer."})
	commit(outcomes(playbook.MaxScore, 0))
	commit(playbook.Op{Kind: playbook.Pin, Bullet: "misc-00001", Pinned: true}) // no new outcome
	commit(outcomes(playbook.MaxScore, 0))
	reply, _ := w.send(t, 200, "GET", "/books/lab/bullets/misc-00001/experiment", "")
	points, _ := reply["points"].([]any)
	got := ""
	last := 1.0
	for _, x := range points {
		p, _ := x.(map[string]any)
		shown, _ := p["shown"].(map[string]any)
		lift, _ := p["lift"].(map[string]any)
		got += fmt.Sprint(" v", p["version"], " n=", shown["n"], " ", lift["estimate"])
		helps, _ := p["e_helps"].(float64)
		harms, _ := p["e_harms"].(float64)
		if helps < last || harms > 1 {
			t.Errorf("version %v: got e-values %v for and %v against", p["version"], helps, harms)
		}
		last = helps
	}
	if got != " v1 n=0 0 v2 n=10 1 v4 n=20 1" || last < 20 || reply["threshold"] != 20.0 {
		t.Errorf("got%s, e-value %v, threshold %v", got, last, reply["threshold"])
	}
	reply, _ = w.send(t, 200, "GET", "/books/lab/bullets/misc-00001/experiment?limit=2", "")
	if points, _ := reply["points"].([]any); len(points) != 2 {
		t.Errorf("got %v", reply)
	}
	reply, _ = w.send(t, 200, "GET", "/books/lab/bullets/misc-00001/similar", "")
	if got := ids(reply, "id"); len(got) != 1 || got[0] != "misc-00002" {
		t.Errorf("similar: got %v", reply)
	}
	w.send(t, 404, "GET", "/books/lab/bullets/misc-99999/experiment", "")
	w.send(t, 404, "GET", "/books/lab/bullets/misc-99999/similar", "")
}
