package api

import (
	"testing"

	"debrief/cmd/internal/program"
)

// TestInspect reads a dead letter with its event, the findings of the checks and the settings.
func TestInspect(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{Settings: program.Effective{{Name: "http", Value: "127.0.0.1:4280", Origin: "default"}}})
	id := w.bury(t, "default", "t-dead-1")
	reply, _ := w.send(t, 200, "GET", "/dead/"+id, "")
	if event, _ := reply["event"].(map[string]any); event["run_id"] != "t-dead-1" || reply["reason"] != "the model failed" {
		t.Errorf("dead letter: got %v", reply)
	}
	w.send(t, 404, "GET", "/dead/99-00000000", "")
	reply, _ = w.send(t, 200, "GET", "/doctor", "")
	results := map[string]any{}
	checks, _ := reply["checks"].([]any)
	for _, x := range checks {
		check, _ := x.(map[string]any)
		name, _ := check["check"].(string)
		results[name] = check["result"]
	}
	if results["streams"] != "ok" || results["durables"] != "ok" || results["clock"] != "ok" {
		t.Errorf("checks: got %v", reply)
	}
	reply, _ = w.send(t, 200, "GET", "/settings", "")
	if got := ids(reply, "origin"); len(got) != 1 || got[0] != "default" {
		t.Errorf("settings: got %v", reply)
	}
}
