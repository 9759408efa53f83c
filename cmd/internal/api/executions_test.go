package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/events/bus"
)

func TestReadExecutions(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	for _, test := range []struct {
		query string
		want  []string
	}{
		{"", []string{w.served, w.handle}},
		{"?limit=1", []string{w.served}},
		{"?session=s-1&outcome=success", []string{w.handle}},
		{"?outcome=partial", []string{w.served}},
		{"?run=t-1", []string{w.handle}},
		{"?task=shelves", []string{w.handle}},
		{"?task=t-1", nil},
		{"?user=ann", []string{w.handle}},
		{"?owner=", []string{w.served, w.handle}},
		{"?session=other", nil},
		{"?q=SHELF", []string{w.served, w.handle}},
		{"?q=shelf+lowest", []string{w.served}},
		{"?q=shelf&user=ann", []string{w.handle}},
		{"?q=shelf+nothing", nil},
		{"?bullet=misc-00002", []string{w.served}},
		{"?before=2000-01-01T00:00:00Z", nil},
		{"?before=2100-01-01T00:00:00%2B01:00", []string{w.served, w.handle}},
	} {
		reply, _ := w.send(t, 200, "GET", "/books/default/executions"+test.query, "")
		if got := ids(reply, "handle"); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.query, got, test.want)
		}
	}
	if reply, _ := w.send(t, 200, "GET", "/books/support/executions", ""); len(ids(reply, "handle")) > 0 {
		t.Errorf("another playbook has %v", reply)
	}
	reply, _ := w.send(t, 200, "GET", "/books/default/executions/"+w.served+"/context", "")
	if reply["verified"] != true || !strings.Contains(fmt.Sprint(reply["messages"]), "And the lowest?") {
		t.Errorf("context: got %v", reply)
	}
	reply, _ = w.send(t, 200, "GET", "/books/default/executions/"+w.handle, "")
	if stored, _ := reply["stored"].(map[string]any); stored["answer"] != "Shelf 7." || reply["execution"] != w.handle {
		t.Errorf("execution: got %v", reply)
	}
	reply, _ = w.send(t, 200, "GET", "/books/default/sessions", "")
	if got := ids(reply, "session"); !slices.Equal(got, []string{"s-1"}) {
		t.Errorf("sessions: got %v", reply)
	}
	reply, _ = w.send(t, 200, "GET", "/books/default/sessions/s-1", "")
	if list, _ := reply["interactions"].([]any); len(list) != 2 {
		t.Errorf("session: got %v", reply)
	}
	for path, want := range map[string]int{
		"/books/support/executions/" + w.handle: 404, "/books/support/executions/" + w.served + "/context": 404, "/books/default/executions/" + w.handle + "/context": 404,
		"/books/default/executions/999-00000000": 404, "/books/default/executions/999-00000000/context": 404, "/books/default/executions/x": 400,
		"/books/default/executions?outcome=great": 400, "/books/default/executions?before=yesterday": 400, "/books/default/executions?after=x": 400,
		"/books/default/sessions/none": 404,
	} {
		w.send(t, want, "GET", path, "")
	}
}

// TestPagesOfExecutions reads executions of two playbooks in one stream, over several spans.
func TestPagesOfExecutions(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	for i := range 60 {
		book := []string{"default", "support"}[i%2]
		w.send(t, 201, "POST", "/executions", fmt.Sprintf(`{"book":%q,"run_id":"t-%d","question":"q","answer":"a"}`, book, i))
	}
	var tasks []string
	for after := ""; ; {
		reply, _ := w.send(t, 200, "GET", "/books/default/executions?limit=7&after="+url.QueryEscape(after), "")
		tasks = append(tasks, ids(reply, "run_id")...)
		if after, _ = reply["next"].(string); after == "" {
			break
		}
	}
	if len(tasks) != 30 || tasks[0] != "t-58" || tasks[29] != "t-0" {
		t.Errorf("got %v", tasks)
	}
}

// TestDoubtedOutcomesAreListed stores a reflection that doubts an outcome, and then one after feedback that does not.
func TestDoubtedOutcomesAreListed(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	reflect := func(reflector, doubt string) {
		r := &events.Reflection{
			ID: events.ReflectionID("doubted", "", reflector), Execution: events.NewID(), Handle: events.Handle(w.handle), Reflector: reflector,
			LabelSuspect: doubt, Outcome: events.Outcome{Label: events.Failure}, Created: time.Now().UTC(),
		}
		r.Book = "default"
		if _, err := w.conn.Publish(t.Context(), r, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	reflect("r1", "the target is older than the question")
	reply, _ := w.send(t, 200, "GET", "/books/default/executions?doubted=true&limit=1", "")
	if got := ids(reply, "handle"); !slices.Equal(got, []string{w.handle}) || !strings.Contains(fmt.Sprint(reply), "the target is older") {
		t.Errorf("got %v, want the doubted execution with the reason", reply)
	}
	if reply, _ := w.send(t, 200, "GET", "/books/support/executions?doubted=true", ""); len(ids(reply, "handle")) > 0 {
		t.Errorf("another playbook has %v", reply)
	}
	reflect("r2", "")
	if reply, _ := w.send(t, 200, "GET", "/books/default/executions?doubted=true", ""); len(ids(reply, "handle")) > 0 {
		t.Errorf("got %v, want none after a reflection without a doubt", reply)
	}
}

// TestListsWithAndWithoutIndex reads the same lists with an index, and with one that has read nothing.
func TestListsWithAndWithoutIndex(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	for i := range 90 {
		e := &events.Execution{ID: events.NewID(), RunID: fmt.Sprint("t-", i), Session: fmt.Sprint("s-", i%7), Question: "q", Answer: "a", Outcome: events.Outcome{Label: events.Success}, Started: time.Now().UTC()}
		if i%3 == 0 {
			e.Outcome.Label = events.Failure
		}
		e.Book = "default"
		if _, err := w.conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s, c := open(t, desk{}, Options{Conn: w.conn, Index: index.New(w.conn, nil)}, defaultLimits)
	without := &world{Server: s, client: c}
	eventually(t, func() error {
		if n := w.http.Config.Handler.(*handler).index.Executions.Counts()["default"]; n < 92 { // with those of the seed
			return fmt.Errorf("the index has %d executions", n)
		}
		return nil
	})
	for _, query := range []string{"", "&session=s-3", "&outcome=failure", "&session=s-3&outcome=failure", "&task=t-77", "&bullet=misc-00001", "&session=none"} {
		pages := func(w *world) (all [][]string) {
			for after := ""; ; {
				reply, _ := w.send(t, 200, "GET", "/books/default/executions?limit=8"+query+after, "")
				all = append(all, ids(reply, "handle"))
				next, _ := reply["next"].(string)
				if after = "&after=" + next; next == "" {
					return all
				}
			}
		}
		if got, want := slices.Concat(pages(w)...), slices.Concat(pages(without)...); !slices.Equal(got, want) || query == "" && len(got) != 92 {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
}
