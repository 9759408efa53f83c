package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/api/tokens"
)

// actionForm is a form of an action that succeeds once.
type actionForm struct {
	path   string
	scope  tokens.Scope
	values url.Values
}

// forms returns a form for each action, by its pattern. A test with new actions fails until they are here.
func (in *installation) forms(t *testing.T) map[string][]actionForm {
	t.Helper()
	one := func(path string, scope tokens.Scope, pairs ...string) []actionForm {
		values := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			values.Add(pairs[i], pairs[i+1])
		}
		return []actionForm{{path, scope, values}}
	}
	all := map[string][]actionForm{
		"/books/{book}/bullets":                      one("/books/default/bullets", tokens.Review, "content", "Ask for the currency.", "section", "payment", "reason", "a test"),
		"/books/{book}/review":                       one("/books/default/review", tokens.Review, "decision", "approve:inv-00005"),
		"/books/{book}/review/{id}/edit":             one("/books/default/review/inv-00012/edit", tokens.Review, "content", "Send the invoice once."),
		"/books/{book}/gate":                         one("/books/default/gate", tokens.Review, "mode", "guard"),
		"/books/{book}/review/mode":                  one("/books/default/review/mode", tokens.Review, "mode", "off"),
		"/books/{book}/control":                      one("/books/default/control", tokens.Review, "share", "off"),
		"/books/{book}/leading-score":                one("/books/default/leading-score", tokens.Review, "name", "tone"),
		"/books/{book}/about":                        one("/books/default/about", tokens.Review, "name", "The desk", "description", "Tickets of shops."),
		"/books/{book}/tag":                          one("/books/default/tag", tokens.Review, "name", "a-name", "version", "3"),
		"/books/{book}/restore":                      one("/books/default/restore", tokens.Review, "version", "3"),
		"/books/{book}/executions/{handle}/feedback": one("/books/default/executions/"+in.seeded.executions[0]+"/feedback", tokens.Report, "label", "failure", "feedback", "It was wrong."),
		"/dead":     one("/dead", tokens.Operate, "change", "drop", "id", in.deadLetters(t, "default")[0]),
		"/erasures": one("/erasures", tokens.Operate, "kind", "user", "name", "cleo", "again", "cleo", "book", "default"),
	}
	for _, change := range []string{"pin", "unpin", "edit", "retire", "activate", "remove"} {
		all["/books/{book}/bullets/{id}/{change}"] = append(all["/books/{book}/bullets/{id}/{change}"], one("/books/default/bullets/inv-00001/"+change, tokens.Review, "content", "Ask for the number.")...)
	}
	return all
}

// deadLetters returns the ids of the dead letters of a playbook.
func (in *installation) deadLetters(t testing.TB, book string) (ids []string) {
	t.Helper()
	var reply struct {
		Items []struct{ ID string }
	}
	check(t, json.Unmarshal([]byte(get(t, in.open, "/api/v1/dead?book="+book).body), &reply))
	for _, item := range reply.Items {
		ids = append(ids, item.ID)
	}
	if len(ids) == 0 {
		t.Fatalf("playbook %s has no dead letters", book)
	}
	return ids
}

// state returns all that forms can change.
func (in *installation) state(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{"/books/default/bullets?limit=500", "/books/default/versions?limit=1", "/books/default/gate", "/books/default/executions/" + in.seeded.executions[0], "/dead", "/erasures"} {
		all.WriteString(get(t, in.open, "/api/v1"+path).body)
	}
	return all.String()
}

// TestFormsNeedTheirScope sends the form of every action with every token: first with those that do not permit it.
func TestFormsNeedTheirScope(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	forms := in.forms(t)
	all := slices.Clone(actions)
	slices.SortStableFunc(all, func(a, b actionRoute) int { // feedback is last, because the roles change the playbook later
		return strings.Count(a.pattern, "/feedback") - strings.Count(b.pattern, "/feedback")
	})
	for _, a := range all {
		if len(forms[a.pattern]) == 0 {
			t.Errorf("action %s: add a form to the test", a.pattern)
		}
		for _, f := range forms[a.pattern] {
			eventually(t, in.idle) // the roles react to the form before
			before := in.state(t)
			for _, token := range append([]string{"", "unknown"}, names()...) {
				if allows(token, f.scope, "default") || strings.HasSuffix(a.pattern, "/feedback") && allows(token, tokens.Review, "default") {
					continue
				}
				got := post(t, in.guarded, f.path, f.values, in.as(token))
				want := http.StatusForbidden
				if in.secrets[token] == "" {
					want = http.StatusSeeOther // to the login
				}
				if got.status != want || want == http.StatusSeeOther && got.header.Get("Location") != "/login" {
					t.Errorf("POST %s as %q: got status %d to %q, want %d", f.path, token, got.status, got.header.Get("Location"), want)
				}
			}
			if in.state(t) != before {
				t.Errorf("POST %s changed something without the right", f.path)
			}
			got := post(t, in.guarded, f.path, f.values, in.as("admin"))
			if got.status != http.StatusSeeOther || strings.HasPrefix(got.header.Get("Location"), "/login") {
				t.Errorf("POST %s as admin: got status %d to %q: %s", f.path, got.status, got.header.Get("Location"), got.body)
			}
			if a.pattern != "/books/{book}/executions/{handle}/feedback" && in.state(t) == before {
				t.Errorf("POST %s as admin changed nothing", f.path)
			}
		}
	}
	// The name of the token is the author.
	if log := get(t, in.open, "/api/v1/books/default/versions?limit=5").body; !strings.Contains(log, `"author":"admin"`) {
		t.Errorf("the token is not the author: %s", log)
	}
}

// names returns the names of the tokens.
func names() (all []string) {
	for _, s := range tokenSpecs {
		all = append(all, s.Name)
	}
	return all
}

// TestConditionInForms adds a bullet with a condition, changes it and removes it. The form has the condition and the text apart, and the page
// shows the condition first.
func TestConditionInForms(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	added := post(t, in.open, "/books/default/bullets", url.Values{"content": {"Ask for the currency."}, "when": {"the order goes abroad"}})
	path := added.header.Get("Location")
	if added.status != http.StatusSeeOther || !strings.HasPrefix(path, "/books/default/bullets/") {
		t.Fatalf("got %d, %v: %s", added.status, added.header, added.body)
	}
	wants := func(name string, parts ...string) {
		t.Helper()
		body := get(t, in.open, path).body
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s: the page has no %s", name, part)
			}
		}
	}
	wants("added", `<h1 class="quote text">When the order goes abroad: Ask for the currency.</h1>`, `value="the order goes abroad"`, `required>Ask for the currency.</textarea>`)
	post(t, in.open, path+"/edit", url.Values{"content": {"Ask for the currency."}, "when": {"the order comes from abroad"}, "section": {"payment"}})
	wants("changed", `<h1 class="quote text">When the order comes from abroad: Ask for the currency.</h1>`)
	post(t, in.open, path+"/edit", url.Values{"content": {"Ask for the currency."}, "when": {""}, "section": {"payment"}})
	wants("removed", `<h1 class="quote text">Ask for the currency.</h1>`, `name="when" value=""`)
}

// TestRepeatedForm sends a form twice, as a person who clicks twice does.
func TestRepeatedForm(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	values := url.Values{"content": {"Ask for the currency."}, "key": {"key-of-the-form"}, "from": {"/books/default?sort=lift"}}
	first := post(t, in.open, "/books/default/bullets", values)
	before := in.state(t)
	second := post(t, in.open, "/books/default/bullets", values)
	if first.status != http.StatusSeeOther || second.status != http.StatusSeeOther || in.state(t) != before {
		t.Errorf("got status %d, then %d: %s", first.status, second.status, second.body)
	}
	// The next page shows the result once. A notice without details has no link. A hidden notice is in all pages, for the script.
	const shown = `<p class="notice" role="status">`
	values = url.Values{"name": {"a-name"}, "version": {"2"}, "from": {"/books/default/versions"}}
	done := post(t, in.open, "/books/default/tag", values)
	c := done.cookie(t, noticeCookie)
	if done.header.Get("Location") != "/books/default/versions" || c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Fatalf("got %v", done.header)
	}
	page := get(t, in.open, "/books/default/versions", withCookie(c.Name, c.Value))
	if removed := page.cookie(t, noticeCookie); !strings.Contains(page.body, shown) || removed == nil || removed.MaxAge >= 0 || strings.Contains(page.body, ">Details</a>") {
		t.Errorf("got %v: %s", page.header, page.body)
	}
	if again := get(t, in.open, "/books/default/versions"); strings.Contains(again.body, shown) {
		t.Error("the notice is shown twice")
	}
}

// TestEditOfAnotherText: two persons edit the same text in quarantine. The second form does not overwrite the text that its author has not
// read.
func TestEditOfAnotherText(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	page := get(t, in.open, "/books/default/review").body
	_, form, found := strings.Cut(page, `/review/inv-00012/edit"`)
	_, form, hasRead := strings.Cut(form, `name="read" value="`)
	read, _, _ := strings.Cut(form, `"`)
	if !found || !hasRead || read == "" {
		t.Fatalf("the form has no version: %s", page)
	}
	edit := func(text string) pageResponse {
		return post(t, in.open, "/books/default/review/inv-00012/edit", url.Values{"content": {text}, "read": {read}})
	}
	if first := edit("Send the invoice once."); first.status != http.StatusSeeOther {
		t.Fatalf("the first edit: got %d: %s", first.status, first.body)
	}
	if second := edit("Send no invoice."); second.status != http.StatusConflict {
		t.Errorf("the second edit: got %d, want %d", second.status, http.StatusConflict)
	}
	if now := get(t, in.open, "/books/default/review").body; !strings.Contains(now, "Send the invoice once.") {
		t.Error("the second form has overwritten the text of the first one")
	}
}

// A score that is no number is refused: without it the feedback would be another one.
func TestFeedbackRefusesInvalidScore(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	path := "/books/default/executions/" + in.seeded.executions[0] + "/feedback"
	got := post(t, in.open, path, url.Values{"score": {"0,8"}})
	if got.status != http.StatusBadRequest || !strings.Contains(got.body, "must be a number") {
		t.Errorf("got status %d, want %d with the reason: %s", got.status, http.StatusBadRequest, got.body)
	}
}
