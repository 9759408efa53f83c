package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/playbook"
)

// ids returns a field of the items of a list.
func ids(reply map[string]any, field string) (all []string) {
	items, _ := reply["items"].([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item.(map[string]any)[field]))
	}
	return all
}

// TestUnknownPlaybook reads a misspelt playbook by every route: none answers as if it were empty.
func TestUnknownPlaybook(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	names := strings.NewReplacer("{book}", "defualt", "{id}", "misc-00001", "{version}", "1", "{session}", "s", "{handle}", w.handle)
	routes := 0
	for _, r := range w.http.Config.Handler.(*handler).routes {
		if r.method != http.MethodGet || !strings.HasPrefix(r.path, "/books/{book}") {
			continue
		}
		routes++
		query := ""
		if r.name == "getDiff" {
			query = "?from=1"
		}
		reply, _ := w.send(t, 404, "GET", names.Replace(r.path)+query, "")
		if detail := fmt.Sprint(reply["detail"]); !strings.Contains(detail, `playbook "defualt": not found; select one of these: default, support`) {
			t.Errorf("%s: got %s, want the playbooks that there are", r.path, detail)
		}
	}
	if routes < 20 {
		t.Errorf("got %d routes of playbooks, want at least 20", routes)
	}
}

// TestPlaybookNamedLikeSecret uses a playbook whose name every event would have to redact.
func TestPlaybookNamedLikeSecret(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	const name = "sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW"
	for path, body := range map[string]string{
		"/books/" + name + "/edits":  `{"add":[{"section":"misc","content":"Round at the end."}]}`,
		"/books/" + name + "/tasks":  `{"question":"Which shelf?"}`,
		"/books/" + name + "/import": `{"format":"markdown","text":"- Round at the end."}`,
		"/executions":                `{"book":"` + name + `","question":"Which shelf?","answer":"Shelf 7."}`,
		"/contexts":                  `{"book":"` + name + `","query":"Which shelf?"}`,
	} {
		reply, _ := w.send(t, 400, "POST", path, body)
		detail := fmt.Sprint(reply["detail"])
		if reply["field"] != "book" || !strings.Contains(detail, "looks like a secret") || strings.Contains(fmt.Sprint(reply), "aB3dE5") {
			t.Errorf("%s: got %v, want an error for the field book without its value", path, reply)
		}
	}
}

func TestReadPlaybooks(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	for _, test := range []struct {
		path, field string
		want        []string
	}{
		{"/books", "book", []string{"default", "support"}},
		{"/books?limit=1", "book", []string{"default"}},
		{"/books?after=default", "book", []string{"support"}},
		{"/books/default/bullets", "id", []string{"misc-00001", "misc-00002", "misc-00003", "misc-00012", "misc-00013"}},
		{"/books/default/bullets?limit=2&after=misc-00002", "id", []string{"misc-00003", "misc-00012"}},
		{"/books/default/bullets?state=quarantined", "id", []string{"misc-00012", "misc-00013"}},
		{"/books/default/bullets?state=shown&q=INVOICE+rule", "id", []string{"misc-00003"}},
		{"/books/default/bullets?state=retired", "id", nil},
		{"/books/default/bullets?section=none", "id", nil},
		{"/books/default/bullets?at=1", "id", []string{"misc-00001", "misc-00002", "misc-00003"}},
		{"/books/default/versions", "version", []string{"2", "1"}},
		{"/books/default/versions?after=2", "version", []string{"1"}},
		{"/books/default/review", "id", []string{"misc-00012", "misc-00013"}},
		{"/books/default/review?limit=1", "id", []string{"misc-00012"}},
	} {
		reply, _ := w.send(t, 200, "GET", test.path, "")
		if got := ids(reply, test.field); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.path, got, test.want)
		}
	}
	for path, want := range map[string]int{
		"/books/nowhere/bullets": 404, "/books/nowhere/versions": 404, "/books/default/bullets/misc-99999": 404, "/books/default/bullets/misc-99999/history": 404,
		"/books/default/versions/99": 404, "/books/default/versions/0": 404, "/books/default/versions/no-such-name": 404, "/books/default/diff?from=1&to=99": 404,
		"/books/default/bullets?limit=0": 400, "/books/default/bullets?limit=501": 400, "/books/default/bullets?limit=x": 400, "/books/default/bullets?after=x": 400,
		"/books/default/bullets?state=x": 400, "/books/default/bullets?sort=x": 400, "/books/default/bullets?at=a/b": 400, "/books/a%2Fb/bullets": 400, "/books/default/bullets?x=1": 400,
	} {
		if reply, _ := w.send(t, want, "GET", path, ""); want == 400 && reply["code"] != "invalid" {
			t.Errorf("%s: got %v", path, reply)
		}
	}
	diff, _ := w.send(t, 200, "GET", "/books/default/diff?from=1", "")
	if items := diff["items"].([]any); len(items) != 2 || items[0].(map[string]any)["before"] != nil || !strings.HasPrefix(fmt.Sprint(diff["to"]), "2@") {
		t.Errorf("diff: got %v", diff)
	}
}

// TestPagesCoverTheList reads lists page by page: each item is there once.
func TestPagesCoverTheList(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	var ops []playbook.Op
	for i := range 25 {
		ops = append(ops, add(fmt.Sprintf("Rule %d is for parcel number %d.", i, i)))
	}
	w.edit(t, "default", &events.Edit{Ops: ops})
	for _, order := range index.BulletOrders {
		seen := map[string]bool{}
		pages := 0
		for after := ""; ; pages++ {
			reply, _ := w.send(t, 200, "GET", "/books/default/bullets?limit=7&sort="+order+"&after="+url.QueryEscape(after), "")
			for _, id := range ids(reply, "id") {
				if seen[id] {
					t.Errorf("%s: %s is there twice", order, id)
				}
				seen[id] = true
			}
			if after, _ = reply["next"].(string); after == "" {
				break
			}
		}
		if len(seen) != 25 || pages != 3 {
			t.Errorf("%s: got %d bullets after %d further pages", order, len(seen), pages)
		}
	}
}

// FuzzParameters sends any parameters to a list. The status is below 500.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{"limit=1&after=x", "limit=-1", "limit=99999999999999999999", "sort=lift", "q=%ff", "state=&section=", "at=17@zz", "at=-1h", "strict=1", "limit=1;after=2", "%zz", "="} {
		f.Add(seed)
	}
	all := []string{"a", "b", "c"}
	f.Fuzz(func(t *testing.T, query string) {
		values, _ := url.ParseQuery(query)
		c := &call{query: values, route: &route{query: pageParameters}}
		if err := c.checkQuery(); err != nil {
			if problem, _ := newProblem(err); problem.Status != http.StatusBadRequest || problem.Field == "" {
				t.Errorf("%q: got %+v", query, problem)
			}
			return
		}
		p, err := paginate(c, all, func(s string) string { return s })
		if err == nil && (len(p.Items) > len(all) || p.Next != "" && len(p.Items) == 0) {
			t.Errorf("%q: got %+v", query, p)
		}
	})
}

// TestReviewShowsWhatDecides has a bullet in quarantine that nearly equals another one, and the execution that it was learned from.
func TestReviewShowsWhatDecides(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	w.edit(t, "default", &events.Edit{
		Evidence: []playbook.Evidence{{Execution: w.handle, Sample: "s", Outcome: "success", Score: 1}},
		Ops:      []playbook.Op{put("misc-00014", "Do not ask for the invoice number first.", playbook.Quarantined)},
	})
	reply, _ := w.send(t, 200, "GET", "/books/default/review", "")
	items, _ := reply["items"].([]any)
	var got map[string]any
	for _, item := range items {
		if card, _ := item.(map[string]any); card["id"] == "misc-00014" {
			got = card
		}
	}
	nearest, _ := got["nearest"].(map[string]any)
	example, _ := got["example"].(map[string]any)
	for _, row := range []struct{ name, got, want string }{
		{"nearest", fmt.Sprint(nearest["id"], " ", nearest["state"], " ", nearest["content"]), "misc-00001 active Ask for the invoice number first."},
		{"question", fmt.Sprint(example["question"]), "Which shelf is highest?"},
		{"answer", fmt.Sprint(example["answer"]), "Shelf 7."},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, row.got, row.want)
		}
	}
	if text := fmt.Sprint(nearest["difference"]); !strings.Contains(text, "not") {
		t.Errorf("difference: got %q, want the negation", text)
	}
}
