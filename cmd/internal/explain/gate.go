package explain

import (
	"context"

	"debrief/cmd/internal/versions"
	"debrief/curator/gate"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// Gate is the state of the gate of a playbook.
type Gate struct {
	Book    book.Book   `json:"book"`
	Version uint64      `json:"version"`
	Label   string      `json:"label"`
	Mode    book.Gate   `json:"gate"`
	Chosen  bool        `json:"explicit"` // set explicitly, not the default
	Review  book.Review `json:"review"`   // first or off
	// Unapproved has the shown bullets that no person wrote or approved, if new texts wait for a person. They stay in prompts.
	Unapproved []book.BulletID `json:"unapproved,omitempty"`
	Bullets    []gate.Row      `json:"bullets"`
	Waiting    []gate.Row      `json:"waiting"`
	// Decisions has the latest decision on each bullet that the gate retired or put on probation again, newest first.
	Decisions []history.Decision `json:"decisions"`
}

// GateOf returns the state of the gate of a playbook, with the records of its bullets under the given settings.
func GateOf(ctx context.Context, b *versions.Book, cfg gate.Config) (*Gate, error) {
	p, label, err := b.At(ctx, "")
	if err != nil {
		return nil, err
	}
	statuses, err := history.StatusesOf(b.Store.History(ctx, b.Name))
	if err != nil {
		return nil, versions.LogError(err)
	}
	return GateAt(b.Name, p, label, statuses.Decisions(), cfg, 0), nil
}

// GateAt is GateOf for the newest version p of a playbook and its decisions, which have been read. Only the first limit bullets of each
// list have a lift and a next step; 0 for all.
func GateAt(name book.Book, p *book.Playbook, label string, decisions []history.Decision, cfg gate.Config, limit int) *Gate {
	g := &Gate{Book: name, Version: p.Version(), Label: label, Decisions: decisions}
	g.Mode, g.Chosen = p.Gate()
	g.Review, g.Unapproved = ReviewOf(p)
	g.Bullets, g.Waiting = gate.NewReport(p, cfg, limit).Rows(g.Mode)
	return g
}

// ReviewOf returns the review mode of a playbook, and with reviews first the shown bullets that no person wrote or approved.
func ReviewOf(p *book.Playbook) (book.Review, []book.BulletID) {
	if a := p.Admission(); !a.ReviewsFirst() {
		return book.ReviewOff, nil
	}
	var ids []book.BulletID
	for _, b := range p.Sorted() {
		if (b.Shown() || b.Status == book.Probation) && !b.Approved {
			ids = append(ids, b.ID)
		}
	}
	return book.ReviewFirst, ids
}
