package explain

import (
	"debrief/curator/gate"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Gate is the state of the gate of a playbook.
type Gate struct {
	Book    playbook.Book   `json:"book"`
	Version uint64          `json:"version"`
	Label   string          `json:"label"`
	Mode    playbook.Gate   `json:"gate"`
	Chosen  bool            `json:"explicit"` // set explicitly, not the default
	Review  playbook.Review `json:"review"`   // first or off
	// Control is the control share, such as 5%, or off.
	Control playbook.Share `json:"control"`
	// LeadingScore is the name of the score that counts if an outcome has several.
	LeadingScore string `json:"leading_score,omitempty"`
	// Judge is the measured error of the judge, nil if no person has measured it.
	Judge *Judge `json:"judge,omitempty"`
	// Unapproved has the bullets in prompts that no person wrote or approved. It is empty unless Review is first.
	Unapproved []playbook.BulletID `json:"unapproved,omitempty"`
	Bullets    []gate.Row          `json:"bullets"` // the bullets that are shown or on probation
	Waiting    []gate.Row          `json:"waiting"` // the candidates
	// Decisions has the latest decision on each bullet that the gate retired or put on probation again, newest first.
	Decisions []history.Decision `json:"decisions"`
}

// Judge is the measured error of a judge with the exact 95 % intervals of its shares of false verdicts.
type Judge struct {
	playbook.Judge
	Failures  playbook.Interval `json:"false_failures_interval"`
	Successes playbook.Interval `json:"false_successes_interval"`
}

// GateAt returns the state of the gate of a playbook. p is the playbook at a version, label the label of this version, decisions are those in
// its log. Only the first limit bullets of each list have a lift and a next step; with a limit of 0 all have them.
func GateAt(name playbook.Book, p *playbook.Playbook, label string, decisions []history.Decision, cfg gate.Config, limit int) *Gate {
	g := &Gate{Book: name, Version: p.Version(), Label: label, Decisions: decisions}
	g.Mode, g.Chosen = p.Gate()
	g.Review, g.Unapproved = ReviewOf(p)
	a := p.Admission()
	g.Control = a.ControlShare()
	g.LeadingScore = p.LeadingScore()
	if j := p.Judge(); j.Name != "" {
		g.Judge = &Judge{Judge: j}
		g.Judge.Failures, g.Judge.Successes = j.Errors()
	}
	g.Bullets, g.Waiting = gate.Rows(p, cfg, limit)
	return g
}

// ReviewOf returns the review mode of a playbook. With ReviewFirst it also returns the bullets in prompts that no person wrote or approved.
func ReviewOf(p *playbook.Playbook) (playbook.Review, []playbook.BulletID) {
	if a := p.Admission(); !a.ReviewsFirst() {
		return playbook.ReviewOff, nil
	}
	var ids []playbook.BulletID
	for _, b := range p.Sorted() {
		if Unapproved(b) {
			ids = append(ids, b.ID)
		}
	}
	return playbook.ReviewFirst, ids
}

// Unapproved reports whether prompts have the bullet although no person wrote or approved its text.
func Unapproved(b *playbook.Bullet) bool {
	return (b.Shown() || b.Status == playbook.Probation) && !b.Approved
}
