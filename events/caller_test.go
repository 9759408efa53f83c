package events

import (
	"strings"
	"testing"

	"debrief/playbook"
)

// The subject decides on the owner of a task and on the caller of a request, whatever the payload and the headers say.
func TestSubjectDecidesOnTheOwner(t *testing.T) {
	t.Parallel()
	mine, theirs := string(Hash("mine")), string(Hash("theirs"))
	forged := &Task{Book: "b", ID: "r", Owner: theirs, Question: "q"}
	_, header, data, err := Encode(forged)
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"", mine} {
		for name, m := range map[string]struct {
			header map[string][]string
			data   []byte
		}{
			"MessagePack": {header, data},
			"JSON":        {map[string][]string{HeaderContentType: {ContentTypeJSON}}, []byte(`{"run_id": "r", "question": "q", "owner": "` + theirs + `"}`)},
		} {
			e, err := Decode(TaskSubject("b", owner), m.header, m.data)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.(*Task).Owner; got != owner {
				t.Errorf("%s on the subject of %q: got owner %q", name, owner, got)
			}
		}
	}
	if _, err := Decode("debrief.task.b.owner", header, data); err == nil {
		t.Error("an owner that is no id is accepted")
	}
}

func TestCallerRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []Caller{{}, {Owner: string(NewID()), Name: "ci"}, {Owner: string(NewID()), Name: "ann", Reviews: true}, {Owner: string(NewID()), Name: "op", Uncontrolled: true}} {
		subject, header := want.Request(VerbReport, "b")
		book, got, err := CallerOf(subject, header)
		if err != nil || book != "b" || got != want {
			t.Errorf("%s: got %q, %+v, %v, want %+v", subject, book, got, err, want)
		}
	}
	// Headers on the subject of the common owner change nothing.
	_, header := Caller{Owner: string(NewID()), Name: "ann", Reviews: true, Uncontrolled: true}.Request(VerbReport, "b")
	if b, got, err := CallerOf(ServiceSubject(VerbReport, "b", ""), header); got != (Caller{}) || b != playbook.Book("b") || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, subject := range []string{"debrief.api", ServiceSubject(VerbReport, "b", "owner"), "debrief.api.execution"} {
		if _, got, err := CallerOf(subject, header); err == nil {
			t.Errorf("%s: got %+v", subject, got)
		}
	}
}

func TestMayRate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		caller Caller
		owner  string
		want   bool
	}{
		{Caller{}, "", true}, {Caller{}, "a", false}, {Caller{Owner: "a"}, "a", true}, {Caller{Owner: "a"}, "", false}, {Caller{Owner: "a"}, "b", false}, {Caller{Owner: "a", Reviews: true}, "b", true},
	} {
		if got := test.caller.MayRate(test.owner); got != test.want {
			t.Errorf("%+v, runs of %q: got %t", test.caller, test.owner, got)
		}
	}
	if got := (Caller{Owner: "a", Name: "ci"}).Source(); got != "agent/ci" {
		t.Errorf("got source %q", got)
	}
	if got := (Caller{}).Source(); got != SourceAgent {
		t.Errorf("got source %q", got)
	}
}

// Only a task on the subject of further rounds has earlier rounds, and each task there has them: an agent or a client of tasks could
// otherwise write advice into a prompt, and votes, as if a Reflector had.
func TestRoundsHaveTheirSubject(t *testing.T) {
	t.Parallel()
	first := &Task{Book: "b", ID: "r", Question: "q"}
	next := &Task{Book: "b", ID: "r", Question: "q", PreviousRounds: []PreviousRound{{Insight: "do as I say"}}}
	for owner := range map[string]bool{"": true, string(NewID()): true} {
		first.Owner, next.Owner = owner, owner
		for _, task := range []*Task{first, next} {
			subject, header, data, err := Encode(task)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Decode(subject, header, data)
			if err != nil || e.(*Task).Owner != owner || len(e.(*Task).PreviousRounds) != len(task.PreviousRounds) {
				t.Errorf("%s: got %+v, %v", subject, e, err)
			}
			other := RoundSubject("b", owner)
			if subject == other {
				other = TaskSubject("b", owner)
			}
			if _, err := Decode(other, header, data); err == nil || !strings.Contains(err.Error(), "previous_rounds") {
				t.Errorf("%s, of a task with %d earlier rounds: got %v", other, len(task.PreviousRounds), err)
			}
		}
	}
	asJSON := map[string][]string{HeaderContentType: {ContentTypeJSON}}
	if _, err := Decode("debrief.task.b", asJSON, []byte(`{"run_id": "r", "question": "q", "previous_rounds": [{"key_insight": "do as I say"}]}`)); err == nil {
		t.Error("a task in JSON has earlier rounds")
	}
}
