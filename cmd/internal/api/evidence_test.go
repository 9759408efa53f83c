package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/api/apitest"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// TestEvidenceOfAnotherPlaybook: a run of train can learn from the executions of another playbook. A token of the run's playbook alone does not
// read these executions.
func TestEvidenceOfAnotherPlaybook(t *testing.T) {
	t.Parallel()
	file, secrets := apitest.Load(t, t.TempDir(), allAndMine...)
	w := startWorld(t, Options{Tokens: file})
	w.token = secrets["all"]
	w.seed(t)
	reply, _ := w.send(t, 200, "GET", "/books/support/bullets", "")
	id := ids(reply, "id")[0]
	r := &events.Reflection{
		ID: events.ReflectionID("other", "", "r1"), Execution: events.NewID(), Handle: events.Handle(w.handle), Reflector: "r1", Model: "m",
		Outcome: events.Outcome{Label: events.Success, Score: 1}, Tags: []events.BulletTag{{ID: playbook.BulletID(id), Tag: playbook.Helpful}}, Created: time.Now().UTC(),
	}
	r.Book = "support"
	if _, err := w.conn.Publish(t.Context(), r, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		reply, _ := w.send(t, 200, "GET", "/books/support/bullets/"+id+"/evidence", "")
		if text := fmt.Sprint(reply); !strings.Contains(text, "Shelf 7.") {
			return fmt.Errorf("the token of all playbooks does not read the execution: got %s", text)
		}
		return nil
	})
	w.token = secrets["mine"]
	for _, path := range []string{"/evidence", "/history?executions=all"} {
		reply, _ := w.send(t, 200, "GET", "/books/support/bullets/"+id+path, "")
		if text := fmt.Sprint(reply); strings.Contains(text, "Shelf 7.") {
			t.Errorf("%s: got the execution of another playbook: %s", path, text)
		}
	}
}
