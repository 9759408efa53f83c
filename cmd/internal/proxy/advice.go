package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/proxy/capture"
	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/window"
	"debrief/playbook"
)

// Reasons why a call is not advised or not captured, in addition to those in call.go and route.go.
const (
	unreadable   = "unreadable"       // the request is not of the API
	noText       = "no-text"          // the request has no text of a user
	helperCall   = "helper-call"      // a title or a summary of a conversation
	nothingSaid  = "nothing-said"     // "go on" inside a conversation: captured, without new advice
	runClosed    = "run-closed"       // the run is reported: the call gets its advice, and is not captured
	openRunsFull = "open-runs-full"   // the store of open runs is full
	openRunQuota = "open-runs-quota"  // the token has too many open runs
	notStored    = "capture"          // the beginning of the call could not be stored
	noAdvice     = "no-advice"        // the playbook is not available
	lateAdvice   = "advice-timeout"   // the playbook was not available in time
	inControl    = "control"          // the session is in the control group of the playbook
	noPlace      = "no-place"         // the message has no place for a text
	badReply     = "unreadable-reply" // counted only: the response is complete and cannot be read
)

// contextBuilder builds the advice. A service client and a Generator implement it.
type contextBuilder interface {
	Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error)
}

// advisor adds advice to calls and captures them. It is safe for concurrent use.
type advisor struct {
	contexts    contextBuilder
	runs        *capture.Store
	filter      *adviceFilter
	windows     *window.Store
	losses      zerolog.Logger
	countUnread func(reason string)
}

// lossInterval is the time in which at most one lost call is logged. A server that fails loses all calls; a metric counts them.
const lossInterval = 10 * time.Second

// newAdvisor returns an advisor. The caller must call Close. The function countUnread is called for each response that cannot be read, with
// the reason.
func newAdvisor(contexts contextBuilder, runs *capture.Store, conn *bus.Conn, countUnread func(reason string), log zerolog.Logger) *advisor {
	return &advisor{
		contexts: contexts, runs: runs, filter: newAdviceFilter(conn), windows: window.New(conn.NATS(), conn.JetStream()), countUnread: countUnread,
		losses: log.Sample(&zerolog.BurstSampler{Burst: 1, Period: lossInterval}),
	}
}

// Close stops following playbooks.
func (a *advisor) Close() { a.filter.close() }

// Begin implements Middleware.
func (a *advisor) Begin(ctx context.Context, c *Call) (*Edit, error) {
	if c.Response != "" {
		return a.poll(ctx, c)
	}
	request, err := modelapi.Parse(c.API, c.Body)
	if err != nil {
		return &Edit{Degraded: unreadable}, nil //nolint:nilerr // the provider names the error
	}
	call := newCall(c, request)
	turn := request.Turn()
	startsOpen := func(texts []string) bool { return a.runs.StartsOpenConversation(ctx, call, texts) }
	if turn >= 0 && isHelper(request, turn, startsOpen) {
		return &Edit{Degraded: helperCall}, nil
	}
	active, err := a.runs.Begin(ctx, call)
	if reason := refusalReason(err); reason != "" {
		return &Edit{Degraded: reason}, nil
	}
	if err != nil {
		return nil, err
	}
	edit := &Edit{Header: http.Header{headerRun: {string(active.Run)}}}
	earlierReason := a.filterEarlier(ctx, c.Book, active)
	given, reason := a.advise(ctx, c, request, active)
	hasOwnAdvice := given.block.ContextID != "" || active.Block.ContextID != ""
	if !hasOwnAdvice && !active.Closed { // active.Blocks has only advice of earlier turns
		given.block.Control, reason = a.checkControl(ctx, c, request, active, reason)
	}
	if given.block.Control || active.Block.Control {
		active.DropBlocks() // they are from turns before the playbook had a control share
		earlierReason = inControl
	}
	edit.Degraded = cmp.Or(reason, earlierReason)
	edit.Body, err = insert(c.Mode, request, active)
	if err != nil {
		edit.Body, edit.Degraded = nil, noPlace
		given = advice{} // no prompt has it, so no outcome may count for it
	}
	active.Start(given.block, given.store)
	setHeaders(edit.Header, active)
	edit.Recorder = a.newRecorder(c, active, call.Background)
	return edit, nil
}

// refusalReason returns the reason why the store does not capture a call, or "" for another error and for nil.
func refusalReason(err error) string {
	switch {
	case errors.Is(err, capture.ErrNoTurn):
		return noText
	case errors.Is(err, capture.ErrQuota):
		return openRunQuota
	case errors.Is(err, capture.ErrFull):
		return openRunsFull
	}
	return ""
}

// filterEarlier removes the lines from the advice of earlier calls that may not be shown anymore. If the playbook is not available, it
// removes all lines and returns the reason.
func (a *advisor) filterEarlier(ctx context.Context, name playbook.Book, active *capture.ActiveCall) (reason string) {
	for i, b := range active.Blocks {
		now, err := a.filter.admitted(ctx, name, b)
		if err != nil {
			reason = adviceReason(err)
		}
		active.Blocks[i] = now
		if now.Text == "" {
			delete(active.Blocks, i)
		}
		if b.ContextID == active.Block.ContextID {
			active.Block.Bullets = now.Bullets
		}
	}
	return reason
}

// advice is the advice for a new run. The zero value is no advice.
type advice struct {
	block capture.Block
	store func(context.Context) error // stores the context of the block
}

// advise returns the advice for a new run, or the reason why the call has none. The reason is empty, too, if the call needs no new advice.
func (a *advisor) advise(ctx context.Context, c *Call, request *modelapi.Request, active *capture.ActiveCall) (_ advice, reason string) {
	turn := request.Turn()
	inherits := c.Mode == ModeSystem && len(active.Blocks) > 0 // the advice of the conversation's first turn
	switch {
	case active.Closed:
		return advice{}, runClosed
	case !active.New, inherits, turn < 0, c.Mode == ModeObserve:
		return advice{}, ""
	}
	query := queryOf(request, turn, active.TurnNumber)
	if query == "" {
		return advice{}, nothingSaid
	}
	given, err := a.requestAdvice(ctx, c, query, active)
	if err != nil {
		return advice{}, adviceReason(err)
	}
	if given.block.Text != "" {
		active.Blocks[turn] = given.block
		a.filter.follow(c.Book) // filterEarlier of the next call needs the playbook
	}
	return given, ""
}

// checkControl reports whether a run that only repeats the advice of earlier turns is in the control group. It requests advice for that, and
// only while the playbook has a control share. If the request fails, checkControl leaves the advice out of this call. The argument reason is
// the result of advise. checkControl returns it, or the reason of its own failure.
func (a *advisor) checkControl(ctx context.Context, c *Call, request *modelapi.Request, active *capture.ActiveCall, reason string) (held bool, _ string) {
	if len(active.Blocks) == 0 || !a.filter.hasControl(c.Book) {
		return false, reason
	}
	adviseFailed := reason != "" && reason != nothingSaid
	if !adviseFailed {
		query := cmp.Or(queryOf(request, max(request.Turn(), 0), 1), lastQuestion(request.Items), "?") // any text: only the control group matters
		given, err := a.requestAdvice(ctx, c, query, active)
		if err == nil {
			return given.block.Control, reason
		}
		reason = adviceReason(err)
	}
	clear(active.Blocks)
	return false, reason
}

// requestAdvice asks the Generator for advice.
func (a *advisor) requestAdvice(ctx context.Context, c *Call, query string, active *capture.ActiveCall) (advice, error) {
	r := &events.ContextRequest{
		Caller: c.Caller, User: events.FitName(c.Header.Get(headerUser)), Book: c.Book, Query: query, Advice: true, Unstored: true,
		RunID: active.Session, // the name of the session in later turns
	}
	startsSession := active.Session == string(active.Run)
	if !startsSession { // nothing is stored of a session that starts
		r.Session = active.Session
	}
	reply, err := a.contexts.Context(ctx, r)
	if err != nil {
		return advice{}, err
	}
	r.Session = active.Session // the stored context has the session in any case
	served, err := events.NewServedContext(r, reply)
	if err != nil {
		return advice{}, err
	}
	b := capture.Block{ContextID: reply.ID, Version: reply.Version, Lines: reply.Lines, Control: reply.Control != nil && reply.Control.Held}
	if len(reply.Messages) > 0 { // advice is one message, or none
		b.Text = reply.Messages[0].Text
	}
	for _, shown := range reply.Shown {
		b.Bullets = append(b.Bullets, shown.ID)
	}
	return advice{b, func(ctx context.Context) error { return a.windows.PutContext(ctx, served) }}, nil
}

// poll observes a poll for a response that the model creates in the background.
func (a *advisor) poll(ctx context.Context, c *Call) (*Edit, error) {
	pending, err := a.runs.Poll(ctx, c.Caller, c.Book, c.Response)
	if err != nil || pending == nil {
		return nil, err
	}
	return &Edit{Header: http.Header{headerRun: {string(pending.Run)}}, Recorder: a.newRecorder(c, pending, true)}, nil
}

// insert returns the body with the advice, or nil without advice.
func insert(mode Mode, request *modelapi.Request, active *capture.ActiveCall) ([]byte, error) {
	if mode == ModeObserve || len(active.Blocks) == 0 {
		return nil, nil
	}
	if mode == ModeSystem {
		first := slices.Min(slices.Collect(maps.Keys(active.Blocks)))
		return request.Insert(nil, active.Blocks[first].Text)
	}
	texts := make(map[int]string, len(active.Blocks))
	for i, b := range active.Blocks {
		texts[i] = b.Text
	}
	return request.Insert(texts, "")
}

// setHeaders adds the session and the advice of a run to the headers of the response.
func setHeaders(h http.Header, active *capture.ActiveCall) {
	if !active.Named {
		h.Set(headerSession, active.Session)
	}
	b := active.Block
	if b.ContextID == "" {
		return
	}
	ids := make([]string, len(b.Bullets))
	for i, id := range b.Bullets {
		ids[i] = string(id)
	}
	h.Set(headerContext, string(b.ContextID))
	h.Set(headerVersion, strconv.FormatUint(b.Version, 10))
	h.Set(headerBullets, strings.Join(ids, ","))
}

// newCall describes a call to the store of runs. Names of any form must not fail a call, so invalid ones are changed to fit.
func newCall(c *Call, request *modelapi.Request) *capture.Call {
	return &capture.Call{
		Caller: c.Caller, User: events.FitName(c.Header.Get(headerUser)), Book: c.Book,
		Session: events.FitName(cmp.Or(c.Header.Get(headerSession), request.Session, request.Conversation)),
		Task:    events.FitName(c.Header.Get(headerTask)), Trace: c.Header.Get(events.HeaderTrace), Request: request, Retry: retries(c.Header),
		Inject: c.Mode != ModeObserve, Background: inBackground(c), At: c.At, Outcome: c.Outcome,
	}
}

// inBackground reports whether the client asks for a reply in the background: it polls for it later.
func inBackground(c *Call) bool {
	if c.API != modelapi.Responses || !bytes.Contains(c.Body, []byte(`"background"`)) {
		return false
	}
	var body struct {
		Background bool `json:"background"`
	}
	return json.Unmarshal(c.Body, &body) == nil && body.Background
}

// retries returns how often the client has sent the call before, or 0 if it does not say so.
func retries(h http.Header) int {
	n, err := strconv.Atoi(h.Get(headerRetry))
	if err != nil {
		return 0
	}
	return n
}

// adviceReason returns the reason code for advice that an error prevents.
func adviceReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return lateAdvice
	}
	return noAdvice
}

// replyStore stores the reply to one call: a capture.ActiveCall or a capture.PendingCall.
type replyStore interface {
	Finish(ctx context.Context, reply *modelapi.Reply, status int) error
	Wait(ctx context.Context) error
	Failed() error
	Hold() bool
}

// recorder reads one response for the store of runs.
type recorder struct {
	api         modelapi.API
	store       replyStore
	losses      zerolog.Logger
	countUnread func(reason string)
	background  bool // the model may reply later: see inBackground
	status      int  // of HTTP
	collector   *modelapi.Collector
	failed      error // of Wait
}

func (a *advisor) newRecorder(c *Call, s replyStore, background bool) *recorder {
	return &recorder{api: c.API, store: s, losses: a.losses, countUnread: a.countUnread, background: background}
}

// Start implements Recorder. A response without a stream waits until the beginning of the call is stored. The end of a stream waits
// for that instead.
func (r *recorder) Start(ctx context.Context, status int, header http.Header) Copy {
	r.status = status
	r.collector = modelapi.NewCollector(r.api, header.Get("Content-Encoding"))
	if isStream := strings.HasPrefix(header.Get("Content-Type"), "text/event-stream"); !isStream {
		r.failed = r.store.Wait(ctx)
	}
	return r.collector
}

// Degraded implements Recorder.
func (r *recorder) Degraded() string {
	if r.failed != nil || r.store.Failed() != nil {
		return notStored
	}
	return ""
}

// Hold implements Recorder.
func (r *recorder) Hold() bool { return r.store.Hold() }

// End implements Recorder.
func (r *recorder) End(ctx context.Context, err error) {
	reply := &modelapi.Reply{Finish: modelapi.FinishFailed, Error: "no response"}
	if r.collector != nil {
		reply = r.collector.Reply()
	}
	if err != nil && !reply.Complete() {
		reply.Finish, reply.Error = modelapi.FinishFailed, err.Error()
	}
	succeeded := err == nil && r.status < http.StatusMultipleChoices
	if succeeded && reply.Finish == modelapi.FinishNone && !r.background {
		r.countUnread(badReply)
	}
	if err := r.store.Finish(ctx, reply, r.status); err != nil {
		r.losses.Warn().Err(err).Msg("calls of models are not captured")
	}
}
