package console

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/api/tokens"
)

// TestLogin logs in and out. The secret is in a cookie that scripts and other sites do not get.
func TestLogin(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	form := url.Values{"token": {in.secrets["reader"]}, "next": {"/books/default?q=x"}}
	for _, tls := range []bool{false, true} {
		var changes []requestChange
		if tls {
			changes = append(changes, withHeader("X-Forwarded-Proto", "https"), withHost("debrief.example"))
		}
		got := post(t, in.guarded, "/login", form, changes...)
		if got.status != http.StatusSeeOther || got.header.Get("Location") != "/books/default?q=x" {
			t.Fatalf("login: got status %d to %q: %s", got.status, got.header.Get("Location"), got.body)
		}
		c := got.cookie(t, tokenCookie)
		if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure != tls || c.Path != "/" || c.Domain != "" || c.MaxAge <= 0 {
			t.Errorf("TLS %v: got cookie %v", tls, c)
		}
		if strings.Contains(got.body, in.secrets["reader"]) {
			t.Error("the response contains the secret")
		}
	}
	for _, secret := range []string{"", "dbr_wrong", in.secrets["reader"] + "x", "a\r\nSet-Cookie: x=y", strings.Repeat("x", 5000)} {
		got := post(t, in.guarded, "/login", url.Values{"token": {secret}})
		if got.status != http.StatusUnauthorized || got.cookie(t, tokenCookie) != nil || !strings.Contains(got.body, `role="alert"`) || secret != "" && strings.Contains(got.body, secret) {
			t.Errorf("token %.20q: got status %d, %v: %s", secret, got.status, got.header, got.body)
		}
	}
	got := post(t, in.guarded, "/logout", nil, in.as("reader"))
	if c := got.cookie(t, tokenCookie); got.status != http.StatusSeeOther || c == nil || c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("logout: got status %d and cookie %v", got.status, c)
	}
	if got := get(t, in.guarded, "/logout", in.as("reader")); got.status == http.StatusSeeOther && got.cookie(t, tokenCookie) != nil {
		t.Error("a link logs out")
	}
}

// TestPersonOfProxy loads pages and sends forms as a proxy does that authenticates persons.
func TestPersonOfProxy(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	const bullets = "/books/default/bullets"
	secret, person := withHeader(tokens.Header, in.secrets["sso"]), withHeader(tokens.PersonHeader, "ann@example.com")
	page := get(t, in.guarded, "/status", secret, person, in.as("admin"))
	if page.status != http.StatusOK || !strings.Contains(page.body, `Person <strong class="text">ann@example.com</strong>`) || strings.Contains(page.body, "Log out") || strings.Contains(page.body, "/settings") {
		t.Errorf("got status %d: %s", page.status, page.body)
	}
	added := post(t, in.guarded, bullets, url.Values{"content": {"Ask for the currency."}}, secret, person)
	if log := get(t, in.open, "/api/v1/books/default/versions?limit=1").body; added.status != http.StatusSeeOther || !strings.Contains(log, `"author":"ann@example.com"`) {
		t.Errorf("got status %d, and versions %s", added.status, log)
	}
	events := do(t, in.guarded, http.MethodGet, "/live?limit=1", "", secret, person)
	if events.status != http.StatusOK || events.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("events: got status %d", events.status)
	}
	before := in.state(t)
	for _, test := range []struct {
		name, path string
		status     int
		changes    []requestChange
	}{
		{"no person", bullets, http.StatusSeeOther, []requestChange{secret}},
		{"no secret", bullets, http.StatusSeeOther, []requestChange{person}},
		{"two persons", bullets, http.StatusSeeOther, []requestChange{secret, person, func(r *http.Request) { r.Header.Add(tokens.PersonHeader, "eve") }}},
		{"another site", bullets, http.StatusForbidden, []requestChange{secret, person, withHeader("Sec-Fetch-Site", "cross-site")}},
		{"another origin", bullets, http.StatusForbidden, []requestChange{secret, person, withHeader("Origin", "https://evil.example")}},
		{"without the scope", "/erasures", http.StatusForbidden, []requestChange{secret, person}},
		{"API of another site", "/api/v1/books/default/edits", http.StatusForbidden, []requestChange{secret, person, withHeader("Sec-Fetch-Site", "cross-site")}},
		{"API of another origin", "/api/v1/books/default/edits", http.StatusForbidden, []requestChange{secret, person, withHeader("Origin", "https://evil.example")}},
		{"API without a person", "/api/v1/books/default/edits", http.StatusUnauthorized, []requestChange{secret}},
	} {
		got := post(t, in.guarded, test.path, url.Values{"content": {"Never."}, "kind": {"user"}, "name": {"x"}, "again": {"x"}}, test.changes...)
		if got.status != test.status || got.status == http.StatusSeeOther && got.header.Get("Location") != "/login" {
			t.Errorf("%s: got status %d to %q, want %d", test.name, got.status, got.header.Get("Location"), test.status)
		}
	}
	if in.state(t) != before {
		t.Error("a refused form has changed something")
	}
	rated := post(t, in.guarded, "/books/default/executions/"+in.seeded.executions[0]+"/feedback", url.Values{"label": {"failure"}}, secret, person)
	if rated.status != http.StatusSeeOther {
		t.Errorf("feedback: got status %d: %s", rated.status, rated.body)
	}
}

// TestRedirectsStayOnThisServer tries addresses of other servers in the fields that name the next page.
func TestRedirectsStayOnThisServer(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	for _, next := range []string{
		"//evil.example", "https://evil.example/", "http:evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "/\t/evil.example", "/\n/evil.example", "///evil.example", "/%09/evil.example\r\nX: y", " //evil.example", "data:text/html,x", "evil.example", "",
	} {
		for _, got := range []pageResponse{
			post(t, in.guarded, "/login", url.Values{"token": {in.secrets["reader"]}, "next": {next}}),
			post(t, in.guarded, "/theme", url.Values{"theme": {"dark"}, "from": {next}}),
		} {
			to, err := url.Parse(got.header.Get("Location"))
			if err != nil || got.status != http.StatusSeeOther || to.Host != "" || to.Scheme != "" || to.Path == "" || strings.HasPrefix(to.Path, "//") {
				t.Errorf("next %q: got status %d to %q", next, got.status, got.header.Get("Location"))
			}
		}
		page := get(t, in.guarded, "/login?next="+url.QueryEscape(next))
		if next != "" && !strings.Contains(page.body, `name="next" value="/"`) {
			t.Errorf("next %q: the form has another next page: %s", next, page.body)
		}
		failed := post(t, in.guarded, "/books/default/gate", url.Values{"mode": {"none"}, "from": {next}}, in.as("admin"))
		if failed.status != http.StatusBadRequest || !strings.Contains(failed.body, `<a href="/">Overview</a>`) {
			t.Errorf("from %q: got status %d: %s", next, failed.status, failed.body)
		}
	}
	failed := post(t, in.guarded, "/books/default/gate", url.Values{"mode": {"none"}, "from": {"/books/default/gate"}}, in.as("admin"))
	if !strings.Contains(failed.body, `<a href="/books/default/gate">Back</a>`) {
		t.Errorf("the page of the error has no link to the form: %s", failed.body)
	}
}

// TestHostsWithoutTokens checks that a name of another site that resolves to this machine gets nothing.
func TestHostsWithoutTokens(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	for _, a := range in.mains(t) {
		got := get(t, in.open, a.path, withHost("evil.example"))
		if got.status != http.StatusMisdirectedRequest || strings.Contains(got.body, "inv-0") || strings.Contains(got.body, "default") {
			t.Errorf("%s with another host: got status %d: %s", a.path, got.status, got.body)
		}
	}
	if got := post(t, in.open, "/books/default/gate", url.Values{"mode": {"off"}}, withHost("evil.example")); got.status != http.StatusMisdirectedRequest {
		t.Errorf("a form with another host: got status %d", got.status)
	}
	if got := get(t, in.guarded, "/status", in.as("reader"), withHost("debrief.example")); got.status != http.StatusOK {
		t.Errorf("with tokens: got status %d", got.status)
	}
}

// slowBody records the deadline for reading a request.
type slowBody struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *slowBody) SetReadDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

// TestFormsHaveDeadline checks that a form must arrive in time, also one that is refused.
func TestFormsHaveDeadline(t *testing.T) {
	t.Parallel()
	site := New(Options{API: http.NotFoundHandler(), Log: failures})
	for _, path := range posts() {
		w := &slowBody{ResponseRecorder: httptest.NewRecorder()}
		site.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("a=b")))
		if left := time.Until(w.deadline); left <= 0 || left > time.Minute {
			t.Errorf("POST %s: got deadline %s", path, w.deadline)
		}
	}
}

// TestBrokenForms sends forms that no page has. Each gets an error of the client.
func TestBrokenForms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	in := newInstallation(t)
	big := strings.Repeat("x", maxForm+1)
	form := withHeader("Content-Type", "application/x-www-form-urlencoded")
	for _, a := range actions {
		path := fill(a.pattern)
		for name, body := range map[string]string{"empty": "", "invalid escape": "content=%zz&mode=%", "semicolons": "mode=off;x=y", "invalid UTF-8": "content=%ff%fe&mode=%ff&decision=%ff&change=%ff&name=%ff&version=%ff&label=%ff&id=%ff", "too large": "content=" + big} {
			got := do(t, in.open, http.MethodPost, path, body, form)
			want := got.status >= 400 && got.status < 500 && got.status != http.StatusForbidden
			if name == "too large" {
				want = got.status == http.StatusRequestEntityTooLarge
			}
			// To pin a bullet needs no field, and a text may have characters that are not valid.
			done := got.status == http.StatusSeeOther && (strings.HasSuffix(path, "/pin") && name == "empty" || name == "invalid UTF-8")
			if !want && !done {
				t.Errorf("POST %s, %s: got status %d: %.300s", path, name, got.status, got.body)
			}
		}
		if got := get(t, in.open, path); got.status >= 500 {
			t.Errorf("GET %s: got status %d", path, got.status)
		}
	}
	var multipart bytes.Buffer
	multipart.WriteString("--x\r\nContent-Disposition: form-data; name=\"from\"\r\n\r\n" + strings.Repeat("y", 3*maxForm) + "\r\n--x--\r\n")
	for _, path := range []string{"/login", "/theme", "/books/default/nowhere", "/books/default/gate", "/logout"} {
		got := do(t, in.open, http.MethodPost, path, multipart.String(), withHeader("Content-Type", "multipart/form-data; boundary=x"))
		if got.status >= 500 || strings.Contains(got.body, "yyyy") {
			t.Errorf("POST %s of a large form with parts: got status %d", path, got.status)
		}
	}
	for _, path := range []string{"/books/%00", "/books/a%2Fb", "/books/..%2f..", "/books/default/bullets/%ff", "/books/default/executions/%e2%80%ae", "/books/default/versions/9999999", "/books/default/versions/-1", "/books/default/sessions/none", "/runs/%3Cscript%3E", "/books/default?after=none", "/books/default?at=%00", "/static/..%2fconsole.go", "/static/%2e%2e/console.go"} {
		if got := get(t, in.open, path); got.status < 400 || got.status >= 500 {
			t.Errorf("GET %s: got status %d", path, got.status)
		}
	}
}
