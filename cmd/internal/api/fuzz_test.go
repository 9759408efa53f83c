package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRequest sends any request to every path. The response is JSON with a status below 500.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"/api/v1/contexts", "application/json", `{"query":"q","steps":[{"text":"a","tool_calls":[{"tool":"t","arguments":"{}"}]}],"playbook":3}`},
		{"/api/v1/executions", "application/json", `{"context_id":"x","answer":"y","outcome":{"label":"success","score":1},"steps":[{}],"started":"2026-11-22T00:00:00Z"}`},
		{"/api/v1/feedback", "application/json", `{"execution":"17-ab12cd34","outcome":{"label":"failure"}}`},
		{"/api/v1/contexts", "application/json; charset=utf-8", `{"book":"../x","query":"` + "\xff" + `"}`},
		{"/api/v1/", "", ""},
		{"/", "text/plain", "x"},
		{"/api/v1/contexts", "application/json", strings.Repeat(`[`, 100)},
		{"/api/v1/executions", "application/json", `{"answer":"x","answer":"y"}`},
		{"/api/v1/executions", "application/json", `{"score":1e999}`},
		{"/api/v1/executions", "application/json", `{"outcome":"👍","messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"t","input":{}}]}]}`},
		{"/api/v1/executions", "application/json", `{"messages":[[[]]],"outcome":[1]}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	d := newHandler(desk{}, Options{}, defaultLimits)
	f.Fuzz(func(t *testing.T, path, kind, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.URL.Path, r.Host = path, "127.0.0.1"
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code == http.StatusTemporaryRedirect { // to the path without empty segments
			return
		}
		if w.Code >= 500 || !json.Valid(w.Body.Bytes()) || !utf8.Valid(w.Body.Bytes()) {
			t.Errorf("%q, %q: got %d, %q", path, body, w.Code, w.Body)
		}
		var p Problem
		if w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Detail == "" || p.Code == "" || p.Status != w.Code) {
			t.Errorf("%q, %q: got %d without a reason: %q", path, body, w.Code, w.Body)
		}
		if held := d.bodies.Memory.InUse(); held != 0 {
			t.Errorf("%q: %d bytes are counted as held", path, held)
		}
	})
}
