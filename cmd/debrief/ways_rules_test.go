package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/erasure"
)

// rule is a rule of the doors, which every way in keeps.
type rule struct {
	name  string
	check func(w *ways, way *way)
}

var rules = []rule{
	{"authentication", func(w *ways, way *way) {
		for _, token := range []string{"", "forged"} {
			w.refused(way, newSentRun(token), "401", "token", "unauthorized", "Unauthorized")
		}
	}},
	{"scope", func(w *ways, way *way) { w.refused(way, newSentRun("reader"), "403", "scope", "Forbidden") }},
	{"playbook of the token", func(w *ways, way *way) {
		r := newSentRun("elsewhere")
		r.book = events.DefaultBook
		w.refused(way, r, "403", "book", "playbook", "Forbidden")
	}},
	{"redaction", func(w *ways, way *way) {
		const secret = "AKIAIOSFODNN7EXAMPLE"
		r := newSentRun("agent")
		r.task = secret
		begin := r.question
		r.question += " The key is " + secret + "."
		if err := way.send(w, r); err != nil {
			w.Fatal(err)
		}
		if got := w.stored(begin); !strings.Contains(got[0].Question, "[redacted") {
			w.Errorf("got the question %q", got[0].Question)
		}
		w.searchStreams(secret)
	}},
	{"size", func(w *ways, way *way) {
		r := newSentRun("agent")
		begin := r.question
		r.question += strings.Repeat(" x", way.limit/2)
		err := way.send(w, r)
		if (err == nil) != way.passes {
			w.Errorf("got %.200v", err)
		}
		if got := w.with(begin); len(got) > 0 {
			w.Errorf("got %d stored runs", len(got))
		}
	}},
	{"once", func(w *ways, way *way) {
		r := newSentRun("agent")
		send := way.again
		if send == nil {
			send = way.send
		}
		if err := way.send(w, r); err != nil {
			w.Fatal(err)
		}
		if err := send(w, r); err != nil {
			w.Fatal(err)
		}
		next := newSentRun("agent") // stored after both
		if err := way.send(w, next); err != nil {
			w.Fatal(err)
		}
		w.stored(next.question)
		if got := w.stored(r.question); len(got) != 1 {
			w.Errorf("got %d executions, want one", len(got))
		}
	}},
	{"trust", func(w *ways, way *way) {
		r := newSentRun("agent")
		if err := way.send(w, r); err != nil {
			w.Fatal(err)
		}
		e := w.stored(r.question)[0]
		if e.Origin.Source != way.source || e.Outcome.Inferred != way.inferred || e.Outcome.Violation || (e.Outcome.Label == events.Unknown) != way.unrated {
			w.Errorf("got source %q and outcome %+v", e.Origin.Source, e.Outcome)
		}
	}},
	{"control share", func(w *ways, way *way) {
		arms := map[bool]int{}
		for range 12 {
			r := newSentRun("agent")
			if way.advise == nil {
				if err := way.send(w, r); err != nil {
					w.Fatal(err)
				}
				if e := w.stored(r.question)[0]; e.Control != nil {
					w.Errorf("a run without a context has the arm %+v", e.Control)
				}
				continue
			}
			prompt, err := way.advise(w, r)
			if err != nil {
				w.Fatal(err)
			}
			held := !strings.Contains(prompt, theBullet)
			arms[held]++
			if r.id = string(events.NewID()); way.name == "gateway" {
				continue // the call of the advice was the run
			}
			r.question = "Again: " + r.question
			if err := way.send(w, r); err != nil {
				w.Fatal(err)
			}
			if e := w.stored(r.question)[0]; e.Control == nil || e.Control.Held != held {
				w.Errorf("the advice was held: %t, but the run has the arm %+v", held, e.Control)
			}
		}
		if way.advise != nil && (arms[true] == 0 || arms[false] == 0) {
			w.Errorf("got %d sessions with advice and %d without, want both", arms[false], arms[true])
		}
	}},
	{"leaving the control share", func(w *ways, way *way) {
		if way.local || way.advise == nil || way.name == "hooks" { // they send no header
			return
		}
		r := newSentRun("agent")
		r.header = []string{events.HeaderControl, events.ControlOff}
		if _, err := way.advise(w, r); !way.refuses(err, "403", "operate") {
			w.Errorf("a token without the scope operate: got %v", err)
		}
		for range 12 {
			r := newSentRun("operator")
			r.header = []string{events.HeaderControl, events.ControlOff}
			if prompt, err := way.advise(w, r); err != nil || !strings.Contains(prompt, theBullet) {
				w.Errorf("a token with the scope operate: got %v without the advice", err)
			}
		}
	}},
	{"erased", func(w *ways, way *way) {
		if way.nameless {
			return
		}
		r := newSentRun("agent")
		r.session = w.erased
		err := way.send(w, r)
		if way.hears && !way.refuses(err, "erased") {
			w.Errorf("got %v, want that the run was erased", err)
		}
		next := newSentRun("agent") // stored after it
		if err := way.send(w, next); err != nil {
			w.Fatal(err)
		}
		w.stored(next.question)
		if got := w.with(r.question); len(got) > 0 {
			w.Errorf("got %d executions of an erased session", len(got))
		}
	}},
}

// refused checks that a run is refused with one of the codes or words, and that nothing is stored. Ways without tokens have other rights.
func (w *ways) refused(way *way, r *sentRun, codes ...string) {
	w.Helper()
	if way.local {
		return
	}
	if err := way.send(w, r); !way.refuses(err, codes...) {
		w.Errorf("token %q: got %v, want one of %q", r.token, err, codes)
	}
	if way.advise != nil {
		if prompt, err := way.advise(w, r); !way.refuses(err, codes...) {
			w.Errorf("advice with token %q: got %.200q, %v, want one of %q", r.token, prompt, err, codes)
		}
	}
	if got := w.with(r.question); len(got) > 0 {
		w.Errorf("token %q: got %d stored runs", r.token, len(got))
	}
}

// searchStreams fails the test if a message of any stream has a text.
func (w *ways) searchStreams(text string) {
	w.Helper()
	names := w.conn.JetStream().StreamNames(w.Context())
	for name := range names.Name() {
		stream, err := w.conn.JetStream().Stream(w.Context(), name)
		if err != nil {
			w.Fatal(err)
		}
		state := stream.CachedInfo().State
		for seq := state.FirstSeq; seq > 0 && seq <= state.LastSeq; seq++ {
			m, err := stream.GetMsg(w.Context(), seq)
			if err == nil && (bytes.Contains(m.Data, []byte(text)) || strings.Contains(m.Subject, text)) {
				w.Errorf("message %d of stream %s has %q", seq, name, text)
			}
		}
	}
	if err := names.Err(); err != nil {
		w.Fatal(err)
	}
}

// TestWaysKeepTheRules is the table of all ways in and all rules of the doors.
func TestWaysKeepTheRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	w := openWays(t, "50%")
	w.erased = "s-erased"
	err := erasure.NewStore(w.conn.JetStream()).Add(t.Context(), &erasure.Request{ID: events.NewID(), Session: w.erased, Created: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		for _, way := range allWays {
			t.Run(rule.name+"/"+way.name, func(t *testing.T) { rule.check(w.in(t), &way) })
		}
	}
}
