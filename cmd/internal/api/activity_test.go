package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/playbook"
)

// stream is an open stream of events.
type stream struct {
	lines *bufio.Scanner
	body  io.Closer
}

// openStream opens a stream of events and reads the event ready.
func (w *world) openStream(t *testing.T, ctx context.Context, query, token string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", w.URL()+prefix+"/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	bearer(token)(r)
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("got %d %v", resp.StatusCode, resp.Header)
	}
	s := &stream{bufio.NewScanner(resp.Body), resp.Body}
	if name, _ := s.next(t); name != "ready" {
		t.Fatalf("got event %q first", name)
	}
	return s
}

// next returns the next event.
func (s *stream) next(t *testing.T) (name string, data map[string]any) {
	t.Helper()
	for s.lines.Scan() {
		switch field, value, _ := strings.Cut(s.lines.Text(), ": "); {
		case field == "event":
			name = value
		case field == "data":
			if err := json.Unmarshal([]byte(value), &data); err != nil {
				t.Fatal(err)
			}
		case s.lines.Text() == "" && name != "":
			return name, data
		}
	}
	t.Fatalf("the stream ended: %v", s.lines.Err())
	return "", nil
}

// until returns the next event that is not a sample of the lag.
func (s *stream) until(t *testing.T) string {
	t.Helper()
	for {
		name, data := s.next(t)
		if name != "lag" {
			return fmt.Sprint(name, " ", data["book"], " ", data["executions"], " ", data["version"], " ", data["dead_letters"])
		}
	}
}

// TestEvents changes things while streams are open: each gets what its token and its parameter permit.
func TestEvents(t *testing.T) {
	t.Parallel()
	set, secrets := apitest.Load(t, t.TempDir(), allAndMine...)
	all, mine := secrets["all"], secrets["mine"]
	w := startWorld(t, Options{Tokens: set})
	w.token = all
	w.seed(t)
	eventually(t, func() error { // the feed and the index have read the seed
		reply, _ := w.send(t, 200, "GET", "/overview", "")
		if learned, _ := reply["learned"].(map[string]any); learned["versions"] != 3.0 || w.http.Config.Handler.(*handler).index.Executions.Counts()["default"] != 2 || w.http.Config.Handler.(*handler).index.Activity.State().Dead != 2 {
			return fmt.Errorf("got %v", reply)
		}
		return nil
	})
	wide, narrow := w.openStream(t, t.Context(), "", all), w.openStream(t, t.Context(), "", mine)
	other := w.openStream(t, t.Context(), "?book=support", all)
	w.edit(t, "default", &events.Edit{Ops: []playbook.Op{add("A live rule.")}})
	if got := wide.until(t); got != "version default <nil> 3 <nil>" {
		t.Errorf("after an edit: got %s", got)
	}
	w.send(t, 201, "POST", "/executions", `{"book":"default","question":"q","answer":"a"}`)
	if got := wide.until(t); got != "executions default 3 <nil> <nil>" {
		t.Errorf("after a report: got %s", got)
	}
	w.bury(t, "default", "t-dead-3")
	if got := wide.until(t); got != "dead <nil> <nil> <nil> 3" {
		t.Errorf("after a dead letter: got %s", got)
	}
	if got := narrow.until(t); got != "dead <nil> <nil> <nil> <nil>" {
		t.Errorf("a token of another playbook: got %s", got)
	}
	if got := other.until(t); got != "dead <nil> <nil> <nil> 3" {
		t.Errorf("events of one playbook: got %s", got)
	}
	w.edit(t, "support", &events.Edit{Ops: []playbook.Op{add("A rule of another playbook.")}})
	for name, s := range map[string]*stream{"a token of its playbook": narrow, "events of one playbook": other} {
		if got := s.until(t); got != "version support <nil> 2 <nil>" {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestEventsOfAReplacedLog: a log that was replaced, or that has lost its end, begins again at a lower version.
func TestEventsOfAReplacedLog(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	out := &eventStream{w: w, control: http.NewResponseController(w)}
	s := &liveState{c: &call{token: &tokens.Token{}}, out: out, versions: map[playbook.Book]uint64{"a": 8, "b": 3}}
	for _, changes := range [][]index.Change{
		{{Book: "a", Version: 7}, {Book: "a", Version: 8}, {Book: "b", Version: 3}},
		{{Book: "a", Version: 1}, {Book: "b", Version: 3}},
		{{Book: "a", Version: 1}, {Book: "b", Version: 3}, {Book: "a", Version: 2}},
	} {
		s.sendState(index.State{Changes: changes})
	}
	if sent := w.Body.String(); out.sent != 2 || !strings.Contains(sent, `"version":1,`) || !strings.Contains(sent, `"version":2,`) {
		t.Errorf("got the events %s, want the versions 1 and 2 of a", sent)
	}
}

// TestStreamsEnd: a stream ends with its limit and with its client, and does not count as a request in progress then.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	h := w.http.Config.Handler.(*handler)
	if code, _, body := do(t, w.client, "GET", w.URL()+prefix+"/events?limit=1", ""); code != 200 || body != "event: ready\ndata: {}" {
		t.Errorf("got %d %q", code, body)
	}
	if code, _, body := do(t, w.client, "HEAD", w.URL()+prefix+"/events", ""); code != 200 || body != "" {
		t.Errorf("HEAD: got %d %q", code, body)
	}
	w.send(t, 400, "GET", "/events?limit=0", "")
	ctx, cancel := context.WithCancel(t.Context())
	w.openStream(t, ctx, "", "")
	if len(h.streamSlots) != 1 {
		t.Errorf("got %d streams", len(h.streamSlots))
	}
	cancel()
	eventually(t, func() error {
		if n := len(h.streamSlots); n != 0 {
			return fmt.Errorf("%d streams are open", n)
		}
		return nil
	})
	for range maxStreams {
		h.streamSlots <- struct{}{}
	}
	w.send(t, 503, "GET", "/events", "")
}

// TestStreamsOfTokens: one token has a limited number of streams, and the streams of a revoked token end.
func TestStreamsOfTokens(t *testing.T) {
	t.Parallel()
	reads, dir := []tokens.Scope{tokens.Read}, t.TempDir()
	set, secrets := apitest.Load(t, dir, apitest.Grant{Name: "greedy", Scopes: reads}, apitest.Grant{Name: "modest", Scopes: reads})
	greedy, modest := secrets["greedy"], secrets["modest"]
	w := startWorld(t, Options{Tokens: set})
	var open []*stream
	for range maxTokenStreams {
		open = append(open, w.openStream(t, t.Context(), "", greedy))
	}
	if code, _, body := do(t, w.client, "GET", w.URL()+prefix+"/events", "", bearer(greedy)); code != 429 || !strings.Contains(body, string(CodeStreams)) {
		t.Errorf("got %d %s", code, body)
	}
	other := w.openStream(t, t.Context(), "", modest)
	if err := os.RemoveAll(dir); err != nil { // revokes all tokens
		t.Fatal(err)
	}
	for _, s := range append(open, other) { // they end
		for s.lines.Scan() {
		}
		if err := s.lines.Err(); err != nil {
			t.Error(err)
		}
	}
	if code, _, _ := do(t, w.client, "GET", w.URL()+prefix+"/events", "", bearer(modest)); code != 401 {
		t.Errorf("got %d with a revoked token", code)
	}
}

func TestOverview(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	eventually(t, func() error {
		reply, _ := w.send(t, 200, "GET", "/overview?limit=2", "")
		learned, _ := reply["learned"].(map[string]any)
		waiting, _ := reply["waiting"].(map[string]any)
		changes, _ := reply["changes"].([]any)
		books, _ := reply["books"].([]any)
		if len(changes) != 2 || len(books) != 2 {
			return fmt.Errorf("got %v", reply)
		}
		newest, _ := changes[0].(map[string]any)
		book, _ := books[0].(map[string]any)
		got := fmt.Sprint(learned["versions"], learned["added"], learned["changed"], " ", waiting["quarantined"], waiting["dead_letters"], waiting["total"], " ", newest["book"], newest["version"], " ", book["bullets"], book["shown"], book["executions"])
		if got != "3 4 2 2 2 4 support1 5 3 2" {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})

	// The lesson of a bullet that is removed says so.
	state := func() string {
		reply, _ := w.send(t, 200, "GET", "/overview?limit=50", "")
		states, _ := reply["states"].(map[string]any)
		return fmt.Sprint(states["support"])
	}
	if got := state(); got != "map[misc-00001:active]" {
		t.Fatalf("got %s, want one active bullet", got)
	}
	w.edit(t, "support", &events.Edit{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "misc-00001"}}})
	if got := state(); got != "map[misc-00001:removed]" {
		t.Errorf("got %s, want the bullet removed", got)
	}
}
