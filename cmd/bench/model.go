package main

import (
	"context"
	"sync/atomic"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/events/chat"
)

// roleModel is the model of a world as a model of the roles. It counts its calls and tokens.
type roleModel struct {
	world       worlds.World
	calls       atomic.Int64 // of the Reflector and the Curator
	reflections atomic.Int64 // of the Reflector
	tokens      atomic.Int64
}

// Complete implements chat.Model.
func (m *roleModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	said := make([]worlds.Message, len(p.Messages))
	for i := range p.Messages {
		said[i] = worlds.Message{Speaker: p.Messages[i].Speaker, Text: p.Messages[i].Text}
	}
	text := m.world.Reply(p.Name, said)
	in, out := 0, chat.Tokens(text)
	for i := range said {
		in += chat.Tokens(said[i].Text)
	}
	m.calls.Add(1)
	if p.Name == "reflector" {
		m.reflections.Add(1)
	}
	m.tokens.Add(int64(in + out))
	return chat.Reply{Text: text, Model: m.world.Name(), Finish: "stop", Usage: chat.Usage{Calls: 1, InputTokens: in, OutputTokens: out}}, nil
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
