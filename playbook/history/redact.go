package history

import (
	"slices"
	"time"

	"debrief/playbook"
)

// Redactor erases the texts of some executions from a log. The executions must be forgotten before. It removes
//
//   - the user, the session and the excerpt of their evidence;
//   - each text of a bullet that one of them supports, everywhere in the log, unless another execution or a person supports the text, or it is
//     the current text of the bullet;
//   - the texts and reasons of rejected proposals that one of them supports;
//   - the reason of each change that covers or forgets them, and the names in the selectors that forgot them;
//   - all texts of changes that were never completed, because their covers are unknown;
//   - copies of texts that are erased in another playbook, as a fork, a promotion or an import makes them.
//
// Ids, counters, hashes, support and codes stay, so the redacted log has the same state at its end. Each erased text of a bullet is replaced
// by a different one, because the fold compares the contents of a bullet. StateAt and Forget return no bullet with an erased text.
type Redactor struct {
	isErased  func(*playbook.Evidence) bool
	copied    map[string]time.Time     // see NewRedactor
	found     bool                     // the log has an execution to erase, or a text in copied
	changes   map[string]*redactChange // changes of several deltas, by id
	abandoned map[uint64]bool          // versions of the deltas of changes that were never completed
	texts     map[playbook.BulletID]map[string]*bulletText
	current   map[playbook.BulletID]string // last text of each bullet, also of removed ones
	shown     []playbook.BulletID          // see Shown
	head      playbook.Playbook            // the newest state
	erased    map[playbook.BulletID]bool   // bullets all of whose texts are erased
	forgets   []playbook.Forgotten
	numbers   map[playbook.Selector]uint64 // first version of each selector with names
	nameless  map[uint64]uint64            // numbers of the selectors to erase, by the version of their change
}

// redactChange has the facts of the last delta of a change that its earlier deltas need.
type redactChange struct {
	last    *playbook.Delta // its author, covers and selector
	applies bool            // it covers or forgets an execution to erase
}

// bulletText is a text that a bullet had.
type bulletText struct {
	erased  string    // the replacement, if it is erased
	touched bool      // an execution to erase supports it
	kept    bool      // another event supports it, or the bullet has it now: it is not erased
	learned bool      // another execution supports it
	copied  bool      // an edit copied it from a text that is erased in another playbook
	first   time.Time // of the change that first had it
}

// isErased reports whether Redact erases the text.
func (t *bulletText) isErased() bool { return t != nil && t.touched && !t.kept }

// NewRedactor reads a log twice and returns the Redactor for the executions that isErased reports. A log that is partly redacted already may
// be redacted further.
//
// copied has texts that are erased in other playbooks, each with the time from which they had it; nil for none. An edit that sets such a text
// later, with no execution behind it, has copied it: what supports the original supports the copy.
func NewRedactor(log Log, isErased func(*playbook.Evidence) bool, copied map[string]time.Time) (*Redactor, error) {
	r := &Redactor{
		changes: map[string]*redactChange{}, abandoned: map[uint64]bool{}, texts: map[playbook.BulletID]map[string]*bulletText{},
		current: map[playbook.BulletID]string{}, erased: map[playbook.BulletID]bool{}, numbers: map[playbook.Selector]uint64{}, nameless: map[uint64]uint64{},
		copied: copied,
	}
	r.isErased = func(e *playbook.Evidence) bool { return e != nil && (playbook.IsErased(e.Excerpt) || isErased(e)) }
	if err := r.readTexts(log); err != nil {
		return nil, err
	}
	if err := r.findSelectors(log, isErased); err != nil {
		return nil, err
	}
	for id, texts := range r.texts {
		all := r.head.Bullet(id) == nil
		for content, t := range texts {
			if t.copied && !t.kept && r.isCurrent(id, content) {
				r.shown = append(r.shown, id)
			}
			t.kept = t.kept || r.isCurrent(id, content)
			all = all && t.isErased()
		}
		r.erased[id] = all
	}
	slices.Sort(r.shown)
	return r, nil
}

// Shown returns the bullets that the playbook has now although their text is only a copy of one that is erased. Redact keeps the text of a
// bullet that the playbook has: remove them first.
func (r *Redactor) Shown() []*playbook.Bullet {
	all := make([]*playbook.Bullet, len(r.shown))
	for i, id := range r.shown {
		all[i] = r.head.Bullet(id)
	}
	return all
}

// AddErased adds to texts the contents of bullets that Redact erases, each with the time of its first change.
func (r *Redactor) AddErased(texts map[string]time.Time) {
	for _, ofBullet := range r.texts {
		for content, t := range ofBullet {
			if !t.isErased() || playbook.IsErased(content) {
				continue
			}
			if old, ok := texts[content]; !ok || t.first.Before(old) {
				texts[content] = t.first
			}
		}
	}
}

// DropLearned removes from texts the contents that an execution supports that is not erased.
func (r *Redactor) DropLearned(texts map[string]time.Time) {
	for _, ofBullet := range r.texts {
		for content, t := range ofBullet {
			if t.learned {
				delete(texts, content)
			}
		}
	}
}

// isCurrent reports whether the playbook has a text now.
func (r *Redactor) isCurrent(id playbook.BulletID, content string) bool {
	b := r.head.Bullet(id)
	return b != nil && b.Content == content
}

// readTexts reads the log for the texts of all bullets and what supports them.
func (r *Redactor) readTexts(log Log) error {
	var parts playbook.ChangeAssembler
	var open []*playbook.Delta
	return log(func(d *playbook.Delta) error {
		if _, err := r.head.Apply(d); err != nil {
			return err
		}
		if len(open) > 0 && open[0].ChangeID != d.ChangeID {
			for _, part := range open {
				r.abandoned[part.Version] = true
			}
			open = nil
		}
		if d.More {
			open = append(open, d)
		} else {
			open = nil
		}
		if c := change(parts.Add(d)); c != nil {
			r.addChange(c)
		}
		return nil
	})
}

func (r *Redactor) addChange(c change) {
	last := c.last()
	applies := r.covers(last)
	r.found = r.found || applies
	if len(c) > 1 {
		r.changes[last.ChangeID] = &redactChange{last: last, applies: applies}
	}
	if f := last.Forget; f != nil {
		r.forgets = append(r.forgets, forgottenBy(last))
		if _, ok := r.numbers[*f]; !ok && f.HasNames() {
			r.numbers[*f] = last.Version
		}
	}
	for _, part := range c {
		for i := range part.Ops {
			r.addOp(c, part, i)
		}
		for i := range part.Rejected {
			j := &part.Rejected[i]
			if s := r.supportOf(c, part, &j.Op, textOf(&j.Op)); j.DuplicateOf != "" && s.other {
				t := r.entry(j.DuplicateOf, j.Op.Content, part, 0)
				t.kept, t.learned = true, t.learned || s.learned
			}
		}
	}
}

// covers reports whether a delta covers an execution to erase.
func (r *Redactor) covers(d *playbook.Delta) bool {
	return slices.ContainsFunc(d.Covers, func(c playbook.Cover) bool { return r.isErased(c.Evidence) })
}

// textSupport tells what supports a text.
type textSupport struct {
	erased  bool // an execution to erase
	other   bool // another execution, or an edit
	learned bool // another execution
	copied  bool // nothing: it is a copy of a text that is erased in another playbook
}

// supportOf returns the support of a text that an operation of a change sets or proposes.
func (r *Redactor) supportOf(c change, part *playbook.Delta, op *playbook.Op, content string) (s textSupport) {
	for _, cover := range c.support(part, op) {
		if r.isErased(cover.Evidence) {
			s.erased = true
			continue
		}
		s.other, s.learned = true, s.learned || cover.Evidence != nil
	}
	if from, ok := r.copied[content]; ok && !s.erased && !s.learned && !part.Time.Before(from) {
		r.found = true
		return textSupport{erased: true, copied: true}
	}
	return s
}

// entry returns the entry of a text of a bullet. It adds a new one if the text first appears here, in an operation of a delta.
func (r *Redactor) entry(id playbook.BulletID, content string, part *playbook.Delta, op int) *bulletText {
	texts := r.texts[id]
	if texts == nil {
		texts = map[string]*bulletText{}
		r.texts[id] = texts
	}
	t := texts[content]
	if t == nil {
		t = &bulletText{erased: playbook.ErasedContent(part.Version, op), first: part.Time}
		texts[content] = t
	}
	return t
}

// addOp records the text that an operation sets or confirms, and what supports it.
func (r *Redactor) addOp(c change, part *playbook.Delta, i int) {
	op := &part.Ops[i]
	content := textOf(op)
	if op.Kind == playbook.Confirm {
		content = r.current[op.Bullet]
	}
	s := r.supportOf(c, part, op, content)
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Merge:
		if op.Kind == playbook.Merge {
			s.erased = s.erased || r.isTouched(op.Bullet) || slices.ContainsFunc(op.Sources, r.isTouched)
		}
		s.other = !s.erased
	case playbook.Put:
		s.other = !s.erased
		if c.last().RestoredVersion != nil || c.last().Forget != nil { // it repeats an earlier text
			s = textSupport{}
		}
	case playbook.Confirm:
		if _, ok := r.current[op.Bullet]; !ok || !s.other {
			return
		}
		s.erased = false
	default:
		return
	}
	t := r.entry(op.Bullet, content, part, i)
	t.touched, t.kept, t.learned = t.touched || s.erased, t.kept || s.other, t.learned || s.learned && !s.erased
	t.copied = t.copied || s.copied
	r.current[op.Bullet] = content
}

// textOf returns the text that an operation sets.
func textOf(op *playbook.Op) string {
	if op.PutBullet != nil {
		return op.PutBullet.Content
	}
	return op.Content
}

// isTouched reports whether only executions to erase support the text that a bullet has at this point of the log.
func (r *Redactor) isTouched(id playbook.BulletID) bool {
	return r.texts[id][r.current[id]].isErased()
}

// findSelectors finds the selectors whose names are erased: those that name only executions to erase, and those that forgot one of them.
func (r *Redactor) findSelectors(log Log, isErased func(*playbook.Evidence) bool) error {
	for _, f := range r.forgets {
		s := f.Selector
		named := &playbook.Evidence{Source: s.Source, Owner: s.Owner, User: s.User, Session: s.Session, Execution: s.Execution, Sample: s.Sample}
		if s.HasNames() && isErased(named) {
			r.nameless[f.Version] = r.numbers[s]
		}
	}
	return log(func(d *playbook.Delta) error {
		for _, c := range d.Covers {
			if f := r.forgottenBy(d.Version, c.Evidence); f != nil && f.Selector.HasNames() && r.isErased(c.Evidence) {
				r.nameless[f.Version] = r.numbers[f.Selector]
			}
		}
		return nil
	})
}

// forgottenBy returns the first change that forgot the evidence in a version, or nil.
func (r *Redactor) forgottenBy(version uint64, e *playbook.Evidence) *playbook.Forgotten {
	for i := range r.forgets {
		if r.forgets[i].Matches(version, e) {
			return &r.forgets[i]
		}
	}
	return nil
}

// Redact erases texts of a delta of the log, and reports whether the delta had some. It changes the delta and the values in it. A second
// call changes nothing.
func (r *Redactor) Redact(d *playbook.Delta) (changed bool) {
	c, applies := change{d}, r.covers(d)
	if several := r.changes[d.ChangeID]; several != nil && d.ChangeID != "" {
		c, applies = change{several.last}, several.applies
	}
	e := &eraser{redactor: r, whole: r.abandoned[d.Version] && r.found}
	_, forgets := r.nameless[c.last().Version]
	applies = applies || forgets || e.whole
	for i := range d.Ops {
		op := &d.Ops[i]
		touched := r.supportOf(c, d, op, textOf(op)).erased
		e.eraseOp(op, touched || r.erased[op.Bullet])
	}
	for i := range d.Rejected {
		j := &d.Rejected[i]
		touched := r.supportOf(c, d, &j.Op, textOf(&j.Op)).erased
		e.eraseRejection(j, touched || r.erased[j.Op.Bullet])
	}
	if number, ok := r.nameless[d.Version]; ok && d.Forget != nil && d.Forget.HasNames() {
		s := d.Forget.WithoutNames(number)
		d.Forget, e.changed = &s, true
	}
	if applies {
		e.erase(&d.Reason)
	}
	for i := range d.Covers { // last, because the code above reads the evidence
		e.eraseEvidence(d.Version, d.Covers[i].Evidence)
	}
	return e.changed
}

// eraser erases the texts of one delta.
type eraser struct {
	redactor *Redactor
	whole    bool // all texts of the delta
	changed  bool
}

// erase erases a text for people.
func (e *eraser) erase(text *string) {
	if *text != "" && !playbook.IsErased(*text) {
		*text, e.changed = playbook.ErasedText, true
	}
}

// eraseText erases the condition and the content of a bullet.
func (e *eraser) eraseText(when, content *string, erased string) {
	if *content != "" && !playbook.IsErased(*content) {
		*when, *content, e.changed = "", erased, true
	}
}

// eraseOp erases the texts of an operation. touched reports whether an execution to erase supports it.
func (e *eraser) eraseOp(op *playbook.Op, touched bool) {
	if touched || e.whole {
		e.erase(&op.Reason)
	}
	when, content := &op.When, &op.Content
	if op.PutBullet != nil {
		b := *op.PutBullet
		op.PutBullet = &b
		when, content = &b.When, &b.Content
	}
	t := e.redactor.texts[op.Bullet][*content]
	switch {
	case t.isErased():
		e.eraseText(when, content, t.erased)
	case e.whole:
		e.eraseText(when, content, playbook.ErasedText)
	}
}

// eraseRejection erases the texts of a rejected operation.
func (e *eraser) eraseRejection(j *playbook.Rejection, touched bool) {
	t := e.redactor.texts[j.DuplicateOf][j.Op.Content]
	if !touched && !t.isErased() && !e.whole {
		return
	}
	e.erase(&j.Reason)
	e.erase(&j.Op.Reason)
	e.eraseWhole(&j.Op)
	switch {
	case t.isErased():
		e.eraseText(&j.Op.When, &j.Op.Content, t.erased)
	case t == nil || !t.kept: // a kept text is the text of a bullet, so the proposal is support for it
		e.eraseText(&j.Op.When, &j.Op.Content, playbook.ErasedText)
	}
}

// eraseWhole erases the bullet of a rejected Put.
func (e *eraser) eraseWhole(op *playbook.Op) {
	if op.PutBullet != nil {
		b := *op.PutBullet
		op.PutBullet = &b
		e.eraseText(&b.When, &b.Content, playbook.ErasedText)
	}
}

// eraseEvidence erases the names and the excerpt of an execution to erase. Evidence that was forgotten by a selector whose names are erased
// gets the number of that selector.
func (e *eraser) eraseEvidence(version uint64, evidence *playbook.Evidence) {
	if evidence == nil {
		return
	}
	r := e.redactor
	f, isErased := r.forgottenBy(version, evidence), r.isErased(evidence)
	if f != nil && evidence.ErasedSelector == 0 {
		if number, ok := r.nameless[f.Version]; ok {
			evidence.ErasedSelector, e.changed = number, true
		}
	}
	if isErased && evidence.Excerpt != playbook.ErasedText {
		evidence.User, evidence.Session, evidence.Excerpt = "", "", playbook.ErasedText
		if evidence.Compared != nil {
			evidence.Compared = &playbook.ComparedRun{Execution: evidence.Compared.Execution}
		}
		e.changed = true
	}
}
