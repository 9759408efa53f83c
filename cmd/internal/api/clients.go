package api

import (
	"embed"
	"net/http"
	"path"
)

// clients has the clients for other languages.
//
//go:embed clients/debrief.py clients/debrief.mjs
var clients embed.FS

// clientTypes are the content types of the clients, by the ends of their names.
var clientTypes = map[string]string{".py": "text/x-python; charset=utf-8", ".mjs": "text/javascript; charset=utf-8"}

// Clients serves the clients for other languages, by their file names: /debrief.py and /debrief.mjs.
func Clients() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := clients.ReadFile("clients/" + path.Base(r.URL.Path))
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "clients: debrief.py, debrief.mjs", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", clientTypes[path.Ext(r.URL.Path)])
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(data)
	})
}

// Unavailable responds that the API cannot serve a request now.
func Unavailable(w http.ResponseWriter, r *http.Request, reason error) {
	w.Header().Set("Retry-After", "2")
	refuse(w, r, Problem{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Detail: reason.Error()})
}

// NoRoute responds that no route has the path.
func NoRoute(w http.ResponseWriter, r *http.Request, detail string) {
	refuse(w, r, Problem{Status: http.StatusNotFound, Code: CodeNoRoute, Detail: detail})
}

func refuse(w http.ResponseWriter, r *http.Request, p Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.encode(requestIDOf(r.Header)))
}
