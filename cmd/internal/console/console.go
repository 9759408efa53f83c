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
	for _, p := range pages {
		s.mux.HandleFunc("GET "+p.pattern, s.show(p))
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

// pageRoute is the route of a page.
type pageRoute struct {
	pattern string                      // path for http.ServeMux
	file    string                      // name of the template
	tab     string                      // entry of the navigation
	run     func(*request) (any, error) // returns the data of the template
}

// actionRoute is the route of a form that changes something.
type actionRoute struct {
	pattern string                         // path for http.ServeMux
	run     func(*request) (notice, error) // does the change
}

// pages are all pages that need a token.
var pages = []pageRoute{
	{pattern: "/{$}", file: "home", tab: "home", run: showHome},
	{pattern: "/books/{book}", file: "book", tab: "playbook", run: showBook},
	{pattern: "/books/{book}/bullets/{id}", file: "bullet", tab: "playbook", run: showBullet},
	{pattern: "/books/{book}/review", file: "review", tab: "review", run: showReview},
	{pattern: "/books/{book}/gate", file: "gate", tab: "gate", run: showGate},
	{pattern: "/books/{book}/versions", file: "versions", tab: "versions", run: showVersions},
	{pattern: "/books/{book}/versions/{version}", file: "version", tab: "versions", run: showVersion},
	{pattern: "/books/{book}/diff", file: "diff", tab: "versions", run: showDiff},
	{pattern: "/books/{book}/restore", file: "restore", tab: "versions", run: showRestore},
	{pattern: "/books/{book}/executions", file: "executions", tab: "executions", run: showExecutions},
	{pattern: "/books/{book}/executions/{handle}", file: "execution", tab: "executions", run: showExecution},
	{pattern: "/books/{book}/sessions", file: "sessions", tab: "sessions", run: showSessions},
	{pattern: "/books/{book}/sessions/{session}", file: "session", tab: "sessions", run: showSession},
	{pattern: "/books/{book}/curve", file: "curve", tab: "curve", run: showCurve},
	{pattern: "/books/{book}/worth", file: "worth", tab: "worth", run: showWorth},
	{pattern: "/runs", file: "runs", tab: "runs", run: showRuns},
	{pattern: "/runs/{run}", file: "run", tab: "runs", run: showRun},
	{pattern: "/runs/{run}/compare", file: "compare", tab: "runs", run: compareRuns},
	{pattern: "/dead", file: "dead", tab: "dead", run: showDead},
	{pattern: "/dead/{letter}", file: "letter", tab: "dead", run: showLetter},
	{pattern: "/status", file: "status", tab: "status", run: showStatus},
	{pattern: "/settings", file: "settings", tab: "settings", run: showSettings},
	{pattern: "/erasures", file: "erasures", tab: "erasures", run: showErasures},
}

// actions are all forms.
var actions = []actionRoute{
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
		"GET /login":         s.showLogin,
		"POST /login":        s.login,
		"POST /logout":       s.logout,
		"POST /theme":        s.setTheme,
		"GET /live":          s.live,
		"GET /static/{file}": serveStatic,
	}
}

// securityHeaders are the headers of each response.
var securityHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
}

// Limits of a form.
const (
	maxForm      = 1 << 20 // bytes
	formDeadline = 30 * time.Second
)

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
		s.fail(&request{Request: r, w: w, site: s}, newError(http.StatusForbidden, api.CodeOrigin, "The request comes from a page of another site."))
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
	s.fail(q, newError(http.StatusNotFound, api.CodeNotFound, "There is no page with this address."))
}
