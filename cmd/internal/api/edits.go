package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/history"
)

// editRoutes are the routes that change playbooks. The author of a change is the name of the token.
func editRoutes() []route {
	ofBullet := map[string]string{"book": "default", "id": "misc-00012"}
	edit := post("/books/{book}/edits", "editPlaybook", "Change bullets, decide on those in quarantine, restore or name a version, forget executions, or set the mode of the gate or of reviews. With dry_run only show the changes.", http.StatusCreated, editPlaybook)
	edit.scope = tokens.Review
	edit.keyed = true
	edit.waits = true
	edit.example = example{path: map[string]string{"book": "default"}, body: `{"add": [{"content": "Ask for the date of the order.", "section": "others"}], "reason": "complaint 17"}`}
	// decide returns the handler of a decision on the bullet in the path: an edit with this bullet in the list that fill sets.
	decide := func(fill func(*EditRequest, []playbook.BulletID)) func(*call, *decision) (*EditReply, error) {
		return func(c *call, d *decision) (*EditReply, error) {
			r := &EditRequest{Read: d.Read, Reason: d.Reason}
			fill(r, []playbook.BulletID{playbook.BulletID(c.path("id"))})
			return editPlaybook(c, r)
		}
	}
	approve := post("/books/{book}/review/{id}/approve", "approveBullet", "Release a bullet from quarantine.", http.StatusCreated, decide(func(r *EditRequest, ids []playbook.BulletID) { r.Approve = ids }))
	approve.scope = tokens.Review
	approve.keyed = true
	approve.max = 0
	approve.example = example{path: ofBullet, body: `{"reason": "checked"}`}
	reject := post("/books/{book}/review/{id}/reject", "rejectBullet", "Retire a bullet in quarantine. The Curator rejects the same text from then on.", http.StatusCreated, decide(func(r *EditRequest, ids []playbook.BulletID) { r.Reject = ids }))
	reject.scope = tokens.Review
	reject.keyed = true
	reject.max = 0
	reject.example = example{path: map[string]string{"book": "default", "id": "misc-00013"}, body: `{"reason": "not ours"}`}
	return []route{edit, approve, reject, proposalRoute()}
}

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

	Approve []playbook.BulletID `json:"approve,omitempty" doc:"Bullets in quarantine to use in prompts from now on. They retire the bullets that they replace."`
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

// decision is the optional body of the routes that approve or reject one bullet in quarantine.
type decision struct {
	Read   string `json:"read,omitempty" doc:"Version that you read: the decision is refused if the bullet changed since. Default: the newest."`
	Reason string `json:"reason,omitempty" doc:"Reason, for the log."`
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

// EditReply is the result of an edit.
type EditReply struct {
	Book    playbook.Book       `json:"book"`
	Version uint64              `json:"version" doc:"Version that the edit made; with dry_run the newest."`
	Label   string              `json:"label"`
	Added   []playbook.BulletID `json:"added,omitempty" doc:"Ids of the added bullets."`
	Changed int                 `json:"changed" doc:"Number of changed bullets."`
	Of      string              `json:"of,omitempty" doc:"Version that was restored or named, or the executions that were forgotten, for people."`
	Retired []playbook.BulletID `json:"retired,omitempty" doc:"Bullets that the approved ones replace."`
	// Unapproved is set with review.
	Unapproved []playbook.BulletID `json:"unapproved,omitempty" doc:"With review first: shown bullets that no person wrote or approved."`
	// Bullets and StateHash are set with rebuild.
	Bullets   int    `json:"bullets,omitempty" doc:"With rebuild: number of bullets."`
	StateHash string `json:"state_hash,omitempty" doc:"With rebuild: hash of all bullets, in hexadecimal."`

	DryRun  bool `json:"dry_run,omitempty" doc:"Nothing was changed."`
	Matched int  `json:"matched,omitempty" doc:"With dry_run and forget: number of reflections on the executions."`
	// Changes is set with dry_run.
	Changes []history.Difference `json:"changes,omitempty" doc:"With dry_run: bullets before and after. An added bullet has no id yet."`
}

func editPlaybook(c *call, r *EditRequest) (*EditReply, error) {
	id, done, err := c.beginEdit()
	if err != nil || done != nil {
		return done, err
	}
	newest, label, err := c.handler.index.Books.Newest(c.ctx, c.book())
	if err != nil {
		return nil, err
	}
	mayBegin := len(r.Add) > 0 || r.Gate != "" || r.Review != "" || r.Control != "" || r.LeadingScore != nil || r.About != nil || r.Judge != nil // needs no stored playbook
	if newest.Version() == 0 && !mayBegin {
		return nil, index.ErrBookNotFound
	}
	out := &EditReply{Book: c.book(), Version: newest.Version(), Label: label, DryRun: r.DryRun}
	e, err := r.edit(c, newest, out)
	if err != nil {
		return nil, err
	}
	e.ID, e.Reason = id, r.Reason
	if err := c.sign(e); err != nil {
		return nil, err
	}
	if r.DryRun {
		c.status = http.StatusOK
		return out, out.preview(c, newest, e)
	}
	if err := c.submitEdit(e, out); err != nil {
		return nil, err
	}
	return out, out.complete(c, r)
}

// complete adds the fields that commands print after an edit.
func (out *EditReply) complete(c *call, r *EditRequest) error {
	if !r.Rebuild && r.Review == "" {
		return nil
	}
	p, _, err := c.playbook("")
	if err != nil {
		return err
	}
	if r.Rebuild {
		out.Bullets, out.StateHash = p.Len(), fmt.Sprintf("%x", p.StateHash())
	} else {
		_, out.Unapproved = explain.ReviewOf(p)
	}
	return nil
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

// edit returns the edit for a request. It sets the fields Of and Retired of the reply.
func (r *EditRequest) edit(c *call, newest *playbook.Playbook, out *EditReply) (*events.Edit, error) {
	if err := r.checkKind(); err != nil {
		return nil, err
	}
	switch {
	case r.Rebuild:
		return &events.Edit{Rebuild: true}, nil
	case r.Forget != nil:
		return r.Forget.edit(c, out)
	case r.Restore != "":
		return r.restore(c, out)
	case r.Tag != nil:
		return r.tag(c, out)
	case r.Gate != "", r.Review != "", r.Control != "", r.LeadingScore != nil, r.Judge != nil:
		return &events.Edit{Gate: r.Gate, Review: r.Review, Control: r.Control, LeadingScore: r.LeadingScore, Judge: r.Judge}, nil
	case r.About != nil:
		about := r.About.apply(newest.About())
		return &events.Edit{About: &about}, nil
	}
	read := newest // the version that the author of the edit has read
	if r.Read != "" {
		var err error
		if read, _, err = c.handler.index.Logs.At(c.ctx, c.book(), r.Read); err != nil {
			return nil, err
		}
	}
	switch {
	case len(r.Approve)+len(r.Reject) > 0:
		return r.decide(c, newest, read, out)
	case r.Merge != nil:
		return r.Merge.edit(read)
	}
	return r.ops(read)
}

// decide returns the edit that approves or rejects bullets in quarantine, with the texts that the person has read.
func (r *EditRequest) decide(c *call, newest, read *playbook.Playbook, out *EditReply) (*events.Edit, error) {
	field, ids := "reject", r.Reject
	if len(r.Approve) > 0 {
		field, ids = "approve", r.Approve
	}
	for i, id := range ids {
		if newest.Bullet(id) == nil {
			return nil, missingBullet(fmt.Sprintf("%s[%d]", field, i), id)
		}
	}
	list, err := request.SelectQuarantined(newest, ids)
	if err != nil {
		return nil, conflict(err.Error() + c.lastChanges(ids))
	}
	approval := &request.Approval{Ops: request.Reject(list, r.Reason)}
	if len(r.Approve) > 0 {
		if approval, err = request.NewApproval(newest, list, r.Reason); err != nil {
			return nil, conflict(err.Error())
		}
	}
	out.Retired = approval.Retired
	return &events.Edit{Ops: approval.Ops, Expect: request.Expectations(read, approval.Ops)}, nil
}

// edit returns the edit that forgets executions. It refuses an invalid owner, such as the name of a token in place of its id, and an invalid
// handle: they match no execution, and the caller would believe that something was forgotten.
func (f *Forgotten) edit(c *call, out *EditReply) (*events.Edit, error) {
	var sent struct{ Forget map[string]any } // f does not tell an empty field, which is an error, from one that was not sent
	if err := json.Unmarshal(c.body, &sent); err != nil {
		return nil, err
	}
	if err := c.checkSelection("forget.", sent.Forget); err != nil {
		return nil, err
	}
	selector := playbook.Selector{Source: f.Source, Owner: f.Owner, User: events.FitName(f.User), Session: events.FitName(f.Session), Execution: f.Execution}
	redact.Fields(&selector) // the stored names are redacted, and the selector must match them
	if selector.Validate() != nil {
		return nil, invalid("forget", "at least one of source, owner, user, session and execution required")
	}
	if err := events.ValidateOwner(f.Owner); err != nil {
		return nil, invalid("forget.owner", fmt.Sprintf("want the id of a token, got %q", text40(f.Owner)))
	}
	if f.Execution != "" {
		if _, _, err := events.Handle(f.Execution).Parse(); err != nil {
			return nil, invalid("forget.execution", err.Error())
		}
	}
	out.Of = selector.String()
	return &events.Edit{Forget: &selector}, nil
}

// edit returns the edit that merges bullets.
func (m *MergedBullet) edit(read *playbook.Playbook) (*events.Edit, error) {
	if len(m.IDs) < 2 {
		return nil, invalid("merge.ids", fmt.Sprintf("want at least two bullets, got %d", len(m.IDs)))
	}
	var seen []events.Expectation
	for i, id := range m.IDs {
		b := read.Bullet(id)
		if b == nil {
			return nil, missingBullet(fmt.Sprintf("merge.ids[%d]", i), id)
		}
		seen = append(seen, events.Expectation{Bullet: id, Section: b.Section, Content: b.Content})
	}
	op, err := changedText(read.Bullet(m.IDs[0]), "merge", m.When, m.Content)
	if err != nil {
		return nil, err
	}
	op.Kind, op.Sources = playbook.Merge, m.IDs[1:]
	return &events.Edit{Ops: []playbook.Op{op}, Expect: seen}, nil
}

// changedText returns an operation that sets the text of a bullet. An empty condition and empty content keep those of the bullet. Errors name
// the field.
func changedText(was *playbook.Bullet, field, when, content string) (playbook.Op, error) {
	if content = playbook.Advice(was.When, content); content == "" {
		content = was.Advice()
	}
	condition, content, err := cleanText(field+".", cmp.Or(when, was.When), content)
	return playbook.Op{Bullet: was.ID, When: condition, Content: content}, err
}

// cleanText returns the condition and the content of a bullet. Errors name the field, after the prefix.
func cleanText(prefix, when, text string) (condition, content string, err error) {
	if _, err := playbook.CleanWhen(when); err != nil {
		return "", "", invalid(prefix+"when", err.Error())
	}
	condition, content, err = playbook.CleanText(when, text)
	if err != nil {
		return "", "", invalid(prefix+"content", err.Error())
	}
	return condition, content, nil
}

// missingBullet returns the error for a field that names an unknown bullet.
func missingBullet(field string, id playbook.BulletID) error {
	return &statusError{status: http.StatusNotFound, code: CodeNotFound, field: field, text: fmt.Sprintf("bullet %q is not in the playbook", text40(string(id)))}
}

// restore returns the edit that restores a version.
func (r *EditRequest) restore(c *call, out *EditReply) (*events.Edit, error) {
	at, err := c.handler.index.Logs.Version(c.ctx, c.book(), r.Restore)
	if err != nil {
		return nil, err
	}
	out.Of = at.Label()
	e := &events.Edit{Restore: &at.Number}
	if r.Read != "" {
		seen, err := c.handler.index.Logs.Version(c.ctx, c.book(), r.Read)
		if err != nil {
			return nil, err
		}
		e.BaseVersion = &seen.Number
	}
	return e, nil
}

// tag returns the edit that names a version.
func (r *EditRequest) tag(c *call, out *EditReply) (*events.Edit, error) {
	at, err := c.handler.index.Logs.Version(c.ctx, c.book(), cmp.Or(r.Tag.Version, "newest"))
	if err != nil {
		return nil, err
	}
	out.Of = at.Label()
	e, err := request.Tag(r.Tag.Name, at.Number)
	if err != nil {
		return nil, invalid("tag", err.Error())
	}
	return e, nil
}

// ops returns the edit of bullets, which expects their state at the version that was read.
func (r *EditRequest) ops(read *playbook.Playbook) (*events.Edit, error) {
	e := new(events.Edit)
	for i, b := range r.Add {
		when, content, err := cleanText(fmt.Sprintf("add[%d].", i), b.When, b.Content)
		if err != nil {
			return nil, err
		}
		section := request.StoredSection(cmp.Or(b.Section, "others"))
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
				return nil, missingBullet(fmt.Sprintf("%s[%d]", list.field, i), id)
			}
			if list.field == "activate" && read.Bullet(id).Status != playbook.Retired {
				return nil, invalid(fmt.Sprintf("activate[%d]", i), fmt.Sprintf("bullet %q is %s, not retired", id, cmp.Or(read.Bullet(id).Status, playbook.Active)))
			}
			op := list.op
			op.Bullet = id
			changed = append(changed, op)
		}
	}
	e.Expect = request.Expectations(read, changed)
	e.Ops = append(e.Ops, changed...)
	return e, nil
}

// op returns the operation that changes a bullet. Errors name the field.
func (b *ChangedBullet) op(read *playbook.Playbook, field string) (playbook.Op, error) {
	was := read.Bullet(b.ID)
	if was == nil {
		return playbook.Op{}, missingBullet(field+".id", b.ID)
	}
	if b.Content == "" && b.Section == "" && b.When == "" {
		return playbook.Op{}, invalid(field, "want content, when or section")
	}
	op, err := changedText(was, field, b.When, b.Content)
	if err != nil {
		return playbook.Op{}, err
	}
	op.Kind = playbook.Update
	if b.Section != "" {
		op.Section = request.StoredSection(b.Section)
	}
	return op, nil
}

// preview sets the bullets that an edit would change. The Curator may still refuse it.
func (out *EditReply) preview(c *call, newest *playbook.Playbook, e *events.Edit) error {
	switch {
	case e.Restore != nil:
		then, err := c.handler.index.Logs.Playbook(c.ctx, c.book(), *e.Restore)
		if err != nil {
			return err
		}
		out.Changes = history.Diff(newest, then)
	case e.Forget != nil:
		plan, err := request.PlanForget(c.ctx, c.handler.conn, explain.NewBook(c.handler.conn.JetStream(), c.book()), *e.Forget)
		if err != nil {
			return err
		}
		out.Matched, out.Changes = plan.Matched, plan.Changes
	default:
		var others []playbook.Op
		for _, op := range e.Ops {
			if op.Kind == playbook.Add { // the Curator chooses its id
				out.Changes = append(out.Changes, history.Difference{After: &playbook.Bullet{Section: op.Section, When: op.When, Content: op.Content}})
			} else {
				others = append(others, op)
			}
		}
		after := newest.Clone()
		if _, err := after.Apply(&playbook.Delta{Version: newest.Version() + 1, Ops: others}); err != nil {
			return &statusError{status: http.StatusUnprocessableEntity, code: CodeRefused, text: err.Error()}
		}
		out.Changes = append(out.Changes, history.Diff(newest, after)...)
	}
	out.Changed = len(out.Changes)
	return nil
}

// beginEdit returns the id of the edit of a call. If an earlier request with the same Idempotency-Key took effect, it also returns the
// result of that request, and sets the status and the Location of the reply. If the Curator refused the earlier one, it returns an error.
func (c *call) beginEdit() (events.ID, *EditReply, error) {
	key, err := c.key()
	if err != nil {
		return "", nil, err
	}
	id := c.eventID("edit", string(c.book()), key)
	if key == "" {
		return id, nil, nil
	}
	var done *EditReply
	var refused []string
	err = c.handler.index.Logs.Covering(c.ctx, c.book(), string(id))(func(r *deltalog.Record) error {
		for _, cover := range r.Covers {
			if cover.ID == string(id) {
				done = &EditReply{Book: c.book(), Version: r.Version, Label: playbook.VersionLabel(r.Version, r.Chain), Changed: len(r.Ops)}
				for _, rejected := range r.Rejected {
					refused = append(refused, rejected.Reason)
				}
			}
		}
		return nil
	})
	switch {
	case err != nil || done == nil:
		return id, nil, explain.LogError(err)
	case done.Changed == 0 && len(refused) > 0:
		return id, nil, conflict("refused before: " + strings.Join(refused, "; "))
	}
	c.status = http.StatusOK
	c.location("books", string(c.book()), "versions", fmt.Sprint(done.Version))
	return id, done, nil
}

// submitEdit submits an edit, waits for the decision of the Curator, and adds it to the reply.
func (c *call) submitEdit(e *events.Edit, out *EditReply) error {
	d, err := c.requestEdit(e)
	if err != nil {
		return err
	}
	c.location("books", string(e.Book), "versions", fmt.Sprint(d.Version))
	out.Version = d.Version
	out.Label = playbook.VersionLabel(d.Version, d.Chain)
	out.Added = d.Added
	out.Changed = d.Changed
	return nil
}

// sign sets the author and the other general fields of an edit. It returns an error for an invalid edit, with the field that the error names.
func (c *call) sign(e *events.Edit) error {
	e.Book = c.book()
	e.Author = c.token.Name
	e.Created = time.Now().UTC()
	if e.ID == "" {
		e.ID = events.NewID()
	}
	if err := e.Validate(); err != nil {
		field, text, _ := strings.Cut(err.Error(), ": ")
		return invalid(field, text)
	}
	return nil
}

// requestEdit submits an edit in the name of the token, and returns the decision of the Curator.
func (c *call) requestEdit(e *events.Edit) (*events.EditReply, error) {
	if err := c.sign(e); err != nil {
		return nil, err
	}
	d, err := request.SubmitEdit(c.ctx, c.handler.conn, e, bus.PublishOptions{})
	var refused *events.RefusedError
	switch {
	case errors.As(err, &refused) && hasChanged(refused):
		var changed []playbook.BulletID
		for _, x := range d.Conflicts {
			changed = append(changed, x.Bullet)
		}
		return nil, &statusError{
			status: http.StatusConflict, code: CodeConflict, text: err.Error() + c.lastChanges(changed) + "; nothing was changed",
			conflicts: conflictsOf(e.Expect, d.Conflicts),
		}
	case errors.As(err, &refused):
		return nil, &statusError{status: http.StatusUnprocessableEntity, code: CodeRefused, text: err.Error() + "; nothing was changed"}
	}
	return d, err
}

// lastChanges says who changed each of some bullets last, for the error of an edit that lost a race. It leaves out bullets without a history.
func (c *call) lastChanges(ids []playbook.BulletID) string {
	const limit = 3
	text := ""
	for _, id := range firstItems(ids, limit) {
		x, err := explain.BulletOf(c.book(), c.handler.index.Logs.Bullet(c.ctx, c.book(), id), id)
		if err != nil {
			continue
		}
		i := len(x.Events) - 1
		for i >= 0 && x.Events[i].Kind.Counts() {
			i--
		}
		if i >= 0 {
			text += fmt.Sprintf("; version %d: bullet %q %s", x.Events[i].Version, id, explain.DescribeEvent(&x.Events[i], id))
		}
	}
	return text
}

// conflictsOf returns a conflict for each bullet in now, which has its current state. read has the states that the author of the edit read.
func conflictsOf(read, now []events.Expectation) []Conflict {
	all := []Conflict{}
	for _, current := range now {
		c := Conflict{Expectation: current}
		for _, seen := range read {
			if seen.Bullet == current.Bullet {
				c.Read = &seen
			}
		}
		all = append(all, c)
	}
	return all
}

// hasChanged reports whether an edit was refused because something has changed since its author read it.
func hasChanged(r *events.RefusedError) bool {
	return slices.ContainsFunc(r.Refused, func(why events.Refusal) bool { return why.Code == playbook.ReasonChanged })
}
