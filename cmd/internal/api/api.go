// Package api is the HTTP API for agents and people: contexts, executions and feedback of agents, playbooks, and their operation.
//
//	POST /api/v1/contexts     events.ContextRequest    events.ContextReply
//	POST /api/v1/executions   events.Report            events.StoredReply
//	POST /api/v1/feedback     events.FeedbackRequest   events.StoredReply
//	GET  /api/v1/                                      list of all routes
//	GET  /api/v1/openapi.json                          OpenAPI 3.1 document
//
// Further routes read playbooks, executions, runs, dead letters and the status, and change playbooks. They call the packages of the
// commands, so that both show the same.
//
// A run has an id: run_id of a report or a task, else the Idempotency-Key, else the id of the context that it answers, else a random
// one. It is unique for its owner and book. A repeated report is answered with duplicate and the handle of the first. The field task
// is a label that groups runs, and user names the person that the agent works for.
//
// An agent requests the context for its model, and reports the outcome with the id of the context:
//
//	$ curl -s http://127.0.0.1:4280/api/v1/contexts -H 'Content-Type: application/json' \
//	    -d '{"book": "default", "session": "s-1", "query": "Which shelf is highest?", "min_version": 17}'
//	{"context_id":"n1Ssl4rO1aBTtCpPnTCXTg","book":"default","session":"s-1","playbook_version":17,"messages":[{"role":"system",…},…],…}
//
//	$ curl -s http://127.0.0.1:4280/api/v1/executions -H 'Content-Type: application/json' \
//	    -d '{"context_id": "n1Ssl4rO1aBTtCpPnTCXTg", "answer": "Shelf 7.", "cited": ["shr-00003"], "outcome": true}'
//	{"handle":"1003-824a105a"}
//
// With tokens, each request has the header -H "Authorization: Bearer $DEBRIEF_TOKEN".
//
// # Requests and replies
//
// A request that creates something gets 201 and Location, or 200 if it was there before. Idempotency-Key is the id of the edit, run or
// feedback: a repeated request has no further effect. Unknown fields of a body are ignored and listed in the field warnings of the
// reply; with ?strict=1 they are an error. Unknown parameters are an error. A body may be compressed with gzip. A list has items, and
// next if there are more: pass it as the parameter after. A read of a playbook has an ETag, which If-None-Match compares. X-Request-Id
// is that of the request, or a random one; the log has it.
//
// An error is a Problem (RFC 9457). Package service defines the status codes of errors, and Retry-After for a 503. HTTP adds 401
// and 403 for tokens, 405, 408 for a slow body, 415 for a body that is not JSON, and 421.
//
// # Events
//
// GET /api/v1/events sends changes as text/event-stream, for pages that stay open: ready, version, executions, dead and lag. It keeps
// no history: a client reads its page again at ready, which is the first event of each connection. A stream sends at least one
// line in 15 seconds.
//
// # Data in memory
//
// Lists and curves come from memory: an index of the executions, an index of the logs of the playbooks, a feed of changes, and the
// playbooks that were read last. They follow the streams, so any number of servers show the same. After a start, the index reads all executions. Until then, lists of
// executions read the stream, which takes longer, and the field behind of a curve is above 0.
//
// # Slow bodies
//
// A body must send 8 KiB, or its rest, in each 2 seconds, and all of it within 30 seconds. Memory is reserved as
// bytes arrive, not by the declared length. All bodies together hold at most 128 MiB. At that limit, the slowest body
// among those older than 2 seconds is dropped with 408. A request gets 503 only if no slower body is left.
//
// # Access control
//
// A token has a name, an owner, scopes and books; see package tokens. Its name is the author of its edits. It reads and rates the runs
// of its owner. The scopes read, review and operate permit to read those of other owners, and review to rate them. Other runs are not
// found.
//
// Without tokens the server listens on loopback only. It then accepts only Host headers of the loopback, and returns
// 421 otherwise: a web page can resolve its own name to 127.0.0.1, but it cannot change the Host header. It refuses requests
// of pages of other sites, and accepts only bodies with the content type JSON, which a browser sends to another site only after
// a preflight request that this server does not answer. With tokens none of this is needed, and any Host header is accepted, so
// that a proxy can be in front.
//
// The server has no TLS. In an untrusted network, put a proxy with TLS in front of it, to protect the tokens.
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

	"debrief/cmd/internal/activity"
	"debrief/cmd/internal/app"
	"debrief/cmd/internal/executions"
	"debrief/cmd/internal/logindex"
	"debrief/cmd/internal/tokens"
	"debrief/events/bus"
	"debrief/events/service"
)

// Options are the options of Serve.
type Options struct {
	// Tokens are the named tokens. Nil requires none, and accepts only requests that name the loopback.
	Tokens *tokens.Set
	// Conn is the connection to the streams and buckets. Nil serves only contexts, executions and feedback.
	Conn *bus.Conn
	// Executions is the index of the executions. The caller runs it. Required with Conn.
	Executions *executions.Index
	// Logs is the index of the logs of the playbooks. The caller runs it. Required with Conn.
	Logs *logindex.Index
	// Activity is the feed of changes, lag and dead letters. The caller runs it; its end ends the streams of events. Required with Conn.
	Activity *activity.Feed
	// Settings are the settings of the program, for people.
	Settings app.Effective
	Log      zerolog.Logger
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
	response time.Duration // from the headers to the end of the response, without the wait for a worker
	grace    time.Duration // for requests in progress at Close: longer than the handler's timeout

	window time.Duration // the time in which a body must send step bytes, or its rest
	step   int64         // bytes
	memory int64         // maximum bytes of all bodies that are read or handled
}

var defaultLimits = limits{
	header: 5 * time.Second, body: 30 * time.Second, idle: time.Minute, response: time.Minute, grace: 15 * time.Second,
	window: 2 * time.Second, step: 8 << 10, memory: 128 << 20,
}

// Serve listens on addr, a host:port with the default host 127.0.0.1, and serves only the API. Programs serve it beside the
// gateway. An address that is reachable from other machines requires tokens.
func Serve(addr string, backend service.Backend, o Options) (*Server, error) {
	return serve(addr, backend, o, defaultLimits)
}

func serve(addr string, backend service.Backend, o Options, lim limits) (*Server, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address: want HOST:PORT: %w", err)
	}
	if host == "" {
		host = "127.0.0.1" // package net would listen on every interface
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	if o.Tokens == nil && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("address: %s is reachable from other machines: set tokens, or listen on 127.0.0.1", addr)
	}
	s := &Server{
		http: http.Server{
			Handler:           newHandler(backend, o, lim),
			ReadHeaderTimeout: lim.header,
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
