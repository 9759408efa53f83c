package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"debrief/cmd/internal/api/body"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/outcome"
	"debrief/playbook"
)

// Middleware edits and observes model calls. It is safe for concurrent use.
type Middleware interface {
	// Begin is called before a call is sent upstream. ctx ends at the deadline of the gateway. If Begin returns nil, the call
	// passes unchanged and unobserved. The same happens after an error, and the response then has X-Debrief-Degraded.
	Begin(ctx context.Context, c *Call) (*Edit, error)
}

// Call is a request to one of the three model APIs. Header and Body are read-only. They stay valid until Recorder.End returns,
// or until Begin returns without a Recorder.
type Call struct {
	API  modelapi.API
	Mode Mode // not ModeOff
	Book playbook.Book
	// Caller is the holder of the token. It is zero without tokens. A caller never sees runs of other owners.
	Caller events.Caller
	// Outcome is the outcome in the headers. It is zero without such headers, and for a caller that may not report runs.
	Outcome events.Outcome
	// Header has the headers of the request, with X-Debrief-*.
	Header http.Header
	Body   []byte
	// Response is the id of the response that the client polls for. Such a call has no body.
	Response string
	At       time.Time
}

// Edit is the change of a call.
type Edit struct {
	// Body replaces the body of the request. Nil keeps it.
	Body []byte
	// Header has headers for the response, such as X-Debrief-Context.
	Header http.Header
	// Degraded is the code of the reason why the call is not advised or not captured, such as "no-advice". It is empty without one.
	Degraded string
	// Recorder observes the response. Nil disables it.
	Recorder Recorder
}

// Recorder observes one response.
type Recorder interface {
	// Start is called at the headers of the response, if the upstream responds. It returns nil if it wants no copy of the body. ctx ends
	// after gatewayOptions.Deadline.
	Start(ctx context.Context, status int, header http.Header) Copy
	// Degraded returns the known reason why the call is not observed, or "". It is called after Start, and again before
	// the client receives the last bytes.
	Degraded() string
	// End is called once: at the end of the response, or if there is none. err is nil if the response is complete. ctx ends
	// after storeTimeout. The client receives the last bytes only after End returns. So if this process is killed when the client has the
	// whole response, the call is stored already. The exception is a client that was released earlier, because Hold returned false.
	End(ctx context.Context, err error)
	// Hold reports whether the client has to wait longer for End. It is called during End, each time gatewayOptions.Deadline has passed.
	Hold() bool
}

// Copy receives the body of a response as it arrives.
type Copy interface {
	// Write must not block, and its errors are ignored.
	io.Writer
	// Ended reports whether the bytes contain the end marker of an event stream. Clients do not wait for bytes after it.
	Ended() bool
}

const maxBody = 32 << 20 // size limit of bodies for the Middleware, in bytes

const storeTimeout = 10 * time.Second // limits Recorder.End

// reason is the reason why a call passed unedited or unobserved. The text is the value of X-Debrief-Degraded. The zero value means that the
// call was edited and observed.
type reason struct{ code, text string }

var (
	bodySize = reason{"body_size", fmt.Sprintf("body over %d bytes", maxBody)}
	noMemory = reason{"memory", "too many request bodies in memory"}
	encoding = reason{"encoding", "request body has a content encoding"}
	tooLate  = reason{"deadline", "playbook not available in time"}
	notReady = reason{"unavailable", "playbook unavailable"}
)

// bodyFailure returns the failure of reading the body of the client, or nil.
func (x *exchange) bodyFailure() *failure {
	if x.source == nil {
		return nil
	}
	switch failed, slow := x.source.Failed(); {
	case slow:
		return newFailure(http.StatusRequestTimeout, "slow_body", "request body arrives too slowly")
	case failed:
		return newFailure(http.StatusBadRequest, "incomplete_body", "incomplete request body")
	}
	return nil
}

// exchange is the state of one request.
type exchange struct {
	began   time.Time
	class   Class
	route   route
	book    playbook.Book
	mode    Mode
	token   *tokens.Token  // anyone without tokens; nil before authorize
	caller  events.Caller  // of the token
	outcome events.Outcome // of the headers

	source   *body.Paced   // body of the client; nil without one
	body     []byte        // body for the upstream; nil if the body of the client is streamed
	sent     chan struct{} // closed after the transport has sent a streamed body; nil without one
	room     int64         // bytes of Gateway.memory to give back at the end
	edit     Edit
	degraded reason

	status int           // of the response; 0 before it
	header time.Duration // until the headers of the response
	code   string        // of headerError, or CodeCut; "" without an error
	whole  bool          // the upstream sent the whole response
	failed error         // the reason why the response is not whole, if known
	stored chan struct{} // closed after Recorder.End; nil before Gateway.endCall
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// respond records the status of the response. Only the first call has an effect.
func (x *exchange) respond(status int) {
	if x.status == 0 {
		x.status, x.header = status, time.Since(x.began)
	}
}

// begin reads the body and offers the call to the Middleware. Afterwards x.body or r.Body is the body for the upstream,
// unless it returns a failure.
func (g *Gateway) begin(r *http.Request, x *exchange) *failure {
	if x.mode == ModeOff || g.o.Middleware == nil {
		return nil
	}
	x.degraded = x.route.unread(r)
	if x.route.api == "" || x.degraded != (reason{}) { // no call of a model, or one that the gateway cannot read
		return nil
	}
	if x.route.response != "" {
		g.offer(r, x)
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		x.degraded = encoding
		return nil
	}
	if r.ContentLength > maxBody {
		x.degraded = bodySize
		return nil
	}
	// Hold may read only the beginning of the body. Then Whole returns the beginning and the unread rest.
	h, err := g.memory.Hold(r.Body, r.ContentLength, maxBody)
	x.room = h.Room // also after an error
	switch {
	case err != nil:
		return x.bodyFailure()
	case errors.Is(h.Reason, body.ErrNoMemory):
		x.degraded, r.Body = noMemory, h.Whole(r.Body)
		return nil
	case h.Reason != nil:
		x.degraded, r.Body = bodySize, h.Whole(r.Body)
		return nil
	}
	x.body = h.Data
	g.offer(r, x)
	return nil
}

// offer gives a call to the Middleware, and takes over its edit.
func (g *Gateway) offer(r *http.Request, x *exchange) {
	ctx, cancel := context.WithTimeout(r.Context(), g.o.Deadline)
	defer cancel()
	call := &Call{
		API: x.route.api, Mode: x.mode, Book: x.book, Caller: x.caller, Outcome: x.outcome,
		Header: r.Header.Clone(), Body: x.body, Response: x.route.response, At: x.began,
	}
	var edit *Edit
	err := errPanic
	g.runGuarded(func() { edit, err = g.o.Middleware.Begin(ctx, call) })
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		x.degraded = tooLate
	case err != nil:
		x.degraded = notReady
		g.o.Log.Debug().Err(err).Str("book", string(x.book)).Msg("pass a model call unchanged")
	case edit != nil:
		x.edit = *edit
		if edit.Body != nil {
			x.body = edit.Body
		}
		if edit.Degraded != "" {
			x.degraded = reason{edit.Degraded, edit.Degraded}
		}
	}
}

var errPanic = errors.New("panic")

// runGuarded runs code of the Middleware, and reports whether it returned. A panic is logged, because it must not fail a call.
func (g *Gateway) runGuarded(f func()) (returned bool) {
	defer func() {
		if p := recover(); p != nil {
			g.o.Log.Error().Str("panic", fmt.Sprintf("%T", p)).Bytes("stack", debug.Stack()).Msg("process a model call")
		}
	}()
	f()
	return true
}

// endCall starts Recorder.End, and gives the memory of the body back after it. Only the first call has an effect.
func (g *Gateway) endCall(x *exchange) {
	if x.stored != nil {
		return
	}
	x.stored = make(chan struct{})
	rec := x.edit.Recorder
	if rec == nil {
		g.memory.Release(x.room)
		close(x.stored)
		return
	}
	err := x.failed
	if !x.whole && err == nil {
		err = errors.New("response was cut")
	}
	g.active.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		defer close(x.stored)
		defer g.memory.Release(x.room)
		g.runGuarded(func() { rec.End(ctx, err) })
	})
}

// noteDegraded asks the recorder why the call is not observed.
func (g *Gateway) noteDegraded(x *exchange) {
	g.runGuarded(func() {
		if code := x.edit.Recorder.Degraded(); code != "" {
			x.degraded = reason{code, code}
		}
	})
}

// awaitStored waits until the recorder has stored a call, or releases the client.
func (g *Gateway) awaitStored(x *exchange) {
	limit := time.NewTicker(g.o.Deadline)
	defer limit.Stop()
	for {
		select {
		case <-x.stored:
			return
		case <-limit.C:
			hold := false
			g.runGuarded(func() { hold = x.edit.Recorder.Hold() })
			if !hold {
				return
			}
		}
	}
}

// recordedBody is a response body that the recorder receives a copy of. It returns the last bytes after the recorder has stored
// the call, or has released the client.
type recordedBody struct {
	io.ReadCloser
	g    *Gateway
	x    *exchange
	left int64 // bytes of the body that are not read; negative if its length is unknown
	copy Copy  // nil: no copy
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	isLast := n > 0 && b.left == int64(n)
	ended := err == io.EOF || isLast //nolint:errorlint // readers return io.EOF itself
	b.left -= int64(n)
	if n > 0 && b.copy != nil {
		returned := b.g.runGuarded(func() {
			_, _ = b.copy.Write(p[:n])
			ended = ended || b.copy.Ended()
		})
		if !returned {
			b.copy = nil
		}
	}
	switch {
	case ended && b.x.stored == nil:
		b.x.whole = true
		b.copy = nil // from now on only the recorder uses it
		b.g.endCall(b.x)
		b.g.awaitStored(b.x)
		b.g.noteDegraded(b.x)
	case err != nil && !ended:
		b.x.failed = err
	}
	return n, err
}

// isWork reports whether a call is a part of an agent's work that should be captured: a call of a model that the provider answered. A call that
// the gateway cannot read counts, too. Helper calls, polls, embeddings and counts of tokens do not.
func (x *exchange) isWork() bool {
	isRead := x.route.api != "" && x.route.response == "" && x.degraded.code != helperCall
	isUnread := x.degraded == unreadPath || x.degraded == webSocket
	answered := x.code == "" && x.status/100 != 4 && x.status/100 != 5
	return (isRead || isUnread) && answered && x.mode != ModeOff
}

// uncaptured returns the reason why a call is not captured, or "".
func (x *exchange) uncaptured() string {
	isCaptured := x.edit.Recorder != nil && x.degraded.code != notStored
	if isCaptured {
		return ""
	}
	return cmp.Or(x.degraded.code, "unknown")
}

// readOutcome reads the outcome in the headers of a request. It refuses an unknown form. If the leading score of the book cannot be read
// from NATS, it ignores the outcome: the call must pass, and without NATS it is not captured anyway.
func (g *Gateway) readOutcome(r *http.Request, x *exchange) *failure {
	decoder := outcome.Decoder{}
	if g.o.LeadingScore != nil {
		decoder.Leading = func() (string, error) { return g.o.LeadingScore(r.Context(), x.book) }
	}
	given, err := decoder.OfHeaders(r.Header.Get(headerScore), r.Header.Get(headerLabel))
	switch {
	case errors.As(err, new(*outcome.LookupError)):
		g.o.Log.Warn().Err(err).Str("book", string(x.book)).Msg("ignore the outcome in the headers of a call")
	case err != nil:
		return newFailure(http.StatusBadRequest, "invalid_outcome", headerScore+", "+headerLabel+": "+err.Error())
	case given.Known() && x.token.Allows(tokens.Report):
		x.outcome = given
		x.outcome.By = "header"
	}
	return nil
}
