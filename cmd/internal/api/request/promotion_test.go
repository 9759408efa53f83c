package request

import (
	"context"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestPromotionAppliesItsPlan checks that the Curator applies all operations of a plan in order, and none of them if a
// bullet has changed since the plan was made.
func TestPromotionAppliesItsPlan(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	ctx := t.Context()
	conn := serve(t)
	store, versions := deltalog.New(conn.JetStream()), index.New(conn, nil).Books
	sendTo := func(b playbook.Book, e *events.Edit) (*events.EditReply, error) {
		e.ID, e.Author, e.Book = events.NewID(), "ann", b
		return SubmitEdit(ctx, conn, e, bus.PublishOptions{})
	}
	send := func(e *events.Edit) (*events.EditReply, error) { return sendTo("default", e) }
	ask := func(b playbook.Book, ops ...playbook.Op) {
		t.Helper()
		if _, err := sendTo(b, &events.Edit{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	now := func(b playbook.Book) *playbook.Playbook {
		t.Helper()
		p, err := deltalog.Load(ctx, conn, b)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	put := func(b playbook.Bullet) playbook.Op {
		return playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: &b}
	}
	update := func(id playbook.BulletID, text string) playbook.Op {
		return playbook.Op{Kind: playbook.Update, Bullet: id, Content: text}
	}

	for _, letter := range []string{"a", "b", "c", "d", "e", "f"} {
		ask("default", playbook.Op{Kind: playbook.Add, Section: "others", Content: letter})
	}
	ask("default", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00003", Pinned: true})
	m, err := versions.Version(ctx, "default", "newest")
	if err == nil {
		_, err = Fork(ctx, conn, "default", m, "run")
	}
	if err != nil {
		t.Fatal(err)
	}

	ask("run", update("misc-00002", "what b says"), update("misc-00001", "b")) // texts swap
	ask("run", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00003"}, playbook.Op{Kind: playbook.Remove, Bullet: "misc-00003"}, update("misc-00004", "c"))
	ask("run", playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00005", Status: playbook.Retired}, playbook.Op{Kind: playbook.Pin, Bullet: "misc-00004", Pinned: true})
	ask("run", put(playbook.Bullet{ID: "misc-00007", Section: "others", Content: "new", Helpful: 3}),
		put(playbook.Bullet{ID: "misc-00008", Section: "others", Content: "on trial", Status: playbook.Probation, Experiment: &playbook.Experiment{Number: 1, Standing: playbook.StandingNew}}),
		put(playbook.Bullet{ID: "misc-00009", Section: "others", Content: "odd", Status: playbook.Quarantined}))

	plan := func() *Promotion {
		t.Helper()
		plan, err := PlanPromotion(ctx, store, versions, "run", "default", "")
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	for name, meanwhile := range map[string]struct {
		merge bool
		op    playbook.Op
		undo  playbook.Op
	}{
		"a bullet of the plan":      {true, update("misc-00001", "other words"), update("misc-00001", "a")},
		"a new bullet of the plan":  {true, put(playbook.Bullet{ID: "misc-00007", Section: "others", Content: "taken"}), playbook.Op{Kind: playbook.Remove, Bullet: "misc-00007"}},
		"a bullet outside the plan": {false, update("misc-00006", "other words"), update("misc-00006", "f")},
	} {
		planned := plan()
		ask("default", meanwhile.op)
		before := now("default").StateHash()
		if err := planned.Submit(meanwhile.merge, send); program.ExitCode(err) != program.ExitRefused {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if now("default").StateHash() != before {
			t.Errorf("%s: the playbook was changed", name)
		}
		ask("default", meanwhile.undo)
	}

	planned := plan() // ids of removed bullets are not used again
	if err := planned.Submit(true, send); err != nil {
		t.Fatal(err)
	}
	got := now("default")
	if got.StateHash() != planned.after.StateHash() {
		t.Error("the playbook differs from the plan")
	}
	for id, want := range map[playbook.BulletID]string{
		"misc-00001": "b", "misc-00002": "what b says", "misc-00004": "c pinned", "misc-00005": "e retired", "misc-00006": "f",
		"misc-00008": "on trial", "misc-00009": "odd quarantined", "misc-00010": "new",
	} {
		if b := got.Bullet(id); b == nil || b.Content+explain.Traits(b) != want {
			t.Errorf("%s: got %v, want %q", id, b, want)
		}
	}
	if b := got.Bullet("misc-00010"); got.Len() != 8 || b != nil && b.Helpful != 3 {
		t.Errorf("got %d bullets, the new one is %v", got.Len(), b)
	}
}

// serve returns a connection to a server with a Curator.
func serve(t *testing.T) *bus.Conn {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c, err := curator.New(nil, curator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- c.Run(ctx, conn) }()
	t.Cleanup(func() { stop(); <-ended })
	return conn
}
