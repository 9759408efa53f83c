package otlp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"debrief/cmd/internal/runs"
	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/redact"
	"debrief/events/window"
)

// Results, for metrics.
const (
	ResultReported = "otlp-reported" // a run
	ResultRepeated = "otlp-repeated" // a run that was reported before: an export was sent again, or a span came late
	ResultNothing  = "otlp-nothing"  // a trace without a call of a model or a tool, such as one of a web server
	ResultEmpty    = "otlp-empty"    // a run without a question: of a late span, or of an instrumentation that records no texts
	ResultRated    = "otlp-rated"    // feedback: an evaluation came after the run
	ResultInvalid  = "otlp-invalid"  // a trace or a run that cannot be read or stored
)

const maxClosing = 8 // number of traces that a gateway closes at the same time

// Run closes traces until ctx ends. Each gateway calls it.
func (s *Store) Run(ctx context.Context) {
	interval := min(max(s.cfg.Quiet/6, 50*time.Millisecond), 5*time.Second)
	for {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn().Err(err).Msg("cannot close traces, will retry")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval/2 + rand.N(interval)): // random, so that gateways do not sweep together
		}
	}
}

// sweep closes the traces that are due at a time.
func (s *Store) sweep(ctx context.Context, now time.Time) error {
	all := map[events.ID]*dueTrace{}
	err := s.read(ctx, "h.>", func(m *direct.Message) error {
		h, err := decodeValue[head](m)
		if err != nil {
			return nil //nolint:nilerr // an unreadable head expires
		}
		t := all[h.ID]
		if t == nil {
			t = &dueTrace{head: *h}
			all[h.ID] = t
		}
		t.add(h, m)
		return nil
	})
	if err != nil {
		return err
	}
	s.forget(now, all)
	var closing errgroup.Group
	closing.SetLimit(maxClosing)
	for _, t := range all {
		isQuiet, isOld := now.Sub(t.Last) >= s.cfg.Quiet, now.Sub(t.First) >= s.cfg.Limit
		if !isQuiet && !isOld {
			continue
		}
		closing.Go(func() error {
			if !t.Root && !isOld && !s.isReported(ctx, t) {
				return nil // the root may come
			}
			return s.close(ctx, t)
		})
	}
	return closing.Wait()
}

// isReported reports whether the run of a trace is stored: later spans, such as evaluations, then wait for no root. It is false after an error.
func (s *Store) isReported(ctx context.Context, t *dueTrace) bool {
	seq, err := s.windows.FirstCopy(ctx, t.Book, window.EffectTurn, t.executionOf(t.runID()))
	return err == nil && seq > 0
}

// runID returns the id of the main run of the trace.
func (h *head) runID() string { return runIDOf(h.Trace) }

// executionOf returns the id of the execution of a run.
func (h *head) executionOf(runID string) events.ID {
	return events.ExecutionID(h.Book, h.Owner, runID, 0)
}

// runIDOf returns the id of a run by its name in the trace.
func runIDOf(name string) string { return events.FitRunID("otel/" + name) }

// dueTrace is a trace with its heads.
type dueTrace struct {
	head
	heads []direct.Message
}

// add adds a head. The heads of a trace can be of several gateways, so the root, the first and the last span can be in any of them.
func (t *dueTrace) add(h *head, m *direct.Message) {
	t.heads = append(t.heads, *m)
	t.Root = t.Root || h.Root
	if h.First.Before(t.First) {
		t.First = h.First
	}
	if h.Last.After(t.Last) {
		t.Last = h.Last
	}
}

// close reports the runs of a trace. Then it deletes the heads, and after them the spans: a gateway that dies in between leaves a whole trace,
// or spans that nothing reads. A head that was written meanwhile stays, and the next sweep reads the trace again.
func (s *Store) close(ctx context.Context, t *dueTrace) error {
	var stored [][]byte
	var keys []string
	err := s.read(ctx, "d."+string(t.ID)+".*", func(m *direct.Message) error {
		keys = append(keys, m.Subject)
		p, err := decodeValue[part](m)
		if err == nil {
			stored = append(stored, p.Spans...)
		}
		return nil //nolint:nilerr // the other spans of the trace count
	})
	if err != nil {
		return err
	}
	leading := ""
	if s.cfg.LeadingScore != nil {
		if leading, err = s.cfg.LeadingScore(ctx, t.Book); err != nil {
			return err
		}
	}
	found, verdict, err := runsOf(stored, leading)
	switch nothing, isNothing := errors.AsType[*runs.NothingError](err); {
	case isNothing && verdict.Known():
		if err := s.rate(ctx, &t.head, t.runID(), verdict); err != nil {
			return err
		}
	case isNothing:
		s.cfg.Count(ResultNothing)
		s.cfg.Log.Debug().Str("trace", t.Trace).Str("reason", nothing.Error()).Msg("trace without a run")
	case err != nil:
		s.warn(&t.head, ResultInvalid, err.Error())
	}
	for _, r := range found {
		if err := s.report(ctx, &t.head, r); err != nil {
			return err // the next sweep reads the trace again
		}
	}
	for _, m := range t.heads {
		if err := s.removeHead(ctx, &m); err != nil {
			return err
		}
	}
	return s.remove(ctx, keys)
}

// noQuestion is the reason of ResultEmpty.
const noQuestion = "it has no question: let the instrumentation record messages, such as with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// warn counts a result without a run, and logs its reason, at most once a minute: many such traces have only late spans, whose run is
// reported already.
func (s *Store) warn(h *head, result, reason string) {
	s.cfg.Count(result)
	s.warnings.Do(func() {
		s.cfg.Log.Warn().Str("trace", h.Trace).Str("reason", redact.Text(reason)).Msg("no run of a trace was reported")
	})
}

// report reports a run. It returns an error only if a later attempt can succeed.
func (s *Store) report(ctx context.Context, h *head, r *steps.Run) error {
	runID := runIDOf(r.Name)
	if strings.TrimSpace(r.Question) == "" {
		if r.Outcome.Known() {
			return s.rate(ctx, h, runID, r.Outcome)
		}
		s.warn(h, ResultEmpty, noQuestion)
		return nil
	}
	report := &events.Report{
		Caller: h.Caller, Book: h.Book, RunID: runID, Task: events.FitName(r.Task), User: events.FitName(r.User), Session: events.FitName(r.Session), Question: r.Question, Steps: r.Steps, Reasoning: r.Reasoning,
		Answer: r.Answer, Agent: r.Agent, Outcome: r.Outcome, Model: r.Model, Usage: r.Usage, Started: r.Started, Duration: r.Duration,
	}
	redact.Fields(report)
	stored, err := s.reporter.Report(ctx, report)
	switch {
	case isPermanent(err):
		s.warn(h, ResultInvalid, err.Error())
		return nil
	case err != nil:
		return err
	case stored.Duplicate && r.Outcome.Known():
		return s.rate(ctx, h, runID, r.Outcome)
	case stored.Duplicate:
		s.cfg.Count(ResultRepeated)
	default:
		s.cfg.Count(ResultReported)
	}
	return nil
}

// isPermanent reports whether a later attempt gets the same error of the reporter.
func isPermanent(err error) bool {
	var invalid interface{ Invalid() bool }
	var notFound interface{ NotFound() bool }
	isInvalid := errors.As(err, &invalid) && invalid.Invalid()
	return isInvalid || errors.As(err, &notFound) && notFound.NotFound()
}

// rate stores an evaluation of a run that was reported before as feedback, once. It stores no outcome that the run has already.
func (s *Store) rate(ctx context.Context, h *head, runID string, o events.Outcome) error {
	id := h.executionOf(runID)
	seq, err := s.windows.FirstCopy(ctx, h.Book, window.EffectTurn, id)
	if err != nil {
		return err
	}
	var found events.Event
	if seq > 0 { // 0: the run is not stored
		found, err = s.events.Find(ctx, events.StreamExecutions, seq, func(stored events.ID) bool { return stored == id })
	}
	switch {
	case seq == 0, errors.Is(err, bus.ErrNotFound):
		s.warn(h, ResultEmpty, "an evaluation of a run that is not stored")
		return nil
	case err != nil:
		return err
	}
	e, ok := found.(*events.Execution)
	hasOutcome := ok && e.Outcome.Label == o.Label && e.Outcome.Score == o.Score && e.Outcome.Feedback == o.Feedback
	if !ok || hasOutcome {
		s.cfg.Count(ResultRepeated)
		return nil
	}
	f := &events.FeedbackRequest{
		Caller: h.Caller, Book: h.Book, Execution: events.NewHandle(seq, id), Outcome: o,
		ID: events.Hash("otlp evaluation", runID, o.By, string(o.Label), fmt.Sprint(o.Score), o.Feedback),
	}
	redact.Fields(f)
	stored, err := s.reporter.Feedback(ctx, f)
	switch {
	case isPermanent(err):
		s.warn(h, ResultInvalid, err.Error())
		return nil
	case err != nil:
		return err
	case stored.Duplicate:
		s.cfg.Count(ResultRepeated)
	default:
		s.cfg.Count(ResultRated)
	}
	return nil
}

// runsOf returns the runs of a trace, or the outcome of its evaluations if it has no run. A span that came several times counts once: the
// longest copy, because an exporter may send a part of a span first. Events of log records are events of their spans.
func runsOf(stored [][]byte, leading string) (found []*steps.Run, verdict events.Outcome, err error) {
	byID, sources := map[string]*tracev1.Span{}, map[string][]byte{}
	records := map[string][]*tracev1.Span_Event{} // by the id of their span
	slices.SortFunc(stored, bytes.Compare)
	for _, data := range slices.CompactFunc(stored, bytes.Equal) {
		s := new(tracev1.Span)
		if proto.Unmarshal(data, s) != nil {
			continue
		}
		id := string(s.SpanId)
		switch {
		case isEvent(s):
			records[id] = append(records[id], s.Events[0])
			if byID[id] == nil { // the span of the event may have been read with an earlier part of the trace
				byID[id] = &tracev1.Span{TraceId: s.TraceId, SpanId: s.SpanId}
			}
		case len(data) >= len(sources[id]): // of equal lengths the last one, in every order of arrival
			byID[id], sources[id] = s, data
		}
	}
	trace := new(runs.OTelTrace)
	for _, id := range slices.Sorted(maps.Keys(byID)) { // the same trace has the same runs in every order of arrival
		s := byID[id]
		s.Events = append(s.Events, records[id]...)
		slices.SortStableFunc(s.Events, func(a, b *tracev1.Span_Event) int { return cmp.Compare(a.TimeUnixNano, b.TimeUnixNano) })
		if raw, err := spanJSON(s); err == nil {
			trace.Add(modelapi.ParseValue(raw), leading)
		}
	}
	found, err = trace.End()
	return found, trace.Verdict(), err
}

// decodeValue returns the value of a message.
func decodeValue[T any](m *direct.Message) (*T, error) {
	if err := events.CheckSchema(m.Header); err != nil {
		return nil, err
	}
	v := new(T)
	return v, events.Unmarshal(m.Data, v)
}
