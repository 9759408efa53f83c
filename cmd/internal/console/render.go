package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"debrief/cmd/internal/api"
	"debrief/events"
	"debrief/playbook"
)

//go:embed templates static
var files embed.FS

// baseCSS is the style sheet of all pages: colours of both themes as variables, text, tables and charts.
//
//go:embed base.css
var baseCSS string

// templates returns the templates of all pages by their names. Each has the layout and the shared parts.
var templates = sync.OnceValue(func() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	template.Must(shared.Parse(chartTemplate))
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err)
	}
	all := map[string]*template.Template{}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		all[name] = template.Must(template.Must(shared.Clone()).ParseFS(files, file))
	}
	return all
})

// frame is the data of the layout.
type frame struct {
	Title  string
	Static bool           // a file, without a server
	Theme  string         // "light", "dark", or "" for the theme of the system
	Here   string         // path and query of the page, which forms return to; "/" after a form that failed
	Book   string         // of the page, else of the newest change
	Server string         // result of request.address
	About  playbook.About // of the book
	Books  []string
	Tab    string // entry of the navigation
	waitingCounts
	Me      identity
	Known   bool // the browser has a valid token, or the server has no tokens
	Notice  *notice
	Key     string // for the forms of the page: a repeated form has no further effect
	Content any
}

// render writes a page.
func (s *Site) render(q *request, status int, file string, content any) {
	f := &frame{
		Title:   q.title,
		Here:    q.URL.RequestURI(),
		Book:    q.book,
		Server:  q.address(),
		Tab:     q.tab,
		Me:      q.me,
		Known:   q.me.Name != "",
		Key:     string(events.NewID()),
		Content: content,
	}
	if f.Known {
		f.Notice = q.takeNotice()
		q.readNavigation(f)
	}
	if c, err := q.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		f.Theme = c.Value
	}
	if q.Method != http.MethodGet {
		f.Here = "/"
	}
	var out bytes.Buffer
	if err := templates()[file].ExecuteTemplate(&out, "layout", f); err != nil {
		s.log.Error().Err(err).Str("template", file).Msg("page failed")
		http.Error(q.w, "The page failed. The log of the server has the reason.", http.StatusInternalServerError)
		return
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = q.w.Write(out.Bytes()) // ignore the error: the browser has disconnected
}

const maxBookLinks = 50 // limits the playbooks in the navigation

// waitingCounts are the numbers of things that wait for a person.
type waitingCounts struct {
	Quarantined int // bullets of the playbook
	Dead        int // dead letters
}

// readNavigation sets the playbooks of the navigation and the numbers beside its entries. A token without the right to read gets neither. A
// page without a playbook shows the entries of the playbook with the newest change.
func (q *request) readNavigation(f *frame) {
	o := q.overview
	if o == nil {
		o = new(api.Overview)
		if err := q.get("/overview", url.Values{"limit": {"1"}}, o); err != nil {
			o = new(api.Overview) // a page must show an error of its own
		}
	}
	switch {
	case f.Book != "":
	case len(o.Changes) > 0:
		f.Book = string(o.Changes[0].Book)
	default:
		f.Book = string(events.DefaultBook)
	}
	f.Dead = o.Waiting.Dead
	for _, b := range o.Books {
		if len(f.Books) < maxBookLinks {
			f.Books = append(f.Books, string(b.Book))
		}
		if string(b.Book) == f.Book {
			f.Quarantined = b.Quarantined
			f.About = b.About
		}
	}
}

// staticTypes are the content types of the static files.
var staticTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// staticHash is a hash of all static files. It is in their addresses, so that browsers may keep them.
var staticHash = sync.OnceValue(func() string {
	h := sha256.New()
	_, _ = io.WriteString(h, baseCSS)
	_ = fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := files.ReadFile(name) // an embedded file cannot fail
			h.Write(data)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12]
})

// styles returns the style sheet for a page that contains it: a page without a server.
func styles() (template.CSS, error) {
	css, err := files.ReadFile("static/console.css")
	return template.CSS(baseCSS + string(css)), err
}

func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	data, err := files.ReadFile("static/" + name)
	kind := staticTypes[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	if name == "console.css" {
		_, _ = io.WriteString(w, baseCSS)
	}
	_, _ = w.Write(data)
}
