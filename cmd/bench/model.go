package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/events/chat"
)

// roleModel is the model of a world as a model of the roles. It counts its calls and tokens.
type roleModel struct {
	world worlds.World
	seed  uint64
	// broken is the share of replies that are not parseable. It is drawn for each call, also for a repeated prompt.
	broken      float64
	calls       atomic.Int64 // of the Reflector and the Curator
	reflections atomic.Int64 // of the Reflector
	tokens      atomic.Int64

	mu       sync.Mutex
	repeated map[uint64]int // number of calls with a prompt, by a hash of the prompt
}

// Complete implements chat.Model.
func (m *roleModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	said := make([]worlds.Message, len(p.Messages))
	for i := range p.Messages {
		said[i] = worlds.Message{Speaker: p.Messages[i].Speaker, Text: p.Messages[i].Text}
	}
	text, finish := m.world.Reply(p.Name, said), "stop"
	if m.broken > 0 {
		hash := worlds.Draw(m.seed, p.Name, worlds.AllText(said))
		m.mu.Lock()
		m.repeated[hash]++
		call := fmt.Sprint(hash, m.repeated[hash])
		m.mu.Unlock()
		if worlds.Chance(m.broken, m.seed, "broken call", call) {
			whole := text
			text = worlds.BreakJSON(whole, worlds.Draw(m.seed, "kind of break", call))
			isTruncated := strings.HasPrefix(whole, text)
			if isTruncated {
				finish = "length"
			}
		}
	}
	in, out := 0, chat.Tokens(text)
	for i := range said {
		in += chat.Tokens(said[i].Text)
	}
	m.calls.Add(1)
	if p.Name == "reflector" {
		m.reflections.Add(1)
	}
	m.tokens.Add(int64(in + out))
	return chat.Reply{Text: text, Model: m.world.Name(), Finish: finish, Usage: chat.Usage{Calls: 1, InputTokens: in, OutputTokens: out}}, nil
}

// worldEmbedder computes the embeddings of a world.
type worldEmbedder struct{ world worlds.World }

func (e worldEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = worlds.Embed(e.world.Features(text))
	}
	return vectors, nil
}

func (e worldEmbedder) Model() string { return e.world.Name() + "-embeddings" }
