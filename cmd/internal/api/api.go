// Package api is the HTTP endpoint for outside agents. It serves the requests of package events/service over HTTP.
//
//	POST /v1/context      events.ContextRequest    events.ContextReply
//	POST /v1/executions   events.Report            events.StoredReply
//	POST /v1/feedback     events.FeedbackRequest   events.StoredReply
//	GET  /v1/                                      list of endpoints
//
// An agent requests the context for its model, and reports the outcome with the id of the context:
//
//	$ curl -s http://127.0.0.1:4280/v1/context -H 'Content-Type: application/json' \
//	    -d '{"book": "default", "session": "s-1", "query": "Which shelf is highest?", "min_version": 17}'
//	{"context_id":"n1Ssl4rO1aBTtCpPnTCXTg","book":"default","session":"s-1","playbook_version":17,"messages":[{"role":"system",…},…],…}
//
//	$ curl -s http://127.0.0.1:4280/v1/executions -H 'Content-Type: application/json' \
//	    -d '{"book": "default", "context_id": "n1Ssl4rO1aBTtCpPnTCXTg", "answer": "Shelf 7.",
//	         "cited": ["shr-00003"], "outcome": {"score": 1, "label": "success"}}'
//	{"handle":"1003-824a105a"}
//
// With a token, each request has the header -H "Authorization: Bearer $DEBRIEF_HTTP_TOKEN".
//
// Package service defines the format of bodies, the status codes, and Retry-After for a 503. HTTP adds 401 for a
// wrong token, 405, 408 for a slow body, 415 for a body that is not JSON, and 421.
//
// # Slow bodies
//
// A body must send 8 KiB, or its rest, in each 2 seconds, and all of it within 30 seconds. Memory is reserved as
// bytes arrive, not by the declared length. All bodies together hold at most 128 MiB. At that limit, the slowest body
// among those older than 2 seconds is dropped with 408. A request gets 503 only if no slower body is left.
//
// # Access control
//
// Without a token the server listens on loopback only. It then accepts only Host headers of the loopback, and returns
// 421 otherwise: a web page can resolve its own name to 127.0.0.1, but it cannot change the Host header. It accepts
// only bodies with the content type JSON. A browser sends these to another site only after a preflight request, which
// this server does not answer. With a token neither check is needed, and any Host header is accepted, so that a proxy
// can be in front.
//
// The server has no TLS. In an untrusted network, put a proxy with TLS in front of it, to protect the token.
package api

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"debrief/events/service"
)

// Options are the options of Serve.
type Options struct {
	// Token is the bearer token of all requests. Empty requires none.
	Token string
	Log   zerolog.Logger
	// OnResponse is called for each response. The verb is "" for an unknown path. Nil disables it.
	OnResponse service.Observer
}

// Server is an HTTP server that listens until Close.
type Server struct {
	http   http.Server
	url    string
	grace  time.Duration
	served chan struct{}
}

// limits are the limits of requests.
type limits struct {
	header   time.Duration // for reading the headers
	body     time.Duration // for reading the body
	idle     time.Duration // between the requests of a connection
	response time.Duration // from the headers to the end of the response: the body, the handler's timeout and the same time again
	grace    time.Duration // for requests in progress at Close: longer than the handler's timeout

	window time.Duration // the time in which a body must send step bytes, or its rest
	step   int64         // bytes
	memory int64         // maximum bytes of all bodies that are read or handled
}

var defaultLimits = limits{
	header: 5 * time.Second, body: 30 * time.Second, idle: time.Minute, response: time.Minute, grace: 15 * time.Second,
	window: 2 * time.Second, step: 8 << 10, memory: 128 << 20,
}

// AutoAddr is the address for Serve that means DefaultAddr, or a free port of the same host if DefaultAddr is in use.
const AutoAddr = "auto"

// DefaultAddr is the preferred address of AutoAddr.
const DefaultAddr = "127.0.0.1:4280"

// Serve listens on addr and serves the requests with the backend. Addr is AutoAddr, or a host:port with the default host
// 127.0.0.1. An address that is reachable from other machines requires a token. Errors name the flags --http and
// --http-token.
func Serve(addr string, backend service.Backend, o Options) (*Server, error) {
	if addr == AutoAddr {
		return serveAuto(DefaultAddr, backend, o)
	}
	return serve(addr, backend, o, defaultLimits)
}

// serveAuto listens on the preferred address, or on a free port of 127.0.0.1 if it is in use.
func serveAuto(preferred string, backend service.Backend, o Options) (*Server, error) {
	s, err := serve(preferred, backend, o, defaultLimits)
	if errors.Is(err, syscall.EADDRINUSE) {
		s, err = serve("127.0.0.1:0", backend, o, defaultLimits)
	}
	return s, err
}

func serve(addr string, backend service.Backend, o Options, lim limits) (*Server, error) {
	if !validToken(o.Token) {
		return nil, errors.New("--http-token: must contain only visible ASCII characters, without spaces")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("--http: want HOST:PORT: %w", err)
	}
	if host == "" {
		host = "127.0.0.1" // package net would listen on every interface
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	if o.Token == "" && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("--http: %s is reachable from other machines: set --http-token, or listen on 127.0.0.1", addr)
	}
	s := &Server{
		http: http.Server{
			Handler:           newHTTPHandler(backend, o, lim),
			ReadHeaderTimeout: lim.header,
			ReadTimeout:       lim.body,
			WriteTimeout:      lim.response,
			IdleTimeout:       lim.idle,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          stdlog.New(o.Log, "", 0),
		},
		url:    "http://" + l.Addr().String(),
		grace:  lim.grace,
		served: make(chan struct{}),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error().Err(err).Msg("serve HTTP")
		}
	}()
	return s, nil
}

// URL returns the URL of the server, without a path.
func (s *Server) URL() string { return s.url }

// Close stops accepting requests and waits for those in progress. It returns an error if it cut off requests that
// took too long.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("close the HTTP server: %w", errors.Join(err, s.http.Close()))
	}
	<-s.served
	return err
}

// validToken reports whether a header can contain the token.
func validToken(token string) bool {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
