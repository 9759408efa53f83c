package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/api/apitest"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/erasure"
	"debrief/playbook"
)

// sentRating is a rating of a stored run.
type sentRating struct {
	id    string
	words string // of the person
	token string // name of a token, "" for none
}

// ratedRun is a run of the token "agent" that one of the ways has stored.
type ratedRun struct {
	handle events.Handle
	user   *hookUser // whose session it is, for hooks
}

// ratingWay is a way in for ratings.
type ratingWay struct {
	name string
	// store stores a run. Nil: over the API.
	store func(w *ways, r *sentRun) (*ratedRun, error)
	rate  func(w *ways, run *ratedRun, g *sentRating) error
	hears bool // as in way
	local bool
	// inferred is set if the rating counts as the opinion of the agent.
	inferred bool
}

// ratingWays are the ways in for ratings.
var ratingWays = []ratingWay{
	{name: "API", hears: true, rate: func(w *ways, run *ratedRun, g *sentRating) error {
		_, err := w.request("/api/v1/feedback", jsonKind, g.body(run).encode(), &sentRun{token: g.token})
		return err
	}},
	{name: "NATS", hears: true, local: true, store: func(w *ways, r *sentRun) (*ratedRun, error) {
		reply, err := w.service(events.VerbReport, "", object{"run_id": r.id, "session": r.session, "question": r.question, "answer": "Shelf 7."})
		return handleOf([]byte(reply)), err
	}, rate: func(w *ways, run *ratedRun, g *sentRating) error {
		_, err := w.service(events.VerbFeedback, "", g.body(run))
		return err
	}},
	{name: "MCP", hears: true, inferred: true, rate: func(w *ways, run *ratedRun, g *sentRating) error {
		_, err := w.tool(&sentRun{token: g.token}, "give_feedback", object{"execution": run.handle, "id": g.id, "outcome": "failure", "feedback": g.words})
		return err
	}},
	{name: "hooks", store: func(w *ways, r *sentRun) (*ratedRun, error) {
		u := w.newHookUser(r)
		u.event("UserPromptSubmit", r)
		u.event("Stop", r)
		err := u.handOver()
		return &ratedRun{user: u}, err
	}, rate: func(_ *ways, run *ratedRun, g *sentRating) error {
		run.user.setToken(g.token)
		session := *run.user.run
		session.question = "/debrief bad " + g.words
		if out := run.user.event("UserPromptSubmit", &session); !strings.Contains(out, "rated failure") {
			return errors.New("the hook says " + out)
		}
		return run.user.handOver()
	}},
}

// body returns a rating as the API takes it.
func (g *sentRating) body(run *ratedRun) object {
	return object{"execution": run.handle, "id": g.id, "outcome": object{"label": "failure", "feedback": g.words}}
}

// handleOf returns the run of a reply to a report.
func handleOf(reply []byte) *ratedRun {
	var stored events.StoredReply
	_ = json.Unmarshal(reply, &stored) // without a handle each rating fails
	return &ratedRun{handle: stored.Handle}
}

// newRated stores a run.
func (w *ways) newRated(way *ratingWay, r *sentRun) *ratedRun {
	w.Helper()
	store := way.store
	if store == nil {
		store = func(w *ways, r *sentRun) (*ratedRun, error) {
			body := object{"run_id": r.id, "session": r.session, "question": r.question, "answer": "Shelf 7."}
			reply, err := w.request("/api/v1/executions", jsonKind, body.encode(), r)
			return handleOf(reply), err
		}
	}
	run, err := store(w, r)
	if err != nil {
		w.Fatal(err)
	}
	w.stored(r.question)
	return run
}

func newSentRating(token string) *sentRating {
	id := string(events.NewID())
	return &sentRating{id: id, words: "Wrong shelf " + id + ".", token: token}
}

// ratings returns the stored feedback with these words.
func (w *ways) ratings(words string) []*events.Feedback {
	w.Helper()
	return slices.DeleteFunc(apitest.Stored[*events.Feedback](w, w.conn), func(f *events.Feedback) bool { return !strings.HasPrefix(f.Outcome.Feedback, words) })
}

// handle returns the handle of the execution with a question.
func (w *ways) handle(question string) (h events.Handle) {
	w.Helper()
	err := w.conn.Events.Scan(w.Context(), events.StreamExecutions, ">", 1, func(s bus.Stored) error {
		if e, ok := s.Event.(*events.Execution); ok && e.Question == question {
			h = events.NewHandle(s.Seq, e.ID)
		}
		return nil
	})
	if err != nil || h == "" {
		w.Fatalf("got no execution with the question %q, error %v", question, err)
	}
	return h
}

// setToken replaces the token of the user.
func (u *hookUser) setToken(name string) {
	u.Helper()
	data, err := os.ReadFile(u.hook.Settings)
	if err == nil {
		data = []byte(strings.ReplaceAll(string(data), u.token, u.secrets[name]))
		u.token = u.secrets[name]
		err = os.WriteFile(u.hook.Settings, data, 0o600)
	}
	if err != nil {
		u.Fatal(err)
	}
}

// ratingRules are the rules that every way in for ratings keeps.
var ratingRules = []struct {
	name  string
	check func(w *ways, way *ratingWay)
}{
	{"authentication", func(w *ways, way *ratingWay) { w.refusedRating(way, "forged", "401", "token", "Unauthorized") }},
	{"scope", func(w *ways, way *ratingWay) { w.refusedRating(way, "reader", "403", "scope", "Forbidden") }},
	{"playbook of the token", func(w *ways, way *ratingWay) {
		w.refusedRating(way, "elsewhere", "403", "404", "book", "playbook", "Forbidden", "not-found")
	}},
	{"run of another token", func(w *ways, way *ratingWay) { w.refusedRating(way, "operator", "404", "not-found", "not found") }},
	{"redaction", func(w *ways, way *ratingWay) {
		const secret = "AKIAIOSFODNN7EXAMPLE"
		g := newSentRating("agent")
		begin := g.words
		g.words += " The key is " + secret + "."
		if err := way.rate(w, w.newRated(way, newSentRun("agent")), g); err != nil {
			w.Fatal(err)
		}
		if got := w.ratings(begin); len(got) != 1 || !strings.Contains(got[0].Outcome.Feedback, "[redacted") {
			w.Errorf("got %d ratings: %+v", len(got), got)
		}
		w.searchStreams(secret)
	}},
	{"size", func(w *ways, way *ratingWay) {
		g := newSentRating("agent")
		begin := g.words
		g.words += strings.Repeat(" x", 1<<20)
		if err := way.rate(w, w.newRated(way, newSentRun("agent")), g); err == nil {
			w.Error("got no error")
		}
		if got := w.ratings(begin); len(got) > 0 {
			w.Errorf("got %d stored ratings", len(got))
		}
	}},
	{"once", func(w *ways, way *ratingWay) {
		run, g := w.newRated(way, newSentRun("agent")), newSentRating("agent")
		if err := way.rate(w, run, g); err != nil {
			w.Fatal(err)
		}
		again := func() error { return way.rate(w, run, g) }
		if run.user != nil { // each message of the user is a rating
			again = run.user.handOver
		}
		if err := again(); err != nil {
			w.Fatal(err)
		}
		if got := w.ratings(g.words); len(got) != 1 {
			w.Errorf("got %d ratings, want one", len(got))
		}
	}},
	{"trust", func(w *ways, way *ratingWay) {
		r, g := newSentRun("agent"), newSentRating("agent")
		run := w.newRated(way, r)
		if err := way.rate(w, run, g); err != nil {
			w.Fatal(err)
		}
		got := w.ratings(g.words)
		if len(got) != 1 {
			w.Fatalf("got %d ratings, want one", len(got))
		}
		f := got[0]
		if f.Outcome.Label != events.Failure || f.Outcome.Inferred != way.inferred || f.Outcome.Violation || f.Book != events.DefaultBook || f.Execution != w.handle(r.question) {
			w.Errorf("got %+v", f)
		}
	}},
	{"erased", func(w *ways, way *ratingWay) {
		r, g := newSentRun("agent"), newSentRating("agent")
		run := w.newRated(way, r)
		store, h := erasure.NewStore(w.conn.JetStream()), w.handle(r.question)
		request := &erasure.Request{ID: events.NewID(), Session: r.session, Created: time.Now()}
		err := store.Add(w.Context(), request)
		if err == nil {
			err = store.AddRuns(w.Context(), request.ID, []string{string(h)})
		}
		if err != nil {
			w.Fatal(err)
		}
		time.Sleep(erasure.FilterAge + time.Second)
		if err := way.rate(w, run, g); way.hears && (err == nil || !strings.Contains(err.Error(), "erased")) {
			w.Errorf("got %v, want that the run was erased", err)
		}
		if got := w.ratings(g.words); len(got) > 0 {
			w.Errorf("got %d ratings of an erased run", len(got))
		}
	}},
}

// refusedRating checks that a rating with a token is refused with one of the codes or words, and that nothing is stored.
func (w *ways) refusedRating(way *ratingWay, token string, codes ...string) {
	w.Helper()
	if way.local {
		return
	}
	g := newSentRating(token)
	err := way.rate(w, w.newRated(way, newSentRun("agent")), g)
	if err == nil || !slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(err.Error(), code) }) {
		w.Errorf("token %q: got %v, want one of %q", token, err, codes)
	}
	if got := w.ratings(g.words); len(got) > 0 {
		w.Errorf("token %q: got %d stored ratings", token, len(got))
	}
}

// TestWaysToRateKeepTheRules is the table of all ways in for ratings and all rules of the doors.
func TestWaysToRateKeepTheRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	w := openWays(t, playbook.Share(""))
	for _, rule := range ratingRules {
		for _, way := range ratingWays {
			t.Run(rule.name+"/"+way.name, func(t *testing.T) { rule.check(w.in(t), &way) })
		}
	}
}
