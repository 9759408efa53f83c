package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"debrief/cmd/internal/api/tokens"
)

// pageResponse is the response to a request of a test.
type pageResponse struct {
	status int
	header http.Header
	body   string
}

// requestChange modifies a request.
type requestChange func(*http.Request)

func withHeader(name, value string) requestChange {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func withHost(name string) requestChange { return func(r *http.Request) { r.Host = name } }

func withCookie(name, value string) requestChange {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: name, Value: value}) }
}

// as adds the cookie of a token of the installation.
func (in *installation) as(token string) requestChange {
	return withCookie(tokenCookie, in.secrets[token])
}

// get loads a page. It does not follow redirects.
func get(t testing.TB, s *httptest.Server, path string, changes ...requestChange) pageResponse {
	t.Helper()
	return do(t, s, http.MethodGet, path, "", changes...)
}

// post sends a form.
func post(t testing.TB, s *httptest.Server, path string, form url.Values, changes ...requestChange) pageResponse {
	t.Helper()
	return do(t, s, http.MethodPost, path, form.Encode(), append([]requestChange{withHeader("Content-Type", "application/x-www-form-urlencoded")}, changes...)...)
}

func do(t testing.TB, s *httptest.Server, method, path, body string, changes ...requestChange) pageResponse {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	check(t, err)
	for _, c := range changes {
		c(r)
	}
	resp, err := s.Client().Transport.RoundTrip(r)
	check(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check(t, err)
	return pageResponse{resp.StatusCode, resp.Header, string(data)}
}

// cookie returns a cookie that the response sets, nil without it.
func (r pageResponse) cookie(t testing.TB, name string) *http.Cookie {
	t.Helper()
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// wantScope are the scopes of the pages that need another one than read.
var wantScope = map[string]tokens.Scope{"/books/{book}/restore": tokens.Review, "/settings": tokens.Operate, "/erasures": tokens.Operate}

// ownPages are the pages that show a token without the scope read its own runs, with the status for the runs of others.
var ownPages = map[string]int{
	"/books/{book}/executions": http.StatusOK, "/books/{book}/executions/{handle}": http.StatusNotFound,
	"/books/{book}/sessions": http.StatusOK, "/books/{book}/sessions/{session}": http.StatusNotFound,
}

// allows reports whether the token of a name has a scope and permits a playbook.
func allows(name string, scope tokens.Scope, book string) bool {
	for _, s := range tokenSpecs {
		if s.Name == name {
			return slices.Contains(s.Scopes, scope) && (book == "" || len(s.Books) == 0 || slices.Contains(s.Books, "default") == (book == "default"))
		}
	}
	return false
}

// TestPagesNeedTheirScope requests every page with every token.
func TestPagesNeedTheirScope(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	for _, a := range in.mains(t) {
		scope, book := wantScope[a.pattern], ""
		if scope == "" {
			scope = tokens.Read
		}
		if strings.Contains(a.pattern, "{book}") || strings.Contains(a.pattern, "{run}") || strings.Contains(a.pattern, "{letter}") {
			book = "default"
		}
		var all sync.WaitGroup // some pages wait for the reports of workers
		for _, token := range tokenSpecs {
			want := http.StatusForbidden
			switch {
			case allows(token.Name, scope, book):
				want = http.StatusOK
			case ownPages[a.pattern] != 0 && allows(token.Name, tokens.Review, book), ownPages[a.pattern] != 0 && allows(token.Name, tokens.Operate, book):
				want = http.StatusOK
			case ownPages[a.pattern] != 0 && allows(token.Name, tokens.Report, book):
				want = ownPages[a.pattern]
			}
			all.Go(func() {
				if got := get(t, in.guarded, a.path, in.as(token.Name)); got.status != want {
					t.Errorf("%s as %s: got status %d, want %d", a.path, token.Name, got.status, want)
				} else if want == http.StatusForbidden && (strings.Contains(got.body, "<form class=\"stack\"") || !strings.Contains(got.body, "<h1>Forbidden</h1>")) {
					t.Errorf("%s as %s: the page of the error has contents: %s", a.path, token.Name, got.body)
				}
			})
		}
		all.Wait()
		for name, secret := range map[string]string{"no token": "", "an unknown token": "dbr_unknown"} {
			got := get(t, in.guarded, a.path, withCookie(tokenCookie, secret))
			to := "/login"
			if a.path != "/" {
				to += "?next=" + url.QueryEscape(a.path)
			}
			if got.status != http.StatusSeeOther || got.header.Get("Location") != to {
				t.Errorf("%s with %s: got status %d to %s, want %s", a.path, name, got.status, got.header.Get("Location"), to)
			}
		}
	}
}

// TestOtherPlaybooksAreHidden looks for names of the playbook default on all pages that a token for support can open.
func TestOtherPlaybooksAreHidden(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	seen := 0
	for _, a := range in.addresses(t) {
		got := get(t, in.guarded, a.path, in.as("support-desk"))
		if got.status != http.StatusOK {
			continue
		}
		seen++
		for _, name := range []string{"inv-0", "invoices-1", "default", "invoice"} {
			if strings.Contains(got.body, name) {
				t.Errorf("%s shows %s to a token for the playbook support", a.path, name)
			}
		}
	}
	if got := get(t, in.guarded, "/books/support", in.as("support-desk")); got.status != http.StatusOK || !strings.Contains(got.body, "Greet the customer") || seen < 3 {
		t.Errorf("its own playbook: got status %d, and %d other pages", got.status, seen)
	}
	for _, path := range []string{"/books/default", "/books/support/executions/" + in.seeded.executions[0], "/books/support/bullets/inv-00001", "/runs/invoices-1"} {
		if got := get(t, in.guarded, path, in.as("support-desk")); got.status != http.StatusForbidden && got.status != http.StatusNotFound || strings.Contains(got.body, "Which invoice") {
			t.Errorf("%s: got status %d", path, got.status)
		}
	}
}

// TestRequestsOfOtherSites sends forms as browsers send them for pages of other sites.
func TestRequestsOfOtherSites(t *testing.T) {
	t.Parallel()
	in := readOnly(t, false)
	for _, path := range posts() {
		for _, foreign := range [][]requestChange{
			{withHeader("Sec-Fetch-Site", "cross-site")},
			{withHeader("Sec-Fetch-Site", "same-site")},
			{withHeader("Origin", "http://evil.example")},
			{withHeader("Origin", "null")},
			{withHeader("Origin", strings.Replace(in.guarded.URL, "http://", "https://", 1)+"0")},
		} {
			got := post(t, in.guarded, path, url.Values{"token": {in.secrets["admin"]}, "theme": {"dark"}}, append(foreign, in.as("admin"))...)
			if got.status != http.StatusForbidden || len(got.header.Values("Set-Cookie")) > 0 {
				t.Errorf("POST %s of another site: got status %d, cookies %v", path, got.status, got.header.Values("Set-Cookie"))
			}
		}
	}
	if got := post(t, in.guarded, "/theme", url.Values{"theme": {"dark"}}, withHeader("Origin", in.guarded.URL), withHeader("Sec-Fetch-Site", "same-origin")); got.status != http.StatusSeeOther {
		t.Errorf("POST of the own site: got status %d", got.status)
	}
}

// posts returns a path for every form, and one that does not exist.
func posts() []string {
	paths := []string{"/books/default/nowhere"}
	for _, a := range actions {
		paths = append(paths, fill(a.pattern))
	}
	for pattern := range new(Site).others() {
		if path, ok := strings.CutPrefix(pattern, "POST "); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// fill returns a path for a pattern of an action.
func fill(pattern string) string {
	return strings.NewReplacer("{book}", "default", "{id}", "inv-00001", "{change}", "pin", "{handle}", "1-00000000").Replace(pattern)
}

// TestHeaders checks the headers that protect a page, also that of an error and of a file.
func TestHeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	in := readOnly(t, false)
	paths := []string{"/books/default/nowhere", "/books/none", "/static/none", "/books/default/executions?outcome=x"}
	for _, a := range in.mains(t) {
		paths = append(paths, a.path)
	}
	for pattern := range new(Site).others() {
		if path, ok := strings.CutPrefix(pattern, "GET "); ok && path != "/live" { // which does not end
			paths = append(paths, strings.Replace(path, "{file}", "console.css", 1))
		}
	}
	for _, path := range paths {
		got := get(t, in.open, path, withHeader("Accept", "text/html")).header
		for name, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if !strings.Contains(got.Get(name), want) {
				t.Errorf("%s: got %s %q", path, name, got.Get(name))
			}
		}
		if policy := got.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'self'") || !strings.Contains(policy, "form-action 'self'") {
			t.Errorf("%s: got policy %s", path, policy)
		}
		if cache := got.Get("Cache-Control"); cache != "no-store" && !strings.HasSuffix(path, ".css") {
			t.Errorf("%s: got Cache-Control %q", path, cache)
		}
	}
}
