package events

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var jsonHeader = map[string][]string{HeaderContentType: {ContentTypeJSON}}

func TestDecodeJSONTask(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header map[string][]string
		data   string
		names  string // in the error; empty: decodes
	}{
		"the least":                 {jsonHeader, `{"run_id":"a","question":"q"}`, ""},
		"the book of the subject":   {jsonHeader, `{"run_id":"a","question":"q","book":"main"}`, ""},
		"another book":              {jsonHeader, `{"run_id":"a","question":"q","book":"other"}`, `book: "other" differs from book "main"`},
		"lower case":                {map[string][]string{"content-type": {"Application/JSON"}}, `{"run_id":"a","question":"q"}`, ""},
		"with a charset":            {map[string][]string{HeaderContentType: {"application/json; charset=UTF-8"}}, `{"run_id":"a","question":"q"}`, ""},
		"in another charset":        {map[string][]string{HeaderContentType: {"application/json; charset=latin1"}}, `{"run_id":"a","question":"q"}`, `charset must be utf-8, got "latin1"`},
		"two types":                 {map[string][]string{HeaderContentType: {"application/json", "application/msgpack"}}, `{}`, "want one value, got 2"},
		"an empty type":             {map[string][]string{HeaderContentType: {""}}, `{}`, "header Content-Type: must be"},
		"with a schema":             {map[string][]string{HeaderContentType: {ContentTypeJSON}, HeaderSchema: {"1"}}, `{"run_id":"a","question":"q"}`, ""},
		"with a newer schema":       {map[string][]string{HeaderContentType: {ContentTypeJSON}, HeaderSchema: {"2"}}, `{"run_id":"a","question":"q"}`, "newer schema"},
		"no id":                     {jsonHeader, `{"question":"q"}`, "id: must be 1 to 256 bytes"},
		"a field of MessagePack":    {jsonHeader, `{"run_id":"a","question":"q","min":1}`, `unknown field "min"`},
		"a duplicate field":         {jsonHeader, `{"run_id":"a","question":"q","question":"r"}`, `duplicate field "question"`},
		"data after the object":     {jsonHeader, `{"run_id":"a","question":"q"} 1`, "unexpected data"},
		"a list":                    {jsonHeader, `[]`, "want a JSON object"},
		"an invalid purpose":        {jsonHeader, `{"run_id":"a","question":"q","purpose":"fun"}`, "purpose: must be learn or evaluate"},
		"a year that UTC has not":   {jsonHeader, `{"run_id":"a","question":"q","created":"0000-01-01T00:00:00+10:00"}`, "created: year -1"},
		"MessagePack, with a type":  {map[string][]string{HeaderContentType: {"application/msgpack"}, HeaderSchema: {"1"}}, "\x82\xa6run_id\xa1a\xa8question\xa1q", ""},
		"MessagePack, with another": {map[string][]string{HeaderContentType: {"application/vnd.msgpack"}, HeaderSchema: {"1"}}, "\x82\xa6run_id\xa1a\xa8question\xa1q", ""},
		"JSON in MessagePack":       {SchemaHeader(), `{"run_id":"a","question":"q"}`, "header Content-Type: application/json"},
		"a reply to a stream":       {map[string][]string{HeaderContentType: {ContentTypeJSON}, HeaderReply: {"debrief.edit.main"}}, `{"run_id":"a","question":"q"}`, "header Debrief-Reply: "},
		"a reply to everyone":       {map[string][]string{HeaderSchema: {"1"}, HeaderReply: {"_INBOX.>"}}, "\x82\xa6run_id\xa1a\xa8question\xa1q", "header Debrief-Reply: "},
		"two reply subjects":        {map[string][]string{HeaderSchema: {"1"}, HeaderReply: {"_INBOX.a", "_INBOX.b"}}, "\x82\xa6run_id\xa1a\xa8question\xa1q", "header Debrief-Reply: want one value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := Decode("debrief.task.main", test.header, []byte(test.data))
			if test.names != "" {
				if err == nil || !strings.Contains(err.Error(), test.names) {
					t.Fatalf("got %v, want an error that names %s", err, test.names)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := &Task{Book: "main", ID: "a", Question: "q"}
			if diff := cmp.Diff(Event(want), e, sameEvent); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTimesOfJSONAreUTC(t *testing.T) {
	t.Parallel()
	e, err := Decode("debrief.task.main", jsonHeader, []byte(`{"run_id":"a","question":"q","created":"2026-11-03T13:00:00+01:00"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := e.(*Task).Created; got != noon || got.Location() != time.UTC {
		t.Errorf("got %v, want %v", got, noon)
	}
}

func TestOnlyTasksMayBeJSON(t *testing.T) {
	t.Parallel()
	for _, k := range []Kind{KindExecution, KindFeedback, KindReflection, KindEdit} {
		if _, err := Decode(k.Subject("main"), jsonHeader, []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "header Content-Type: only tasks may be JSON") {
			t.Errorf("%s: got %v", k, err)
		}
	}
}

// FuzzDecodeJSON decodes any data as a task with any content type. A decoded task must survive MessagePack without a
// change, because the next round and the dead letter of a task are MessagePack.
func FuzzDecodeJSON(f *testing.F) {
	for _, data := range []string{
		`{"run_id":"a","question":"q"}`, `{"run_id":"a","question":"q","origin":{"round":1},"previous_rounds":[{"execution_id":"x","score":0.5,"exposures":[{}]}]}`,
		`{"run_id":"a","question":"\ud800","created":"2026-11-03T13:00:00+01:00","playbook":7}`, `{"run_id":"a","question":"q","playbook":null}`, `{"book":"other"}`,
	} {
		f.Add("application/json", []byte(data))
	}
	f.Add("application/json; charset=utf-8", []byte(`{}`))
	f.Add("text/plain; =", []byte(`{}`))
	f.Fuzz(func(t *testing.T, contentType string, data []byte) {
		first, err := Decode("debrief.task.main", map[string][]string{HeaderContentType: {contentType}}, data)
		if err != nil || len(data) > 64<<10 { // short JSON of long lists may exceed the limits of MessagePack
			return
		}
		subject, header, again, err := Encode(first)
		if err != nil {
			t.Fatalf("decoded and cannot be encoded: %v", err)
		}
		second, err := Decode(subject, header, again)
		if err != nil {
			t.Fatalf("encoded and cannot be decoded: %v", err)
		}
		if diff := cmp.Diff(first, second, sameEvent); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}

func TestInboxPrefixes(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]bool{"_R_.BM2uIe.2kA": true, "_GR_.k3Ab.x0Jd._INBOX.q": true, "_R_": false, "debrief.delta.b": false, "": false} {
		if got := IsInbox(subject); got != want {
			t.Errorf("%q: got %v, want %v", subject, got, want)
		}
	}
}
