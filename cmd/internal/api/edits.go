package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/edits"
	"debrief/cmd/internal/request"
	"debrief/cmd/internal/tokens"
	"debrief/cmd/internal/versions"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// editRoutes are the routes that change playbooks. The author of a change is the name of the token.
func editRoutes() []route {
	ofBullet := map[string]string{"book": "default", "id": "misc-00012"}
	edit := post("/books/{book}/edits", "editPlaybook", "Change bullets, restore or name a version, or set the mode of the gate or of reviews. With dry_run only show the changes.", http.StatusCreated, editPlaybook)
	edit.scope, edit.keyed = tokens.Review, true
	edit.example = example{path: map[string]string{"book": "default"}, body: `{"add": [{"content": "Ask for the date of the order.", "section": "others"}], "reason": "complaint 17"}`}
	approve := post("/books/{book}/review/{id}/approve", "approveBullet", "Release a bullet from quarantine.", http.StatusCreated, func(c *call, r *decision) (*editReply, error) { return decide(c, r, true) })
	approve.scope, approve.keyed, approve.max, approve.example = tokens.Review, true, 0, example{path: ofBullet, body: `{"reason": "checked"}`}
	reject := post("/books/{book}/review/{id}/reject", "rejectBullet", "Retire a bullet in quarantine. The Curator rejects the same text from then on.", http.StatusCreated, func(c *call, r *decision) (*editReply, error) { return decide(c, r, false) })
	reject.scope, reject.keyed, reject.max = tokens.Review, true, 0
	reject.example = example{path: map[string]string{"book": "default", "id": "misc-00013"}, body: `{"reason": "not ours"}`}
	return []route{edit, approve, reject}
}

// editRequest is a change of a playbook: of bullets, or one of restore, tag, gate and review.
type editRequest struct {
	Add      []newBullet         `json:"add,omitempty" doc:"Bullets to add."`
	Change   []changedBullet     `json:"change,omitempty" doc:"Bullets with a new text or section."`
	Retire   []playbook.BulletID `json:"retire,omitempty" doc:"Bullets to retire: they stay in the playbook, and generators do not show them."`
	Remove   []playbook.BulletID `json:"remove,omitempty" doc:"Bullets to remove."`
	Activate []playbook.BulletID `json:"activate,omitempty" doc:"Retired bullets to show again."`
	Pin      []playbook.BulletID `json:"pin,omitempty" doc:"Bullets to pin: they are not pruned."`
	Unpin    []playbook.BulletID `json:"unpin,omitempty" doc:"Bullets to unpin."`

	Restore string          `json:"restore,omitempty" doc:"Version whose bullets to restore: a number, label, time, duration or name."`
	Tag     *newTag         `json:"tag,omitempty" doc:"Name for a version."`
	Gate    playbook.Gate   `json:"gate,omitempty" doc:"New mode of the gate."`
	Review  playbook.Review `json:"review,omitempty" doc:"New review mode: with first, new texts wait in quarantine until a person approves them; with off, the gate decides."`

	Read   string `json:"read,omitempty" doc:"Version that you read: the edit is refused if its bullets changed since; for restore, if the playbook did. Default: the newest."`
	Reason string `json:"reason,omitempty" doc:"Reason, for the log."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only return the changes."`
}

// newBullet is a bullet to add.
type newBullet struct {
	Content string `json:"content"`
	Section string `json:"section,omitempty" doc:"Default: others."`
}

// changedBullet is a bullet to change.
type changedBullet struct {
	ID      playbook.BulletID `json:"id"`
	Content string            `json:"content,omitempty" doc:"New text; empty keeps it."`
	Section string            `json:"section,omitempty" doc:"New section; empty keeps it."`
}

// newTag is a name for a version.
type newTag struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty" doc:"Default: the newest."`
}

// editReply is the result of an edit.
type editReply struct {
	Book    playbook.Book       `json:"book"`
	Version uint64              `json:"version" doc:"Version that the edit made; with dry_run the newest."`
	Label   string              `json:"label"`
	Added   []playbook.BulletID `json:"added,omitempty" doc:"Ids of the added bullets."`
	Changed int                 `json:"changed" doc:"Number of changed bullets."`
	DryRun  bool                `json:"dry_run,omitempty" doc:"Nothing was changed."`
	// Changes is set with dry_run.
	Changes []history.Difference `json:"changes,omitempty" doc:"With dry_run: bullets before and after. An added bullet has no id yet."`
}

func editPlaybook(c *call, r *editRequest) (*editReply, error) {
	id, done, err := c.beginEdit()
	if err != nil || done != nil {
		return done, err
	}
	now, label, err := c.handler.books.newest(c.ctx, c.name())
	if err != nil {
		return nil, err
	}
	if now.Version() == 0 && len(r.Add) == 0 && r.Gate == "" && r.Review == "" { // an edit may begin a playbook
		return nil, notFound(fmt.Sprintf("playbook %q: not found", c.name()))
	}
	e, err := r.edit(c, now)
	if err != nil {
		return nil, err
	}
	if r.DryRun {
		changes, err := preview(c, now, e)
		c.status = http.StatusOK
		return &editReply{Book: c.name(), Version: now.Version(), Label: label, Changed: len(changes), DryRun: true, Changes: changes}, err
	}
	e.ID, e.Reason = id, r.Reason
	return c.submitEdit(e)
}

// edit returns the edit for a request.
func (r *editRequest) edit(c *call, now *playbook.Playbook) (*events.Edit, error) {
	ofBullets := len(r.Add)+len(r.Change)+len(r.Retire)+len(r.Remove)+len(r.Activate)+len(r.Pin)+len(r.Unpin) > 0
	kinds := 0
	for _, set := range []bool{ofBullets, r.Restore != "", r.Tag != nil, r.Gate != "", r.Review != ""} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return nil, invalid("add, change, retire, remove, activate, pin, unpin, restore, tag, gate, review", "want changes of bullets, or one of restore, tag, gate and review")
	}
	switch {
	case r.Restore != "":
		return r.restore(c)
	case r.Tag != nil:
		return r.tag(c)
	case r.Gate != "":
		if !r.Gate.Valid() {
			return nil, invalid("gate", "want off, guard or strict")
		}
		return &events.Edit{Gate: r.Gate}, nil
	case r.Review != "":
		if !r.Review.Valid() {
			return nil, invalid("review", "want first or off")
		}
		return &events.Edit{Review: r.Review}, nil
	}
	read := now
	if r.Read != "" {
		var err error
		if read, _, err = c.handler.logs.At(c.ctx, c.name(), r.Read); err != nil {
			return nil, err
		}
	}
	return r.ops(read)
}

func (r *editRequest) restore(c *call) (*events.Edit, error) {
	at, err := c.handler.logs.Version(c.ctx, c.name(), r.Restore)
	if err != nil {
		return nil, err
	}
	e := &events.Edit{Restore: &at.Number}
	if r.Read != "" {
		seen, err := c.handler.logs.Version(c.ctx, c.name(), r.Read)
		if err != nil {
			return nil, err
		}
		e.BaseVersion = &seen.Number
	}
	return e, nil
}

func (r *editRequest) tag(c *call) (*events.Edit, error) {
	at, err := c.handler.logs.Version(c.ctx, c.name(), cmp.Or(r.Tag.Version, "newest"))
	if err != nil {
		return nil, err
	}
	e, err := edits.Tag(r.Tag.Name, at.Number)
	if err != nil {
		return nil, invalid("tag", err.Error())
	}
	return e, nil
}

// ops returns the edit of bullets, which expects their state at the version that was read.
func (r *editRequest) ops(read *playbook.Playbook) (*events.Edit, error) {
	e := new(events.Edit)
	for i, b := range r.Add {
		content, err := playbook.CleanContent(b.Content)
		if err != nil {
			return nil, invalid(fmt.Sprintf("add[%d].content", i), err.Error())
		}
		e.Ops = append(e.Ops, edits.Add(content, cmp.Or(b.Section, "others")))
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
				return nil, invalid(fmt.Sprintf("%s[%d]", list.field, i), fmt.Sprintf("bullet %q is not in the playbook", text40(string(id))))
			}
			if list.field == "activate" && read.Bullet(id).Status != playbook.Retired {
				return nil, invalid(fmt.Sprintf("activate[%d]", i), fmt.Sprintf("bullet %q is %s, not retired", id, cmp.Or(read.Bullet(id).Status, playbook.Active)))
			}
			op := list.op
			op.Bullet = id
			changed = append(changed, op)
		}
	}
	e.Expect = edits.Expectations(read, changed)
	e.Ops = append(e.Ops, changed...)
	return e, nil
}

// op returns the operation that changes a bullet. Errors name the field.
func (b *changedBullet) op(read *playbook.Playbook, field string) (playbook.Op, error) {
	was := read.Bullet(b.ID)
	if was == nil {
		return playbook.Op{}, invalid(field+".id", fmt.Sprintf("bullet %q is not in the playbook", text40(string(b.ID))))
	}
	content := b.Content
	if content == "" && b.Section == "" {
		return playbook.Op{}, invalid(field, "want content or section")
	}
	if content != "" {
		var err error
		if content, err = playbook.CleanContent(content); err != nil {
			return playbook.Op{}, invalid(field+".content", err.Error())
		}
	}
	return edits.Update(events.Expectation{Bullet: b.ID, Section: was.Section, Content: was.Content}, content, b.Section), nil
}

// preview returns the bullets that an edit would change. The Curator may still refuse it.
func preview(c *call, now *playbook.Playbook, e *events.Edit) ([]history.Difference, error) {
	if e.Restore != nil {
		then, err := c.handler.logs.Playbook(c.ctx, c.name(), *e.Restore)
		if err != nil {
			return nil, err
		}
		return history.Diff(now, then), nil
	}
	var added []history.Difference
	ops := slices.Clone(e.Ops)
	ops = slices.DeleteFunc(ops, func(op playbook.Op) bool {
		if op.Kind == playbook.Add {
			added = append(added, history.Difference{After: &playbook.Bullet{Section: op.Section, Content: op.Content}})
		}
		return op.Kind == playbook.Add
	})
	after := now.Clone()
	if _, err := after.Apply(&playbook.Delta{Version: now.Version() + 1, Ops: ops}); err != nil {
		return nil, &statusError{status: http.StatusUnprocessableEntity, code: CodeRefused, text: err.Error()}
	}
	return append(added, history.Diff(now, after)...), nil
}

// beginEdit returns the id of the edit of a call. If an earlier request with this id took effect, it also
// returns the result.
func (c *call) beginEdit() (events.ID, *editReply, error) {
	key, err := c.key()
	if err != nil {
		return "", nil, err
	}
	id := c.eventID("edit", string(c.name()), key)
	if key == "" {
		return id, nil, nil
	}
	var done *editReply
	var refused []string
	err = c.handler.logs.Covering(c.ctx, c.name(), string(id))(func(r *deltalog.Record) error {
		for _, cover := range r.Covers {
			if cover.ID == string(id) {
				done = &editReply{Book: c.name(), Version: r.Version, Label: playbook.VersionLabel(r.Version, r.Chain), Changed: len(r.Ops)}
				for _, rejected := range r.Rejected {
					refused = append(refused, rejected.Reason)
				}
			}
		}
		return nil
	})
	switch {
	case err != nil || done == nil:
		return id, nil, versions.LogError(err)
	case done.Changed == 0 && len(refused) > 0:
		return id, nil, &statusError{status: http.StatusConflict, code: CodeConflict, text: "refused before: " + strings.Join(refused, "; ")}
	}
	c.status = http.StatusOK
	c.location("books", string(c.name()), "versions", fmt.Sprint(done.Version))
	return id, done, nil
}

// submitEdit submits an edit and waits for the decision of the Curator.
func (c *call) submitEdit(e *events.Edit) (*editReply, error) {
	e.Book, e.Author, e.Created = playbook.Book(c.path["book"]), c.token.Name, time.Now().UTC()
	if err := e.Validate(); err != nil {
		return nil, &statusError{status: http.StatusBadRequest, code: CodeInvalid, text: err.Error()}
	}
	d, err := request.Edit(c.ctx, c.handler.conn, e, bus.PublishOptions{})
	var refused *events.RefusedError
	switch {
	case errors.As(err, &refused) && isChanged(refused):
		return nil, &statusError{status: http.StatusConflict, code: CodeConflict, text: err.Error() + "; nothing was changed", conflicts: d.Conflicts}
	case errors.Is(err, context.DeadlineExceeded):
		if blocked := c.handler.conn.Blocked(c.ctx, events.RoleCurator); blocked != "" {
			return nil, &statusError{status: http.StatusGatewayTimeout, code: CodeTimeout, text: "no curator can apply the edit, which is stored: " + blocked}
		}
		return nil, &statusError{status: http.StatusGatewayTimeout, code: CodeTimeout, text: "no curator replied: the edit is stored, and the next curator applies it"}
	case err != nil:
		return nil, err
	}
	c.location("books", string(e.Book), "versions", fmt.Sprint(d.Version))
	return &editReply{Book: e.Book, Version: d.Version, Label: playbook.VersionLabel(d.Version, d.Chain), Added: d.Added, Changed: d.Changed}, nil
}

// isChanged reports whether an edit was refused because something has changed since its author read it.
func isChanged(r *events.RefusedError) bool {
	return slices.ContainsFunc(r.Refused, func(why events.Refusal) bool { return why.Code == playbook.ReasonChanged })
}

// decision is the decision of a person on a bullet in quarantine.
type decision struct {
	Reason string `json:"reason,omitempty" doc:"Reason, for the log."`
}

// decide approves or rejects a bullet in quarantine.
func decide(c *call, r *decision, approve bool) (*editReply, error) {
	id, done, err := c.beginEdit()
	if err != nil || done != nil {
		return done, err
	}
	p, _, err := c.playbook("")
	if err != nil {
		return nil, err
	}
	bullet := playbook.BulletID(c.path["id"])
	if p.Bullet(bullet) == nil {
		return nil, notFound(fmt.Sprintf("bullet %q: not in the playbook", text40(string(bullet))))
	}
	conflict := func(err error) error {
		return &statusError{status: http.StatusConflict, code: CodeConflict, text: err.Error()}
	}
	list, err := edits.SelectQuarantined(p, []playbook.BulletID{bullet})
	if err != nil {
		return nil, conflict(err)
	}
	ops := edits.Reject(list, r.Reason)
	if approve {
		made, err := edits.NewApproval(p, list, r.Reason)
		if err != nil {
			return nil, conflict(err)
		}
		ops = made.Ops
	}
	return c.submitEdit(&events.Edit{ID: id, Ops: ops, Expect: edits.Expectations(p, ops), Reason: r.Reason})
}
