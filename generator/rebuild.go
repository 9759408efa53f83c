package generator

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/generator/prompt/assembly"
	"debrief/generator/prompt/conversation"
	"debrief/playbook"
)

// RebuiltContext is the rebuilt context of a past execution.
type RebuiltContext struct {
	Messages []chat.Message  `json:"messages"`
	Manifest events.Manifest `json:"manifest"`
	// Shown are the bullets in the context, with their texts.
	Shown  []events.ShownBullet `json:"shown,omitempty"`
	SHA256 string               `json:"sha256"`
	// Verified reports that the messages are byte for byte those that the model received.
	Verified bool                `json:"verified"`
	Steps    []events.Step       `json:"steps,omitempty"` // of the execution
	Calls    []conversation.Call `json:"calls,omitempty"` // the tool calls of Steps
	// RawReply is the model's reply, if the Generator kept it; see Config.RawReply.
	RawReply string `json:"raw_reply,omitempty"`
	// Missing lists the parts whose texts have expired.
	Missing []events.Part `json:"missing,omitempty"`
	// Reasons lists the other reasons for a difference. If Verified is false, Missing or Reasons is set.
	Reasons []string `json:"reasons,omitempty"`
}

// Rebuild rebuilds the context of a past execution from its manifest and the stored events.
func (cb *ContextBuilder) Rebuild(ctx context.Context, handle events.Handle) (*RebuiltContext, error) {
	e, err := cb.findExecution(ctx, handle)
	if err != nil {
		return nil, err
	}
	if e.Manifest == nil {
		return nil, notFoundf("execution %s: no manifest: its context was not built by a generator", handle)
	}
	out := &RebuiltContext{Manifest: *e.Manifest, Steps: e.Steps, Calls: conversation.Calls(e.Steps), RawReply: e.RawReply}
	c := &collector{builder: cb, e: e}
	sources := c.sources(ctx)
	out.Shown, out.Missing = e.Shown, c.missingBullets
	messages, missing := assembly.Render(e.Manifest, sources)
	out.Messages = messages
	sum := chat.Digest(out.Messages)
	out.SHA256, out.Verified = hex.EncodeToString(sum), string(sum) == string(e.PromptSHA256)
	if out.Verified {
		return out, nil
	}

	if v := e.Manifest.Assembly; v != assembly.Version {
		c.add("assembly version: context has %s, this program has %s", v, assembly.Version)
	}
	unreported := 0
	for _, p := range missing {
		if strings.HasPrefix(p.Ref, "#") { // a step of the execution itself
			unreported++
		} else {
			out.Missing = append(out.Missing, p)
		}
	}
	if unreported > 0 {
		c.add("%d steps of the context are not in the execution: the agent reported different steps", unreported)
	}
	if len(c.warnings)+len(out.Missing) == 0 {
		c.add("all parts are available, but one has changed: the agent reported different steps than in its request")
	}
	out.Reasons = c.warnings
	return out, nil
}

// collector reads the sources of the manifest of an execution. It warns about read errors. Expired sources are in RebuiltContext.Missing instead.
type collector struct {
	builder        *ContextBuilder
	e              *events.Execution
	missingBullets []events.Part // the shown bullets that the playbook does not have at the version of the execution
	warnings
}

// sources reads the texts that the parts of the manifest refer to.
func (c *collector) sources(ctx context.Context) assembly.Sources {
	s := assembly.Sources{
		Query: c.e.Question, TaskContext: c.e.Context, Rounds: c.builder.admitRounds(c.e.PreviousRounds), Running: c.e.Steps,
		Interactions: make(map[string]*events.Interaction), Notes: make(map[string]*events.Note),
	}
	for _, p := range c.e.Manifest.Parts {
		switch p.Kind {
		case events.PartSystem:
			text, ref := c.builder.cfg.system()
			switch {
			case p.Ref == ref:
				s.System = text
			case p.Ref == systemRef:
				s.System = Instructions
			case strings.HasPrefix(p.Ref, customRef):
				c.add("instructions: context has custom %s: pass them with --generator-prompt FILE", p.Ref)
			case p.Text == "": // else the part has the instructions itself
				c.add("instructions: context has %s, this program has %s", p.Ref, systemRef)
			}
		case events.PartBullet:
			s.Bullets = c.bullets(ctx)
		case events.PartReflection:
			if r, ok := c.find(ctx, events.StreamReflections, p.Ref).(*events.Reflection); ok {
				s.Notes[p.Ref] = noteOf(events.NewNote(events.Handle(p.Ref), r), p.Why)
			}
		case events.PartUser, events.PartAnswer, events.PartTools, events.PartRecall:
			handle, _, _ := strings.Cut(p.Ref, "#")
			if _, wasRead := s.Interactions[handle]; wasRead || handle == "" { // "": a step of the execution itself
				continue
			}
			s.Interactions[handle] = nil
			if e, ok := c.find(ctx, events.StreamExecutions, handle).(*events.Execution); ok {
				s.Interactions[handle] = events.NewInteraction(events.Handle(handle), e)
			}
		}
	}
	return s
}

// bullets returns the shown bullets at the playbook version of the execution. It sets their contents in Execution.Shown.
func (c *collector) bullets(ctx context.Context) (shown []*playbook.Bullet) {
	p, err := c.builder.playbooks.store.PlaybookAt(ctx, c.e.Book, c.e.Version)
	if err != nil {
		c.add("playbook: %s", shortError(ctx, err))
		p = new(playbook.Playbook)
	}
	for i := range c.e.Shown {
		s := &c.e.Shown[i]
		if b := p.Bullet(s.ID); b != nil {
			s.Content = b.Content
			shown = append(shown, b)
		} else {
			c.missingBullets = append(c.missingBullets, events.Part{Kind: events.PartBullet, Ref: string(s.ID)})
		}
	}
	return shown
}

// find returns the event of a handle. It returns nil if the event has expired or cannot be read.
func (c *collector) find(ctx context.Context, stream, handle string) events.Event {
	seq, matches, err := events.Handle(handle).Parse()
	if err != nil {
		c.add("%s: %s", handle, shortError(ctx, err))
		return nil
	}
	found, err := c.builder.conn.Events.Find(ctx, stream, seq, matches)
	if err != nil {
		if !errors.Is(err, bus.ErrNotFound) {
			c.add("%s: %s", handle, shortError(ctx, err))
		}
		return nil
	}
	return found
}
