package blob

import (
	"context"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"debrief/events"
	"debrief/events/redact"
	"debrief/playbook/text"
)

// Thousands of runs have the same system prompt and tools. Together these have 6 KB for an agent of tau-bench, and can have 60 KB
// for a coding agent. So a description is one blob, and the executions have only its name.

// Limits of the description of an agent. A longer text loses its end.
const (
	inlineAgent     = 256      // bytes of a description that stays in its execution: the name of a blob takes 64
	maxSystemPrompt = 64 << 10 // bytes
	maxTools        = 256
	maxToolName     = 256     // bytes
	maxToolText     = 2 << 10 // bytes of the description of a tool
)

// PutAgent returns the form of a description that an execution stores: without secrets and in limited length. It stores a large
// description as a blob, and returns only the name of the blob. A description that is only a name is returned unchanged. PutAgent does not
// change a.
func (s *Store) PutAgent(ctx context.Context, a *events.Agent) (*events.Agent, error) {
	if a.IsEmpty() {
		return nil, nil
	}
	if a.Ref != "" {
		return &events.Agent{Ref: a.Ref}, nil
	}
	key := keyOf(a)
	// A description that was stored longer ago is stored again, so that its blob does not expire.
	if stored, ok := s.agents.stored.Get(key); ok && time.Since(stored.at) < repeatAfter {
		return &events.Agent{Ref: stored.name}, nil
	}
	short := &events.Agent{SystemPrompt: a.SystemPrompt, Tools: slices.Clone(a.Tools[:min(len(a.Tools), maxTools)])}
	redact.Fields(short) // before the texts are cut, because a part of a secret may not look like one
	short.SystemPrompt = text.Excerpt(short.SystemPrompt, maxSystemPrompt)
	size := len(short.SystemPrompt)
	for i := range short.Tools {
		t := &short.Tools[i]
		t.Name, t.Description = text.Clip(t.Name, maxToolName), text.Excerpt(t.Description, maxToolText)
		size += len(t.Name) + len(t.Description)
	}
	if size <= inlineAgent {
		return short, nil
	}
	data, err := events.Marshal(short)
	if err != nil {
		return nil, fmt.Errorf("encode the description of an agent: %w", err)
	}
	name, err := s.Put(ctx, "", data)
	if err != nil {
		return nil, err
	}
	s.agents.stored.Add(key, storedAgent{name, time.Now()})
	return &events.Agent{Ref: name}, nil
}

// keyOf returns the hash of a description as its agent sends it.
func keyOf(a *events.Agent) events.ID {
	parts := []string{a.SystemPrompt}
	for _, t := range a.Tools {
		parts = append(parts, t.Name, t.Description)
	}
	return events.Hash(parts...)
}

// GetAgent returns a description with its content. It returns ErrExpired or ErrInvalid if no later call can return it.
func (s *Store) GetAgent(ctx context.Context, a *events.Agent) (*events.Agent, error) {
	if a == nil || a.Ref == "" {
		return a, nil
	}
	if known, ok := s.agents.read.Get(a.Ref); ok {
		return known, nil
	}
	data, err := s.Get(ctx, a.Ref)
	if err != nil {
		return nil, err
	}
	found := new(events.Agent)
	if err := events.Unmarshal(data, found); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrInvalid, a.Ref, err)
	}
	s.agents.read.Add(a.Ref, found)
	return found, nil
}

// agents remembers the descriptions that this process has stored or read last.
type agents struct {
	stored *lru.Cache[events.ID, storedAgent] // by keyOf
	read   *lru.Cache[string, *events.Agent]  // by the name of the blob; a description must not be changed
}

// storedAgent is a description that PutAgent has stored.
type storedAgent struct {
	name string    // of its blob
	at   time.Time // when Put returned
}

func newAgents() (a agents) {
	a.stored, _ = lru.New[events.ID, storedAgent](4096) // fails only for a size of 0
	a.read, _ = lru.New[string, *events.Agent](64)
	return a
}
