package sample

import (
	"context"
	"strings"
	"sync/atomic"

	"debrief/cmd/internal/simulated"
	"debrief/events/chat"
)

// Model is the simulated model in this process. It counts its calls and tokens. It is safe for concurrent use.
type Model struct {
	// Direct answers the prompts.
	Direct *simulated.Direct
	// Before is called before each prompt. Nil does nothing.
	Before func(context.Context, chat.Prompt) error

	Calls   atomic.Int64
	in, out atomic.Int64
	// Right and RightTokens count the calls and tokens of reflections on right answers.
	Right, RightTokens atomic.Int64
}

// Complete implements chat.Model.
func (m *Model) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	if m.Before != nil {
		if err := m.Before(ctx, p); err != nil {
			return chat.Reply{}, err
		}
	}
	said := make([]simulated.Message, len(p.Messages))
	for i := range p.Messages {
		said[i] = simulated.Message{Speaker: p.Messages[i].Speaker, Text: p.Messages[i].Text}
	}
	text, in, out := m.Direct.Reply(p.Name, said)
	m.Calls.Add(1)
	m.in.Add(int64(in))
	m.out.Add(int64(out))
	if strings.HasPrefix(said[len(said)-1].Text, "Outcome: success") {
		m.Right.Add(1)
		m.RightTokens.Add(int64(in + out))
	}
	return chat.Reply{
		Text: text, Model: simulated.Name, Finish: "stop",
		Usage: chat.Usage{Calls: 1, InputTokens: in, OutputTokens: out},
	}, nil
}

// Tokens returns the number of input and output tokens.
func (m *Model) Tokens() int64 { return m.in.Load() + m.out.Load() }
