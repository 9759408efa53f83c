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

	"debrief/cmd/internal/api/body"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/events/bus"
	"debrief/events/service"
)

// Options are the options of Serve.
type Options struct {
	// Tokens are the named tokens. Nil requires none, and accepts only requests that name the loopback.
	Tokens *tokens.Set
	// Local is the token of every request to a handler that only this process calls. Nil: requests are authenticated.
	Local *tokens.Token
	// Conn is the connection to the streams and buckets. Nil serves only contexts, executions and feedback.
	Conn *bus.Conn
	// Index has the executions, logs and changes in memory. The caller runs it; its end ends the streams of events. Required with Conn.
	Index *index.Index
	// Settings are the settings of the program, for people.
	Settings program.Effective
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

	pace   body.Pace // of bodies
	memory int64     // maximum bytes of all bodies that are read or handled
}

var defaultLimits = limits{
	header: 5 * time.Second, body: 30 * time.Second, idle: time.Minute, response: time.Minute, grace: 15 * time.Second,
	pace: body.Pace{Step: 8 << 10, Window: 2 * time.Second}, memory: 128 << 20,
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
