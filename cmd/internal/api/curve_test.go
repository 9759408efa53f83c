package api

import (
	"fmt"
	"testing"
)

// TestCurve counts executions per version, day and arm, and replaces outcomes by later feedback.
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
			inject, _ := total["inject"].(map[string]any)
			observe, _ := total["observe"].(map[string]any)
			got := fmt.Sprint(summary(total), " inject ", summary(inject), " observe ", summary(observe), " cached ", total["cached_share"], " behind ", reply["behind"])
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
	want("4: 1/3 inject 1: 0/1 observe 3: 1/2 cached 0.25 behind 0 v0 3: 1/2 v2 1: 0/1 day 1: 0/1")
	for _, outcome := range []string{"true", "false", "true"} { // each replaces the one before
		w.send(t, 201, "POST", "/feedback", `{"execution":"`+w.served+`","outcome":`+outcome+`}`)
	}
	w.send(t, 201, "POST", "/feedback", `{"execution":"`+w.handle+`","outcome":{"feedback":"only words"}}`)
	want("4: 2/3 inject 1: 1/1 observe 3: 1/2 cached 0.25 behind 0 v0 3: 1/2 v2 1: 1/1 day 1: 0/1")
	if reply, _ := w.send(t, 200, "GET", "/books/nowhere/curve?limit=1", ""); len(reply["versions"].([]any)) != 0 {
		t.Errorf("an unknown playbook: got %v", reply)
	}
	w.send(t, 400, "GET", "/books/default/curve?limit=0", "")
}

// summary formats the counts of a cell: executions, right and known outcomes.
func summary(cell map[string]any) string {
	accuracy, _ := cell["accuracy"].(map[string]any)
	share, _ := accuracy["mean"].(float64)
	n, _ := accuracy["n"].(float64)
	return fmt.Sprintf("%v: %.0f/%.0f", cell["executions"], share*n, n)
}
