package console

import (
	"net/http"
	"time"

	"debrief/cmd/internal/api"
)

const sessionAge = 30 * 24 * time.Hour // time after which a browser must log in again

// loginPage is the form for a token.
type loginPage struct {
	Next  string // path after the login
	Error string
}

func (s *Site) showLogin(w http.ResponseWriter, r *http.Request) {
	q, _ := s.newRequest(w, r) // also without a valid token
	q.title = "Log in"
	s.render(q, http.StatusOK, "login", loginPage{Next: localPath(q.param("next"))})
}

// login checks a token and stores its secret in the browser.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	secret := r.PostFormValue("token")
	q := &request{Request: r, w: w, site: s, api: s.client.OnBehalf(r, secret)}
	next := localPath(r.PostFormValue("next"))
	err := q.get("/token", nil, &q.me)
	switch {
	case err == nil:
		http.SetCookie(w, q.cookie(tokenCookie, secret, sessionAge))
		http.Redirect(w, r, next, http.StatusSeeOther)
	case api.StatusOf(err) == http.StatusUnauthorized:
		q.title = "Log in"
		s.render(q, http.StatusUnauthorized, "login", loginPage{Next: next, Error: "The server does not know this token."})
	default:
		s.fail(q, err)
	}
}

// logout removes the token from the browser.
func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	q := &request{Request: r, w: w, site: s}
	http.SetCookie(w, q.cookie(tokenCookie, "", -time.Second))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// setTheme stores the theme that a person prefers. Any other value than light and dark means the theme of the system.
func (s *Site) setTheme(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	q := &request{Request: r, w: w, site: s}
	switch theme := r.PostFormValue("theme"); theme {
	case "light", "dark":
		http.SetCookie(w, q.cookie(themeCookie, theme, 365*24*time.Hour))
	default:
		http.SetCookie(w, q.cookie(themeCookie, "", -time.Second))
	}
	http.Redirect(w, r, localPath(r.PostFormValue("from")), http.StatusSeeOther)
}

// live passes on the server-sent events of the API.
func (s *Site) live(w http.ResponseWriter, r *http.Request) {
	to, err := s.client.OnBehalf(r, secretOf(r)).NewRequest(r.Context(), http.MethodGet, "/events", r.URL.Query(), nil)
	if err != nil {
		s.fail(&request{Request: r, w: w, site: s}, newError(http.StatusInternalServerError, api.CodeInternal, err.Error()))
		return
	}
	to.Header.Set("Last-Event-Id", r.Header.Get("Last-Event-Id"))
	to.Header.Set("Accept", "text/event-stream")
	to.Body = http.NoBody // a handler expects a body that is not nil, as http.Server passes it
	s.api.ServeHTTP(w, to)
}
