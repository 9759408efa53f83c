package request

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/text"
)

// EditRequest is a change of a playbook: of bullets, or one of the other fields.
type EditRequest struct {
	Add      []NewBullet         `json:"add,omitempty" doc:"Bullets to add."`
	Change   []ChangedBullet     `json:"change,omitempty" doc:"Bullets with a new text or section."`
	Retire   []playbook.BulletID `json:"retire,omitempty" doc:"Bullets to retire: they stay in the playbook, and generators do not show them."`
	Remove   []playbook.BulletID `json:"remove,omitempty" doc:"Bullets to remove."`
	Activate []playbook.BulletID `json:"activate,omitempty" doc:"Retired bullets to show again."`
	Pin      []playbook.BulletID `json:"pin,omitempty" doc:"Bullets to pin: they are not pruned."`
	Unpin    []playbook.BulletID `json:"unpin,omitempty" doc:"Bullets to unpin."`
	Merge    *MergedBullet       `json:"merge,omitempty" doc:"Bullets to merge into one."`

	Approve []playbook.BulletID `json:"approve,omitempty" doc:"Bullets in quarantine to use in prompts from now on, and bullets in prompts to approve. They retire the bullets that they replace."`
	Reject  []playbook.BulletID `json:"reject,omitempty" doc:"Bullets in quarantine to retire. The Curator rejects the same text from then on."`

	Forget  *Forgotten      `json:"forget,omitempty" doc:"Executions whose effects to remove: each given field must match. Bullets that have other evidence as well go into quarantine."`
	Rebuild bool            `json:"rebuild,omitempty" doc:"Write the view of the playbook again from its log."`
	Restore string          `json:"restore,omitempty" doc:"Version whose bullets to restore: a number, label, time, duration or name."`
	Tag     *NewTag         `json:"tag,omitempty" doc:"Name for a version."`
	Gate    playbook.Gate   `json:"gate,omitempty" doc:"New mode of the gate."`
	Review  playbook.Review `json:"review,omitempty" doc:"New review mode: with first, new texts wait in quarantine until a person approves them; with off, the gate decides."`

	Control      playbook.Share `json:"control,omitempty" doc:"New control share, such as 5%, or off: the random part of the sessions whose prompts get no learned text, at most 50%."`
	LeadingScore *string        `json:"leading_score,omitempty" doc:"Name of the score that counts if an outcome has several; empty chooses none."`

	Judge *playbook.Judge `json:"judge,omitempty" doc:"Measured error of a judge: the labels of people on answers that it rated, at least 50, and its false verdicts on them. The gate allows for it."`

	About *AboutRequest `json:"about,omitempty" doc:"New name or description of the playbook, for people."`

	Read   string `json:"read,omitempty" doc:"Version that you read: the edit is refused if its bullets changed since, also for approve and reject; for restore, if the playbook did. Default: the newest."`
	Reason string `json:"reason,omitempty" doc:"Reason, for the log."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only return the changes."`
}

// Forgotten selects the executions to forget.
type Forgotten struct {
	Source    string `json:"source,omitempty"`
	Owner     string `json:"owner,omitempty" doc:"Id of the token that submitted the executions."`
	User      string `json:"user,omitempty" doc:"End user that the executions name."`
	Session   string `json:"session,omitempty"`
	Execution string `json:"execution,omitempty" doc:"Handle of the execution."`
}

// MergedBullet names bullets to merge. The first one remains, with the votes of all.
type MergedBullet struct {
	IDs     []playbook.BulletID `json:"ids" doc:"At least two; the first one remains."`
	Content string              `json:"content,omitempty" doc:"New text, with or without its condition; empty keeps that of the first bullet."`
	When    string              `json:"when,omitempty" doc:"New condition; empty keeps that of the first bullet, and always removes it."`
}

// NewBullet is a bullet to add.
type NewBullet struct {
	Content string `json:"content" doc:"Text, with or without its condition."`
	When    string `json:"when,omitempty" doc:"Condition under which the text holds; empty if always. Prompts show it first."`
	Section string `json:"section,omitempty" doc:"Default: others."`
}

// ChangedBullet is a bullet to change.
type ChangedBullet struct {
	ID      playbook.BulletID `json:"id"`
	Content string            `json:"content,omitempty" doc:"New text, with or without its condition; empty keeps it."`
	When    string            `json:"when,omitempty" doc:"New condition; empty keeps it, and always removes it."`
	Section string            `json:"section,omitempty" doc:"New section; empty keeps it."`
}

// NewTag is a name for a version.
type NewTag struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty" doc:"Default: the newest."`
}

// AboutRequest changes the name or the description of a playbook. Nil keeps one, and an empty text removes it.
type AboutRequest struct {
	Name        *string `json:"name,omitempty" doc:"New name for people, one line of at most 80 bytes. Omitted keeps it."`
	Description *string `json:"description,omitempty" doc:"What the playbook is for, at most 1,000 bytes. Omitted keeps it."`
}

// apply returns a name and description with the changes of the request.
func (r *AboutRequest) apply(to playbook.About) playbook.About {
	if r.Name != nil {
		to.Name = *r.Name
	}
	if r.Description != nil {
		to.Description = *r.Description
	}
	return to
}

// Plan is the edit for a request, and what its reply says about it.
type Plan struct {
	Edit    *events.Edit
	Of      string              // the version that is restored or named, or the executions that are forgotten, for people
	Retired []playbook.BulletID // bullets that the approved ones replace
}

// Versions finds the versions of playbooks as people name them.
type Versions interface {
	// At returns a playbook at a version, and the label of the version.
	At(ctx context.Context, name playbook.Book, point string) (*playbook.Playbook, string, error)
	Version(ctx context.Context, name playbook.Book, point string) (explain.Version, error)
}

// FieldError is the error for a field of a request.
type FieldError struct {
	Field    string
	Text     string
	NotFound bool // the field names an object that does not exist; otherwise it is invalid
}

func (e *FieldError) Error() string { return e.Text }

// invalid returns the error for an invalid field.
func invalid(field, text string) error { return &FieldError{Field: field, Text: field + ": " + text} }

// maxQuoted is the maximum length of a text of the client in an error, in bytes.
const maxQuoted = 40

// UndecidableError is the error for bullets that cannot be approved or rejected. Bullets are those of the request, if one of them does not
// wait for a person any more.
type UndecidableError struct {
	Bullets []playbook.BulletID
	err     error
}

func (e *UndecidableError) Error() string { return e.err.Error() }

// Plan returns the edit for a request about a playbook, whose newest version is given. Its error is a *FieldError for an invalid field, an
// *UndecidableError for a decision that is not possible any more, or one of versions.
func (r *EditRequest) Plan(ctx context.Context, versions Versions, name playbook.Book, newest *playbook.Playbook) (*Plan, error) {
	if err := r.checkKind(); err != nil {
		return nil, err
	}
	switch {
	case r.Rebuild:
		return &Plan{Edit: &events.Edit{Rebuild: true}}, nil
	case r.Forget != nil:
		return r.Forget.plan()
	case r.Restore != "":
		return r.restore(ctx, versions, name)
	case r.Tag != nil:
		return r.Tag.plan(ctx, versions, name)
	case r.Gate != "", r.Review != "", r.Control != "", r.LeadingScore != nil, r.Judge != nil:
		return &Plan{Edit: &events.Edit{Gate: r.Gate, Review: r.Review, Control: r.Control, LeadingScore: r.LeadingScore, Judge: r.Judge}}, nil
	case r.About != nil:
		about := r.About.apply(newest.About())
		return &Plan{Edit: &events.Edit{About: &about}}, nil
	}
	read := newest // the version that the author of the edit has read
	if r.Read != "" {
		var err error
		if read, _, err = versions.At(ctx, name, r.Read); err != nil {
			return nil, err
		}
	}
	switch {
	case len(r.Approve)+len(r.Reject) > 0:
		return r.decide(newest, read)
	case r.Merge != nil:
		return r.Merge.plan(read)
	}
	return r.changeBullets(read)
}

// checkKind returns an error unless a request has exactly one kind of change. All changes of bullets are one kind.
func (r *EditRequest) checkKind() error {
	ofBullets := len(r.Add)+len(r.Change)+len(r.Retire)+len(r.Remove)+len(r.Activate)+len(r.Pin)+len(r.Unpin) > 0
	n := 0
	for _, set := range []bool{
		ofBullets, r.Merge != nil, len(r.Approve) > 0, len(r.Reject) > 0, r.Forget != nil, r.Rebuild, r.Restore != "", r.Tag != nil, r.Gate != "", r.Review != "",
		r.Control != "", r.LeadingScore != nil, r.About != nil, r.Judge != nil,
	} {
		if set {
			n++
		}
	}
	if n != 1 {
		return invalid("add, change, retire, remove, activate, pin, unpin, merge, approve, reject, forget, rebuild, restore, tag, gate, review, control, leading_score, about, judge", "want changes of bullets, or one of the others")
	}
	return nil
}

// decide returns the edit that approves or rejects bullets in quarantine, or approves bullets in prompts. It decides on the newest bullets, and
// the edit expects the texts that the person has read.
func (r *EditRequest) decide(newest, read *playbook.Playbook) (*Plan, error) {
	field, ids := "reject", r.Reject
	if len(r.Approve) > 0 {
		field, ids = "approve", r.Approve
	}
	for i, id := range ids {
		if newest.Bullet(id) == nil {
			return nil, MissingBullet(fmt.Sprintf("%s[%d]", field, i), id)
		}
	}
	list, err := selectUndecided(newest, ids, field == "approve")
	if err != nil {
		return nil, &UndecidableError{Bullets: ids, err: err}
	}
	decision := new(approval)
	if field == "reject" {
		decision.Ops = reject(list, r.Reason)
	} else if decision, err = newApproval(newest, list, r.Reason); err != nil {
		return nil, &UndecidableError{err: err}
	}
	return &Plan{Edit: &events.Edit{Ops: decision.Ops, Expect: expectations(read, decision.Ops)}, Retired: decision.Retired}, nil
}

// plan returns the edit that forgets executions. It refuses an invalid owner, such as the name of a token in place of its id, and an invalid
// handle: they match no execution, and the caller would believe that something was forgotten.
func (f *Forgotten) plan() (*Plan, error) {
	selector := playbook.Selector{Source: f.Source, Owner: f.Owner, User: events.FitName(f.User), Session: events.FitName(f.Session), Execution: f.Execution}
	redact.Fields(&selector) // the stored names are redacted, and the selector must match them
	if selector.Validate() != nil {
		return nil, invalid("forget", "at least one of source, owner, user, session and execution required")
	}
	if err := events.ValidateOwner(f.Owner); err != nil {
		return nil, invalid("forget.owner", fmt.Sprintf("want the id of a token, got %q", text.Clip(f.Owner, maxQuoted)))
	}
	if f.Execution != "" {
		if _, _, err := events.Handle(f.Execution).Parse(); err != nil {
			return nil, invalid("forget.execution", err.Error())
		}
	}
	return &Plan{Edit: &events.Edit{Forget: &selector}, Of: selector.String()}, nil
}

// restore returns the edit that restores a version.
func (r *EditRequest) restore(ctx context.Context, versions Versions, name playbook.Book) (*Plan, error) {
	restored, err := versions.Version(ctx, name, r.Restore)
	if err != nil {
		return nil, err
	}
	e := &events.Edit{Restore: &restored.Number}
	if r.Read != "" {
		read, err := versions.Version(ctx, name, r.Read)
		if err != nil {
			return nil, err
		}
		e.BaseVersion = &read.Number
	}
	return &Plan{Edit: e, Of: restored.Label()}, nil
}

// plan returns the edit that names a version. It returns an error for version 0, the empty playbook: in an edit 0 means the newest version.
func (t *NewTag) plan(ctx context.Context, versions Versions, name playbook.Book) (*Plan, error) {
	tagged, err := versions.Version(ctx, name, cmp.Or(t.Version, "newest"))
	if err != nil {
		return nil, err
	}
	n := playbook.Name{Name: t.Name, Version: tagged.Number}
	if n.Version == 0 {
		return nil, invalid("tag", "version 0: always the empty playbook, which has no name")
	}
	if err := n.Validate(); err != nil {
		return nil, invalid("tag", err.Error())
	}
	return &Plan{Edit: &events.Edit{Names: []playbook.Name{n}}, Of: tagged.Label()}, nil
}

// changeBullets returns the edit of bullets, which expects their state at the version that was read.
func (r *EditRequest) changeBullets(read *playbook.Playbook) (*Plan, error) {
	e := new(events.Edit)
	for i, b := range r.Add {
		when, content, err := CleanText(fmt.Sprintf("add[%d].", i), b.When, b.Content)
		if err != nil {
			return nil, err
		}
		section := StoredSection(cmp.Or(b.Section, "others"))
		e.Ops = append(e.Ops, playbook.Op{Kind: playbook.Add, Section: section, When: when, Content: content})
	}
	var changed []playbook.Op
	for i, b := range r.Change {
		op, err := b.op(read, fmt.Sprintf("change[%d]", i))
		if err != nil {
			return nil, err
		}
		changed = append(changed, op)
	}
	for _, list := range []struct {
		field string
		ids   []playbook.BulletID
		op    playbook.Op
	}{
		{"retire", r.Retire, playbook.Op{Kind: playbook.SetStatus, Status: playbook.Retired, Reason: cmp.Or(r.Reason, "retired")}},
		{"remove", r.Remove, playbook.Op{Kind: playbook.Remove}},
		{"activate", r.Activate, playbook.Op{Kind: playbook.SetStatus, Status: playbook.Active, Reason: cmp.Or(r.Reason, "shown again")}},
		{"pin", r.Pin, playbook.Op{Kind: playbook.Pin, Pinned: true}},
		{"unpin", r.Unpin, playbook.Op{Kind: playbook.Pin}},
	} {
		for i, id := range list.ids {
			if read.Bullet(id) == nil {
				return nil, MissingBullet(fmt.Sprintf("%s[%d]", list.field, i), id)
			}
			if list.field == "activate" && read.Bullet(id).Status != playbook.Retired {
				return nil, invalid(fmt.Sprintf("activate[%d]", i), fmt.Sprintf("bullet %q is %s, not retired", id, cmp.Or(read.Bullet(id).Status, playbook.Active)))
			}
			op := list.op
			op.Bullet = id
			changed = append(changed, op)
		}
	}
	e.Expect = expectations(read, changed)
	e.Ops = append(e.Ops, changed...)
	return &Plan{Edit: e}, nil
}

// op returns the operation that changes a bullet. Errors name the field.
func (b *ChangedBullet) op(read *playbook.Playbook, field string) (playbook.Op, error) {
	old := read.Bullet(b.ID)
	if old == nil {
		return playbook.Op{}, MissingBullet(field+".id", b.ID)
	}
	if b.Content == "" && b.Section == "" && b.When == "" {
		return playbook.Op{}, invalid(field, "want content, when or section")
	}
	op, err := textOp(old, field, b.When, b.Content)
	if err != nil {
		return playbook.Op{}, err
	}
	op.Kind = playbook.Update
	if b.Section != "" {
		op.Section = StoredSection(b.Section)
	}
	return op, nil
}

// plan returns the edit that merges bullets.
func (m *MergedBullet) plan(read *playbook.Playbook) (*Plan, error) {
	if len(m.IDs) < 2 {
		return nil, invalid("merge.ids", fmt.Sprintf("want at least two bullets, got %d", len(m.IDs)))
	}
	var seen []events.Expectation
	for i, id := range m.IDs {
		b := read.Bullet(id)
		if b == nil {
			return nil, MissingBullet(fmt.Sprintf("merge.ids[%d]", i), id)
		}
		seen = append(seen, events.Expectation{Bullet: id, Section: b.Section, Content: b.Content})
	}
	op, err := textOp(read.Bullet(m.IDs[0]), "merge", m.When, m.Content)
	if err != nil {
		return nil, err
	}
	op.Kind, op.Sources = playbook.Merge, m.IDs[1:]
	return &Plan{Edit: &events.Edit{Ops: []playbook.Op{op}, Expect: seen}}, nil
}

// textOp returns an operation without a kind that sets the text of a bullet. An empty condition and empty content keep those of the bullet. Errors name
// the field.
func textOp(old *playbook.Bullet, field, when, content string) (playbook.Op, error) {
	if content = playbook.Advice(old.When, content); content == "" {
		content = old.Advice()
	}
	condition, content, err := CleanText(field+".", cmp.Or(when, old.When), content)
	return playbook.Op{Bullet: old.ID, When: condition, Content: content}, err
}

// CleanText returns the condition and the content of a bullet. A *FieldError names the field, after the prefix.
func CleanText(prefix, when, text string) (condition, content string, err error) {
	if _, err := playbook.CleanWhen(when); err != nil {
		return "", "", invalid(prefix+"when", err.Error())
	}
	condition, content, err = playbook.CleanText(when, text)
	if err != nil {
		return "", "", invalid(prefix+"content", err.Error())
	}
	return condition, content, nil
}

// MissingBullet returns the error for a field that names an unknown bullet.
func MissingBullet(field string, id playbook.BulletID) error {
	return &FieldError{Field: field, Text: fmt.Sprintf("bullet %q is not in the playbook", text.Clip(string(id), maxQuoted)), NotFound: true}
}

// selectUndecided returns the ids, sorted and without duplicates. It returns an error if a bullet does not wait for a person. A person may also
// approve a bullet that prompts have without an approval.
func selectUndecided(p *playbook.Playbook, ids []playbook.BulletID, approve bool) ([]playbook.BulletID, error) {
	list := slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range list {
		switch b := p.Bullet(id); {
		case b == nil:
			return nil, fmt.Errorf("bullet %q is not in the playbook", id)
		case !b.AwaitsPerson() && !(approve && explain.Unapproved(b)):
			return nil, fmt.Errorf("bullet %q does not wait for a person, it is %s", id, explain.Status(b))
		}
	}
	return list, nil
}

// approval is the change that releases bullets from quarantine.
type approval struct {
	Ops     []playbook.Op
	Retired []playbook.BulletID // bullets that the approved ones replace, sorted
}

// newApproval returns the change that approves bullets in quarantine. They become active and retire the bullets that they
// replace. It returns an error if two of the bullets replace the same bullet, or if a replaced bullet is pinned. An empty
// reason means "approved".
func newApproval(p *playbook.Playbook, list []playbook.BulletID, reason string) (*approval, error) {
	a := &approval{}
	replacements := map[playbook.BulletID]playbook.BulletID{} // by the replaced bullet
	for _, id := range list {
		b := p.Bullet(id)
		a.Ops = append(a.Ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Active, Reason: cmp.Or(reason, "approved")})
		if b.Replaces == "" {
			continue
		}
		if other := replacements[b.Replaces]; other != "" {
			return nil, fmt.Errorf("bullets %q and %q would both replace %q: approve only one of them", other, id, b.Replaces)
		}
		replacements[b.Replaces] = id
		if err := a.retireReplaced(p, b); err != nil {
			return nil, err
		}
	}
	slices.Sort(a.Retired)
	return a, nil
}

// retireReplaced retires the bullet that an approved one replaces, and the other bullets that have replaced it before. It skips bullets that
// are not shown.
func (a *approval) retireReplaced(p *playbook.Playbook, by *playbook.Bullet) error {
	for _, old := range p.Sorted() {
		isReplaced := old.ID == by.Replaces || old.Replaces == by.Replaces
		if !isReplaced || !old.Shown() || slices.Contains(a.Retired, old.ID) {
			continue
		}
		if old.Pinned {
			return fmt.Errorf("bullet %q would replace the pinned bullet %q: unpin it first", by.ID, old.ID)
		}
		a.Retired = append(a.Retired, old.ID)
		a.Ops = append(a.Ops, playbook.Op{Kind: playbook.SetStatus, Bullet: old.ID, Status: playbook.Retired, Reason: fmt.Sprintf("replaced by bullet %q, approved by a person", by.ID)})
	}
	return nil
}

// reject returns the operations that retire bullets in quarantine. An empty reason means "rejected".
func reject(list []playbook.BulletID, reason string) []playbook.Op {
	var ops []playbook.Op
	for _, id := range list {
		ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Retired, Reason: cmp.Or(reason, "rejected")})
	}
	return ops
}
