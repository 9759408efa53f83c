package generator

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/generator/assembly"
	"debrief/playbook"
)

// Rebuilt is the context of a past execution, made again.
type Rebuilt struct {
	Messages []chat.Message  `json:"messages"`
	Manifest events.Manifest `json:"manifest"`
	SHA256   string          `json:"sha256"`
	// Verified says that the messages are those that the model saw, to the byte.
	Verified bool          `json:"verified"`
	Steps    []events.Step `json:"steps,omitempty"` // of the execution
	// Missing are the parts whose texts are not there any more. Why says what else keeps it from being the same; where it
	// is not verified, one of the two says something.
	Missing []events.Part `json:"missing,omitempty"`
	Why     []string      `json:"why,omitempty"`
}

// Rebuild makes the context of a past execution again, of its manifest and of what the streams still hold.
func (d *Desk) Rebuild(ctx context.Context, h events.Handle) (*Rebuilt, error) {
	e, err := d.execution(ctx, h)
	if err != nil {
		return nil, err
	}
	if e.Manifest == nil {
		return nil, unknown("execution %s: says nothing of its context: it was not made with one of ours", h)
	}
	out := &Rebuilt{Manifest: *e.Manifest, Steps: e.Steps}
	c := &collector{d: d, e: e}
	sources := c.sources(ctx)
	var missing []events.Part
	out.Messages, missing = assembly.Render(e.Manifest, sources)
	sum := chat.Digest(out.Messages)
	out.SHA256, out.Verified = hex.EncodeToString(sum), string(sum) == string(e.PromptSHA256)
	if out.Verified {
		return out, nil
	}

	if v := e.Manifest.Assembly; v != assembly.Version {
		c.add("it was put together by rules %s, this program has %s", v, assembly.Version)
	}
	unreported := 0
	for _, p := range missing {
		if strings.HasPrefix(p.Ref, "#") { // of the running turn, which is in the execution itself
			unreported++
		} else {
			out.Missing = append(out.Missing, p)
		}
	}
	if unreported > 0 {
		c.add("%d steps that the context shows are not among those of the execution: its agent reported others", unreported)
	}
	if len(c.remarks)+len(out.Missing) == 0 {
		c.add("every part is there, and one is not what it was: the agent reported other steps than those that it had taken when it asked")
	}
	out.Why = c.remarks
	return out, nil
}

// collector fetches what the parts of an execution's manifest refer to, and remarks on what it could not have. What has
// expired it leaves out without a word: that is said part by part.
type collector struct {
	d *Desk
	e *events.Execution
	remarks
}

func (c *collector) sources(ctx context.Context) assembly.Sources {
	s := assembly.Sources{
		Query: c.e.Question, About: c.e.Context, Tries: c.e.Tries, Running: c.e.Steps,
		Interactions: make(map[string]*events.Interaction), Notes: make(map[string]*events.Note),
	}
	for _, p := range c.e.Manifest.Parts {
		switch p.Kind {
		case events.PartSystem:
			text, ref := c.d.cfg.system()
			switch {
			case p.Ref == ref:
				s.System = text
			case p.Ref == systemRef:
				s.System = Instructions
			case strings.HasPrefix(p.Ref, ownInstructions):
				c.add("the instructions were %s, somebody's own: give them with --generator-prompt FILE", p.Ref)
			case p.Text == "":
				c.add("the instructions were %s, this program has %s", p.Ref, systemRef)
			}
		case events.PartBullet:
			if s.Bullet == nil {
				s.Bullet = c.bullets(ctx)
			}
		case events.PartReflection:
			if r, ok := c.find(ctx, events.StreamReflections, p.Ref).(*events.Reflection); ok {
				s.Notes[p.Ref] = events.NewNote(events.Handle(p.Ref), r)
			}
		case events.PartUser, events.PartAnswer, events.PartTools, events.PartRecall:
			of, _, _ := strings.Cut(p.Ref, "#")
			if _, asked := s.Interactions[of]; asked || of == "" {
				continue
			}
			s.Interactions[of] = nil
			if e, ok := c.find(ctx, events.StreamExecutions, of).(*events.Execution); ok {
				s.Interactions[of] = events.NewInteraction(events.Handle(of), e)
			}
		}
	}
	return s
}

// bullets are those of the version that the execution had.
func (c *collector) bullets(ctx context.Context) func(playbook.BulletID) *playbook.Bullet {
	p, err := c.d.books.store.At(ctx, c.e.Book, c.e.Version)
	if err != nil {
		c.add("playbook: %s", brief(ctx, err))
		p = new(playbook.Playbook)
	}
	return p.Bullet
}

// find is what a stream holds under a handle, nil where it does not.
func (c *collector) find(ctx context.Context, stream, handle string) events.Event {
	seq, is, err := events.Handle(handle).Parse()
	var found events.Event
	if err == nil {
		found, err = c.d.conn.Find(ctx, stream, seq, is)
	}
	if err != nil && !errors.Is(err, bus.ErrGone) {
		c.add("%s: %s", handle, brief(ctx, err))
	}
	if err != nil {
		return nil
	}
	return found
}
