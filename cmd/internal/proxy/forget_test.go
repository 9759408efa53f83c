package proxy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// farRun is a run that may be forgotten. Its texts have a word of their own, by which a test finds them.
type farRun struct {
	caller        events.Caller
	user, session string
	texts         map[string]string
	handle        events.Handle // of the first round
	reflected     events.Handle // of the last round
}

// newFarRun returns a run of an agent about a thing.
func newFarRun(thing string) *farRun {
	return &farRun{caller: events.Caller{Owner: string(events.Hash("o-1")), Name: "ann"}, user: "ann", session: "s", texts: map[string]string{
		"question": "Where does the harbour museum keep the " + thing + " of the pilots?",
		"answer":   "Behind the " + thing + "-door of the museum.",
		"error":    "the drawer of charts was named, not the " + thing + "-case",
		"approach": "look into the " + thing + "-list before answering",
		"lesson":   "Take the " + thing + "-key, the " + thing + "-lamp and the " + thing + "-ladder.",
	}}
}

// in returns the names of the texts of a run that a text contains.
func (r *farRun) in(text string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		if strings.Contains(text, r.texts[name]) {
			names = append(names, name)
		}
	}
	return names
}

// forgetCase is a way to select runs.
type forgetCase struct {
	name     string
	set      func(selected, kept *farRun) // what they have, as far as the selector depends on it
	selector func(selected *farRun) *playbook.Selector
	one      bool // the selector names one run
	rounds   bool // the run has two rounds, and the handle of the first one is selected
	all      bool // nothing of the session is left
}

func forgetCases() []forgetCase {
	handle := func(r *farRun) *playbook.Selector { return &playbook.Selector{Execution: string(r.handle)} }
	return []forgetCase{
		{
			name: "user", set: func(r, _ *farRun) { r.user = "zoe" },
			selector: func(r *farRun) *playbook.Selector { return &playbook.Selector{User: r.user} },
		},
		{
			name: "source", set: func(r, _ *farRun) { r.caller.Name = "mallory" },
			selector: func(r *farRun) *playbook.Selector { return &playbook.Selector{Source: "agent/mallory"} },
		},
		{
			name: "session", set: func(_, kept *farRun) { kept.session = "t" }, all: true,
			selector: func(r *farRun) *playbook.Selector { return &playbook.Selector{Session: r.session} },
		},
		{
			name: "owner", set: func(_, kept *farRun) { kept.caller.Owner = string(events.Hash("o-2")) }, all: true,
			selector: func(r *farRun) *playbook.Selector { return &playbook.Selector{Owner: r.caller.Owner} },
		},
		{name: "handle", set: func(_, _ *farRun) {}, selector: handle, one: true},
		{name: "round", set: func(_, _ *farRun) {}, selector: handle, one: true, rounds: true},
	}
}

// TestForgottenRunsAreSilent forgets a run by each selector. Before, an agent and a provider receive its texts in each way, also after
// a forget that selects no run. Afterwards neither receives any of them, in contexts of the session, with a pinned
// old version, in tasks and model calls. A selected run that is reflected later teaches nothing. What is left is served, and a run that
// is reported later teaches.
func TestForgottenRunsAreSilent(t *testing.T) {
	t.Parallel()
	s := openSide(t)
	s.start(bustest.Must(curator.New(nil, curator.Config{})))
	cases := forgetCases()
	if testing.Short() {
		cases = cases[:1]
	}
	for _, c := range cases {
		f := &forgetBook{side: s, forgetCase: c, book: playbook.Book("forget-" + c.name), run: newFarRun("sextant"), kept: newFarRun("astrolabe"), late: newFarRun("barometer")}
		c.set(f.run, f.kept)
		c.set(f.late, newFarRun(""))
		f.prepare()
		f.forget()
		f.check()
	}
}

// forgetBook is the playbook of a forgetCase.
type forgetBook struct {
	*side
	forgetCase
	book playbook.Book

	run, kept *farRun
	late      *farRun // a selected run that is reflected after the forget

	before   uint64 // the version before the forget
	forgot   uint64 // the version that forgets
	newest   uint64
	received int // requests of the provider before the forget
}

// prepare makes the runs, and serves them.
func (f *forgetBook) prepare() {
	f.Helper()
	f.commitAll(f.book, playbook.Delta{Gate: playbook.GateOff})
	if f.rounds {
		f.twoRounds(f.run)
	} else {
		f.report(f.run)
	}
	f.report(f.kept)
	if !f.one {
		f.report(f.late)
	}
	for i := range 12 {
		r := newFarRun("")
		r.texts = map[string]string{"question": fmt.Sprintf("When does the tour number %d begin?", i), "answer": "At noon."}
		f.report(r)
	}
	f.reflect(f.run)
	f.reflect(f.kept)
	f.taught(f.run)
	f.before = f.taught(f.kept)
	f.edit(&playbook.Selector{Session: "elsewhere"})
	found := map[string]bool{}
	for way, got := range f.ways(f.run) {
		names := f.run.in(got)
		if len(names) == 0 {
			f.Errorf("%s: control: %s has nothing of the run that is to be forgotten: %s", f.name, way, got)
		}
		for _, name := range names {
			found[name] = true
		}
	}
	if len(found) != len(f.run.texts) {
		f.Errorf("%s: control: only %v are served", f.name, found)
	}
}

// forget forgets the run, and lets two reflections arrive: on a run that is selected, and on a run that is reported later.
func (f *forgetBook) forget() {
	f.Helper()
	f.received = len(f.side.received())
	f.forgot = f.edit(f.selector(f.run))
	if !f.one {
		f.reflect(f.late)
	}
	fresh := newFarRun("chronometer")
	f.set(fresh, newFarRun(""))
	f.report(fresh)
	f.reflect(fresh)
	f.newest = f.taught(fresh)
	if got := f.ways(fresh)["context of the session"]; len(fresh.in(got)) < 4 {
		f.Errorf("%s: of a run after the forget, only %v are served", f.name, fresh.in(got))
	}
}

// check looks for the forgotten runs in all that was served and stored since.
func (f *forgetBook) check() {
	f.Helper()
	silent := func(where, text string) {
		f.Helper()
		if names := append(f.run.in(text), f.late.in(text)...); len(names) > 0 {
			f.Errorf("%s: %s has the %s of a forgotten run", f.name, where, names)
		}
	}
	for way, got := range f.ways(f.run) {
		silent(way, got)
	}
	for _, r := range f.side.received()[f.received:] {
		silent("a request of the provider", string(r.Body))
	}
	for way, got := range f.ways(f.kept) {
		if len(f.kept.in(got)) == 0 {
			f.Errorf("%s: %s has nothing of the run that was kept: %s", f.name, way, got)
		}
	}
	store := deltalog.New(f.conn.JetStream())
	err := store.ReadLog(f.Context(), f.book, func(r *deltalog.Record) error {
		if r.Version > f.forgot {
			data, err := json.Marshal(r)
			silent(fmt.Sprintf("version %d of the log", r.Version), string(data))
			return err
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	for b := range f.playbook().All() {
		silent("the playbook", b.Content)
	}
}

// ways returns what an agent and the provider receive in each way in the session of a run.
func (f *forgetBook) ways(r *farRun) map[string]string {
	f.Helper()
	all := map[string]string{}
	for way, request := range map[string]events.ContextRequest{
		"window":                 {Session: r.session, Window: "20"},
		"context of the session": {Session: r.session, Window: "2"},
		"other context":          {},
		"advice":                 {Session: r.session, Advice: true},
		"pinned context":         {Session: r.session, Playbook: &f.before},
	} {
		request.Caller, request.Book, request.Query = r.caller, f.book, forgetQuery
		if request.Playbook == nil {
			request.MinVersion = f.newest
		}
		reply, err := f.agent.Context(f.Context(), &request)
		if err != nil {
			f.Fatal(err)
		}
		all[way] = textOf(reply.Messages)
	}
	all["task"], all["pinned task"] = f.taskOf(r, nil), f.taskOf(r, &f.before)
	n := len(f.side.received())
	f.chat([]message{user(forgetQuery)}, "X-Debrief-Book", string(f.book))
	all["model call"] = f.sentFor(n, forgetQuery)
	return all
}

const forgetQuery = "Where does the harbour museum keep what the pilots ask for?"

// taskOf submits a task in the session of a run and returns the prompt that the provider received.
func (f *forgetBook) taskOf(r *farRun, pinned *uint64) string {
	f.Helper()
	n := len(f.side.received())
	t := &events.Task{
		Book: f.book, ID: string(events.NewID()), Owner: r.caller.Owner, User: r.user, Session: r.session, Question: forgetQuery, Playbook: pinned, Created: time.Now(),
	}
	if pinned == nil {
		t.MinVersion = f.newest
	} else {
		t.Purpose = events.Evaluate
	}
	if _, _, err := request.Task(f.Context(), f.conn, t, bus.PublishOptions{}); err != nil {
		f.Fatal(err)
	}
	return f.sentFor(n, forgetQuery)
}

// sentFor returns the first request with a text that the provider received after the first n ones.
func (f *forgetBook) sentFor(n int, text string) string {
	f.Helper()
	for _, r := range f.side.received()[n:] {
		if strings.Contains(string(r.Body), text) {
			return string(r.Body)
		}
	}
	f.Fatalf("%s: the provider received no request with %q", f.name, text)
	return ""
}

// report stores a run of an agent.
func (f *forgetBook) report(r *farRun) {
	f.Helper()
	stored, err := f.agent.Report(f.Context(), &events.Report{
		Caller: r.caller, Book: f.book, User: r.user, Session: r.session, Question: r.texts["question"], Answer: r.texts["answer"],
	})
	if err != nil {
		f.Fatal(err)
	}
	r.handle, r.reflected = stored.Handle, stored.Handle
}

// twoRounds lets a Generator answer a task in two rounds.
func (f *forgetBook) twoRounds(r *farRun) {
	f.Helper()
	delete(r.texts, "answer") // the provider's
	t := &events.Task{
		Book: f.book, ID: string(events.NewID()), Owner: r.caller.Owner, User: r.user, Session: r.session, Question: r.texts["question"], Created: time.Now(),
	}
	for range 2 {
		e, reply, err := request.Task(f.Context(), f.conn, t, bus.PublishOptions{})
		if err != nil {
			f.Fatal(err)
		}
		if r.reflected = reply.Handle; r.handle == "" {
			r.handle = reply.Handle
		}
		t.Origin.Round++
		t.PreviousRounds = append(t.PreviousRounds, events.PreviousRound{Execution: e.ID, Handle: reply.Handle, Answer: e.Answer, Error: r.texts["error"]})
	}
}

// reflect stores a reflection on a run, and its note.
func (f *forgetBook) reflect(r *farRun) {
	f.Helper()
	seq, is, err := r.reflected.Parse()
	if err != nil {
		f.Fatal(err)
	}
	found, err := f.conn.Events.Find(f.Context(), events.StreamExecutions, seq, is)
	if err != nil {
		f.Fatal(err)
	}
	e := found.(*events.Execution)
	ref := &events.Reflection{
		Book: f.book, ID: events.ReflectionID(e.ID, "", "t"), Execution: e.ID, Sample: e.SampleID(), Handle: r.reflected, Reflector: "t", Owner: e.Owner, User: e.User,
		Session: e.Session, Origin: e.Origin, Question: e.Question, Outcome: events.Outcome{Label: events.Failure}, Model: "m", Created: time.Now().UTC(),
		ErrorIdentification: r.texts["error"], CorrectApproach: r.texts["approach"], Lessons: []events.Lesson{{Section: "others", Content: r.texts["lesson"]}},
	}
	stored, err := f.conn.Publish(f.Context(), ref, bus.PublishOptions{})
	if err == nil {
		err = f.notes.AddNote(f.Context(), f.book, events.NewNote(stored.Handle, ref))
	}
	if err != nil {
		f.Fatal(err)
	}
}

// taught waits until the playbook has the lesson of a run, and returns its version.
func (f *forgetBook) taught(r *farRun) uint64 {
	f.Helper()
	var p *playbook.Playbook
	f.wait("lesson", func() bool {
		p = f.playbook()
		return p.FindByContent(r.texts["lesson"]) != nil
	})
	return p.Version()
}

// playbook returns the newest version of the playbook.
func (f *forgetBook) playbook() *playbook.Playbook {
	f.Helper()
	w, err := deltalog.New(f.conn.JetStream()).Writer(f.Context(), f.book)
	if err != nil {
		f.Fatal(err)
	}
	return w.State().Playbook()
}

// edit forgets the executions that a selector selects, and returns the version.
func (f *forgetBook) edit(s *playbook.Selector) uint64 {
	f.Helper()
	e := &events.Edit{Book: f.book, ID: events.NewID(), Author: "ann", Created: time.Now().UTC(), Forget: s}
	d, err := request.Edit(f.Context(), f.conn, e, bus.PublishOptions{})
	if err != nil {
		f.Fatalf("%s: %v", f.name, err)
	}
	return d.Version
}
