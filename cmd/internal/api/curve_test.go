package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestCurve counts executions per version and day, and replaces outcomes by later feedback.
func TestCurve(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t) // a success without a context, and a partial outcome with one at version 2
	for _, body := range []string{
		`{"book":"default","question":"q","answer":"a","outcome":false,"usage":{"calls":1,"input_tokens":100,"cached_input_tokens":25,"output_tokens":7,"cost":0.5},"started":"2026-11-01T23:59:59-02:00"}`,
		`{"book":"default","question":"q","answer":"a"}`,
	} {
		w.send(t, 201, "POST", "/executions", body)
	}
	want := func(check string) {
		t.Helper()
		eventually(t, func() error {
			reply, _ := w.send(t, 200, "GET", "/books/default/curve", "")
			total, _ := reply["total"].(map[string]any)
			got := fmt.Sprint(summary(total), " cached ", total["cached_share"], " behind ", reply["behind"])
			for _, list := range []string{"versions", "days"} {
				points, _ := reply[list].([]any)
				for _, p := range points {
					point, _ := p.(map[string]any)
					if list == "versions" {
						got += fmt.Sprint(" v", point["version"], " ", summary(point))
					}
					if point["day"] == "2026-11-02" {
						got += " day " + summary(point)
					}
				}
			}
			if got != check {
				return fmt.Errorf("got  %s\nwant %s", got, check)
			}
			return nil
		})
	}
	want("4: 1/3 cached 0.25 behind 0 v0 3: 1/2 v2 1: 0/1 day 1: 0/1")
	for _, outcome := range []string{"true", "false", "true"} { // each replaces the one before
		w.send(t, 201, "POST", "/feedback", `{"execution":"`+w.served+`","outcome":`+outcome+`}`)
	}
	w.send(t, 201, "POST", "/feedback", `{"execution":"`+w.handle+`","outcome":{"feedback":"only words"}}`)
	want("4: 2/3 cached 0.25 behind 0 v0 3: 1/2 v2 1: 1/1 day 1: 0/1")
	w.send(t, 400, "GET", "/books/default/curve?limit=0", "")
}

// summary formats the counts of a cell: executions, right and known outcomes.
func summary(cell map[string]any) string {
	accuracy, _ := cell["accuracy"].(map[string]any)
	share, _ := accuracy["mean"].(float64)
	n, _ := accuracy["n"].(float64)
	return fmt.Sprintf("%v: %.0f/%.0f", cell["executions"], share*n, n)
}

// TestHealth: the health of a playbook by day, oldest first, with the alarms of now.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.send(t, 404, "GET", "/books/support/health", "")
	writer, err := deltalog.New(w.conn.JetStream()).Writer(t.Context(), "support")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	add := playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "Ask for the invoice number first."}
	for _, d := range []*playbook.Delta{
		{Time: now.AddDate(0, 0, -40), Ops: []playbook.Op{add}},
		{Time: now.AddDate(0, 0, -39), Covers: []playbook.Cover{{ID: "r", Seq: 1}}, Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: "misc-00001", Helpful: 1, Support: []int{0}}}},
		{Time: now, Ops: []playbook.Op{
			{Kind: playbook.Add, Bullet: "misc-00002", Section: "others", Content: "Never ask for the invoice number.", Contests: "misc-00001", Status: playbook.Candidate},
		}},
	} {
		if _, err := writer.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{d}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	reply, _ := w.send(t, 200, "GET", "/books/support/health", "")
	var got []string
	for _, day := range reply["days"].([]any) {
		d := day.(map[string]any)
		contradictions, _ := d["contradictions"].([]any)
		got = append(got, fmt.Sprintf("%v v%v: %v of %v cited, %d contradictions, %v stale", d["day"], d["version"], d["cited"], d["active"], len(contradictions), d["stale"]))
	}
	day := func(n int) string { return now.AddDate(0, 0, n).Format(time.DateOnly) }
	if diff := cmp.Diff([]string{
		day(-40) + " v1: 0 of 1 cited, 0 contradictions, 0 stale",
		day(-39) + " v2: 1 of 1 cited, 0 contradictions, 0 stale",
		day(0) + " v3: 1 of 1 cited, 1 contradictions, 1 stale",
	}, got); diff != "" {
		t.Errorf("days -want +got:\n%s", diff)
	}
	if reply, _ := w.send(t, 200, "GET", "/books/support/health?limit=1", ""); len(reply["days"].([]any)) != 1 || reply["now"].(map[string]any)["day"] != day(0) {
		t.Errorf("one day: got %v", reply)
	}
}
