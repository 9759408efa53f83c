package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api"
)

// Options are the options of New.
type Options struct {
	API http.Handler // of the paths below /api/v1
	Log zerolog.Logger
}

// Site serves the pages. It is safe for concurrent use.
type Site struct {
	api     http.Handler
	client  *api.Client // of api
	origins *http.CrossOriginProtection
	mux     *http.ServeMux
	log     zerolog.Logger
}

// New returns the handler of the pages.
func New(o Options) *Site {
	s := &Site{api: o.API, client: api.InProcess(o.API), origins: http.NewCrossOriginProtection(), mux: http.NewServeMux(), log: o.Log}
	for _, v := range pages {
		s.mux.HandleFunc("GET "+v.pattern, s.show(v))
	}
	for _, a := range actions {
		s.mux.HandleFunc("POST "+a.pattern, s.act(a))
	}
	for pattern, run := range s.others() {
		s.mux.HandleFunc(pattern, run)
	}
	s.mux.HandleFunc("/", s.notFound)
	return s
}

// Paths are the paths of the console, for a server that also has other paths. A path that ends with a slash includes all paths below
// it, and /{$} is the root alone.
var Paths = []string{"/{$}", "/books/", "/runs", "/runs/", "/dead", "/dead/", "/status", "/settings", "/erasures", "/login", "/logout", "/theme", "/live", "/static/"}

// view is a page.
type view struct {
	pattern string                      // path for http.ServeMux
	file    string                      // name of the template
	tab     string                      // entry of the navigation
	run     func(*request) (any, error) // returns the data of the template
}

// action is a form that changes something.
type action struct {
	pattern string                         // path for http.ServeMux
	run     func(*request) (notice, error) // does the change
}

// pages are all pages that need a token.
var pages = []view{
	{"/{$}", "home", "home", showHome},
	{"/books/{book}", "book", "playbook", showBook},
	{"/books/{book}/bullets/{id}", "bullet", "playbook", showBullet},
	{"/books/{book}/review", "review", "review", showReview},
	{"/books/{book}/gate", "gate", "gate", showGate},
	{"/books/{book}/versions", "versions", "versions", showVersions},
	{"/books/{book}/versions/{version}", "version", "versions", showVersion},
	{"/books/{book}/diff", "diff", "versions", showDiff},
	{"/books/{book}/restore", "restore", "versions", showRestore},
	{"/books/{book}/executions", "executions", "executions", showExecutions},
	{"/books/{book}/executions/{handle}", "execution", "executions", showExecution},
	{"/books/{book}/sessions", "sessions", "sessions", showSessions},
	{"/books/{book}/sessions/{session}", "session", "sessions", showSession},
	{"/books/{book}/curve", "curve", "curve", showCurve},
	{"/books/{book}/worth", "worth", "worth", showWorth},
	{"/runs", "runs", "runs", showRuns},
	{"/runs/{run}", "run", "runs", showRun},
	{"/runs/{run}/compare", "compare", "runs", compareRuns},
	{"/dead", "dead", "dead", showDead},
	{"/dead/{letter}", "letter", "dead", showLetter},
	{"/status", "status", "status", showStatus},
	{"/settings", "settings", "settings", showSettings},
	{"/erasures", "erasures", "erasures", showErasures},
}

// actions are all forms.
var actions = []action{
	{"/books/{book}/bullets", addBullet},
	{"/books/{book}/bullets/{id}/{change}", changeBullet},
	{"/books/{book}/review", decide},
	{"/books/{book}/review/{id}/edit", editQuarantined},
	{"/books/{book}/gate", setGate},
	{"/books/{book}/review/mode", setReview},
	{"/books/{book}/control", setControl},
	{"/books/{book}/leading-score", setLeadingScore},
	{"/books/{book}/about", setAbout},
	{"/books/{book}/tag", tagVersion},
	{"/books/{book}/restore", restoreVersion},
	{"/books/{book}/executions/{handle}/feedback", giveFeedback},
	{"/dead", changeDead},
	{"/erasures", requestErasure},
}

// others are the handlers that are neither pages nor actions, by method and path.
func (s *Site) others() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /login": s.showLogin, "POST /login": s.login, "POST /logout": s.logout, "POST /theme": s.setTheme, "GET /live": s.live, "GET /static/{file}": serveStatic,
	}
}

// securityHeaders are the headers of each response.
var securityHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	"X-Frame-Options":         "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
	"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

// Limits of a form.
const (
	maxForm      = 1 << 20 // bytes
	formDeadline = 30 * time.Second
)

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range securityHeaders {
		w.Header().Set(name, value)
	}
	w.Header().Set("Cache-Control", "no-store") // a static file sets its own
	if r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)                                // before the checks: a refused form is read, too
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formDeadline)) // a test may have no connection
	}
	if err := s.origins.Check(r); err != nil {
		s.fail(&request{Request: r, w: w, site: s}, &api.Error{Problem: api.Problem{Status: http.StatusForbidden, Code: api.CodeOrigin, Detail: "The request comes from a page of another site."}})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// notFound serves unknown paths. A program gets the error as JSON: its base URL may be wrong.
func (s *Site) notFound(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		api.NoRoute(w, r, "unknown path: the base URL of an agent ends with /v1; GET /api/v1/ lists the routes of the API")
		return
	}
	q, _ := s.newRequest(w, r) // also without a valid token
	s.fail(q, &api.Error{Problem: api.Problem{Status: http.StatusNotFound, Code: api.CodeNotFound, Detail: "There is no page with this address."}})
}
