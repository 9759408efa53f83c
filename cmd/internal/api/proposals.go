package api

import (
	"cmp"
	"fmt"
	"net/http"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Limits of proposals. An agent in a loop must not fill a playbook, or the list of a person who decides.
const (
	maxProposed = 2 << 10 // bytes of a text
	maxPending  = 200     // bullets of a playbook that wait for a person
)

// ProposalRequest is a bullet that an agent proposes.
type ProposalRequest struct {
	Content  string            `json:"content" doc:"Text, with or without its condition."`
	When     string            `json:"when,omitempty" doc:"Condition under which the text holds; empty if always."`
	Section  string            `json:"section,omitempty" doc:"Default: others, or that of the corrected bullet."`
	Replaces playbook.BulletID `json:"replaces,omitempty" doc:"Bullet that the text corrects. It is retired if a person approves the text."`
	Reason   string            `json:"reason,omitempty" doc:"Reason, for the person who decides."`
}

// proposalRoute adds a bullet in quarantine. It needs no scope for edits, because a person decides before a prompt has the text.
func proposalRoute() route {
	r := post("/books/{book}/proposals", "proposeBullet", "Propose a bullet, or a correction of one. It waits in quarantine until a person approves it.", http.StatusCreated, proposeBullet)
	r.scope, r.orScope = tokens.Report, tokens.Review
	r.idempotent, r.waits = true, true
	r.example = example{path: map[string]string{"book": "default"}, body: `{"content": "Name the carrier in each reply.", "reason": "The customer asked twice."}`}
	return r
}

func proposeBullet(c *call, r *ProposalRequest) (*EditReply, error) {
	id, done, err := c.beginEdit()
	if err != nil || done != nil {
		return done, err
	}
	when, content, err := request.CleanText("", r.When, r.Content)
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxProposed:
		return nil, invalid("content", fmt.Sprintf("must have at most %d bytes with its condition, got %d", maxProposed, len(content)))
	}
	newest, label, err := c.handler.index.Books.Newest(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	section := cmp.Or(r.Section, "others")
	if r.Replaces != "" {
		old := newest.Bullet(r.Replaces)
		if old == nil {
			return nil, request.MissingBullet("replaces", r.Replaces)
		}
		section = cmp.Or(r.Section, old.Section)
	}
	if err := c.checkPending(newest); err != nil {
		return nil, err
	}
	op := playbook.Op{
		Kind: playbook.Add, Status: playbook.Quarantined, Section: request.StoredSection(section), When: when, Content: content, Replaces: r.Replaces,
		Reason: "proposed by " + c.token.Name,
	}
	if reason := text.Line(redact.Text(r.Reason), 500); reason != "" {
		op.Reason += ": " + reason
	}
	out := &EditReply{Book: c.book(), Version: newest.Version(), Label: label}
	return out, c.submitEdit(&events.Edit{ID: id, Ops: []playbook.Op{op}, Reason: op.Reason}, out)
}

// checkPending returns an error if too many bullets of a playbook wait for a person. Concurrent proposals may exceed the limit by their
// number.
func (c *call) checkPending(newest *playbook.Playbook) error {
	pending := 0
	for b := range newest.All() {
		if b.AwaitsPerson() {
			pending++
		}
	}
	if pending < maxPending {
		return nil
	}
	return conflict(fmt.Sprintf("%d bullets of playbook %q wait for a person: decide on some of them first", pending, c.book()))
}
