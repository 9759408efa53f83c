package erase

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/erasure"
	"debrief/events/natsd"
	"debrief/events/window"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// desk is a server with the data of two users, each in every stream and bucket that has data of runs.
type desk struct {
	conn    *bus.Conn
	windows *window.Store
	dir     string
	stop    func()
	advice  Advice // of the eraser; nil without a gateway
}

// adviceLines are lines of advice in the runs of others.
type adviceLines []events.AdviceLine

// Remove implements Advice.
func (a *adviceLines) Remove(_ context.Context, mustGo func(*events.AdviceLine) bool) error {
	*a = slices.DeleteFunc(*a, func(l events.AdviceLine) bool { return mustGo(&l) })
	return nil
}

// startDesk starts a server with the data of some users.
func startDesk(t *testing.T, users ...string) *desk {
	t.Helper()
	dir := t.TempDir()
	srv, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	d := openDesk(t, nc, dir, srv.Close)
	for _, user := range users {
		d.run(t, user)
	}
	return d
}

func openDesk(t *testing.T, nc *nats.Conn, dir string, stop func()) *desk {
	t.Helper()
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{conn: conn, windows: window.New(nc, conn.JetStream()), dir: dir, stop: stop}
}

// canary is a text of a user at a place, which no other text contains.
func canary(user, place string) string { return "canary-" + user + "-" + place + "." }

// agentOf returns the agent of a user, with a description that is a blob.
func agentOf(user string) *events.Agent {
	return &events.Agent{SystemPrompt: strings.Repeat(canary(user, "system prompt")+"\n", 50)}
}

// run stores what the runs of a user leave: one that was answered and rated, one that waits, and one of the gateway.
func (d *desk) run(t *testing.T, user string) {
	t.Helper()
	ctx, began := t.Context(), time.Now().UTC().Add(-time.Minute)
	text := func(place string) string { return canary(user, place) }
	session := text("session")
	publish := func(e events.Event) events.Handle {
		r, err := d.conn.Publish(ctx, e, bus.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Handle
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	publish(&events.Task{Book: "b", ID: user + "-waits", User: user, Question: text("task"), Created: began})
	answered := publish(&events.Task{Book: "b", ID: user + "-answered", User: user, Question: "q", Context: strings.Repeat(text("answered"), bus.MaxInline/10), Created: began})
	tasks, err := d.conn.JetStream().Stream(ctx, events.StreamTasks)
	check(err)
	seq, _, err := answered.Parse()
	check(err)
	check(tasks.DeleteMsg(ctx, seq)) // its payload stays
	e := &events.Execution{
		Agent: agentOf(user),
		Book:  "b", ID: events.ExecutionID("b", "", user, 0), RunID: user, User: user, Session: session, Question: text("question"),
		Answer: text("answer") + strings.Repeat(text("large"), bus.MaxInline/10), Started: began, ContextID: events.NewID(),
	}
	h := publish(e)
	publish(&events.Feedback{Book: "b", ID: events.NewID(), Execution: h, Outcome: events.Outcome{Label: events.Failure, Feedback: text("feedback")}, Created: began})
	reflection := &events.Reflection{
		Book: "b", ID: events.NewID(), Execution: e.ID, Handle: h, User: user, Session: session, KeyInsight: text("insight"), Created: began,
	}
	rh := publish(reflection)

	i := events.NewInteraction(h, e)
	for n := range window20 + 5 { // the server drops the oldest ones
		turn := *i
		turn.ID, turn.Turn, turn.Question = events.NewID(), n, fmt.Sprint(text("turn"), n)
		check(d.windows.Add(ctx, "b", "", session, &turn))
	}
	check(d.windows.AddNote(ctx, "b", &events.Note{Reflection: rh, ID: reflection.ID, User: user, Session: session, At: began, Insight: text("note"), Execution: h, Sample: e.ID}))
	check(d.windows.Mark(ctx, "b", "", session, events.MarkedInteraction{Mark: events.Pin, At: began, Interaction: *i}))
	for _, place := range []string{"summary-replaced", "summary"} { // earlier versions stored a summary of each session
		d.put(t, events.BucketState, events.SessionKey("b", "", session)+".summary", &oldSummary{Text: text(place)})
	}
	check(d.windows.PutRun(ctx, "b", "", events.Hash("task", user), events.Failure, &window.Run{Execution: e.ID, Calls: []string{text("call")}}))
	check(d.windows.PutContext(ctx, &events.ServedContext{ID: e.ContextID, Book: "b", User: user, Session: session, Query: text("query"), Created: began}))

	id := events.NewID()
	for _, state := range []string{"replaced", "open"} {
		d.put(t, "openruns", "run."+string(id), &gatewayRun{ID: id, Owner: "", User: user, Book: "b", Session: session, Started: began, Question: text(state)})
	}
	d.put(t, "openruns", "part."+string(id)+".1", &gatewayPart{Question: text("part")})
	d.put(t, "captures", "r.0123456789abcdef."+user, &gatewayReference{Run: id, Text: text("reference")})

	m := &nats.Msg{Subject: "debrief.execution.b", Header: nats.Header{}, Data: []byte(text("broken"))}
	letter := &events.DeadLetter{
		Book: "b", Role: events.RoleReflector, Code: events.DeadError, Reason: text("reason") + " of run " + string(e.ID), Stream: events.StreamExecutions, Seq: uint64(user[0]),
		Subject: m.Subject, Data: m.Data, Time: began,
	}
	publish(letter)
}

// The forms in which the gateway stores its runs, as far as an erasure meets them.
type (
	gatewayRun struct {
		ID       events.ID `msgpack:"id"`
		Owner    string    `msgpack:"owner"`
		User     string    `msgpack:"user"`
		Book     string    `msgpack:"book"`
		Session  string    `msgpack:"session"`
		Started  time.Time `msgpack:"started"`
		Question string    `msgpack:"question"`
	}
	gatewayPart struct {
		Question string `msgpack:"q"`
	}
	gatewayReference struct {
		Run  events.ID `msgpack:"r"`
		Text string    `msgpack:"t"`
	}
)

const window20 = 20

func (d *desk) put(t *testing.T, bucket, key string, v any) {
	t.Helper()
	data, err := events.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: "$KV." + bucket + "." + key, Header: events.SchemaHeader(), Data: data}
	if _, err := d.conn.JetStream().PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// oldSummary is the summary of a session as earlier versions stored it.
type oldSummary struct {
	Text string `msgpack:"x"`
}

// places are the places of the canaries of a user.
var places = []string{
	"task", "question", "answer", "large", "feedback", "insight", "session", "turn", "note", "summary", "summary-replaced", "call", "query",
	"replaced", "open", "part", "reference", "broken", "reason", "answered", "system prompt",
}

// found returns the places whose canary the files of the server contain.
func (d *desk) found(t *testing.T, user string) (all []string) {
	t.Helper()
	data := d.files(t)
	for _, place := range places {
		if bytes.Contains(data, []byte(canary(user, place))) {
			all = append(all, place)
		}
	}
	return all
}

// checkErased stops the server, and checks that its files have no text of a user.
func (d *desk) checkErased(t *testing.T, user string) {
	t.Helper()
	d.stop()
	if got := d.found(t, user); len(got) > 0 {
		t.Errorf("the texts of %s are still at %v", user, got)
	}
}

// files returns the content of all files of the server.
func (d *desk) files(t *testing.T) (data []byte) {
	t.Helper()
	err := filepath.WalkDir(d.dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		data = append(data, content...)
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// eraser returns an eraser that does not wait long for the workers.
func (d *desk) eraser() *Eraser {
	e := New(d.conn, d.advice)
	e.settle = 10 * time.Millisecond
	return e
}

func (d *desk) erase(t *testing.T, r erasure.Request) *Result {
	t.Helper()
	r.ID, r.Created, r.By = events.NewID(), time.Now().UTC(), "operator"
	e := d.eraser()
	if err := e.store.Add(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withoutReplaced returns the places of texts that were not replaced.
func withoutReplaced() (all []string) {
	for _, place := range places {
		if place != "replaced" && place != "summary-replaced" {
			all = append(all, place)
		}
	}
	return all
}

// checkBob checks that the data of another user can be used as before.
func (d *desk) checkBob(t *testing.T) {
	t.Helper()
	ctx, session := t.Context(), canary("bob", "session")
	list, damaged, err := d.windows.Interactions(ctx, "b", "", session)
	if err != nil || damaged > 0 || len(list) != window20 {
		t.Fatalf("got %d interactions, %d damaged, %v; want %d", len(list), damaged, err, window20)
	}
	for i, turn := range list {
		if turn.Turn != i+5 {
			t.Errorf("interaction %d: got turn %d, want %d", i, turn.Turn, i+5)
		}
	}
	if marks, err := d.windows.Marks(ctx, "b", "", session); err != nil || len(marks) != 1 {
		t.Errorf("got %d marks, %v; want 1", len(marks), err)
	}
}

// block returns the only file with messages of a stream.
func (d *desk) block(t *testing.T, stream string) []byte {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(d.dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(all) != 1 {
		t.Fatalf("got the files %v and error %v, want one", all, err)
	}
	data, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return data
}
