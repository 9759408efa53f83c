package api

import (
	"net/http"
	"reflect"
	"strings"

	"debrief/cmd/internal/api/tokens"
)

// prefix is the path of all routes.
const prefix = "/api/v1"

// route is a route of the API. Routing, access control, the OpenAPI document and its test use the same table.
type route struct {
	method  string
	path    string // below prefix; {name} is a parameter
	name    string // unique; operationId in the OpenAPI document
	summary string
	query   []parameter
	in      reflect.Type // type of the body; nil without one
	out     reflect.Type // type of the reply; nil: any JSON
	status  int          // of success
	verb    string       // label of its requests in the metrics; empty: they count as requests without a verb
	example example

	max          int64 // bytes of the body
	optionalBody bool
	idempotent   bool // a request may have an Idempotency-Key
	waits        bool // a request may take up to maxWait longer than others
	offline      bool // needs no NATS server; nor does a route without a scope

	scope   tokens.Scope // that a token needs; empty: any token
	orScope tokens.Scope // another scope that permits the route; empty: none
	ownRuns bool         // tokens without these scopes may use the route for their own runs

	run    func(*call) (any, error)
	stream func(*call, *eventStream) // instead of run: sends events
}

// parameter is a query parameter.
type parameter struct {
	name, doc string
	kind      string   // "string", "integer" or "boolean"
	values    []string // all permitted values; nil: any
	low, high int      // least and greatest value of an integer
}

// strictParameter is a parameter of each route with a body.
var strictParameter = parameter{name: "strict", kind: "boolean", doc: "1: an unknown field of the body is an error."}

// booleans are the values of a boolean parameter.
var booleans = []string{"0", "1", "false", "true"}

// example is a request that the OpenAPI document shows and a test sends.
type example struct {
	path  map[string]string // values of the parameters of the path
	query string
	body  string
}

// maxBody is the default maximum size of a body, in bytes.
const maxBody = 1 << 20

// get returns a route that reads.
func get[Out any](path, name, summary string, run func(*call) (Out, error)) route {
	return route{
		method: http.MethodGet, path: path, name: name, summary: summary, scope: tokens.Read, status: http.StatusOK,
		out: reflect.TypeFor[Out](), run: func(c *call) (any, error) { return run(c) },
	}
}

// remove returns a route that deletes an object.
func remove[Out any](path, name, summary string, run func(*call) (Out, error)) route {
	r := get(path, name, summary, run)
	r.method = http.MethodDelete
	return r
}

// post returns a route with a body. It has no scope yet.
func post[In, Out any](path, name, summary string, status int, run func(*call, *In) (Out, error)) route {
	return route{
		method: http.MethodPost, path: path, name: name, summary: summary, status: status, max: maxBody,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), run: func(c *call) (any, error) {
			r := new(In)
			if err := c.decode(r); err != nil {
				return nil, err
			}
			return run(c, r)
		},
	}
}

// newMux returns the router of the routes. It ignores a slash at the end of a path.
func (h *handler) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(method, path string, rt *route, allowed []string) {
		for _, end := range []string{"", "/{$}"} {
			mux.HandleFunc(method+path+end, func(w http.ResponseWriter, r *http.Request) { h.handle(w, r, rt, allowed) })
		}
	}
	allowed := map[string][]string{} // methods by path
	for i := range h.routes {
		rt := &h.routes[i]
		path := strings.TrimSuffix(prefix+rt.path, "/")
		allowed[path] = append(allowed[path], rt.method)
		if rt.method == http.MethodGet {
			allowed[path] = append(allowed[path], http.MethodHead)
		}
		handle(rt.method+" ", path, rt, nil)
	}
	for path, methods := range allowed {
		handle("", path, nil, methods)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { h.handle(w, r, nil, nil) })
	return mux
}

// parameterName returns the name in a segment such as {book}.
func parameterName(segment string) (string, bool) {
	if strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") {
		return segment[1 : len(segment)-1], true
	}
	return "", false
}
