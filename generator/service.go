package generator

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/outcome"
	"debrief/events/window"
	"debrief/generator/prompt/conversation"
	"debrief/playbook"
)

// RequestError reports an invalid request.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// Invalid marks the error as an invalid request.
func (e *RequestError) Invalid() bool { return true }

// NotFoundError reports that the object of a request was not found.
type NotFoundError struct{ Err error }

func (e *NotFoundError) Error() string { return e.Err.Error() }
func (e *NotFoundError) Unwrap() error { return e.Err }

// NotFound marks the error as not found.
func (e *NotFoundError) NotFound() bool { return true }

func invalidf(format string, args ...any) error { return &RequestError{fmt.Errorf(format, args...)} }

func notFoundf(format string, args ...any) error { return &NotFoundError{fmt.Errorf(format, args...)} }

// Context builds a context for an agent's own model. It stores the context until the agent reports the execution, unless the request is
// Unstored: then the caller stores it.
func (cb *ContextBuilder) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	req, err := cb.newRequest(r)
	if err != nil {
		return nil, err
	}
	id := events.NewID()
	if !r.DryRun {
		req.armKey = func(turn int) string { return armKey(r, id, turn) }
	}
	req.control = contextControl(r, id)
	built, err := cb.build(ctx, req)
	if err != nil {
		return nil, err
	}
	reply := &events.ContextReply{
		Book: r.Book, Session: r.Session, Turn: built.turn, Version: built.version, Stale: built.stale,
		Messages: built.Messages, Shown: built.Shown, Manifest: built.Manifest, SHA256: hex.EncodeToString(chat.Digest(built.Messages)), Scores: built.Scores,
		WindowScores: built.WindowScores, Lines: built.Lines, Control: built.control,
	}
	if r.DryRun {
		return reply, nil
	}
	reply.ID = id
	if r.Unstored {
		return reply, nil
	}
	served, err := events.NewServedContext(r, reply)
	if err != nil {
		return nil, err
	}
	ctx, cancel := cb.withOptionalTimeout(ctx)
	defer cancel()
	if err := cb.windows.PutContext(ctx, served); err != nil { // the context is still usable
		reply.ID = ""
		reply.Manifest.Warnings = append(reply.Manifest.Warnings, "context: not stored, its execution cannot refer to it: "+shortError(ctx, err))
	}
	return reply, nil
}

// armKey returns the key for the arms of experiments in a context with this id:
//
//   - All contexts of a turn have the same arms.
//   - With advice, all contexts of a session have the same arms, because the conversation keeps the advice of earlier turns.
//   - Advice for the gateway, which requests it unstored, has its own arms, because the gateway removes the advice of earlier turns. So has a context
//     without a session.
func armKey(r *events.ContextRequest, id events.ID, turn int) string {
	switch {
	case r.Session != "" && !r.Advice:
		return fmt.Sprintf("turn %d of %s/%s", turn, r.Caller.Owner, r.Session)
	case r.Session != "" && !r.Unstored:
		return fmt.Sprintf("session %s/%s", r.Caller.Owner, r.Session)
	}
	return "context " + string(id)
}

// contextControl returns the key for the control arm of a request. id is the id of the context.
func contextControl(r *events.ContextRequest, id events.ID) controlKey {
	session := cmp.Or(r.Session, r.RunID)
	uncounted := r.DryRun || r.Playbook != nil
	switch {
	case r.Caller.Uncontrolled, session == "" && uncounted:
		return controlKey{}
	case session == "":
		return controlKey{session: string(id)}
	}
	return controlKey{session: session, lasts: true, uncounted: uncounted}
}

// newRequest validates a request and returns the description of its context.
func (cb *ContextBuilder) newRequest(r *events.ContextRequest) (*contextRequest, error) {
	if err := r.Validate(); err != nil {
		return nil, &RequestError{err}
	}
	req := &contextRequest{
		book: r.Book, owner: r.Caller.Owner, session: r.Session, query: r.Query, taskContext: r.Context, instructions: chat.PromptAgent, taskType: r.Task,
		runningSteps: r.Steps, pinnedVersion: r.Playbook, minVersion: r.MinVersion, limits: cb.cfg.Limits, explain: r.Explain,
	}
	if r.Advice {
		req.advice = true
		req.instructions = chat.PromptAdvice
	}
	if s := strings.TrimSpace(r.System); s != "" {
		req.instructions = s + "\n\n" + chat.PromptAgent
	}
	if r.Limit > 0 {
		req.limits.Total = r.Limit
	}
	if r.Window != "" {
		if err := req.limits.Window.UnmarshalText([]byte(r.Window)); err != nil {
			return nil, invalidf("window: %w", err)
		}
	}
	switch conversation.Task(r.Task) {
	case "", conversation.General, conversation.Research, conversation.Coding, conversation.Debugging, conversation.Analysis:
	default:
		return nil, invalidf("task: want general, research, coding, debugging or analysis, got %.80q", r.Task)
	}
	if r.Playbook != nil && r.MinVersion > *r.Playbook {
		return nil, invalidf("min_version: must be at most playbook version %d, got %d", *r.Playbook, r.MinVersion)
	}
	return req, nil
}

// Report stores an execution of an agent. The context id tells which bullets the agent's model received. Without a
// known context id of the owner the shown bullets are unknown, and the reply contains a warning. A copy of a report, with the
// same run id and owner, is not stored again.
func (cb *ContextBuilder) Report(ctx context.Context, r *events.Report) (*events.StoredReply, error) {
	if len(r.ContextID) > maxID {
		return nil, invalidf("context_id: must have at most %d bytes, got %d", maxID, len(r.ContextID))
	}
	e := &events.Execution{
		Book: r.Book, Owner: r.Caller.Owner, User: r.User, Session: r.Session, Question: r.Question, Context: r.Context, Steps: r.Steps,
		Reasoning: r.Reasoning, Answer: r.Answer, Agent: r.Agent, Outcome: r.Outcome, Target: r.Target, Purpose: r.Purpose, Model: r.Model, Usage: r.Usage.Recorded(),
		ContextID: r.ContextID, Started: r.Started.UTC(), Duration: max(0, r.Duration), Origin: events.Origin{Source: r.Caller.Source(), Task: r.Task},
	}
	warns := new(warnings)
	contextErr := cb.fillFromContext(ctx, e, warns)
	hasQuestion := strings.TrimSpace(e.Question) != ""
	isTemporary := bus.Unreachable(contextErr) || errors.Is(contextErr, context.DeadlineExceeded)
	isIncomplete := e.Book == "" || !hasQuestion // only the context could supply the missing fields
	if contextErr != nil && (isTemporary || isIncomplete) {
		// Without its context the report would lose the votes of the shown bullets. The agent sends it again.
		return nil, fmt.Errorf("context_id: %w", contextErr)
	}
	e.Book = cmp.Or(e.Book, events.DefaultBook)
	if err := e.Book.Validate(); err != nil {
		return nil, &RequestError{err}
	}
	if !hasQuestion {
		return nil, invalidf("question: required without a known context_id")
	}
	if now := time.Now().UTC(); e.Started.IsZero() || e.Started.After(now) { // the clock of the agent may be wrong, and lists go by this time
		e.Started = now
	}
	e.RunID = cmp.Or(r.RunID, string(r.ContextID), string(events.NewID()))
	e.ID = events.ExecutionID(e.Book, e.Owner, e.RunID, 0)
	setToolOutcomes(e.Steps)
	e.Outcome = e.Outcome.Complete()
	e.Outcome.Label = cmp.Or(e.Outcome.Label, events.Unknown)
	e.Cited = citedBullets(r.Cited, e.Shown)
	if r.Turn > 0 { // the caller knows turns that are not stored yet
		e.Turn = r.Turn
	}
	hasContext := e.Manifest != nil
	if !hasContext && contextErr == nil {
		e.Control = cb.recordedArm(ctx, e, cmp.Or(e.Session, r.RunID))
	}
	if e.Purpose == events.Evaluate {
		e.Control = nil
	}
	if err := e.Validate(); err != nil {
		return nil, &RequestError{err}
	}
	return cb.storeReport(ctx, e, warns)
}

// LeadingScore returns the name of the score that counts if an outcome has several, for a playbook or for the playbook of a served context.
// It implements service.Leader.
func (cb *ContextBuilder) LeadingScore(ctx context.Context, caller events.Caller, b playbook.Book, contextID events.ID) (string, error) {
	if b == "" && contextID != "" && len(contextID) <= maxID {
		s, err := cb.windows.Context(ctx, contextID)
		if err != nil && !errors.Is(err, window.ErrContextNotFound) {
			return "", err
		}
		if err == nil && s.Owner == caller.Owner {
			b = s.Book
		}
	}
	return cb.playbooks.store.LeadingScore(ctx, cmp.Or(b, events.DefaultBook))
}

// storeReport stores the execution of a report and adds it to its session, unless a copy is stored.
func (cb *ContextBuilder) storeReport(ctx context.Context, e *events.Execution, warns *warnings) (*events.StoredReply, error) {
	limited, cancel := cb.withOptionalTimeout(ctx)
	defer cancel()
	if first := cb.firstCopy(limited, window.EffectTurn, e); first != "" {
		cb.cfg.Meter.Duplicate(events.VerbReport)
		return &events.StoredReply{Handle: first, Duplicate: true, Warnings: *warns}, nil
	}
	history := cb.readSession(limited, &contextRequest{book: e.Book, owner: e.Owner, session: e.Session, execution: e.ID}, warns)
	e.Turn = cmp.Or(e.Turn, history.turn)
	receipt, err := cb.publish(ctx, e)
	if err != nil {
		return nil, err
	}
	if receipt.Duplicate {
		cb.cfg.Meter.Duplicate(events.VerbReport)
	}
	if !history.inWindow {
		if err := cb.addToWindow(ctx, e, receipt); err != nil {
			warns.add("session: execution stored, but not added to the window: %s", shortError(ctx, err))
		}
	}
	return &events.StoredReply{Handle: receipt.Handle, Duplicate: receipt.Duplicate, Warnings: *warns}, nil
}

// firstCopy returns the handle of the stored copy of an execution or of feedback, or "" if no copy is known. It also returns "" after an error: a
// second copy is harmless, because the Curator covers each id once.
func (cb *ContextBuilder) firstCopy(ctx context.Context, effect window.Effect, e events.Event) events.Handle {
	seq, err := cb.windows.FirstCopy(ctx, e.InBook(), effect, e.EventID())
	if err == nil {
		if seq == 0 {
			return ""
		}
		_, err = cb.conn.Events.Find(ctx, events.StreamExecutions, seq, func(id events.ID) bool { return id == e.EventID() })
	}
	switch {
	case err == nil:
		return events.NewHandle(seq, e.EventID())
	case !errors.Is(err, bus.ErrNotFound):
		cb.conn.ContextLog(ctx).Warn().Err(err).Msg("look up an earlier copy: storing the event again")
	}
	return ""
}

// setToolOutcomes derives the outcomes that an agent did not report from the outputs.
func setToolOutcomes(steps []events.Step) {
	for i := range steps {
		for j := range steps[i].Calls {
			if c := &steps[i].Calls[j]; c.Outcome == "" {
				c.Outcome = outcome.OfTool(c, c.Output, outcome.Signs{})
			}
		}
	}
}

// maxID bounds the id of a context, in bytes. Generated ids have 22.
const maxID = 256

// publish stores the event of a request. An event that cannot be encoded is an invalid request.
func (cb *ContextBuilder) publish(ctx context.Context, e events.Event) (bus.Receipt, error) {
	receipt, err := cb.conn.Publish(ctx, e, bus.PublishOptions{})
	var discardable interface{ Discard() bool }
	if errors.As(err, &discardable) && discardable.Discard() {
		err = &RequestError{err}
	}
	return receipt, err
}

// contextTimeout is the timeout for the served context of a report. It is longer than the timeout of other inputs, because without the context the
// shown bullets get no votes.
const contextTimeout = 5 * time.Second

// fillFromContext copies the data of the served context to the execution. If the context is unknown, or of another owner or playbook, it adds a
// warning and changes nothing. It returns an error if the context cannot be read.
func (cb *ContextBuilder) fillFromContext(ctx context.Context, e *events.Execution, warns *warnings) error {
	const consequence = "so the shown bullets are unknown and receive no votes"
	if e.ContextID == "" {
		warns.add("context_id: empty, %s", consequence)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, contextTimeout, &timeoutError{contextTimeout})
	defer cancel()
	s, err := cb.windows.Context(ctx, e.ContextID)
	switch {
	case errors.Is(err, window.ErrContextNotFound), err == nil && s.Owner != e.Owner: // the warning does not tell that another owner has the id
		warns.add("context_id: %q not found: unknown or expired, %s", e.ContextID, consequence)
		return nil
	case err != nil:
		warns.add("context_id: %s, %s", shortError(ctx, err), consequence)
		return err
	case e.Book != "" && s.Book != e.Book:
		warns.add("context_id: %q belongs to playbook %q, %s", e.ContextID, s.Book, consequence)
		return nil
	}
	e.Book, e.User = s.Book, cmp.Or(e.User, s.User)
	e.Session = cmp.Or(e.Session, s.Session)
	if e.Session == s.Session {
		e.Turn = s.Turn
	} else {
		warns.add("session: reported %.80q, but the context belongs to %.80q", e.Session, s.Session)
	}
	e.Version = s.Version
	e.Shown = s.Shown
	e.Manifest, e.Control = &s.Manifest, s.Control
	e.PromptSHA256 = s.SHA256
	if e.Started.IsZero() {
		e.Started = s.Created
	}
	e.Question, e.Context = cmp.Or(e.Question, s.Query), cmp.Or(e.Context, s.Context)
	for i := range e.Manifest.Parts { // the manifest keeps the served texts, also if the report has others
		switch p := &e.Manifest.Parts[i]; {
		case p.Kind == events.PartQuery && e.Question != s.Query:
			p.Text = s.Query
		case p.Kind == events.PartContext && e.Context != s.Context:
			p.Text = s.Context
		}
	}
	return nil
}

// Feedback stores later feedback on an execution. A changed outcome also changes the votes. It returns a NotFoundError for an execution that the
// caller may not rate.
func (cb *ContextBuilder) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	f, err := NewFeedback(r)
	if err != nil {
		return nil, err
	}
	e, err := cb.findExecution(ctx, r.Execution)
	if err != nil {
		return nil, err
	}
	if e.Book != r.Book || !r.Caller.MayRate(e.Owner) {
		return nil, notFoundf("execution %s: not in playbook %q", r.Execution, r.Book)
	}
	if err := ScoreFeedback(f, e); err != nil {
		return nil, err
	}
	if first := cb.firstCopy(ctx, window.EffectReceipt, f); first != "" {
		cb.cfg.Meter.Duplicate(events.VerbFeedback)
		return &events.StoredReply{Handle: first, Duplicate: true}, nil
	}
	receipt, err := cb.publish(ctx, f)
	if err != nil {
		return nil, err
	}
	if receipt.Duplicate {
		cb.cfg.Meter.Duplicate(events.VerbFeedback)
	} else if _, err := cb.windows.ClaimFirstCopy(ctx, f.Book, window.EffectReceipt, f.ID, receipt.Seq); err != nil {
		cb.conn.ContextLog(ctx).Warn().Err(err).Msg("record feedback: a late copy is stored again")
	}
	return &events.StoredReply{Handle: receipt.Handle, Duplicate: receipt.Duplicate}, nil
}

// findExecution returns the execution of a handle.
func (cb *ContextBuilder) findExecution(ctx context.Context, handle events.Handle) (*events.Execution, error) {
	seq, matches, err := handle.Parse()
	if err != nil {
		return nil, invalidf("execution: %w", err)
	}
	found, err := cb.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, notFoundf("execution %s: %w", handle, err)
	}
	if err != nil {
		return nil, err
	}
	e, ok := found.(*events.Execution)
	if !ok {
		return nil, notFoundf("execution %s: handle of a %s", handle, found.Kind())
	}
	return e, nil
}
