package api

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// TestOpenAPI sends the example of each route in the document to a server, and validates request and response.
func TestOpenAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	startWorld(t, Options{}).sendExamples(t)
}

// sendExamples fills the playbooks, sends the example of each route in the document, and validates request and response.
func (w *world) sendExamples(t *testing.T) {
	t.Helper()
	_, _, text := do(t, w.client, "GET", w.URL()+prefix+"/openapi.json", "", bearer(w.token))
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.FileBodyDecoder)
	names := w.seed(t)
	h := w.http.Config.Handler.(*handler)
	n := 0
	for i := range h.routes {
		r := &h.routes[i]
		item := doc.Paths.Value(prefix + r.path)
		if item == nil || item.GetOperation(r.method) == nil {
			t.Errorf("%s %s is not in the document", r.method, r.path)
			continue
		}
		n++
		w.validate(t, doc, r, item, names)
	}
	for path, item := range doc.Paths.Map() {
		n -= len(item.Operations())
		if !strings.HasPrefix(path, prefix) {
			t.Errorf("path %s", path)
		}
	}
	if n != 0 {
		t.Errorf("the document has %d operations without a route", -n)
	}
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// validate sends the example of a route, and validates it and the response by the document.
func (w *world) validate(t *testing.T, doc *openapi3.T, r *route, item *openapi3.PathItem, names *strings.Replacer) {
	t.Helper()
	values := map[string]string{}
	path := pathParameter.ReplaceAllStringFunc(r.path, func(p string) string {
		name, _ := parameterName(p)
		if values[name] = names.Replace(r.example.path[name]); values[name] == "" {
			t.Errorf("%s: the example has no %s", r.name, name)
		}
		return values[name]
	})
	if r.example.query != "" {
		path += "?" + names.Replace(r.example.query)
	}
	body := names.Replace(r.example.body)
	if r.in != nil && !r.optionalBody && body == "" {
		t.Errorf("%s: the example has no body", r.name)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, w.URL()+prefix+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	bearer(w.token)(req)
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: values,
		Route:   &routers.Route{Spec: doc, Path: prefix + r.path, PathItem: item, Method: r.method, Operation: item.GetOperation(r.method)},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
		t.Errorf("%s: request: %v", r.name, err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != r.status {
		t.Errorf("%s: got %d %s, %v, want %d", r.name, resp.StatusCode, text, err, r.status)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(text)), Options: in.Options,
	}
	if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
		t.Errorf("%s: response: %v", r.name, err)
	}
	if resp.StatusCode == http.StatusCreated && resp.Header.Get("Location") == "" {
		t.Errorf("%s: created without a Location", r.name)
	}
}
