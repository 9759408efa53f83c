package service

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus"
)

// Serve registers the micro service on a connection. It answers requests with backend until stop is called or the
// connection is closed. stop rejects new requests, waits until those in progress are answered, and returns. It does
// not close the connection. observe is called for each response; nil disables it.
func Serve(nc *nats.Conn, backend Backend, log zerolog.Logger, observe Observer) (stop func(), err error) {
	s := &server{nc: nc, handler: NewHandler(backend, log), observe: observe}
	svc, err := micro.AddService(nc, micro.Config{
		Name: Name, Version: Version, Description: "Contexts for agents, and their reports",
	})
	if err != nil {
		return nil, fmt.Errorf("register the service: %w", err)
	}
	stop = sync.OnceFunc(func() { s.stop(svc) })
	for _, verb := range []string{events.VerbContext, events.VerbReport, events.VerbFeedback} {
		for _, owner := range []string{"", events.AnyOwner} {
			err := svc.AddEndpoint(verb, s.endpoint(verb), micro.WithEndpointSubject(events.ServiceSubject(verb, "", owner)))
			if err != nil {
				stop()
				return nil, fmt.Errorf("register the service: %w", err)
			}
		}
	}
	if err := nc.FlushTimeout(flushTimeout); err != nil { // wait until the server has the subscriptions
		stop()
		return nil, fmt.Errorf("register the service: %w", err)
	}
	return stop, nil
}

// Observer observes a response: its status code and the duration of the request. Implementations must be safe for
// concurrent use and must not block.
type Observer func(verb string, code int, took time.Duration)

// flushTimeout limits a round trip to the server.
const flushTimeout = 2 * time.Second

// server processes requests from NATS.
type server struct {
	nc      *nats.Conn
	handler *Handler
	observe Observer

	mu      sync.Mutex
	stopped bool
	pending sync.WaitGroup
}

// begin registers a request. It returns false after stop. Otherwise the caller must call pending.Done.
func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.pending.Add(1)
	return true
}

func (s *server) stop(svc micro.Service) {
	if err := svc.Stop(); err != nil {
		s.handler.log.Warn().Err(err).Msg("stop the micro service")
	}
	// After this round trip the client has received all requests that the server sent before the stop.
	_ = s.nc.FlushTimeout(flushTimeout)
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.pending.Wait()
	_ = s.nc.FlushTimeout(flushTimeout) // the replies are sent
}

// endpoint processes each request in a new goroutine, because the library calls the handler sequentially, and one
// slow request would delay the others. The Handler limits the number of requests. Replies are published here and not with the
// methods of micro.Request, because these write fields that the library reads after the handler has returned.
func (s *server) endpoint(verb string) micro.HandlerFunc {
	return func(r micro.Request) {
		began := time.Now()
		if !s.begin() {
			s.send(verb, r.Reply(), ErrorResponse(errStopping), began)
			return
		}
		go func() {
			defer s.pending.Done()
			s.send(verb, r.Reply(), s.answer(verb, r, began), began)
		}()
	}
}

var errStopping = &refusal{http.StatusServiceUnavailable, "stopping: try again", time.Second}

// answer returns the response to a request. began is when the request arrived.
func (s *server) answer(verb string, r micro.Request, began time.Time) Response {
	if r.Reply() != "" && !events.IsInbox(r.Reply()) {
		return ErrorResponse(NewError(http.StatusBadRequest, "the reply subject is not an inbox"))
	}
	book, caller, err := events.CallerOf(r.Subject(), r.Headers())
	if err != nil {
		return ErrorResponse(NewError(http.StatusBadRequest, err.Error()))
	}
	response := s.handler.Handle(bus.ContextWithTrace(context.Background(), r.Headers().Get(events.HeaderTrace)), verb, book, caller, r.Data())
	if limit := s.nc.MaxPayload(); int64(len(response.Body)) > limit {
		response = ErrorResponse(NewError(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("reply too large: %d bytes, the server accepts %d: request a smaller limit", len(response.Body), limit)))
	}
	s.handler.log.Debug().Str("verb", verb).Str(events.LogBook, string(book)).Int("status", response.Code).Dur("took", time.Since(began)).Msg("request")
	return response
}

// send observes a response, and publishes it if the request had a reply subject. began is when the request arrived.
func (s *server) send(verb, to string, r Response, began time.Time) {
	if s.observe != nil {
		s.observe(verb, r.Code, time.Since(began))
	}
	if !events.IsInbox(to) {
		return
	}
	msg := &nats.Msg{Subject: to, Data: r.Body}
	if r.Text != "" {
		msg.Header = nats.Header{micro.ErrorHeader: {r.Text}, micro.ErrorCodeHeader: {strconv.Itoa(r.Code)}}
		if after := r.RetryAfter(); after != "" {
			msg.Header.Set("Retry-After", after)
		}
	}
	if err := s.nc.PublishMsg(msg); err != nil {
		s.handler.log.Warn().Err(err).Str("verb", verb).Msg("send reply")
	}
}
