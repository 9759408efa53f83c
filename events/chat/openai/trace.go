package openai

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"debrief/events/chat"
)

// Attribute keys: OpenTelemetry's conventions for generative models, and our own. No attribute contains prompts or
// replies.
const (
	keyOperation = attribute.Key("gen_ai.operation.name")
	keyProvider  = attribute.Key("gen_ai.provider.name")
	keyModel     = attribute.Key("gen_ai.request.model")
	keyAnswered  = attribute.Key("gen_ai.response.model")
	keyFinish    = attribute.Key("gen_ai.response.finish_reasons")
	keyInput     = attribute.Key("gen_ai.usage.input_tokens")
	keyOutput    = attribute.Key("gen_ai.usage.output_tokens")
	keyServer    = attribute.Key("server.address")
	keyPort      = attribute.Key("server.port")
	keyErrorType = attribute.Key("error.type")
	keyStatus    = attribute.Key("http.response.status_code")
	keyAttempt   = attribute.Key("debrief.attempt")
	keyAttempts  = attribute.Key("debrief.attempts")
)

// attemptFailed is the name of the event of a failed attempt in a span.
const attemptFailed = "attempt failed"

// startSpan starts the span of a call as a child of the caller's span. It records nothing if the caller is not traced.
func (s *server) startSpan(ctx context.Context, operation string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, trace.SpanFromContext(context.Background())
	}
	attrs := []attribute.KeyValue{keyOperation.String(operation), keyProvider.String("openai"), keyModel.String(s.cfg.Model)}
	if u, err := url.Parse(s.cfg.BaseURL); err == nil {
		attrs = append(attrs, keyServer.String(u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			attrs = append(attrs, keyPort.Int(port))
		}
	}
	return parent.TracerProvider().Tracer("debrief/llm").Start(ctx, operation+" "+s.cfg.Model,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// endSpan ends the span of a call with its number of requests.
func endSpan(span trace.Span, requests int, usage chat.Usage, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(keyAttempts.Int(requests))
	if err == nil {
		span.SetAttributes(keyInput.Int(usage.InputTokens), keyOutput.Int(usage.OutputTokens))
		return
	}
	errType := errorType(err)
	span.SetAttributes(keyErrorType.String(errType))
	span.SetStatus(codes.Error, errType)
}

// logFailure records a failed attempt in the span and in the debug log of the caller. The first timeout is logged as a warning, because
// providers charge for calls that timed out.
func (s *server) logFailure(ctx context.Context, attempt int, e *Error) {
	if e.timedOut && !s.warned.Swap(true) {
		zerolog.Ctx(ctx).Warn().Str("model", s.cfg.Model).Str("timeout", s.cfg.Timeout.String()).Str("flag", s.cfg.name("Timeout")).
			Msg("a model call timed out: if the model is slow, raise " + s.cfg.name("Timeout") + ", now " + s.cfg.Timeout.String())
	}
	zerolog.Ctx(ctx).Debug().Str("model", s.cfg.Model).Int("attempt", attempt+1).Int("status", e.Status).Str("error", e.Text).Msg("model call failed")
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(attemptFailed, trace.WithAttributes(keyAttempt.Int(attempt+1), keyErrorType.String(errorType(e)), keyStatus.Int(e.Status)))
	}
}

// errorType classifies an error for traces. It does not use the error's text, because a server may quote the prompt.
func errorType(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.kind.String()
	}
	if _, ok := errors.AsType[*chat.UnavailableError](err); ok {
		return "unavailable"
	}
	return "other"
}

func (k failureKind) String() string {
	switch k {
	case down:
		return "no_answer"
	case busy:
		return "busy"
	case misconfigured:
		return "misconfigured"
	case tooLong:
		return "too_long"
	}
	return "refused"
}
