package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/reflector"
)

// lateBullet is the only bullet of each book.
const lateBullet playbook.BulletID = "misc-00001"

// voteByOutcome votes on the bullet by the outcome of the run, as a model of the Reflector.
func voteByOutcome(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	vote := events.Harmful
	switch text := p.Messages[len(p.Messages)-1].Text; {
	case strings.Contains(text, "Outcome: success."):
		vote = events.Helpful
	case strings.Contains(text, "Outcome: unknown."):
		return chat.Reply{Text: `{"reasoning": "r", "key_insight": "", "bullet_tags": []}`}, nil
	}
	return chat.Reply{Text: fmt.Sprintf(`{"reasoning": "r", "key_insight": "", "bullet_tags": [{"id": %q, "tag": %q}]}`, lateBullet, vote)}, nil
}

// TestLateFeedbackCountsOnce publishes runs and feedback on them in random order, some before the run is reflected on, with
// one reflector and two curators. Each run was shown one bullet, and the model votes on it by the outcome. In the end the
// bullet must have the vote of each run's last feedback, and forgetting the runs must remove all votes.
func TestLateFeedbackCountsOnce(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond, Linger: time.Millisecond})
	for _, run := range []func(context.Context, *bus.Conn) error{
		bustest.Must(reflector.New(chat.ModelFunc(voteByOutcome), reflector.Config{Slots: 4})).Run, bustest.Must(curator.New(nil, curator.Config{})).Run, bustest.Must(curator.New(nil, curator.Config{})).Run,
	} {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- run(ctx, conn) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	rng := rand.New(rand.NewPCG(7, 5))
	outcomes := []events.Outcome{{Label: events.Success}, {Label: events.Failure}, {Label: events.Unknown}}
	type votes = [2]int // helpful, harmful; a run without outcome has no vote
	want := map[playbook.Book]votes{}
	handles := map[playbook.Book][]events.Handle{}
	publish := func(e events.Event) bus.Receipt {
		r, err := conn.Publish(t.Context(), e, bus.PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var last uint64
	for i := range 8 {
		book := playbook.Book(fmt.Sprint("b", i))
		edit := &events.Edit{Book: book, ID: events.NewID(), Author: "operator", Ops: []playbook.Op{{Kind: playbook.Add, Section: "others", Content: "Look up the id before you book."}}}
		if _, err := conn.Request(t.Context(), edit, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		var open []func() // feedback to publish
		var latest []events.Label
		for j := range 2 + rng.IntN(4) {
			e := &events.Execution{
				ID: events.ExecutionID(book, "", fmt.Sprint(j), 0), RunID: fmt.Sprint(j), Outcome: outcomes[rng.IntN(3)],
				Question: "Book a berth.", Answer: "Berth 2.", Shown: []events.ShownBullet{{ID: lateBullet, Content: edit.Ops[0].Content}},
			}
			e.Book, e.Origin.Source = book, "desk"
			h := publish(e).Handle
			latest, handles[book] = append(latest, e.Outcome.Label), append(handles[book], h)
			for range rng.IntN(4) {
				f := &events.Feedback{ID: events.NewID(), Execution: h, Outcome: outcomes[rng.IntN(2)]}
				if f.Book = book; rng.IntN(4) == 0 {
					f.Outcome = events.Outcome{Feedback: "hm"} // without an outcome
				}
				open = append(open, func() {
					last = publish(f).Seq
					if f.Outcome.Label != "" {
						latest[j] = f.Outcome.Label
					}
				})
			}
			for len(open) > 0 && rng.IntN(2) == 0 {
				k := rng.IntN(len(open))
				open[k]()
				open = append(open[:k], open[k+1:]...)
			}
		}
		for _, k := range rng.Perm(len(open)) {
			open[k]()
		}
		var v votes
		for _, l := range latest {
			switch l {
			case events.Success:
				v[0]++
			case events.Failure:
				v[1]++
			}
		}
		want[book] = v
	}
	eventually(t, 60*time.Second, "everything is settled", func() error {
		r, err := conn.Consumers.Lag(t.Context(), events.RoleReflector)
		if err != nil {
			return err
		}
		c, err := conn.Consumers.Lag(t.Context(), events.RoleCurator)
		if err != nil {
			return err
		}
		if !r.Idle() || !c.Idle() || r.Floor < last {
			return fmt.Errorf("reflector at %+v, curator at %+v", r, c)
		}
		return nil
	})
	store := deltalog.New(conn.JetStream())
	for book, v := range want {
		log := store.History(t.Context(), book)
		without, err := history.Forget(log, playbook.Selector{Source: "desk"})
		if err != nil {
			t.Fatal(err)
		}
		if b := without.Playbook.Bullet(lateBullet); b == nil || b.Helpful+b.Harmful+b.Neutral > 0 {
			t.Errorf("book %s without the runs: got %+v, want the bullet without votes", book, b)
		}
		w, err := store.Writer(t.Context(), book)
		if err != nil {
			t.Fatal(err)
		}
		b := w.State().Playbook().Bullet(lateBullet)
		if got := (votes{b.Helpful, b.Harmful}); got != v || b.Neutral > 0 {
			t.Errorf("book %s: got votes %v, %d neutral, want %v of %v", book, got, b.Neutral, v, handles[book])
		}
	}
	streams, err := conn.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		if s.Name == events.StreamDead && s.Messages > 0 {
			t.Errorf("%d dead letters", s.Messages)
		}
	}
}
