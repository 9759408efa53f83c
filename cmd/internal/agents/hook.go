package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/client"
	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of a hook. The agent waits for it, so it ends in time, with advice or without.
const (
	// Limit is the time from the first statement of the program to the end of the request for advice: 300 ms, less the time that the system
	// takes to start and end a process.
	Limit = 195 * time.Millisecond
	// guard bounds the handling of an event. It is longer than Limit: besides the request for advice there are only a few small files, and
	// losing a run is worse than a late end on a busy machine.
	guard = time.Second
	// adviceTimeout bounds the request for advice, as the default of the gateway does.
	adviceTimeout = 150 * time.Millisecond
	// maxText is the maximum length of the text for the model, in bytes. Claude Code keeps a text of 10,000 characters whole, and
	// shows the model only the beginning of one of 50,000.
	maxText = 8000
	// adviceTokens is the requested size of the advice; it has about four bytes for each token.
	adviceTokens = 1900

	maxInput = 16 << 20 // bytes of an event
	maxQuery = 16 << 10 // bytes of the text that selects advice
	minQuery = 80       // a shorter message selects advice together with the one before it
	maxCalls = 500      // calls of a run that are remembered for an agent without transcripts
	maxCall  = 16 << 10 // bytes of the arguments and of the output of such a call
)

// Hook handles the events of one agent.
type Hook struct {
	Agent    string
	Settings string // file
	State    string // directory
	// Until is the time at which the hook goes on without advice. The zero value sets no limit.
	Until time.Time
	// StartHandOver starts the hand-over of the runs that wait, in another process.
	StartHandOver func() error
}

// Handle reads one event and returns the output for the agent, which is empty if there is nothing to say. The output is whole or
// empty. Errors go to the log in the state directory.
func (h *Hook) Handle(ctx context.Context, in io.Reader) []byte {
	out, err := h.read(ctx, in)
	if err != nil {
		state(h.State).log(fmt.Errorf("%s: %w", h.Agent, err))
	}
	return out
}

// errLate is returned by within if its time is over.
var errLate = errors.New("not done in time")

// read reads the event until its time is over, and handles it.
func (h *Hook) read(ctx context.Context, in io.Reader) ([]byte, error) {
	wait := guard
	if !h.Until.IsZero() {
		wait = time.Until(h.Until)
	}
	reading, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	data, err := within(reading, func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxInput)) })
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	working, cancel := context.WithTimeout(ctx, guard)
	defer cancel()
	return within(working, func() ([]byte, error) { return h.handle(working, data) })
}

// within calls a function that may block for ever, and returns errLate when ctx ends before it. A panic is an error: it would end the
// process with a code that stops the agent.
func within(ctx context.Context, f func() ([]byte, error)) ([]byte, error) {
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- result{nil, fmt.Errorf("panic: %v", v)}
			}
		}()
		out, err := f()
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
		return nil, errLate
	}
}

// handle handles an event, and stores the state of its session.
func (h *Hook) handle(ctx context.Context, data []byte) ([]byte, error) {
	e, err := parse(h.Agent, data)
	if err != nil || e.kind == kindOther {
		return nil, err
	}
	settings, err := ReadSettings(h.Settings)
	if err != nil {
		return nil, err
	}
	r := settings.Of(e.dir)
	if r == nil || !slices.Contains(r.Agents, h.Agent) {
		return nil, nil
	}
	s := state(h.State)
	file := s.sessionFile(h.Agent, e.session)
	unlock, err := lock(ctx, file)
	if err != nil {
		return nil, err
	}
	defer unlock()
	current := new(session)
	if _, err := ReadJSON(file+".json", current); err != nil {
		return nil, err
	}
	current.GitDir = r.GitDir
	t := eventHandler{hook: h, event: e, repository: r, session: current, state: s}
	out, err := t.handle(ctx)
	if ctx.Err() != nil { // the agent does not get the output: it must not count as shown
		return nil, errors.Join(err, ctx.Err())
	}
	err = errors.Join(err, WriteJSON(file+".json", current))
	if t.mustHandOver {
		err = errors.Join(err, h.StartHandOver())
	}
	return out, err
}

// eventHandler handles one event of a session.
type eventHandler struct {
	hook         *Hook
	event        *event
	repository   *Repository
	session      *session
	state        state
	mustHandOver bool // the spool has entries to hand over now
}

func (t *eventHandler) handle(ctx context.Context) ([]byte, error) {
	e, s := t.event, t.session
	switch e.kind {
	case kindBegin:
		if e.fresh {
			s.ShownLines = nil
		}
		t.mustHandOver = len(t.state.waiting()) > 0 // entries that no server accepted earlier
		return t.advise(ctx, "Work in the repository "+filepath.Base(filepath.Dir(t.repository.GitDir)), nil)
	case kindPrompt:
		return t.handlePrompt(ctx)
	case kindToolUse:
		return t.handleToolUse(ctx)
	case kindAnswer:
		if s.Run != nil {
			s.Run.Answer = clip(e.answer, maxQuery)
		}
	case kindStop, kindEnd:
		if s.Run == nil {
			return nil, nil
		}
		if e.answer != "" {
			s.Run.Answer = clip(e.answer, maxQuery)
		}
		if e.kind == kindStop { // maybe for the second time, because another hook has sent the agent back to work
			s.Run.HandedOver = false
		}
		return nil, t.spoolRun()
	}
	return nil, nil
}

// handleToolUse remembers a tool call, and gives the advice that the message of the user could not get.
func (t *eventHandler) handleToolUse(ctx context.Context) ([]byte, error) {
	s := t.session
	if s.Run == nil {
		return nil, nil
	}
	if len(s.Run.Calls) < maxCalls && t.repository.Transcripts {
		call := *t.event.call
		call.Arguments, call.Output = clip(call.Arguments, maxCall), clip(call.Output, maxCall)
		s.Run.Calls = append(s.Run.Calls, call)
	}
	if !s.AdviceDue {
		return nil, nil
	}
	s.AdviceDue = false
	return t.advise(ctx, s.Run.Prompt, s.Run)
}

// handlePrompt handles a message of the user: a rating, or work.
func (t *eventHandler) handlePrompt(ctx context.Context) ([]byte, error) {
	e, s := t.event, t.session
	spoolErr := t.spoolRun() // the user interrupted the work on the message before
	if rated, ok := ratingOf(e.prompt); ok {
		text, err := t.rate(rated)
		return e.refusalOutput(text), errors.Join(spoolErr, err)
	}
	query := e.prompt
	if s.Run != nil && len(query) < minQuery {
		query = strings.TrimSpace(query + "\n" + s.Run.Prompt)
	}
	s.TurnNumber++
	s.Run = &run{ID: string(events.NewID()), Prompt: clip(e.prompt, maxQuery), Started: time.Now().UTC()}
	if !e.mayAdvise() {
		s.AdviceDue = true
		return nil, spoolErr
	}
	out, err := t.advise(ctx, query, s.Run)
	return out, errors.Join(spoolErr, err)
}

// rate records the user's verdict on the last run, and returns a text for the user.
func (t *eventHandler) rate(o events.Outcome) (string, error) {
	switch {
	case !t.repository.Transcripts:
		return "Debrief: nothing to rate, because runs of this repository are not handed over.", nil
	case t.session.Run == nil:
		return "Debrief: nothing to rate yet in this session.", nil
	}
	err := t.state.add(&entry{Kind: entryRating, GitDir: t.repository.GitDir, Agent: t.hook.Agent, Session: t.event.session, Run: *t.session.Run, Outcome: o})
	if err != nil {
		return "Debrief: the rating could not be stored.", err
	}
	t.mustHandOver = true
	return fmt.Sprintf("Debrief: the last run is rated %s.", o.Label), nil
}

// spoolRun puts the run of the session into the spool, once for each time that the agent stops.
func (t *eventHandler) spoolRun() error {
	run := t.session.Run
	if run == nil || run.HandedOver || !t.repository.Transcripts {
		return nil
	}
	err := t.state.add(&entry{
		Kind: entryReport, GitDir: t.repository.GitDir, Agent: t.hook.Agent, Session: t.event.session, TurnNumber: t.session.TurnNumber,
		Transcript: t.event.transcript, Run: *run, Ended: time.Now().UTC(),
	})
	if err != nil {
		return err
	}
	run.HandedOver = true
	t.mustHandOver = true
	return nil
}

// advise requests advice and returns the output with the texts that the conversation does not have yet. The run gets the id of the
// context; run is nil for advice that belongs to no run.
func (t *eventHandler) advise(ctx context.Context, query string, run *run) ([]byte, error) {
	if !t.event.mayAdvise() || query == "" {
		return nil, nil
	}
	deadline := time.Now().Add(adviceTimeout)
	if until := t.hook.Until; !until.IsZero() && until.Before(deadline) {
		deadline = until
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	reply, err := t.repository.client().Context(ctx, &events.ContextRequest{
		Book: playbook.Book(t.repository.Book), Session: t.event.session, Query: clip(query, maxQuery), Advice: true, Limit: adviceTokens,
	})
	if err != nil {
		return nil, err
	}
	if run != nil {
		run.ContextID = reply.ID
	}
	if len(reply.Messages) == 0 {
		return nil, nil
	}
	text, kept := t.unseen(reply)
	if text == "" {
		return nil, nil
	}
	for _, l := range kept {
		t.session.ShownLines = append(t.session.ShownLines, lineKey(&l))
	}
	return t.event.adviceOutput(text), nil
}

// unseen returns the advice without the texts that the conversation has, of at most maxText bytes.
func (t *eventHandler) unseen(reply *events.ContextReply) (string, []events.AdviceLine) {
	seen := map[string]bool{}
	for _, key := range t.session.ShownLines {
		seen[key] = true
	}
	message := reply.Messages[0].Text
	size := len(message)
	for _, l := range reply.Lines {
		size -= l.End - l.Start
	}
	return events.KeepAdvice(message, reply.Lines, func(l *events.AdviceLine, text string) bool {
		if seen[lineKey(l)] || size+len(text) > maxText {
			return false
		}
		size += len(text)
		return true
	})
}

// lineKey identifies a learned text in the state of a session. A bullet with a new wording is new.
func lineKey(l *events.AdviceLine) string {
	if l.Bullet != "" {
		return fmt.Sprintf("%s/%x", l.Bullet, l.Wording)
	}
	return string(l.Reflection) + "/" + l.Field
}

// client returns a client of the API for the repository.
func (r *Repository) client() *client.Client { return client.HTTP(r.URL, r.Token) }

// clip shortens a text to a number of bytes. Secrets are replaced before the cut, because a part of one may not look like one to the server.
func clip(s string, limit int) string {
	if len(s) > limit {
		s = redact.Text(s)
	}
	return text.Prefix(s, limit)
}
