package bus

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/rs/zerolog"

	"debrief/events/redact"
	"debrief/playbook/text"
)

// Log returns the logger of the connection.
func (c *Conn) Log() *zerolog.Logger { return &c.log }

// ContextLog returns the logger of ctx, or the logger of the connection. In a handler its lines name the delivery.
func (c *Conn) ContextLog(ctx context.Context) *zerolog.Logger {
	if l := zerolog.Ctx(ctx); l.GetLevel() != zerolog.Disabled {
		return l
	}
	return &c.log
}

// maxLoggable is the limit of an error text in logs and spans, in bytes.
const maxLoggable = 500

// Loggable returns an error as one line for logs and traces, without secrets and without texts of a model, which belong
// only in dead letters. An error with a text of a model has a method Loggable, which leaves that text out.
func Loggable(err error) string {
	return text.Line(redact.Text(withoutModelText(err, err.Error())), maxLoggable)
}

// withoutModelText replaces the texts of err and its causes by their loggable texts, in a text that contains err.Error().
func withoutModelText(err error, text string) string {
	switch e := err.(type) { //nolint:errorlint // it unwraps step by step
	case interface{ Loggable() string }:
		return strings.ReplaceAll(text, err.Error(), e.Loggable())
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return withoutModelText(inner, text)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = withoutModelText(inner, text)
		}
	}
	return text
}

// panicError is the error of deliveries whose handler panicked.
type panicError struct{ value any }

func (p *panicError) Error() string { return fmt.Sprintf("handler panicked: %v", p.value) }

// Loggable returns the text of a runtime error, and otherwise only the type of the value. Other values may contain
// texts of a client or a model.
func (p *panicError) Loggable() string {
	if err, ok := p.value.(runtime.Error); ok {
		return "handler panicked: " + err.Error()
	}
	return fmt.Sprintf("handler panicked with a value of type %T", p.value)
}
