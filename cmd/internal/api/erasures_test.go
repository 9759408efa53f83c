package api

import "testing"

// TestErasureNeedsItsSelection: a request for a session whose name is missing must not erase the playbook.
func TestErasureNeedsItsSelection(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	for body, field := range map[string]string{
		`{"book":"default","session":""}`:          "session",
		`{"book":"default","session":null}`:        "session",
		`{"book":"default","sesion":"s-17"}`:       "sesion",
		`{"book":"default","end_user":"ann"}`:      "end_user",
		`{"book":"default","rounds":[1]}`:          "rounds",
		`{"book":"","user":"ann"}`:                 "book",
		`{"book":"default","Execution":""}`:        "execution",
		`{"book":"default","user":"a","owner":""}`: "owner",
	} {
		if reply, _ := w.send(t, 400, "POST", "/erasures", body); reply["field"] != field {
			t.Errorf("%s: got %v, want an error that names %s", body, reply, field)
		}
	}
	if list, _ := w.send(t, 200, "GET", "/erasures", ""); len(ids(list, "id")) > 0 {
		t.Errorf("got %v, want no erasure", list)
	}
	if reply, _ := w.send(t, 202, "POST", "/erasures", `{"book":"default"}`); reply["kind"] != "book" {
		t.Errorf("got %v, want the erasure of a playbook", reply)
	}
}
