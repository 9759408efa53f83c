package explain

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// storedRuns are the stored events by subject.
type storedRuns map[string][]bus.Stored

func (s storedRuns) Scan(_ context.Context, _, subject string, _ uint64, fn func(bus.Stored) error) error {
	for _, st := range s[subject] {
		if err := fn(st); err != nil {
			return err
		}
	}
	return nil
}

func (s storedRuns) add(seq uint64, id string, label events.Label, shown ...book.BulletID) {
	e := &events.Execution{ID: events.ID(id), Outcome: events.Outcome{Label: label}}
	for _, b := range shown {
		e.Shown = append(e.Shown, events.ShownBullet{ID: b})
	}
	subject := events.KindExecution.Subject("main")
	s[subject] = append(s[subject], bus.Stored{Seq: seq, Event: e})
}

func TestReadOutcomes(t *testing.T) {
	t.Parallel()
	s := storedRuns{events.KindFeedback.Subject("main"): {
		{Event: &events.Feedback{Execution: events.Handle("5-ab12cd34"), Outcome: events.Outcome{Label: events.Success}}},
		{Event: &events.Feedback{Execution: events.Handle("4-ab12cd34"), Outcome: events.Outcome{Feedback: "a comment"}}},
		{Event: nil},
	}}
	s.add(1, "a", events.Success)                  // before any bullet
	s.add(2, "b", events.Success, "x-1", "x-1")    // reported twice
	s.add(3, "b", events.Failure, "x-1")           // a copy
	s.add(4, "c", events.Failure, "x-1", "x-2")    // the comment changes nothing
	s.add(5, "d", events.Unknown, "x-1", "gone-1") // feedback: success
	s.add(6, "e", events.Failure)
	s.add(7, "f", events.Unknown, "x-1")
	s.add(8, "g", events.Partial, "x-2")
	o, err := ReadOutcomes(t.Context(), s, "main")
	if err != nil {
		t.Fatal(err)
	}
	var p book.Playbook
	for i, id := range []book.BulletID{"x-1", "x-2"} {
		d := book.Delta{Version: uint64(i + 1), Ops: []book.Op{{Kind: book.Put, Bullet: id, PutBullet: &book.Bullet{ID: id, Section: "s", Content: string(id), Status: book.Active}}}}
		if _, err := p.Apply(&d); err != nil {
			t.Fatal(err)
		}
	}
	if o.Runs != 6 || len(o.Bullets) != 3 {
		t.Fatalf("got %d runs, %d bullets", o.Runs, len(o.Bullets))
	}
	for i, want := range []string{"x-1 3 2 2 0", "x-2 2 0 2 1"} { // bullet, runs with it and right ones, runs without it and right ones
		b := o.Of(&p).Bullets[i]
		right := func(mean float64, n int) int { return int(mean*float64(n) + 0.5) }
		if got := fmt.Sprint(b.Bullet, " ", b.With.N, right(b.With.Mean, b.With.N), b.Without.N, right(b.Without.Mean, b.Without.N)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if len(o.Bullets) != 2 {
		t.Errorf("got %d bullets of the playbook, want 2", len(o.Bullets))
	}
}

func TestWriteOutcomes(t *testing.T) {
	t.Parallel()
	s := storedRuns{}
	for i := range maxOutcomes + 1 {
		s.add(uint64(i+1), fmt.Sprint(i), events.Success, book.BulletID(fmt.Sprintf("x-%02d", i)))
	}
	for name, row := range map[string]struct {
		runs storedRuns
		want []string
	}{
		"no run": {storedRuns{}, []string{"no stored run with a known outcome showed one"}},
		"many":   {s, []string{"x-00    100 % (21 to 100) of 1  100 % (84 to 100) of 20", "x-19    100 % (21 to 100) of 1  100 % (21 to 100) of 1", "1 bullet less often shown", "not assigned at random"}},
	} {
		o, err := ReadOutcomes(t.Context(), row.runs, "main")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := o.Write(&out); err != nil {
			t.Fatal(err)
		}
		for _, want := range row.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, out.String())
			}
		}
	}
}
