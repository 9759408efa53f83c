// Package api is the HTTP door of the service for outside agents: what package events/service does, over HTTP.
//
//	POST /v1/context      events.ContextRequest    events.ContextReply
//	POST /v1/executions   events.Report            events.Stored
//	POST /v1/feedback     events.FeedbackRequest   events.Stored
//	GET  /v1/                                      what there is
//
// An agent asks for what its model should see, and reports what came of it with the context's id:
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
// With a token each request also says -H "Authorization: Bearer $DEBRIEF_HTTP_TOKEN".
//
// Package service says how bodies are read, what the codes mean and that Retry-After comes with a 503. HTTP adds 401
// for a wrong token, 405, 408 for a slow body, 415 for one that is not JSON, and 421.
//
// # Slow bodies
//
// A body must bring 8 KiB, or its rest, in each 2 seconds, and all of it in 30. Memory is booked as bytes arrive: a declared
// length books none. All bodies together hold at most 128 MiB. When that is used up, the body with the lowest rate among
// those older than 2 seconds is dropped with 408; a request gets 503 only when no slower one is left.
//
// # Who may ask
//
// Without a token it listens on the loopback only, and then answers only to names of the loopback (421 otherwise): a
// page in a browser can have its own name resolve to 127.0.0.1, but not hide the name it asked for. It takes no
// body that does not call itself JSON, which a browser sends to another site only after asking, and that question has
// no answer here. With a token neither matters, and the name is free, so that a proxy can stand before it.
//
// It speaks no TLS: beyond a network that is trusted, put a proxy that does before it, for the token's sake.
package api

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"debrief/events/service"
)

// Options of Serve.
type Options struct {
	// Token is what every request must bear; empty is none.
	Token string
	Log   zerolog.Logger
	// Told is told of each answer; the verb is "" where the path has none. Nil is nobody.
	Told service.Told
}

// Server listens until it is closed.
type Server struct {
	http   http.Server
	url    string
	grace  time.Duration
	served chan struct{}
}

// limits are how long things may take.
type limits struct {
	header time.Duration // until the headers are read
	body   time.Duration // until the body is
	idle   time.Duration // between requests of a connection
	all    time.Duration // until the answer is written, from the headers on: a body, the handler's time-out and as much again
	grace  time.Duration // for requests in flight when the server is closed: longer than the handler's time-out

	window time.Duration // in which a body must bring step bytes, or its rest
	step   int64         // bytes
	held   int64         // bytes of all bodies that are read or handled at the same time
}

var usual = limits{
	header: 5 * time.Second, body: 30 * time.Second, idle: time.Minute, all: time.Minute, grace: 15 * time.Second,
	window: 2 * time.Second, step: 8 << 10, held: 128 << 20,
}

// Serve listens on addr, a host:port whose empty host is 127.0.0.1, and answers with the desk. An address that other
// machines can reach needs a token. Errors name the flags --http and --http-token.
func Serve(addr string, desk service.Desk, o Options) (*Server, error) {
	return serve(addr, desk, o, usual)
}

func serve(addr string, desk service.Desk, o Options, most limits) (*Server, error) {
	if !bearable(o.Token) {
		return nil, errors.New("--http-token: must be of visible ASCII characters, without spaces")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("--http: want HOST:PORT: %w", err)
	}
	if host == "" {
		host = "127.0.0.1" // not every interface, as it would be in package net
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	if o.Token == "" && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("--http: %s can be reached from other machines: set --http-token, or listen on 127.0.0.1", addr)
	}
	s := &Server{
		http: http.Server{
			Handler:           newDoor(desk, o, most),
			ReadHeaderTimeout: most.header,
			ReadTimeout:       most.body,
			WriteTimeout:      most.all,
			IdleTimeout:       most.idle,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          stdlog.New(o.Log, "", 0),
		},
		url:    "http://" + l.Addr().String(),
		grace:  most.grace,
		served: make(chan struct{}),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error().Err(err).Msg("HTTP")
		}
	}()
	return s, nil
}

// URL is where it listens, without a path.
func (s *Server) URL() string { return s.url }

// Close takes no more requests, waits for those in flight, and returns. An error says that some took too long and were
// cut off.
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

// bearable reports whether a header can carry the token.
func bearable(token string) bool {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
