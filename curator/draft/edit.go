package draft

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/history"
	"debrief/playbook/text"
)

// draftEdit drafts an edit as a separate change, completely or not at all. The reasons for a refusal are recorded in the log and sent in the
// reply.
func (d *draft) draftEdit(item *Item, out *playbook.Delta) {
	d.edit, d.byPerson = item, true
	item.coverIndex, item.Decision = d.cover(item), events.EditReply{}
	out.Author, out.Reason = text.Excerpt(item.Edit.Author, maxAuthor), text.Excerpt(item.Edit.Reason, screen.MaxReason)
	switch {
	case out.Reason != "":
	case item.Edit.Rebuild:
		out.Reason = "rebuild of the view"
	case len(item.Edit.Redact) > 0:
		out.Reason = "erasure of texts"
	}
	refused := d.applyEdit(item, out)
	if len(refused) > 0 {
		d.refuseEdit(item, refused, out)
		return
	}
	item.Decision.Changed = len(d.changed)
}

// refuseEdit drops the draft of an edit, and records the refused parts in the change and in the reply.
func (d *draft) refuseEdit(item *Item, refused []playbook.Rejection, out *playbook.Delta) {
	*d = *newDraft(d.base, d.Config)
	d.edit = item
	d.byPerson = !item.Gathers()
	*out = playbook.Delta{Author: out.Author, Reason: out.Reason}
	if !item.Gathers() { // a refused gathering stays uncovered, so that the same edit can be tried again
		d.cover(item)
	}
	decision := &item.Decision
	decision.Added = nil
	for i, rejection := range refused {
		d.rejections.add(rejection)
		if i < maxReplyReasons {
			decision.Refused = append(decision.Refused, events.Refusal{Code: rejection.Code, Text: rejection.Reason})
		}
	}
	if more := len(refused) - maxReplyReasons; more > 0 {
		decision.Refused = append(decision.Refused, events.Refusal{Code: playbook.ReasonMore, Text: fmt.Sprintf("%d more", more), Count: more})
	}
	decision.Conflicts = decision.Conflicts[:min(len(decision.Conflicts), maxReplyReasons)]
}

// maxReplyReasons is the maximum number of reasons in a reply. The log has more.
const maxReplyReasons = 10

// editRefusals collects the refused parts of an edit.
type editRefusals []playbook.Rejection

// add records a refused operation, with secrets redacted.
func (r *editRefusals) add(op playbook.Op, refusal *screen.Refusal) {
	op.When, op.Content, op.Reason = screen.Redact(op.When), screen.Redact(op.Content), screen.Redact(op.Reason)
	*r = append(*r, refusal.Rejection(op))
}

// applyEdit drafts the parts of an edit and returns a rejection for each part that is impossible.
func (d *draft) applyEdit(item *Item, out *playbook.Delta) (refused editRefusals) {
	e := item.Edit
	if refusal := refuseCombination(item); refusal != nil {
		refused.add(playbook.Op{}, refusal)
		return refused
	}
	for _, read := range e.Expect {
		if current := d.currentOf(read.Bullet); current != read {
			item.Decision.Conflicts = append(item.Decision.Conflicts, current)
			refused.add(playbook.Op{Bullet: read.Bullet},
				screen.Refusef(playbook.ReasonChanged, "bullet %q has changed since it was read", text.Excerpt(string(read.Bullet), screen.MaxName)))
		}
	}
	newest := d.base.Version()
	if e.BaseVersion != nil && newest > *e.BaseVersion {
		refused.add(playbook.Op{}, screen.Refusef(playbook.ReasonChanged, "the playbook changed: it has version %d, version %d was read", newest, *e.BaseVersion))
	}
	if item.Gathers() {
		for _, problem := range item.Gathered.Problems {
			refused.add(playbook.Op{}, screen.Refusef(playbook.ReasonNotFound, "%s", problem))
		}
		if len(refused) == 0 {
			if refusal := d.draftGathered(item, out); refusal != nil {
				refused.add(playbook.Op{}, refusal)
			}
		}
		return refused
	}
	for _, n := range e.Names {
		n.Version = cmp.Or(n.Version, newest)
		if n.Version > newest {
			refused.add(playbook.Op{}, refuseVersion(n.Version, newest))
		}
		out.Names = append(out.Names, n)
	}
	for _, r := range e.Redact {
		if r.Version > newest {
			refused.add(playbook.Op{}, refuseVersion(r.Version, newest))
		}
	}
	out.Redacted = e.Redact
	d.changeSettings(e, out)
	refused = append(refused, d.applyEditOps(item)...)
	if target := item.Target; target != nil && target.Problem != "" {
		refused.add(playbook.Op{}, screen.Refusef(playbook.ReasonNotFound, "%s", target.Problem))
	} else if target != nil && target.Playbook != nil {
		d.transformTo(target.Playbook)
	}
	out.RestoredVersion, out.Fork = e.Restore, e.Fork
	if e.Forget != nil {
		out.Forget, out.ForgetBefore = e.Forget, item.Target.Before
	}
	return refused
}

// refuseCombination returns the reason if an edit has parts that exclude each other, or nil.
func refuseCombination(item *Item) *screen.Refusal {
	e := item.Edit
	usesLog := e.Restore != nil || e.Forget != nil
	if e.Restore != nil && e.Forget != nil || usesLog && len(e.Ops) > 0 {
		return screen.Refusef(playbook.ReasonInvalid, "operations, restore, forget: an edit must contain only one of them")
	}
	if usesLog && (e.Rebuild || e.Fork != nil) { // their target is another one, so restore and forget would have no effect
		return screen.Refusef(playbook.ReasonInvalid, "restore, forget: not allowed together with rebuild or fork")
	}
	hasOthers := e.ChangesSettings() || usesLog || e.Rebuild || e.Fork != nil || len(e.Ops)+len(e.Names) > 0
	if item.Gathers() && hasOthers {
		return screen.Refusef(playbook.ReasonInvalid, "gather: not allowed together with other changes")
	}
	if len(e.Redact) > 0 && (item.Gathers() || hasOthers) {
		return screen.Refusef(playbook.ReasonInvalid, "redact: not allowed together with other changes")
	}
	return nil
}

// refuseVersion returns the refusal of a version that does not exist.
func refuseVersion(version, newest uint64) *screen.Refusal {
	return screen.Refusef(playbook.ReasonNotFound, "%v", &history.VersionNotFoundError{Version: version, Newest: newest})
}

// changeSettings drafts the settings of an edit. A gate that becomes less strict shows the bullets that it withheld.
func (d *draft) changeSettings(e *events.Edit, out *playbook.Delta) {
	if e.Gate != "" {
		becomesLessStrict := strictness[e.Gate] < strictness[d.mode]
		d.mode, out.Gate = e.Gate, e.Gate
		if becomesLessStrict {
			d.decider().Release()
		}
	}
	if e.Review != "" {
		out.Review, d.review = e.Review, e.Review == playbook.ReviewFirst
	}
	out.Control, out.LeadingScore = e.Control, e.LeadingScore
	out.About, out.Judge = e.About, e.Judge
}

// strictness orders the modes of the gate.
var strictness = map[playbook.Gate]int{playbook.GateOff: 0, playbook.GateGuard: 1, playbook.GateStrict: 2}

// applyEditOps drafts the operations of an edit, and returns a rejection for each one that is impossible.
func (d *draft) applyEditOps(item *Item) (refused editRefusals) {
	support := []int{item.coverIndex}
	if covers := item.Edit.EvidenceCovers(item.Seq); len(covers) > 0 {
		covers = slices.DeleteFunc(covers, func(c playbook.Cover) bool { return d.recorded.Forgets(c.Evidence) })
		if len(covers) == 0 {
			refused.add(playbook.Op{}, screen.Refusef(playbook.ReasonForgotten, "all executions behind the edit are forgotten"))
			return refused
		}
		support = nil
		for i := range covers {
			support = append(support, len(d.covers))
			d.covers = append(d.covers, covers[i])
			d.bytes += sizeOf(&covers[i])
		}
	}
	for _, op := range item.Edit.Ops {
		op.Support = slices.Clone(support)
		if refusal := d.applyEditOp(&op, item); refusal != nil {
			refused.add(op, refusal)
		} else if op.Kind == playbook.Add {
			item.Decision.Added = append(item.Decision.Added, op.Bullet)
		}
	}
	return refused
}

// applyEditOp drafts an operation of an edit. It returns nil, or the reason to refuse the operation, which it cleans for the log.
func (d *draft) applyEditOp(op *playbook.Op, item *Item) *screen.Refusal {
	invalid := cleanEditOp(op)
	d.admitEditOp(op, item) // also if it is invalid: the log records it with its code
	if invalid != nil {
		return screen.Refusef(playbook.ReasonInvalid, "%v", invalid)
	}
	if refusal := d.refuseUnread(op, item.Edit); refusal != nil {
		return refusal
	}
	if refusal := screen.RefuseSecretOp(op); refusal != nil {
		return refusal
	}
	return d.change(op)
}

// admitEditOp sets the status, the standing and the code of an operation of an edit:
//
//   - A bullet of a fork is that of the copied playbook, with its status.
//   - An imported bullet and one that follows from executions are no decisions of a person, so the admission decides.
//   - A proposed bullet waits for a person.
//   - Any other operation is the decision of a person.
func (d *draft) admitEditOp(op *playbook.Op, item *Item) {
	e := item.Edit
	switch {
	case op.Kind == playbook.Put:
		if op.PutBullet == nil {
			return
		}
		if copied := item.forked(op); copied != nil {
			op.PutBullet = copied
		} else {
			d.admitImport(op)
		}
	case len(e.Evidence) > 0:
		if op.Kind == playbook.Add {
			d.admitRule(op)
		}
	case isProposal(op):
		admitProposal(op)
	default:
		op.Code = playbook.ReasonPerson
		setsStatus := op.Kind == playbook.Add || op.Kind == playbook.SetStatus
		isActive := op.Status == playbook.Active || op.Status == "" // "" is the default of an ADD
		if setsStatus && (isActive || op.Status == playbook.Retired) {
			op.Standing = d.personStanding(op)
		}
	}
}

// personStanding returns the standing of a bullet that a person shows or retires, "" for no new standing. A kept bullet is one whose status
// the gate does not change.
func (d *draft) personStanding(op *playbook.Op) playbook.Standing {
	b := d.Bullet(op.Bullet) // nil for an ADD
	switch {
	case op.Status == playbook.Retired:
		return playbook.StandingKept
	case d.mode == playbook.GateOff:
		return ""
	case d.review && b != nil && b.Shown(): // measured already
		return ""
	case d.review: // the person approves each new text, so the gate still measures it
		return playbook.StandingNew
	}
	return playbook.StandingKept
}

// forked returns the bullet of the copied playbook that an operation of a fork names by its id and text. It returns nil if the copied playbook
// does not have it: then the bullet counts as an import.
func (item *Item) forked(op *playbook.Op) *playbook.Bullet {
	if item.Edit.Fork == nil || item.Target == nil || item.Target.Source == nil {
		return nil
	}
	b := item.Target.Source.Bullet(op.Bullet)
	if b == nil || b.Section != op.PutBullet.Section || b.Content != op.PutBullet.Content {
		return nil
	}
	return b
}

// isProposal reports whether an operation of an edit proposes a bullet: it adds one in quarantine, where it waits for a person.
func isProposal(op *playbook.Op) bool {
	return op.Kind == playbook.Add && op.Status == playbook.Quarantined
}

// admitProposal sets the code and the reason of a proposed bullet. An agent may have written the bullet, so it does not count as the decision
// of a person. The reason shows the person who decides if the text looks like an order to models.
func admitProposal(op *playbook.Op) {
	proposed := op.Reason
	op.Code = playbook.ReasonReview
	screen.Suspect(op)
	if screen.IsSuspect(op) && proposed != "" {
		op.Reason = text.Excerpt(op.Reason+"; "+proposed, screen.MaxReason)
	}
}

// admitRule sets the status of a bullet that follows from executions without a person.
func (d *draft) admitRule(op *playbook.Op) {
	if d.mode != playbook.GateOff {
		op.Standing = playbook.StandingNew
	}
	screen.Suspect(op)
	status, refusal := d.firstStatus(op, admit.Rule)
	op.Code = "" // only firstStatus needs the mark
	op.Status = status
	if status == playbook.Active {
		op.Status = "" // the default of an ADD
	}
	if refusal != nil {
		op.Code, op.Reason = refusal.Code, text.Excerpt(refusal.Reason, screen.MaxReason)
	}
}

// admitImport drafts an imported bullet as new advice. A file can contain any claim, so the approval, the pin, the measured effect, the
// evidence and the corrections that it states are dropped. Votes and times stay, because they cannot show a bullet or hide one. A
// bullet that the file retired stays retired for good. Any other bullet goes to quarantine if a person must approve it.
func (d *draft) admitImport(op *playbook.Op) {
	b := op.PutBullet
	imported := playbook.Bullet{
		ID: b.ID, Section: b.Section, When: b.When, Content: b.Content, Status: b.Status, Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral,
		CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, LastUsed: b.LastUsed,
	}
	op.PutBullet = &imported
	if b.Status == playbook.Retired {
		imported.Experiment = &playbook.Experiment{Standing: playbook.StandingKept}
		return
	}
	found, suspect := admit.ScreenText(b.When, b.Content)
	status, code := admit.FirstStatus(admit.Text{Source: admit.Import, Suspect: suspect, Review: d.review, Gate: d.mode})
	if status == playbook.Active {
		if b.Status == playbook.Probation && d.mode != playbook.GateStrict { // only a strict gate ends a probation
			imported.Status = playbook.Candidate
		}
		return
	}
	imported.Status = status
	op.Code = code
	op.Reason = "import: a person approves each new text"
	if suspect {
		op.Reason = found.String()
	}
}

// refuseUnread returns the reason not to approve a bullet, or nil. If new texts wait for a person, an approval is only for the text that
// the person read, so the edit must name this text in Expect.
func (d *draft) refuseUnread(op *playbook.Op, e *events.Edit) *screen.Refusal {
	activates := op.Kind == playbook.SetStatus && op.Status == playbook.Active
	if !d.review || !activates {
		return nil
	}
	b := d.Bullet(op.Bullet)
	if b == nil || b.Shown() { // nothing to approve
		return nil
	}
	for _, read := range e.Expect {
		if read.Bullet == b.ID {
			return nil // applyEdit compares the text
		}
	}
	return screen.Refusef(playbook.ReasonChanged, "approve bullet %q: the edit must expect the text that was read", b.ID)
}

// currentOf returns the current section and content of a bullet, in the form in which an edit states what its author read.
func (d *draft) currentOf(id playbook.BulletID) events.Expectation {
	current := events.Expectation{Bullet: id}
	if b := d.Bullet(id); b != nil {
		current.Section, current.Content = b.Section, b.Content
	}
	return current
}

// transformTo drafts the operations that turn the state into the wanted one.
func (d *draft) transformTo(wanted *playbook.Playbook) {
	for _, op := range history.OpsBetween(d.base, wanted) {
		op.Support = []int{0}
		d.putBullet(op)
	}
}

// split divides a change into as many deltas as the size limits require. If there are several, the last one has no operations: it has
// all other fields of the change, such as the covers.
func split(d *playbook.Delta) []*playbook.Delta {
	size := 0
	for i := range d.Covers {
		size += sizeOf(&d.Covers[i])
	}
	for i := range d.Ops {
		size += sizeOf(&d.Ops[i])
	}
	if size <= hardBytes && len(d.Ops) <= hardBullets {
		return []*playbook.Delta{d}
	}
	var parts []*playbook.Delta
	var part *playbook.Delta
	room := 0 // bytes left in part
	for _, op := range d.Ops {
		if d.Author != history.Curator {
			op.Support = nil // in an edit this means all covers, see Op.Support
		}
		n := sizeOf(&op)
		if part == nil || room < n || len(part.Ops) == hardBullets {
			part, room = &playbook.Delta{Author: d.Author, Reason: d.Reason}, hardBytes
			parts = append(parts, part)
		}
		part.Ops = append(part.Ops, op)
		room -= n
	}
	d.Ops = nil
	return append(parts, d)
}

// cleanEditOp clears the fields that an edit must not set and validates the others, because the log refuses a whole delta if one operation
// is invalid.
func cleanEditOp(op *playbook.Op) (err error) {
	op.Helpful = 0
	op.Harmful = 0
	op.Neutral = 0
	op.OldVote = ""
	op.ExperimentNumber = 0
	op.Exposures = nil
	if !isProposal(op) {
		op.Replaces = ""
	}
	op.Contests = ""
	op.Standing, op.Restart = "", false
	op.Code = "" // see admitEditOp
	op.Reason = text.Excerpt(op.Reason, screen.MaxReason)
	if op.Section != "" {
		op.Section = playbook.Section(op.Section)
	}
	switch op.Kind {
	case playbook.Put:
		op.When, op.Content, op.Section = "", "", ""
		return checkPut(op)
	case playbook.Add, playbook.Update, playbook.Merge:
		op.When, op.Content, err = playbook.CleanText(op.When, op.Content)
		if err != nil {
			return err
		}
	default:
		op.When, op.Content = "", ""
	}
	op.PutBullet = nil
	if !op.Status.Valid() {
		return fmt.Errorf("status: unknown status %q: use active, candidate, retired or quarantined", text.Excerpt(string(op.Status), screen.MaxName))
	}
	if op.Status == "" && op.Kind == playbook.SetStatus {
		op.Status = playbook.Active
	}
	if op.Status == playbook.Probation {
		return errors.New("status: only the gate sets probation: use candidate")
	}
	return nil
}

// checkPut validates the bullet of a PUT.
func checkPut(op *playbook.Op) error {
	b := op.PutBullet
	switch {
	case b == nil:
		return errors.New("bullet: required")
	case len(b.Content) > playbook.MaxContent:
		return errors.New("bullet: text too long")
	}
	if err := cmp.Or(b.ID.ValidateImported(), b.ID.CheckNumber()); err != nil {
		return fmt.Errorf("bullet.id: %q: %w", text.Excerpt(string(b.ID), screen.MaxName), err)
	}
	check := playbook.Delta{Version: 1, Ops: []playbook.Op{{Kind: playbook.Put, Bullet: op.Bullet, PutBullet: b}}} // in any version
	return check.Validate()
}
