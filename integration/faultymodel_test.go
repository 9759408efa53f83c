package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// modelFault answers a request in place of the model. It may block until the client disconnects.
type modelFault struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request)
	deaf   bool // the server does not listen
}

// hugeBody is large enough that a client that reads all of it into memory is noticed.
const hugeBody = 100 << 20

var hugeAnswers = modelFault{"answers of 100 MB", func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "`)
	pour(w, hugeBody)
}, false}

// modelFaults are the known failures of model servers. None is caused by a message.
var modelFaults = []modelFault{
	{"429 with Retry-After", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded")
	}, false},
	{"429 without Retry-After", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded")
	}, false},
	{"insufficient_quota", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusTooManyRequests, "insufficient_quota")
	}, false},
	{"500", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusInternalServerError, "server_error")
	}, false},
	{"503", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusServiceUnavailable, "overloaded") }, false},
	{"cut answers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "mess`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // closes the connection
	}, false},
	{"HTML with status 200", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>You are signed in to the network of this hotel.</body></html>")
	}, false},
	{"answers that drip", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			pause(r.Context(), 20*time.Millisecond)
		}
	}, false},
	hugeAnswers,
	{"errors of 100 MB", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(hugeBody))
		w.WriteHeader(http.StatusBadGateway)
		pour(w, hugeBody)
	}, false},
	{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
	{"connections refused", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
}

// pour writes n bytes, or until the client disconnects.
func pour(w io.Writer, n int) {
	piece := bytes.Repeat([]byte("word "), 200<<10)
	for ; n > 0; n -= len(piece) {
		if _, err := w.Write(piece[:min(len(piece), n)]); err != nil {
			return
		}
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "type": code, "message": "not now"}})
}

// faultyModel is a proxy in front of a model. It injects faults and counts requests.
type faultyModel struct {
	url     string // up to /v1, for workers
	address string
	next    http.Handler

	mu      sync.Mutex
	now     []modelFault // used in turn; empty forwards to the model
	server  *http.Server
	asked   int // all requests
	retried int // requests that were retries
	struck  int // requests answered by a modelFault
}

// newFaultyModel starts a proxy for the model with this base URL.
func newFaultyModel(t testing.TB, baseURL string) *faultyModel {
	t.Helper()
	m := &faultyModel{address: freeAddress(t), next: proxyTo(t, baseURL)}
	m.url = "http://" + m.address + "/v1"
	if err := m.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.server.Close() })
	return m
}

// proxyTo returns a handler that forwards requests to the model at a base URL.
func proxyTo(t testing.TB, baseURL string) http.Handler {
	t.Helper()
	target, err := url.Parse(strings.TrimSuffix(baseURL, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(target)
	p.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // the client disconnected
	return p
}

func (m *faultyModel) listen() error {
	l, err := net.Listen("tcp", m.address)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	m.mu.Lock()
	m.server = s
	m.mu.Unlock()
	go func() { _ = s.Serve(l) }() // until it is closed
	return nil
}

// ServeHTTP implements http.Handler.
func (m *faultyModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked++
	if n := r.Header.Get("X-Stainless-Retry-Count"); n != "0" && n != "" {
		m.retried++
	}
	var how modelFault
	if len(m.now) > 0 {
		how = m.now[m.struck%len(m.now)]
		m.struck++
	}
	m.mu.Unlock()
	if how.answer == nil {
		m.next.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // an unread body would block the client
	how.answer(w, r)
}

// counts returns the numbers of all requests, retries and injected faults.
func (m *faultyModel) counts() (asked, retried, struck int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked, m.retried, m.struck
}

// setFault replaces the faults and ends requests that are blocked in the old ones. Without faults it forwards to the model.
func (m *faultyModel) setFault(t testing.TB, modelFaults ...modelFault) {
	t.Helper()
	m.mu.Lock()
	m.now = modelFaults
	server := m.server
	m.mu.Unlock()
	server.Close()
	if len(modelFaults) == 1 && modelFaults[0].deaf {
		return
	}
	if err := m.listen(); err != nil {
		t.Fatal(err)
	}
}
