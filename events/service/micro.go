package service

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// Serve registers the micro service on a connection and answers with the desk until stop is called or the connection
// is closed. Stop takes no more requests, waits for those that were taken to be answered, and returns; what reaches
// this process after that is refused. It does not close the connection.
// Told is told of each answer; nil is nobody.
func Serve(nc *nats.Conn, desk Desk, log zerolog.Logger, told Told) (stop func(), err error) {
	return serve(nc, NewHandler(desk, log), told)
}

// Told is told of an answer: its code, and how long it took. It is called by many at the same time and must not block.
type Told func(verb string, code int, took time.Duration)

// flushWait is how long the server may take to confirm that it has everything.
const flushWait = 2 * time.Second

func serve(nc *nats.Conn, h *Handler, told Told) (stop func(), err error) {
	d := &door{nc: nc, handler: h, told: told, tallies: map[string]*tally{}}
	verbs := []string{events.VerbContext, events.VerbReport, events.VerbFeedback}
	for _, verb := range verbs {
		d.tallies[verb] = new(tally)
	}
	svc, err := micro.AddService(nc, micro.Config{
		Name: Name, Version: Version, Description: "Contexts for agents, and what they report",
		StatsHandler: func(e *micro.Endpoint) any { return d.tallies[e.Name].read() },
	})
	if err != nil {
		return nil, fmt.Errorf("register the service: %w", err)
	}
	stop = sync.OnceFunc(func() { d.stop(svc) })
	for _, verb := range verbs {
		err := svc.AddEndpoint(verb, d.endpoint(verb), micro.WithEndpointSubject(events.ServiceSubject(verb, "")))
		if err != nil {
			stop()
			return nil, fmt.Errorf("register the service: %w", err)
		}
	}
	if err := nc.FlushTimeout(flushWait); err != nil { // now the server knows
		stop()
		return nil, fmt.Errorf("register the service: %w", err)
	}
	return stop, nil
}

// door takes requests from NATS.
type door struct {
	nc      *nats.Conn
	handler *Handler
	told    Told
	tallies map[string]*tally // by verb

	mu      sync.Mutex
	stopped bool
	taken   sync.WaitGroup
}

// take reports whether one more request is taken. If so it must be given back with taken.Done.
func (d *door) take() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.taken.Add(1)
	}
	return !d.stopped
}

func (d *door) stop(svc micro.Service) {
	if err := svc.Stop(); err != nil {
		d.handler.log.Warn().Err(err).Msg("the service was not taken off the server")
	}
	// After this round trip all that the server sent before it heard of the stop is here.
	_ = d.nc.FlushTimeout(flushWait)
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.taken.Wait()
	_ = d.nc.FlushTimeout(flushWait) // the answers are out
}

// endpoint hands each request to a goroutine: the library calls it for one message after the other, and one that waits
// must not hold up the next. The handler bounds how many there are at work. What the library's request offers to
// answer with writes where the library reads once this has returned, so answers are published here.
func (d *door) endpoint(verb string) micro.HandlerFunc {
	return func(r micro.Request) {
		began := time.Now()
		if !d.take() {
			d.send(verb, r.Reply(), Refused(errStopping), began)
			return
		}
		go func() {
			defer d.taken.Done()
			d.send(verb, r.Reply(), d.answer(verb, r), began)
		}()
	}
}

var errStopping = &refusal{http.StatusServiceUnavailable, "stopping: ask again", time.Second}

func (d *door) answer(verb string, r micro.Request) Answer {
	began := time.Now()
	if r.Reply() != "" && !inbox(r.Reply()) {
		return Refused(Refuse(http.StatusBadRequest, "the reply subject is no inbox"))
	}
	book := r.Subject()[strings.LastIndexByte(r.Subject(), '.')+1:]
	a := d.handler.Handle(bus.Traced(context.Background(), r.Headers().Get(events.HeaderTrace)), verb, playbook.Book(book), r.Data())
	if most := d.nc.MaxPayload(); int64(len(a.Body)) > most {
		a = Refused(Refuse(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("reply too large: it has %d bytes, and the server takes %d: ask for a smaller limit", len(a.Body), most)))
	}
	d.handler.log.Debug().Str("verb", verb).Str(events.LogBook, book).Int("status", a.Code).Dur("took", time.Since(began)).Msg("request")
	return a
}

// inbox reports whether a reply may be sent there; the package's comment says why not everywhere. No client can choose
// a subject that begins like the second and the third: the server sees to that.
func inbox(subject string) bool {
	return strings.HasPrefix(subject, "_INBOX") || strings.HasPrefix(subject, "_R_.") || strings.HasPrefix(subject, "_GR_.")
}

// send sends an answer, if somebody waits for it.
func (d *door) send(verb, to string, a Answer, began time.Time) {
	d.tallies[verb].add(a.Code)
	if d.told != nil {
		d.told(verb, a.Code, time.Since(began))
	}
	if !inbox(to) {
		return
	}
	msg := &nats.Msg{Subject: to, Data: a.Body}
	if a.Text != "" {
		msg.Header = nats.Header{micro.ErrorHeader: {a.Text}, micro.ErrorCodeHeader: {strconv.Itoa(a.Code)}}
		if after := a.RetryAfter(); after != "" {
			msg.Header.Set("Retry-After", after)
		}
	}
	if err := d.nc.PublishMsg(msg); err != nil {
		d.handler.log.Warn().Err(err).Str("verb", verb).Msg("an answer could not be sent")
	}
}

// tally counts the answers of an endpoint.
type tally struct{ answered, refused, failed atomic.Uint64 }

// counts is a tally as the service's statistics have it, under data.
type counts struct {
	Answered uint64 `json:"answered"`
	Refused  uint64 `json:"refused"` // the request's fault
	Failed   uint64 `json:"failed"`  // the service's, also when it was busy
}

func (t *tally) add(code int) {
	switch {
	case code < 400:
		t.answered.Add(1)
	case code < 500:
		t.refused.Add(1)
	default:
		t.failed.Add(1)
	}
}

func (t *tally) read() counts { return counts{t.answered.Load(), t.refused.Load(), t.failed.Load()} }
