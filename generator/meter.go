package generator

import (
	"context"
	"time"

	"debrief/events"
)

// Meter receives durations and sizes. Its methods are called concurrently and must not block.
type Meter interface {
	// ContextBuilt records the time to build a whole context.
	ContextBuilt(took time.Duration)
	// Recalled records the part of that time spent on recall.
	Recalled(took time.Duration)
	// Assembled records the part of that time spent on assembly.
	Assembled(took time.Duration)
	// PlaybookDelay records the delay between the flush of a playbook version and its arrival in memory.
	PlaybookDelay(delay time.Duration)
	// WindowBuilt records the size of a window. It is called for each context of a session with earlier turns.
	WindowBuilt(s WindowSize)
	// Duplicate records a copy of a report or of feedback that was not stored again. The verb is events.VerbReport or VerbFeedback.
	Duplicate(verb string)
}

// WindowSize is the size of a session's window in one context. A message is a message of a user, an answer, or a step with
// tool calls. The omitted messages are those of the stored turns: a session stores the last 20.
type WindowSize struct {
	Messages, Tokens               int
	OmittedMessages, OmittedTokens int
}

// Share returns the share of the tokens of the full history that the window keeps, from 0 to 1.
func (s WindowSize) Share() float64 {
	if s.Tokens+s.OmittedTokens <= 0 {
		return 1
	}
	return float64(s.Tokens) / float64(s.Tokens+s.OmittedTokens)
}

// windowSize returns the size of the window in a context.
func windowSize(m *events.Manifest) (s WindowSize) {
	for _, t := range m.Totals() {
		if t.Kind.OfWindow() {
			s.Messages, s.Tokens = s.Messages+t.Included, s.Tokens+t.Tokens
			s.OmittedMessages, s.OmittedTokens = s.OmittedMessages+t.Omitted, s.OmittedTokens+t.OmittedTokens
		}
	}
	return s
}

// noMeter ignores all metrics.
type noMeter struct{}

func (noMeter) ContextBuilt(time.Duration)  {}
func (noMeter) Recalled(time.Duration)      {}
func (noMeter) Assembled(time.Duration)     {}
func (noMeter) PlaybookDelay(time.Duration) {}
func (noMeter) WindowBuilt(WindowSize)      {}
func (noMeter) Duplicate(string)            {}

// VersionLag returns the largest number of versions by which a playbook in memory is behind its stored version. It
// returns 0 while Run is not active.
func (g *Generator) VersionLag(ctx context.Context) (uint64, error) {
	builder := g.builder.Load()
	if builder == nil {
		return 0, nil
	}
	return builder.playbooks.versionLag(ctx)
}
