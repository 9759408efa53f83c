package generator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"debrief/events"
	"debrief/generator/prompt/assembly"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/similar"
)

// This file decides which reflections, rounds and earlier executions a context may contain; see package admit. The facts come from the
// notes and from the playbook that the generator follows, so a decision of the Curator counts as soon as the generator has the
// version.

const (
	// maxNotes is the number of the newest notes, of the playbook and of the session each, that are considered.
	maxNotes = 64
	// maxInsights is the number of insights of the playbook in a context.
	maxInsights = 3
	// nearCopy is the minimum similarity of two texts that say the same. A text that is only near is left out too.
	nearCopy = 0.8
)

// noteState is the part of a playbook index that decides about notes. The index's lock guards it, except for hidden, which has its own
// lock because a search changes it.
type noteState struct {
	known     bool // the playbook has a version, so the fields are known
	gate      playbook.Gate
	admission playbook.Admission
	mark      playbook.Mark
	learned   map[uint64][]playbook.BulletID // bullets by the sequence of a reflection that they were learned from
	status    map[playbook.BulletID]admit.State
	from      map[playbook.BulletID][]uint64 // of the bullets in learned

	hiddenMu sync.Mutex
	hidden   similar.Index // texts of the bullets that are not shown to every task
}

// update changes the state to a version of the playbook.
func (s *noteState) update(p *playbook.Playbook) {
	s.known, s.admission = p.Version() > 0, p.Admission()
	s.gate, _ = p.Gate()
	ids, now, known := p.ChangedSince(s.mark)
	s.mark = now
	s.hiddenMu.Lock()
	defer s.hiddenMu.Unlock()
	if !known {
		s.learned, s.status, s.from = map[uint64][]playbook.BulletID{}, map[playbook.BulletID]admit.State{}, map[playbook.BulletID][]uint64{}
		s.hidden = similar.Index{}
		for b := range p.All() {
			s.put(b.ID, b)
		}
		return
	}
	for _, id := range ids {
		s.put(id, p.Bullet(id))
	}
}

// put updates a bullet, which is nil if it was removed.
func (s *noteState) put(id playbook.BulletID, b *playbook.Bullet) {
	for _, seq := range s.from[id] {
		s.learned[seq] = slices.DeleteFunc(slices.Clone(s.learned[seq]), func(o playbook.BulletID) bool { return o == id })
		if len(s.learned[seq]) == 0 {
			delete(s.learned, seq)
		}
	}
	delete(s.from, id)
	delete(s.status, id)
	if b == nil || b.Shown() {
		s.hidden.Drop(string(id))
	} else {
		s.hidden.Put(string(id), b.Content)
	}
	if b == nil || len(b.LearnedFrom) == 0 {
		return
	}
	s.from[id], s.status[id] = b.LearnedFrom, admit.StateOf(b)
	for _, seq := range b.LearnedFrom {
		s.learned[seq] = append(s.learned[seq], id)
	}
}

// hides reports whether a bullet that is not shown to every task says about the same as a text.
func (s *noteState) hides(text string) bool {
	s.hiddenMu.Lock()
	defer s.hiddenMu.Unlock()
	_, found := s.hidden.Nearest(text, nearCopy, func(string) bool { return false })
	return found
}

// stateOf returns the state of the bullet that was learned from a note.
func (s *noteState) stateOf(n *events.Note) admit.State {
	seq, _, err := n.Reflection.Parse()
	_, dropped := slices.BinarySearch(s.admission.Dropped, seq)
	switch {
	case err != nil || !s.known:
		return ""
	case s.forgotten(n, seq):
		return admit.Forgotten
	case dropped:
		return admit.Rejected
	case !s.admission.Decided.Has(seq):
		return admit.Undecided
	}
	state := admit.Decided
	for _, id := range s.learned[seq] {
		switch is := s.status[id]; is {
		case admit.Active, admit.Probation, admit.Candidate:
			if state == admit.Decided {
				state = is
			}
		default: // one silent bullet silences the note
			return is
		}
	}
	return state
}

func (s *noteState) forgotten(n *events.Note, seq uint64) bool {
	e := playbook.Evidence{Execution: string(n.Execution), Sample: string(n.Sample), Session: n.Session, Source: n.Source, Inferred: n.Inferred}
	return slices.ContainsFunc(s.admission.Forgotten, func(f playbook.Forgotten) bool { return seq < f.Seq && f.Selector.Matches(&e) })
}

// notePolicy decides about the notes of one context.
type notePolicy struct {
	*noteState
	ix     *playbookIndex
	cb     *ContextBuilder
	req    *contextRequest
	silent map[events.ID]*similar.Text // insights of decided notes
}

// admitNotes returns the notes that a context may contain, reduced to the texts that it may contain, in their order.
func (cb *ContextBuilder) admitNotes(req *contextRequest, ix *playbookIndex, notes []*events.Note, q *queryEmbedding) (list []*events.Note) {
	p := &notePolicy{noteState: &ix.notes, ix: ix, cb: cb, req: req, silent: map[events.ID]*similar.Text{}}
	for _, n := range notes {
		if n.Insight != "" && p.stateOf(n) != admit.Undecided {
			p.silent[n.ID] = similar.Prepare(n.Insight)
		}
	}
	ofSession, insights := 0, 0
	for _, n := range slices.Backward(notes) {
		switch own := p.isOwn(n); {
		case own && ofSession < req.limits.Reflections:
			if n = p.sessionNote(n); n != nil {
				ofSession++
				list = append(list, n)
			}
		case !own && insights < min(maxInsights, req.limits.Reflections) && q.similarity(n.Question) >= minSimilarity:
			if p.admitsInsight(n) {
				insights++
				list = append(list, noteTexts(n, "", "", n.Insight))
			}
		}
	}
	slices.Reverse(list)
	return list
}

func (p *notePolicy) isOwn(n *events.Note) bool {
	return n.Session != "" && n.Session == p.req.session && n.Owner == p.req.owner
}

// facts returns the facts about a note that the admission needs.
func (p *notePolicy) facts(n *events.Note, use admit.Use) admit.Text {
	t := admit.Text{Use: use, Source: admit.Rule, Inferred: n.Inferred, State: p.stateOf(n), Review: p.admission.ReviewsFirst(), Foreign: !p.isOwn(n)}
	if n.Model != "" {
		t.Source = admit.Model
	}
	if p.known {
		t.Gate, t.Trust = p.gate, p.admission.Policy.Level(n.Source, n.Inferred)
	}
	return t
}

// sessionNote returns a note of the session with the texts that may be shown, or nil.
func (p *notePolicy) sessionNote(n *events.Note) *events.Note {
	insight := ""
	if p.admitsInsight(n) {
		insight = n.Insight
	}
	admitted := func(text string) string {
		t := p.facts(n, admit.UseSession)
		if t.Suspect = p.cb.isSuspect(text); text == "" || !p.cb.admit(t).Shown() || p.saidByBullet(text) {
			return ""
		}
		return text
	}
	went, right := admitted(n.Error), admitted(n.Approach)
	if went+right+insight == "" {
		return nil
	}
	return noteTexts(n, went, right, insight)
}

// admitsInsight reports whether the insight of a note may be shown.
func (p *notePolicy) admitsInsight(n *events.Note) bool {
	if n.Insight == "" {
		return false
	}
	t := p.facts(n, admit.UseInsight)
	t.Suspect = p.cb.isSuspect(n.Insight)
	return p.cb.admit(t).Shown() && !p.saidByBullet(n.Insight) && !p.saidBefore(n)
}

// saidByBullet reports whether a bullet of any status says about the same as a text. Then the bullet speaks, or it is silent for a
// reason that holds for the text too.
func (p *notePolicy) saidByBullet(text string) bool {
	if p.hides(text) {
		return true
	}
	prepared := similar.Prepare(text)
	for _, m := range p.ix.words.Top(text, nearestCopies) {
		if b := p.ix.indexed[playbook.BulletID(m.Key)]; b != nil && prepared.Similarity(b.Content, nearCopy) >= nearCopy {
			return true
		}
	}
	return false
}

// nearestCopies is the number of bullets with the most common words that are compared with a text.
const nearestCopies = 8

// saidBefore reports whether the insight of another note that is decided says about the same as that of a note.
func (p *notePolicy) saidBefore(n *events.Note) bool {
	for id, said := range p.silent {
		if id != n.ID && said.Similarity(n.Insight, nearCopy) >= nearCopy {
			return true
		}
	}
	return false
}

// noteTexts returns a copy of a note with these texts only.
func noteTexts(n *events.Note, went, right, insight string) *events.Note {
	return &events.Note{
		Reflection: n.Reflection, ID: n.ID, Owner: n.Owner, Session: n.Session, At: n.At, Label: n.Label, Error: went, Approach: right, Insight: insight,
	}
}

// linkedBullets returns the bullets that were learned from a reflection.
func (s *noteState) linkedBullets(h events.Handle) []playbook.BulletID {
	seq, _, err := h.Parse()
	if err != nil {
		return nil
	}
	return s.learned[seq]
}

// readNotes reads the newest reflections of the playbook and of the session. A pinned context shows none, because they change over time.
func (cb *ContextBuilder) readNotes(ctx context.Context, req *contextRequest, warns *warnings) []*events.Note {
	if req.pinnedVersion != nil || req.limits.Reflections <= 0 {
		return nil
	}
	read := func() ([]*events.Note, int, error) {
		return cb.windows.Notes(ctx, req.book, req.owner, req.session, maxNotes)
	}
	var notes []*events.Note
	var damaged int
	var err error
	if req.session == "" {
		notes, damaged, err = cb.notesCache.get(ctx, notesKey{req.book, maxNotes}, cb.timeouts.notesAge, read)
	} else {
		notes, damaged, err = read()
	}
	if err != nil {
		warns.add("reflections: %s", shortError(ctx, err))
	}
	if damaged > 0 {
		warns.add("reflections: %d invalid entries", damaged)
	}
	return notes
}

// admitRounds returns the earlier rounds of a task without the texts that look like orders to models. The task carries them, so
// whoever submits the task could write them.
func (cb *ContextBuilder) admitRounds(rounds []events.PreviousRound) []events.PreviousRound {
	list := slices.Clone(rounds)
	for i := range list {
		for _, text := range [...]*string{&list[i].Error, &list[i].Approach, &list[i].Insight} {
			if !cb.admit(admit.Text{Use: admit.UseRound, Suspect: cb.isSuspect(*text)}).Shown() {
				*text = ""
			}
		}
	}
	return list
}

// forgets returns a function that reports whether an execution is forgotten.
func forgets(a playbook.Admission, session string) func(*events.Interaction, *events.Execution) bool {
	return func(i *events.Interaction, e *events.Execution) bool {
		x := playbook.Evidence{Execution: string(i.Execution), Sample: string(cmp.Or(i.First, i.ID)), Session: session, Source: i.Source, Inferred: i.Inferred}
		if e != nil {
			x.Session = e.Session
		}
		return slices.ContainsFunc(a.Forgotten, func(f playbook.Forgotten) bool { return i.At.Before(f.Time) && f.Selector.Matches(&x) })
	}
}

// dropForgotten removes the forgotten executions from the history of a session. A summary may contain any of them, so an older one is
// dropped too.
func (p *sessionHistory) dropForgotten(a playbook.Admission, session string) {
	if len(a.Forgotten) == 0 {
		return
	}
	is := forgets(a, session)
	p.window = slices.DeleteFunc(p.window, func(i *events.Interaction) bool { return is(i, nil) })
	p.marks = slices.DeleteFunc(p.marks, func(m events.MarkedInteraction) bool { return is(&m.Interaction, nil) })
	if p.summary != nil && slices.ContainsFunc(a.Forgotten, func(f playbook.Forgotten) bool {
		return p.summary.At.Before(f.Time) && (f.Selector.Session == "" || f.Selector.Session == session)
	}) {
		p.summary = nil
	}
}

// screenCache remembers which texts look like orders to models. The same few notes are in the contexts of many tasks.
type screenCache struct {
	mu      sync.Mutex
	suspect map[string]bool
}

const maxScreened = 4096 // texts

// isSuspect reports whether a text looks like an order to models.
func (cb *ContextBuilder) isSuspect(text string) bool {
	if strings.TrimSpace(text) == "" {
		return false
	}
	c := &cb.screened
	c.mu.Lock()
	suspect, known := c.suspect[text]
	c.mu.Unlock()
	if known {
		return suspect
	}
	_, suspect = admit.Screen(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspect == nil || len(c.suspect) >= maxScreened {
		c.suspect = make(map[string]bool)
	}
	c.suspect[text] = suspect
	return suspect
}

// noteOf returns a note with the texts that a manifest names.
func noteOf(n *events.Note, why string) *events.Note {
	if n == nil {
		return nil
	}
	went, right, insight := "", "", ""
	for _, name := range strings.Split(why, ", ") {
		switch name {
		case assembly.NoteError:
			went = n.Error
		case assembly.NoteApproach:
			right = n.Approach
		case assembly.NoteInsight:
			insight = n.Insight
		}
	}
	return noteTexts(n, went, right, insight)
}
