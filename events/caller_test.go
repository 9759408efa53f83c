package events

import (
	"testing"

	"debrief/playbook"
)

// The subject decides on the owner of a task and on the caller of a request, whatever the payload and the headers say.
func TestSubjectDecidesOnTheOwner(t *testing.T) {
	t.Parallel()
	mine, theirs := string(Hash("mine")), string(Hash("theirs"))
	forged := &Task{envelope: envelope{"b"}, ID: "r", Owner: theirs, Question: "q"}
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
	for _, want := range []Caller{{}, {Owner: string(NewID()), Name: "ci"}, {Owner: string(NewID()), Name: "ann", Reviews: true}} {
		subject, header := want.Request(VerbReport, "b")
		book, got, err := CallerOf(subject, header)
		if err != nil || book != "b" || got != want {
			t.Errorf("%s: got %q, %+v, %v, want %+v", subject, book, got, err, want)
		}
	}
	// Headers on the subject of the common owner change nothing.
	_, header := Caller{Owner: string(NewID()), Name: "ann", Reviews: true}.Request(VerbReport, "b")
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
