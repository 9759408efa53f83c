package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"debrief/cmd/internal/operate/erase"
)

// TestErasure erases the runs of a user with the form, and looks for the name of the user in all that the console shows then.
func TestErasure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until workers know an erasure: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	const name = "cleo.canary@example.org"
	report := do(t, in.open, http.MethodPost, "/api/v1/executions", `{"book": "support", "run_id": "1", "user": "`+name+`", "session": "`+name+`", "question": "Who is `+name+`?", "answer": "x", "outcome": true}`, withHeader("Content-Type", "application/json"))
	handle := report.header.Get("Location")[strings.LastIndexByte(report.header.Get("Location"), '/')+1:]
	shown := func(path string) string { return get(t, in.open, path, withHeader("Accept", "text/html")).body }
	eventually(t, in.idle)
	if !strings.Contains(shown("/books/support/executions/"+handle), name) {
		t.Fatal("no page shows the name before the erasure")
	}
	if body := shown("/erasures?execution=" + handle + "&book=support"); !strings.Contains(body, `value="execution" required checked`) || !strings.Contains(body, `value="`+handle+`"`) {
		t.Errorf("the form does not have the execution of the link: %s", body)
	}
	for _, test := range []struct{ name, kind, erase, again, book string }{
		{"no kind", "", name, name, ""},
		{"unknown kind", "everything", name, name, ""},
		{"no name", "user", "", "", ""},
		{"another repetition", "user", name, name + "m", ""},
		{"no repetition", "user", name, "", ""},
		{"execution without a playbook", "execution", handle, handle, ""},
		{"execution with an invalid handle", "execution", "x", "x", "support"},
		{"playbook in another playbook", "book", name, name, "support"},
		{"playbook with an invalid name", "book", "a b", "a b", ""},
	} {
		got := post(t, in.open, "/erasures", url.Values{"kind": {test.kind}, "name": {test.erase}, "again": {test.again}, "book": {test.book}, "from": {"/erasures"}})
		if got.status != http.StatusBadRequest || strings.Contains(got.body, name) {
			t.Errorf("%s: got status %d: %s", test.name, got.status, got.body)
		}
	}
	if body := shown("/erasures"); !strings.Contains(body, "There are none.") {
		t.Fatalf("a refused form has requested an erasure: %s", body)
	}
	done := post(t, in.open, "/erasures", url.Values{"kind": {"user"}, "name": {name}, "again": {name}, "from": {"/erasures"}})
	if done.status != http.StatusSeeOther || done.header.Get("Location") != "/erasures" {
		t.Fatalf("got status %d: %s", done.status, done.body)
	}
	notice := done.cookie(t, noticeCookie)
	after := get(t, in.open, "/erasures", withCookie(notice.Name, notice.Value)).body
	if !strings.Contains(after, "The erasure is requested.") || !strings.Contains(after, ">pending<") || strings.Contains(after, name) {
		t.Errorf("after the request: %s", after)
	}
	if _, err := erase.New(in.conn, nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, in.idle)
	if body := shown("/erasures"); !strings.Contains(body, ">done<") || strings.Contains(body, ">pending<") || !strings.Contains(body, `data-label="Runs">1<`) {
		t.Errorf("after the erasure: %s", body)
	}
	for _, a := range in.addresses(t) {
		if body := shown(a.path); strings.Contains(body, name) {
			t.Errorf("%s shows the name after the erasure", a.path)
		}
	}
	for _, path := range []string{"/books/support/executions", "/books/support/sessions", "/books/support/executions/" + handle} {
		if body := shown(path); strings.Contains(body, name) {
			t.Errorf("%s shows the name after the erasure", path)
		}
	}
}
