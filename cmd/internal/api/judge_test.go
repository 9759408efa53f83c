package api

import (
	"strings"
	"testing"
)

// TestJudgeErrorIsStored stores the error of a judge, and reads it with its interval from the state of the gate.
func TestJudgeErrorIsStored(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	const path = "/books/judged/edits"
	for name, body := range map[string]string{
		"49 labels":     `{"judge":{"name":"judge/m/1","right":29,"wrong":20,"false_failures":3,"false_successes":2}}`,
		"not a judge":   `{"judge":{"name":"ann","right":30,"wrong":30}}`,
		"says nothing":  `{"judge":{"name":"judge/m/1","right":30,"wrong":30,"false_failures":14,"false_successes":14}}`,
		"more than all": `{"judge":{"name":"judge/m/1","right":30,"wrong":30,"false_failures":31}}`,
	} {
		got, _ := w.send(t, 400, "POST", path, body)
		if field, _ := got["field"].(string); !strings.HasPrefix(field, "judge") {
			t.Errorf("%s: got %v, want a refusal of the field judge", name, got)
		}
	}
	w.send(t, 201, "POST", path, `{"judge":{"name":"judge/m/1","right":50,"wrong":10,"false_failures":5,"false_successes":0}}`)
	got, _ := w.send(t, 200, "GET", "/books/judged/gate", "")
	judge, _ := got["judge"].(map[string]any)
	interval, _ := judge["false_failures_interval"].(map[string]any)
	if judge["name"] != "judge/m/1" || interval["low"].(float64) < 0.0332 || interval["high"].(float64) > 0.2182 {
		t.Errorf("got %v, want judge/m/1 with the interval 0.0333 to 0.2181 of 5 in 50", got["judge"])
	}
}
