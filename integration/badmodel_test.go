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

// mood is how a model's server answers one request, in place of the model. It may take until the client is gone.
type mood struct {
	name   string
	answer func(w http.ResponseWriter, r *http.Request)
	deaf   bool // alone, it does not even listen
}

// hugeBody is more than any answer; a client that reads it all into memory shows it.
const hugeBody = 100 << 20

var hugeAnswers = mood{"answers of 100 MB", func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "`)
	pour(w, hugeBody)
}, false}

// moods are all that a server is known to do instead of answering. None is any message's fault.
var moods = []mood{
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
		panic(http.ErrAbortHandler) // the connection ends here
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

// pour writes so many bytes, or until the client has had enough.
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

// badModel stands before a model and counts what it is asked.
type badModel struct {
	url     string // up to /v1, for workers
	address string
	next    http.Handler

	mu      sync.Mutex
	now     []mood // one after the other; none is the model itself
	server  *http.Server
	asked   int // requests, ever
	retried int // of these, those that were the second or a later attempt of a call
	struck  int // requests that a mood has met
}

// standBefore makes a server before a model with this base URL.
func standBefore(t testing.TB, baseURL string) *badModel {
	t.Helper()
	m := &badModel{address: freeAddress(t), next: passOn(t, baseURL)}
	m.url = "http://" + m.address + "/v1"
	if err := m.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.server.Close() })
	return m
}

// passOn is the model at a base URL, to be asked by another server.
func passOn(t testing.TB, baseURL string) http.Handler {
	t.Helper()
	target, err := url.Parse(strings.TrimSuffix(baseURL, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(target)
	p.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // who asked is gone
	return p
}

func (m *badModel) listen() error {
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
func (m *badModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked++
	if n := r.Header.Get("X-Stainless-Retry-Count"); n != "0" && n != "" {
		m.retried++
	}
	var how mood
	if len(m.now) > 0 {
		how = m.now[m.struck%len(m.now)]
		m.struck++
	}
	m.mu.Unlock()
	if how.answer == nil {
		m.next.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // what is not read holds up the client
	how.answer(w, r)
}

// counts are the requests so far, and how many of them were not the first of their call.
func (m *badModel) counts() (asked, retried, struck int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked, m.retried, m.struck
}

// turnTo begins other moods, and ends what goes on in the old ones; none is the model itself.
func (m *badModel) turnTo(t testing.TB, moods ...mood) {
	t.Helper()
	m.mu.Lock()
	m.now = moods
	server := m.server
	m.mu.Unlock()
	server.Close()
	if len(moods) == 1 && moods[0].deaf {
		return
	}
	if err := m.listen(); err != nil {
		t.Fatal(err)
	}
}
