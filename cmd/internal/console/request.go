package console

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/tokens"
)

// Cookies of the console.
const (
	tokenCookie  = "debrief_token"  // secret of the token
	noticeCookie = "debrief_notice" // result of the last action, for the next page
	themeCookie  = "debrief_theme"  // "light" or "dark"; no cookie for the theme of the system
)

// request is a request for a page or an action.
type request struct {
	*http.Request
	w    http.ResponseWriter
	site *Site
	api  *api.Client // on behalf of the browser
	me   identity
	book string // in the path; empty without one

	title    string        // of the page, set by its handler
	tab      string        // entry of the navigation
	overview *api.Overview // for the navigation; nil if the page has not read it
}

// identity is the token of the browser.
type identity struct{ api.Identity }

func (i identity) Can(scope tokens.Scope) bool { return slices.Contains(i.Scopes, scope) }

// newRequest returns the request of a browser with its identity. The request is usable after an error, too, without an identity.
func (s *Site) newRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	q := &request{Request: r, w: w, site: s, book: r.PathValue("book"), api: s.client.OnBehalf(r, secretOf(r))}
	return q, q.get("/token", nil, &q.me)
}

// secretOf returns the secret that a proxy sends, else that in the cookie, "" without both.
func secretOf(r *http.Request) string {
	if secret := r.Header.Get(tokens.Header); secret != "" {
		return secret
	}
	c, err := r.Cookie(tokenCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// param returns a parameter of the query, without spaces around it.
func (q *request) param(name string) string { return strings.TrimSpace(q.URL.Query().Get(name)) }

// show returns the handler of a page.
func (s *Site) show(p pageRoute) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := s.newRequest(w, r)
		q.tab = p.tab
		var content any
		if err == nil {
			content, err = p.run(q)
		}
		if err != nil {
			s.fail(q, err)
			return
		}
		s.render(q, http.StatusOK, p.file, content)
	}
}

// notice is the result of an action. The next page shows it once.
type notice struct {
	Text string `json:"text"`
	Link string `json:"link,omitempty"` // path of the details
	To   string `json:"-"`              // path of the next page; empty: the page of the form
}

// act returns the handler of a form. After success the browser loads the next page, so that a reload does not repeat the action.
func (s *Site) act(a actionRoute) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := s.newRequest(w, r)
		if err == nil {
			err = parseForm(r)
		}
		var n notice
		if err == nil {
			n, err = a.run(q)
		}
		if err != nil {
			s.fail(q, err)
			return
		}
		q.setNotice(n)
		http.Redirect(w, r, localPath(cmp.Or(n.To, r.PostForm.Get("from"))), http.StatusSeeOther)
	}
}

// parseForm parses the form of a request. An invalid form is an error of the browser.
func parseForm(r *http.Request) error {
	err := r.ParseForm()
	var tooLarge *http.MaxBytesError
	if err == nil || errors.As(err, &tooLarge) {
		return err
	}
	return refuse("The form is invalid: " + err.Error() + ".")
}

// localPath returns a path of this server unchanged, and "/" for anything else: a form of another origin must not choose the next page of
// a browser.
func localPath(path string) string {
	u, err := url.Parse(path)
	isLocal := err == nil && !u.IsAbs() && u.Host == ""
	isPath := isLocal && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//")
	if !isPath || strings.ContainsAny(path, "\\\r\n\t") { // browsers read a backslash as a slash, and skip the other characters
		return "/"
	}
	return path
}

// maxNotice is the maximum size of a notice in bytes. A browser accepts a cookie of 4096 bytes, in base64.
const maxNotice = 2000

// setNotice stores the result of an action for the next page.
func (q *request) setNotice(n notice) {
	if n.Text == "" {
		return
	}
	data, _ := json.Marshal(n) // texts cannot fail
	if len(data) > maxNotice {
		data, _ = json.Marshal(notice{Text: "Done.", Link: n.Link})
	}
	http.SetCookie(q.w, q.cookie(noticeCookie, base64.RawURLEncoding.EncodeToString(data), time.Minute))
}

// takeNotice returns the result of the last action, and removes it.
func (q *request) takeNotice() *notice {
	c, err := q.Cookie(noticeCookie)
	if err != nil {
		return nil
	}
	http.SetCookie(q.w, q.cookie(noticeCookie, "", -time.Second))
	n := new(notice)
	data, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(data, n) != nil || n.Text == "" {
		return nil
	}
	if n.Link != "" {
		n.Link = localPath(n.Link)
	}
	return n
}

// cookie returns a cookie that scripts cannot read, and that browsers send only with requests from pages of this server.
func (q *request) cookie(name, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true, Secure: q.secure(), SameSite: http.SameSiteStrictMode}
}

// secure reports whether the browser uses HTTPS, also to a proxy before this server.
func (q *request) secure() bool {
	return q.TLS != nil || strings.EqualFold(q.Header.Get("X-Forwarded-Proto"), "https")
}

// address returns the address of this server as the browser uses it, without a path.
func (q *request) address() string {
	if q.secure() {
		return "https://" + q.Host
	}
	return "http://" + q.Host
}

// fail shows an error. If the API requires a token, it redirects to the login.
func (s *Site) fail(q *request, err error) {
	var ofAPI *api.Error
	if !errors.As(err, &ofAPI) {
		if q.Context().Err() == nil { // else the browser has disconnected
			s.showError(q, s.problemOf(q, err))
		}
		return
	}
	if ofAPI.Status == http.StatusUnauthorized {
		to := "/login"
		if q.Method == http.MethodGet && q.URL.Path != "/" {
			to += "?next=" + url.QueryEscape(q.URL.RequestURI())
		}
		http.Redirect(q.w, q.Request, to, http.StatusSeeOther)
		return
	}
	shown := ofAPI.Problem
	shown.Detail = err.Error() // err may wrap the error of the API and name the steps that were done before
	s.showError(q, shown)
}

// problemOf returns the problem that a page shows for an error outside the API. It logs the error, unless the browser caused it.
func (s *Site) problemOf(q *request, err error) api.Problem {
	if errors.As(err, new(*http.MaxBytesError)) {
		return newError(http.StatusRequestEntityTooLarge, api.CodeTooLarge, "The form is too large.").Problem
	}
	s.log.Error().Err(err).Str("path", q.URL.Path).Msg("page failed")
	return newError(http.StatusInternalServerError, api.CodeInternal, "The page failed. The log of the server has the reason.").Problem
}

// showError shows the page of an error.
func (s *Site) showError(q *request, shown api.Problem) {
	q.title = http.StatusText(shown.Status)
	shown.Title = q.title
	s.render(q, shown.Status, "error", errorPage{Problem: shown, Back: localPath(q.FormValue("from"))})
}

// errorPage is the page of an error.
type errorPage struct {
	api.Problem
	Back string // path of the page before; "/" if it is unknown
}

// NextStep returns the next step for the user, "" if there is nothing to do.
func (e errorPage) NextStep() string {
	switch e.Status {
	case http.StatusForbidden:
		return "Log in with a token that has this right. The command 'debrief token new' makes one."
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "Load the page again in a few seconds."
	case http.StatusConflict:
		return "Load the page of the form again: it shows the current state."
	}
	return ""
}
