package api

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/streams"
	"debrief/generator"
	"debrief/playbook"
	"debrief/reflector"
)

// world is a server with an embedded NATS server, all roles without a model, and a client.
type world struct {
	*Server
	conn   *bus.Conn // of the API
	admin  *bus.Conn // of the operator
	client *http.Client
	token  string // of the requests; empty for none
	handle string // of an execution without a context
	served string // handle of an execution with a context
	buried uint64 // number of dead letters that were stored
}

// answer is the model of the generators.
func answer(context.Context, chat.Prompt) (chat.Reply, error) {
	return chat.Reply{Text: `{"reasoning": "It is 6 times 7.", "bullet_ids": [], "final_answer": "42"}`}, nil
}

// startWorld starts a world until the end of the test.
func startWorld(t *testing.T, o Options) *world {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{})
	builder := generator.NewContextBuilder(conn, nil, generator.Config{})
	t.Cleanup(builder.Close)
	runRoles(t, conn, bustest.Must(generator.New(chat.ModelFunc(answer), nil, generator.Config{})), bustest.Must(reflector.New(nil, reflector.Config{})), bustest.Must(curator.New(nil, curator.Config{})))
	o.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	o.Conn = conn
	o.Index = runIndex(t, conn)
	s, c := open(t, builder, o, defaultLimits)
	return &world{Server: s, conn: conn, admin: conn, client: c}
}

// runIndex runs an index until the end of the test.
func runIndex(t testing.TB, conn *bus.Conn) *index.Index {
	t.Helper()
	x := index.New(conn, nil)
	inBackground(t, x.Run)
	return x
}

// inBackground calls fn with a context that ends with the test, and waits for its end.
func inBackground(t testing.TB, fn func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { fn(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// runRoles runs roles on a connection until the end of the test.
func runRoles(t *testing.T, conn *bus.Conn, roles ...program.Role) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- program.Run(ctx, conn, roles...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// send sends a request below the prefix and returns its status, Location and reply. A body of another status than want fails the test.
func (w *world) send(t *testing.T, want int, method, path, body string, changes ...func(*http.Request)) (reply map[string]any, header http.Header) {
	t.Helper()
	if body == "" {
		changes = append([]func(*http.Request){set("Content-Type", "")}, changes...)
	}
	if w.token != "" {
		changes = append(changes, set("Authorization", "Bearer "+w.token))
	}
	code, header, text := do(t, w.client, method, w.URL()+prefix+path, body, changes...)
	if code != want {
		t.Errorf("%s %s %s: got %d %s, want %d", method, path, body, code, text, want)
	}
	if text != "" && json.Unmarshal([]byte(text), &reply) != nil {
		t.Errorf("%s %s: got %q", method, path, text)
	}
	return reply, header
}

// eventually repeats a check until it returns no error, or patience ends.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// edit submits an edit to the Curator.
func (w *world) edit(t *testing.T, b playbook.Book, e *events.Edit) *events.EditReply {
	t.Helper()
	e.ID, e.Author, e.Created, e.Book = events.NewID(), "seed", time.Now().UTC(), b
	d, err := request.Edit(t.Context(), w.conn, e, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// add returns the operation that adds a bullet.
func add(content string) playbook.Op {
	return playbook.Op{Kind: playbook.Add, Section: "others", Content: content}
}

// put returns the operation that puts a bullet with a state.
func put(id playbook.BulletID, content string, state playbook.Status) playbook.Op {
	return playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "others", Content: content, Status: state}}
}

// seed fills the playbooks default and support. It returns the replacements of the names in examples by those in this world.
func (w *world) seed(t *testing.T) *strings.Replacer {
	t.Helper()
	w.edit(t, "default", &events.Edit{Ops: []playbook.Op{add("Ask for the invoice number first."), add("Round at the end."), add("An old invoice rule.")}})
	w.edit(t, "default", &events.Edit{Ops: []playbook.Op{put("misc-00012", "Send invoices by pigeon.", playbook.Quarantined), put("misc-00013", "Trust nobody.", playbook.Quarantined)}})
	w.edit(t, "support", &events.Edit{Ops: []playbook.Op{add("Greet the customer.")}})
	stored, _ := w.send(t, 201, "POST", "/executions", `{"book":"default","session":"s-1","run_id":"t-1","task":"shelves","user":"ann","question":"Which shelf is highest?","answer":"Shelf 7.","outcome":true}`)
	w.handle, _ = stored["handle"].(string)
	served, _ := w.send(t, 200, "POST", "/contexts", `{"book":"default","session":"s-1","query":"And the lowest?"}`)
	id, _ := served["context_id"].(string)
	stored, _ = w.send(t, 201, "POST", "/executions", `{"context_id":"`+id+`","answer":"Shelf 1.","outcome":0.5}`)
	w.served, _ = stored["handle"].(string)
	runs, err := w.admin.JetStream().KeyValue(t.Context(), events.BucketRuns)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"run-1", "run-2"} {
		if _, err := runs.Put(t.Context(), run, []byte(`{"mode":"online","settings":[],"data":[],"started":"2026-11-20T00:00:00Z","epoch":2}`)); err != nil {
			t.Fatal(err)
		}
	}
	first, second := w.bury(t, "default", "t-dead-1"), w.bury(t, "support", "t-dead-2")
	return strings.NewReplacer("17-ab12cd34", w.handle, "18-ab12cd34", w.served, "11-ab12cd34", first, "12-ab12cd34", second)
}

// bury stores a task as a dead letter and returns the id of the letter.
func (w *world) bury(t *testing.T, b playbook.Book, id string) string {
	t.Helper()
	task := &events.Task{Book: b, ID: id, Question: "What is six times seven?", Created: time.Now().UTC()}
	return w.buryEvent(t, events.RoleGenerator, task)
}

// buryEvent stores an event as a dead letter of a role and returns the id of the letter.
func (w *world) buryEvent(t *testing.T, role string, e events.Event) string {
	t.Helper()
	subject, header, data, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	w.buried++
	err = w.admin.DeadLetters.Store(t.Context(), &events.DeadLetter{
		Role: role, Code: events.DeadError, Reason: "the model failed", Attempts: 5, Stream: streams.Input(role), Seq: 1000 + w.buried,
		Subject: subject, Header: header, Data: data, Time: time.Now().UTC(),
	})
	if err != nil {
		t.Fatal(err)
	}
	reply, _ := w.send(t, 200, "GET", "/dead?role="+role, "")
	all := ids(reply, "id")
	if len(all) == 0 {
		t.Fatalf("got no dead letter: %v", reply)
	}
	return all[len(all)-1]
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
