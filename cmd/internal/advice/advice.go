// Package advice is the learning part of the gateway: it adds the advice of a playbook to calls of models, and captures the runs
// of agents. It implements gateway.Middle.
//
// A call that begins a run gets advice for its last user turn. The text is the same in all calls of the run, and in all later
// calls of the conversation, so a provider's prompt cache keeps its prefixes. The modes differ in the place of the advice:
//
//	tail     at the end of the user's message: nothing before the last user turn changes
//	system   at the end of the system prompt: the advice of the first turn, for the whole conversation
//	observe  nowhere: a control group that is captured
//
// A call passes unchanged and uncaptured if it has no user text or asks for only a few tokens, as generators of titles do. A short
// user text, such as "go on", gets no new advice.
package advice

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/capture"
	"debrief/cmd/internal/gateway"
	"debrief/cmd/internal/modelapi"
	"debrief/events"
	"debrief/events/outcome"
)

// Limits of calls that get advice.
const (
	minTokens = 32 // a request for fewer output tokens is not the work of an agent
	minQuery  = 20 // bytes of a user's text that can select advice
	maxQuery  = 16 << 10
)

// Contexts builds the advice. A service client and a Generator implement it.
type Contexts interface {
	Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error)
}

// Advisor adds advice to calls and captures them. It is safe for concurrent use.
type Advisor struct {
	contexts Contexts
	runs     *capture.Store
	losses   *losses
}

// New returns an Advisor.
func New(contexts Contexts, runs *capture.Store, log zerolog.Logger) *Advisor {
	return &Advisor{contexts, runs, &losses{log: log, interval: lossInterval}}
}

// Begin implements gateway.Middle.
func (a *Advisor) Begin(ctx context.Context, c *gateway.Call) (*gateway.Edit, error) {
	request, err := modelapi.Parse(c.API, c.Body)
	if err != nil {
		return nil, nil //nolint:nilerror // the provider names the error
	}
	if request.MaxTokens > 0 && request.MaxTokens < minTokens {
		return nil, nil
	}
	turn := request.Turn()
	open, err := a.runs.Begin(ctx, newCall(c, request))
	if errors.Is(err, capture.ErrNoTurn) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var block capture.Block
	edit := &gateway.Edit{Header: http.Header{headerRun: {string(open.Run)}}}
	inherits := c.Mode == gateway.ModeSystem && len(open.Blocks) > 0 // the advice of the conversation's first turn
	if open.New && c.Mode != gateway.ModeObserve && !inherits && turn >= 0 && len(strings.TrimSpace(request.Items[turn].Text)) >= minQuery {
		block, err = a.advise(ctx, c, request, open)
		if err != nil {
			edit.Degraded = degraded(err)
		}
	}
	open.Start(block)
	edit.Body, err = insert(c.Mode, request, open)
	if err != nil {
		edit.Body, edit.Degraded = nil, "no-place"
	}
	setHeaders(edit.Header, open)
	edit.Recorder = &recorder{api: c.API, open: open, losses: a.losses}
	return edit, nil
}

// advise requests advice for a new run. It inserts the text into the blocks of the call.
func (a *Advisor) advise(ctx context.Context, c *gateway.Call, request *modelapi.Request, open *capture.Open) (b capture.Block, err error) {
	query := request.Items[request.Turn()].Text
	if len(query) > maxQuery {
		query = query[:maxQuery]
	}
	reply, err := a.contexts.Context(ctx, &events.ContextRequest{
		Caller: c.Caller, User: c.Header.Get(headerUser), Book: c.Book, Session: open.Session, Query: strings.ToValidUTF8(query, ""), Advice: true,
	})
	if err != nil {
		return b, err
	}
	b = capture.Block{ContextID: reply.ID, Version: reply.Version}
	for _, m := range reply.Messages {
		b.Text = m.Text
		open.Blocks[request.Turn()] = m.Text
	}
	for _, shown := range reply.Shown {
		b.Bullets = append(b.Bullets, shown.ID)
	}
	return b, nil
}

// insert returns the body with the advice, or nil without advice.
func insert(mode gateway.Mode, request *modelapi.Request, open *capture.Open) ([]byte, error) {
	if mode == gateway.ModeObserve || len(open.Blocks) == 0 {
		return nil, nil
	}
	if mode != gateway.ModeSystem {
		return request.Insert(open.Blocks, "")
	}
	first := -1
	for i := range open.Blocks {
		if first < 0 || i < first {
			first = i
		}
	}
	return request.Insert(nil, open.Blocks[first])
}

// Headers of requests and responses. The gateway removes those of requests.
const (
	headerRun     = "X-Debrief-Run"
	headerContext = "X-Debrief-Context"
	headerVersion = "X-Debrief-Playbook-Version"
	headerBullets = "X-Debrief-Bullets"

	headerSession = "X-Debrief-Session"
	headerTask    = "X-Debrief-Task"
	headerUser    = "X-Debrief-User"
	headerRetry   = "X-Stainless-Retry-Count" // of the SDKs of OpenAI and Anthropic
)

func setHeaders(h http.Header, open *capture.Open) {
	b := open.Block
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

// newCall describes a call to the store of runs.
func newCall(c *gateway.Call, request *modelapi.Request) *capture.Call {
	session, derived := sessionOf(c, request)
	call := &capture.Call{
		Owner: c.Owner, Caller: c.Caller, User: c.Header.Get(headerUser), Book: c.Book, Session: session, Derived: derived, Task: c.Header.Get(headerTask), Trace: c.Header.Get(events.HeaderTrace),
		Request: request, Retry: retries(c.Header), Inject: c.Mode != gateway.ModeObserve, At: c.At,
	}
	if c.Reports { // an outcome changes what others are told
		call.Outcome = outcomeOf(c.Header)
	}
	return call
}

// sessionOf returns the session of a call: from the header, else from the request, else derived from the first user item of the
// conversation. It is empty for a call that continues a response: the session is then that of the response.
func sessionOf(c *gateway.Call, request *modelapi.Request) (session string, derived bool) {
	if s := cmp.Or(c.Header.Get(headerSession), request.Session, request.Conversation); s != "" {
		return s, false
	}
	for _, item := range request.Items {
		if item.Role == modelapi.RoleUser && request.PreviousID == "" {
			return "conversation-" + string(events.Hash(c.Owner, hex.EncodeToString(item.Prefix[:]))), true
		}
	}
	return "", false
}

func retries(h http.Header) int {
	n, err := strconv.Atoi(h.Get(headerRetry))
	if err != nil {
		return 0
	}
	return n
}

// outcomeOf returns the outcome in the headers of a request. Without one its label is empty. The gateway has refused headers
// that are invalid.
func outcomeOf(h http.Header) events.Outcome {
	o, err := outcome.OfHeaders(h.Get(gateway.HeaderScore), h.Get(gateway.HeaderLabel))
	if err != nil || !o.Known() {
		return events.Outcome{}
	}
	o.By = "header"
	return o
}

// degraded returns the reason code for missing advice.
func degraded(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "advice-timeout"
	}
	return "no-advice"
}

// recorder reads one response for the store of runs.
type recorder struct {
	api       modelapi.API
	open      *capture.Open
	losses    *losses
	status    int
	collector *modelapi.Collector
}

// Start implements gateway.Recorder.
func (r *recorder) Start(status int, header http.Header) gateway.Copy {
	r.status = status
	r.collector = modelapi.NewCollector(r.api, header.Get("Content-Encoding"))
	return r.collector
}

// Hold implements gateway.Recorder.
func (r *recorder) Hold() bool { return r.open.Hold() }

// End implements gateway.Recorder.
func (r *recorder) End(ctx context.Context, err error) {
	reply := &modelapi.Reply{Finish: modelapi.FinishFailed, Error: "no response"}
	if r.collector != nil {
		reply = r.collector.Reply()
	}
	if err != nil && !reply.Complete() {
		reply.Finish, reply.Error = modelapi.FinishFailed, err.Error()
	}
	if err := r.open.Finish(ctx, reply, r.status); err != nil {
		r.losses.add(err)
	}
}
