package proxy

import (
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/proxy/capture"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// block returns advice with a line for each text, in which bullets are named b-1 and b-2.
func block(texts ...events.AdviceLine) (b capture.Block) {
	b.Text = "<\n"
	for _, l := range texts {
		text := "- [" + string(l.Bullet) + "] Count.\n"
		if l.Reflection != "" {
			text = "  " + l.Field + "\n"
			l.Field, _, _ = strings.Cut(l.Field, ":")
		}
		l.Start, l.End = len(b.Text), len(b.Text)+len(text)
		b.Text += text
		b.Lines = append(b.Lines, l)
	}
	b.Text += ">"
	return b
}

// TestRepeatedLines repeats advice after a change of the playbook.
func TestRepeatedLines(t *testing.T) {
	t.Parallel()
	const insight, went = "Look up the shelf in the catalogue before counting.", "the shelf was counted twice"
	learnedFrom := &events.Reflection{
		Book: "b", ID: events.ReflectionID(events.Hash("r"), "", "t"), Execution: events.Hash("r"), Handle: "3-00000000", Reflector: "t", Session: "s", Model: "m", Question: "How many shelves?",
		Outcome: events.Outcome{Label: events.Failure}, Origin: events.Origin{Source: "agent/ann"}, KeyInsight: insight, ErrorIdentification: went, Created: time.Now(),
	}
	reflection := func(field, text string) events.AdviceLine {
		return events.AdviceLine{Reflection: events.NewHandle(1, learnedFrom.ID), Field: field + ": " + text}
	}
	advice := block(
		events.AdviceLine{Bullet: "b-1", Wording: events.WordingOf("Count.")}, events.AdviceLine{Bullet: "b-2", Wording: events.WordingOf("Count twice.")},
		reflection("", ""), reflection(events.FieldError, went), reflection(events.FieldInsight, insight),
	)
	lines := strings.SplitAfter(advice.Text, "\n")
	cover := []playbook.Cover{{ID: "r", Seq: 1, Evidence: &playbook.Evidence{Execution: "3-00000000", Session: "s", Source: "agent/ann"}}}
	learned := func(status playbook.Status) playbook.Delta {
		return playbook.Delta{Covers: cover, Ops: []playbook.Op{{
			Kind: playbook.Add, Bullet: "b-3", Section: "others", Content: "Ask the catalogue.", Status: status, Support: []int{0},
		}}}
	}
	status := func(s playbook.Status, standing playbook.Standing) playbook.Delta {
		return playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "b-1", Status: s, Standing: standing}}}
	}
	for _, test := range []struct {
		name   string
		change []playbook.Delta
		left   string // indices of the lines that are left out
	}{
		{"nothing", nil, ""},
		{"another bullet", []playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "b-4", Section: "others", Content: "Smile."}}}}, ""},
		{"rejected", []playbook.Delta{status(playbook.Retired, playbook.StandingKept)}, "1"},
		{"retired", []playbook.Delta{status(playbook.Retired, "")}, "1"},
		{"quarantined", []playbook.Delta{status(playbook.Quarantined, "")}, "1"},
		{"removed", []playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "b-1"}}}}, "1"},
		{"reworded", []playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Update, Bullet: "b-2", Content: "Count three times."}}}}, "2"},
		{"restored", []playbook.Delta{status(playbook.Retired, playbook.StandingKept), status(playbook.Active, "")}, ""},
		{"the reflection becomes a bullet", []playbook.Delta{learned(playbook.Active)}, ""},
		{"a candidate", []playbook.Delta{learned(playbook.Candidate)}, "5"},
		{"a bullet in quarantine", []playbook.Delta{learned(playbook.Quarantined)}, "345"},
		{"decided without a bullet", []playbook.Delta{{Covers: cover}}, "5"},
		{"reviews first", []playbook.Delta{{Review: playbook.ReviewFirst}}, "345"},
		{"strict", []playbook.Delta{{Gate: playbook.GateStrict}}, "5"},
		{"an untrusted source", []playbook.Delta{{Policy: &playbook.Policy{Trust: []playbook.SourceTrust{{Source: "agent", Level: playbook.Untrusted}}}}}, "345"},
		{"a near copy is rejected", []playbook.Delta{{Ops: []playbook.Op{
			{Kind: playbook.Add, Bullet: "b-5", Section: "others", Content: insight, Status: playbook.Retired, Standing: playbook.StandingKept},
		}}}, "5"},
		{"the run is forgotten", []playbook.Delta{{Author: "ann", Forget: &playbook.Selector{Session: "s"}, ForgetBefore: 4, Covers: []playbook.Cover{{ID: "edit", Seq: 9}}}}, "345"},
		{"everything", []playbook.Delta{learned(playbook.Retired), {Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "b-1"}, {Kind: playbook.Remove, Bullet: "b-2"}}}}, "all"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, _ := bustest.Open(t, bus.Policy{})
			store := deltalog.New(conn.JetStream())
			if _, err := conn.Publish(t.Context(), learnedFrom, bus.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
			commit(t, store, playbook.Delta{Gate: playbook.GateGuard, Ops: []playbook.Op{
				{Kind: playbook.Add, Bullet: "b-1", Section: "others", Content: "Count."}, {Kind: playbook.Add, Bullet: "b-2", Section: "others", Content: "Count twice."},
			}})
			s := newAdviceFilter(conn)
			defer s.close()
			repeat := func() capture.Block {
				b, err := s.admitted(t.Context(), "b", advice)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			if got := repeat(); got.Text != advice.Text || len(got.Bullets) != 2 {
				t.Fatalf("before the change: got %+v", got)
			}
			want := ""
			for i, line := range lines {
				if test.left != "all" && !strings.Contains(test.left, string(rune('0'+i))) {
					want += line
				}
			}
			for _, d := range test.change {
				commit(t, store, d)
			}
			got := repeat()
			for end := time.Now().Add(time.Second); got.Text != want && time.Now().Before(end); time.Sleep(time.Millisecond) {
				got = repeat()
			}
			if got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
		})
	}
}

// TestRepeatWithoutPlaybook checks that nothing is repeated without the playbook: the deadline ends, or the server is gone.
func TestRepeatWithoutPlaybook(t *testing.T) {
	t.Parallel()
	conn, nc := bustest.Open(t, bus.Policy{})
	s := newAdviceFilter(conn)
	advice := block(events.AdviceLine{Bullet: "b-1", Wording: events.WordingOf("Count.")})
	if got, err := s.admitted(t.Context(), "b", advice); err != nil || got.Text != "" {
		t.Errorf("an unknown playbook: got %q, %v", got.Text, err)
	}
	nc.Close()
	if got, err := s.admitted(t.Context(), "c", advice); err == nil || got.Text != "" {
		t.Errorf("without a server: got %q, %v", got.Text, err)
	}
	s.close()
	if got, err := s.admitted(t.Context(), "b", advice); err == nil || got.Text != "" {
		t.Errorf("after close: got %q, %v", got.Text, err)
	}
}
