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
	"debrief/playbook/text"
)

// editRoutes are the routes that change playbooks. The author of a change is the name of the token.
func editRoutes() []route {
	ofBullet := map[string]string{"book": "default", "id": "misc-00012"}
	edit := post("/books/{book}/edits", "editPlaybook", "Change bullets, decide on those in quarantine, restore or name a version, forget executions, or set the mode of the gate or of reviews. With dry_run only show the changes.", http.StatusCreated, editPlaybook)
	edit.scope = tokens.Review
	edit.idempotent = true
	edit.waits = true
	edit.example = example{path: map[string]string{"book": "default"}, body: `{"add": [{"content": "Ask for the date of the order.", "section": "others"}], "reason": "complaint 17"}`}
	approve := post("/books/{book}/review/{id}/approve", "approveBullet", "Release a bullet from quarantine.", http.StatusCreated, approveBullet)
	approve.example = example{path: ofBullet, body: `{"reason": "checked"}`}
	reject := post("/books/{book}/review/{id}/reject", "rejectBullet", "Retire a bullet in quarantine. The Curator rejects the same text from then on.", http.StatusCreated, rejectBullet)
	reject.example = example{path: map[string]string{"book": "default", "id": "misc-00013"}, body: `{"reason": "not ours"}`}
	for _, r := range []*route{&approve, &reject} {
		r.scope = tokens.Review
		r.idempotent = true
		r.optionalBody = true
	}
	return []route{edit, approve, reject, proposalRoute()}
}

// EditRequest is the body of the route editPlaybook.
type EditRequest = request.EditRequest

// decision is the optional body of the routes that approve or reject one bullet in quarantine.
type decision struct {
	Read   string `json:"read,omitempty" doc:"Version that you read: the decision is refused if the bullet changed since. Default: the newest."`
	Reason string `json:"reason,omitempty" doc:"Reason, for the log."`
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

func approveBullet(c *call, d *decision) (*EditReply, error) {
	return editPlaybook(c, &EditRequest{Approve: []playbook.BulletID{c.bullet()}, Read: d.Read, Reason: d.Reason})
}

func rejectBullet(c *call, d *decision) (*EditReply, error) {
	return editPlaybook(c, &EditRequest{Reject: []playbook.BulletID{c.bullet()}, Read: d.Read, Reason: d.Reason})
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
	setsMode := r.Gate != "" || r.Review != "" || r.Control != "" || r.LeadingScore != nil || r.About != nil || r.Judge != nil
	if mayBegin := setsMode || len(r.Add) > 0; newest.Version() == 0 && !mayBegin {
		return nil, index.ErrBookNotFound
	}
	if r.Forget != nil {
		if err := c.checkForget(); err != nil {
			return nil, err
		}
	}
	plan, err := r.Plan(c.ctx, c.handler.index.Books, c.book(), newest)
	if undecided, ok := errors.AsType[*request.UndecidableError](err); ok {
		return nil, conflict(err.Error() + c.lastChanges(undecided.Bullets))
	}
	if err != nil {
		return nil, err
	}
	out := &EditReply{Book: c.book(), Version: newest.Version(), Label: label, Of: plan.Of, Retired: plan.Retired, DryRun: r.DryRun}
	e := plan.Edit
	e.ID, e.Reason = id, r.Reason
	if r.DryRun {
		// submitEdit signs the edit itself. A dry run signs it to report an invalid one.
		if err := c.sign(e); err != nil {
			return nil, err
		}
		c.status = http.StatusOK
		return out, out.preview(c, newest, e)
	}
	if err := c.submitEdit(e, out); err != nil {
		return nil, err
	}
	return out, out.complete(c, r)
}

// checkForget returns an error for an unknown or an empty field of the selection of a request to forget.
func (c *call) checkForget() error {
	var sent struct{ Forget map[string]any } // the decoded request does not tell an empty field from one that was not sent
	if err := json.Unmarshal(c.body, &sent); err != nil {
		return err
	}
	return c.checkSelection("forget.", sent.Forget)
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

// preview sets the bullets that an edit would change. The Curator may still refuse it.
func (out *EditReply) preview(c *call, newest *playbook.Playbook, e *events.Edit) error {
	switch {
	case e.Restore != nil:
		then, err := c.handler.store.PlaybookAt(c.ctx, c.book(), *e.Restore)
		if err != nil {
			return err
		}
		out.Changes = history.Diff(newest, then)
	case e.Forget != nil:
		log := deltalog.New(c.handler.conn.JetStream()).History(c.ctx, c.book())
		then, err := request.PlanForget(c.ctx, c.handler.conn, log, *e.Forget)
		if err != nil {
			return err
		}
		out.Matched, out.Changes = then.Matched, history.Diff(newest, then.Playbook)
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
	done, refused, err := c.editInLog(id)
	switch {
	case err != nil:
		return id, nil, err
	case done == nil:
		return id, nil, nil
	case done.Changed == 0 && len(refused) > 0:
		return id, nil, conflict("refused before: " + strings.Join(refused, "; "))
	}
	c.status = http.StatusOK
	c.location("books", string(c.book()), "versions", fmt.Sprint(done.Version))
	return id, done, nil
}

// editInLog returns the result of an edit from the log of the playbook, and the reasons of its rejected operations. It returns nil if no delta
// covers the edit.
func (c *call) editInLog(id events.ID) (done *EditReply, refused []string, err error) {
	changed := map[playbook.BulletID]bool{}
	var added []playbook.BulletID
	err = c.handler.index.Logs.Covering(c.ctx, c.book(), string(id))(func(r *deltalog.Record) error {
		for i := range r.Ops { // a large edit has several deltas; only the last one has covers
			op := &r.Ops[i]
			changed[op.Bullet] = true
			for _, source := range op.Sources {
				changed[source] = true
			}
			if op.Kind == playbook.Add {
				added = append(added, op.Bullet)
			}
		}
		isCovered := slices.ContainsFunc(r.Covers, func(cover playbook.Cover) bool { return cover.ID == string(id) })
		if !isCovered {
			return nil
		}
		done = &EditReply{Book: c.book(), Version: r.Version, Label: playbook.VersionLabel(r.Version, r.Chain), Added: added, Changed: len(changed)}
		for _, rejected := range r.Rejected {
			refused = append(refused, rejected.Reason)
		}
		return nil
	})
	return done, refused, explain.LogError(err)
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
