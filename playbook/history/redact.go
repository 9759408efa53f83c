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
// Ids, counters, hashes, support and codes stay, so the redacted log has the same state at its end. Different erased texts of a bullet have different
// replacements, because the fold compares the contents of a bullet. StateAt and Forget return no bullet with an erased text.
//
// NewRedactor first reads the whole log and records each text of each bullet with its support. Redact then erases the texts of one delta.
type Redactor struct {
	mustErase func(*playbook.Evidence) bool                // reports whether an execution is to be erased
	copied    map[string]time.Time                         // see NewRedactor
	found     bool                                         // the log has an execution to erase, or a text in copied
	changes   map[string]*redactChange                     // changes of several deltas, by id
	abandoned map[uint64]bool                              // versions of the deltas of changes that were never completed
	texts     map[playbook.BulletID]map[string]*bulletText // by bullet and text: all texts that the bullet had
	latest    map[playbook.BulletID]string                 // last text of each bullet so far, also of removed ones
	shown     []playbook.BulletID                          // see Shown
	head      playbook.Playbook                            // the newest state

	erasedBullets map[playbook.BulletID]bool   // the removed bullets of which all texts are erased
	forgets       []playbook.Forgotten         // in the order of the log
	numbers       map[playbook.Selector]uint64 // by selector with names: the first version that used it, for Selector.Erased
	erasedNumbers map[uint64]uint64            // by version of a forget change whose selector loses its names: the number of the selector
}

// redactChange has the facts about a change of several deltas that Redact needs for each of them.
type redactChange struct {
	last   *playbook.Delta // the last delta, which has the author, the covers and the selector
	covers bool            // the change covers an execution to erase
}

// textSupport reports which kinds of support a text has.
type textSupport struct {
	erased  bool // an execution to erase supports the text
	other   bool // another execution or an edit supports it
	learned bool // another execution supports it
	copied  bool // an edit has copied it from a text that is erased in another playbook
}

func (s *textSupport) add(more textSupport) {
	s.erased = s.erased || more.erased
	s.other = s.other || more.other
	s.learned = s.learned || more.learned
	s.copied = s.copied || more.copied
}

// bulletText is a text that a bullet had.
type bulletText struct {
	support     textSupport // of all operations that set or confirm the text
	current     bool        // the playbook has the text now; set after the log is read
	replacement string      // in place of the text, if it is erased
	first       time.Time   // time of the first delta with the text
}

// isKept reports whether the text stays, even if an execution to erase supports it.
func (t *bulletText) isKept() bool { return t != nil && (t.support.other || t.current) }

// isErased reports whether Redact erases the text.
func (t *bulletText) isErased() bool { return t != nil && t.support.erased && !t.isKept() }

// NewRedactor reads a log twice and returns the Redactor for the executions for which mustErase returns true. The log may be partly redacted already.
//
// copied has texts that are erased in other playbooks, each with the time when another playbook first had it; nil for none. If a later edit sets such
// a text, and no execution supports the edit, then the edit has copied the text, so the copy is erased too.
func NewRedactor(log Log, mustErase func(*playbook.Evidence) bool, copied map[string]time.Time) (*Redactor, error) {
	r := &Redactor{
		changes: map[string]*redactChange{}, abandoned: map[uint64]bool{}, texts: map[playbook.BulletID]map[string]*bulletText{},
		latest: map[playbook.BulletID]string{}, erasedBullets: map[playbook.BulletID]bool{}, numbers: map[playbook.Selector]uint64{},
		erasedNumbers: map[uint64]uint64{}, copied: copied,
	}
	r.mustErase = func(e *playbook.Evidence) bool { return e != nil && (playbook.IsErased(e.Excerpt) || mustErase(e)) }
	if err := r.readTexts(log); err != nil {
		return nil, err
	}
	if err := r.findSelectors(log, mustErase); err != nil {
		return nil, err
	}
	for id, texts := range r.texts {
		bullet := r.head.Bullet(id)
		allErased := true
		for content, t := range texts {
			t.current = bullet != nil && bullet.Content == content
			if t.current && t.support.copied && !t.support.other {
				r.shown = append(r.shown, id)
			}
			allErased = allErased && t.isErased()
		}
		r.erasedBullets[id] = bullet == nil && allErased
	}
	slices.Sort(r.shown)
	return r, nil
}

// Shown returns the bullets of the playbook whose text is only a copy of an erased one. Redact keeps the current text of a bullet, so these bullets
// must be removed before the log is redacted.
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

// DropLearned removes from texts the contents of bullets that another execution than those to erase supports.
func (r *Redactor) DropLearned(texts map[string]time.Time) {
	for _, ofBullet := range r.texts {
		for content, t := range ofBullet {
			if t.support.learned {
				delete(texts, content)
			}
		}
	}
}

// readTexts reads the log and records the texts of all bullets with their support, and the changes that were never completed.
func (r *Redactor) readTexts(log Log) error {
	var parts playbook.ChangeAssembler
	var open []*playbook.Delta // the deltas of a change so far
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
	covers := r.covers(last)
	r.found = r.found || covers
	if len(c) > 1 {
		r.changes[last.ChangeID] = &redactChange{last: last, covers: covers}
	}
	if f := last.Forget; f != nil {
		r.forgets = append(r.forgets, last.Forgotten())
		if _, ok := r.numbers[*f]; !ok && f.HasNames() {
			r.numbers[*f] = last.Version
		}
	}
	for _, part := range c {
		for i := range part.Ops {
			r.addOp(c, part, i)
		}
		for i := range part.Rejected {
			r.addRejection(c, part, &part.Rejected[i])
		}
	}
}

// covers reports whether a delta covers an execution to erase.
func (r *Redactor) covers(d *playbook.Delta) bool {
	return slices.ContainsFunc(d.Covers, func(c playbook.Cover) bool { return r.mustErase(c.Evidence) })
}

// supportOf returns the support of a text that an operation of a change sets or proposes.
func (r *Redactor) supportOf(c change, part *playbook.Delta, op *playbook.Op, content string) (s textSupport) {
	for _, cover := range c.support(part, op) {
		if r.mustErase(cover.Evidence) {
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

// entry returns the entry of a text of a bullet. If the text is new, it adds an entry for an operation of a delta.
func (r *Redactor) entry(id playbook.BulletID, content string, part *playbook.Delta, op int) *bulletText {
	texts := r.texts[id]
	if texts == nil {
		texts = map[string]*bulletText{}
		r.texts[id] = texts
	}
	t := texts[content]
	if t == nil {
		t = &bulletText{replacement: playbook.ErasedContent(part.Version, op), first: part.Time}
		texts[content] = t
	}
	return t
}

// addOp records the support of the text that an operation sets or confirms. i is the index of the operation in the part.
func (r *Redactor) addOp(c change, part *playbook.Delta, i int) {
	op := &part.Ops[i]
	content := textOf(op)
	if op.Kind == playbook.Confirm {
		content = r.latest[op.Bullet]
	}
	s := r.supportOf(c, part, op, content)
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Merge, playbook.Put:
		repeatsText := c.last().RestoredVersion != nil || c.last().Forget != nil
		if op.Kind == playbook.Put && repeatsText {
			s = textSupport{} // the support of the earlier text counts
			break
		}
		if op.Kind == playbook.Merge && (r.hasErasedText(op.Bullet) || slices.ContainsFunc(op.Sources, r.hasErasedText)) {
			s.erased = true // the new text may repeat a text to erase
		}
		// A text may quote each execution that supports it. So other support of the same operation does not keep it.
		s.other, s.learned = !s.erased, s.learned && !s.erased
	case playbook.Confirm:
		if _, ok := r.latest[op.Bullet]; !ok || !s.other {
			return
		}
		s.erased = false // the text was there before, so it does not quote an execution that confirms it
	default:
		return
	}
	r.entry(op.Bullet, content, part, i).support.add(s)
	r.latest[op.Bullet] = content
}

// addRejection records the support of a text by a proposal that was rejected because a bullet has the text already.
func (r *Redactor) addRejection(c change, part *playbook.Delta, j *playbook.Rejection) {
	s := r.supportOf(c, part, &j.Op, textOf(&j.Op))
	if j.DuplicateOf != "" && s.other {
		r.entry(j.DuplicateOf, j.Op.Content, part, 0).support.add(textSupport{other: true, learned: s.learned})
	}
}

// textOf returns the text that an operation sets.
func textOf(op *playbook.Op) string {
	if op.PutBullet != nil {
		return op.PutBullet.Content
	}
	return op.Content
}

// hasErasedText reports whether only executions to erase support the text that a bullet has at this point of the log.
func (r *Redactor) hasErasedText(id playbook.BulletID) bool {
	return r.texts[id][r.latest[id]].isErased()
}

// findSelectors finds the selectors whose names are erased: those that select executions to erase by their names, and those that forgot such an
// execution.
func (r *Redactor) findSelectors(log Log, mustErase func(*playbook.Evidence) bool) error {
	erased := map[playbook.Selector]bool{}
	for _, f := range r.forgets {
		s := f.Selector
		selected := &playbook.Evidence{Source: s.Source, Owner: s.Owner, User: s.User, Session: s.Session, Execution: s.Execution, Sample: s.Sample}
		if s.HasNames() && mustErase(selected) {
			erased[s] = true
		}
	}
	err := log(func(d *playbook.Delta) error {
		for _, c := range d.Covers {
			if f := r.forgetOf(d.Version, c.Evidence); f != nil && f.Selector.HasNames() && r.mustErase(c.Evidence) {
				erased[f.Selector] = true
			}
		}
		return nil
	})
	for _, f := range r.forgets {
		if erased[f.Selector] { // every use of the selector, because the newest replaces the earlier ones
			r.erasedNumbers[f.Version] = r.numbers[f.Selector]
		}
	}
	return err
}

// forgetOf returns the selection of the first change that forgot an execution, or nil. version is that of the delta that covers the execution.
func (r *Redactor) forgetOf(version uint64, e *playbook.Evidence) *playbook.Forgotten {
	for i := range r.forgets {
		if r.forgets[i].Matches(version, e) {
			return &r.forgets[i]
		}
	}
	return nil
}

// Redact erases texts of a delta of the log, and reports whether it changed the delta. It also changes the values that the delta points to. A second
// call changes nothing.
func (r *Redactor) Redact(d *playbook.Delta) (changed bool) {
	c, covers := change{d}, r.covers(d) // c is the change of d, reduced to its last delta
	if several := r.changes[d.ChangeID]; several != nil && d.ChangeID != "" {
		c, covers = change{several.last}, several.covers
	}
	e := &eraser{redactor: r, whole: r.abandoned[d.Version] && r.found}
	_, forgets := r.erasedNumbers[c.last().Version]
	mayQuote := func(op *playbook.Op) bool { // whether the texts of an operation may quote an execution to erase
		return r.supportOf(c, d, op, textOf(op)).erased || r.erasedBullets[op.Bullet]
	}
	for i := range d.Ops {
		e.eraseOp(&d.Ops[i], mayQuote(&d.Ops[i]))
	}
	for i := range d.Rejected {
		j := &d.Rejected[i]
		e.eraseRejection(j, mayQuote(&j.Op))
	}
	if number, ok := r.erasedNumbers[d.Version]; ok && d.Forget != nil && d.Forget.HasNames() {
		s := d.Forget.WithoutNames(number)
		d.Forget, e.changed = &s, true
	}
	if covers || forgets || e.whole {
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
	whole    bool // erase all texts of the delta
	changed  bool
}

// erase erases a text that only people read, such as a reason.
func (e *eraser) erase(text *string) {
	if *text != "" && !playbook.IsErased(*text) {
		*text, e.changed = playbook.ErasedText, true
	}
}

// eraseText erases the condition of a bullet, and replaces its content.
func (e *eraser) eraseText(when, content *string, replacement string) {
	if *content != "" && !playbook.IsErased(*content) {
		*when, *content, e.changed = "", replacement, true
	}
}

// eraseOp erases the texts of an operation. If mayQuote is true, its reason may quote an execution to erase.
func (e *eraser) eraseOp(op *playbook.Op, mayQuote bool) {
	if mayQuote || e.whole {
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
		e.eraseText(when, content, t.replacement)
	case e.whole:
		e.eraseText(when, content, playbook.ErasedText)
	}
}

// eraseRejection erases the texts of a rejected operation. If mayQuote is true, they may quote an execution to erase.
func (e *eraser) eraseRejection(j *playbook.Rejection, mayQuote bool) {
	t := e.redactor.texts[j.DuplicateOf][j.Op.Content]
	if !mayQuote && !t.isErased() && !e.whole {
		return
	}
	e.erase(&j.Reason)
	e.erase(&j.Op.Reason)
	e.eraseWhole(&j.Op)
	switch {
	case t.isErased():
		e.eraseText(&j.Op.When, &j.Op.Content, t.replacement)
	case !t.isKept(): // the text of the proposal stays if a bullet keeps the same text
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
	f, mustErase := r.forgetOf(version, evidence), r.mustErase(evidence) // before the evidence is changed
	if f != nil && evidence.ErasedSelector == 0 {
		if number, ok := r.erasedNumbers[f.Version]; ok {
			evidence.ErasedSelector, e.changed = number, true
		}
	}
	if mustErase && evidence.Excerpt != playbook.ErasedText {
		evidence.User, evidence.Session, evidence.Excerpt = "", "", playbook.ErasedText
		if evidence.Compared != nil {
			evidence.Compared = &playbook.ComparedRun{Execution: evidence.Compared.Execution}
		}
		e.changed = true
	}
}
