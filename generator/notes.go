package generator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/recall"
	"debrief/playbook/similar"
)

// This file decides which reflections, rounds and earlier executions a context may contain, see package admit. The facts are in the
// notes and in the playbook that the generator follows. So a decision of the Curator counts as soon as the generator has the version.

const (
	// maxNotes is the number of the newest notes, of the playbook and of the session each, that are considered.
	maxNotes = 64
	// maxInsights is the number of insights of the playbook in a context.
	maxInsights = 3
)

// notePolicy decides about the notes of one context.
type notePolicy struct {
	ix      *playbookIndex
	cb      *ContextBuilder
	req     *contextRequest
	notes   []*events.Note              // all notes, admitted or not
	decided map[events.ID]*similar.Text // insights on which the Curator has decided, by note; repeatsDecided fills it
}

// admitNotes returns the notes that a context may contain, in their order, with only the texts that it may contain. These are notes of the session,
// and insights of other runs of the playbook whose questions are similar to the query.
func (cb *ContextBuilder) admitNotes(req *contextRequest, ix *playbookIndex, notes []*events.Note, q *queryEmbedding) (list []*events.Note) {
	p := &notePolicy{ix: ix, cb: cb, req: req, notes: notes}
	ofSession, insights := 0, 0
	for _, n := range slices.Backward(notes) {
		isOwn := p.isOwn(n)
		switch {
		case isOwn && ofSession < req.limits.Reflections:
			if admitted := p.sessionNote(n); admitted != nil {
				ofSession++
				list = append(list, admitted)
			}
		case !isOwn && n.Insight != "" && insights < min(maxInsights, req.limits.Reflections):
			if q.similarityTo(cb.noteVector(n.Question)) >= minSimilarity && p.admitsInsight(n) {
				insights++
				list = append(list, noteTexts(n, "", "", n.Insight))
			}
		}
	}
	slices.Reverse(list)
	return list
}

// isOwn reports whether a note is about a run of the session and owner of the request.
func (p *notePolicy) isOwn(n *events.Note) bool {
	return n.Session != "" && n.Session == p.req.session && n.Owner == p.req.owner
}

// facts returns the facts about a note that the admission needs.
func (p *notePolicy) facts(n *events.Note, use admit.Use) admit.Text {
	seq, _, _ := n.Reflection.Parse() // 0 for an invalid handle: its state is unknown
	t := p.ix.notes.Facts(use, seq, n.Evidence())
	t.Foreign, t.Control = !p.isOwn(n), p.req.inControl
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
		t.Suspect = p.cb.isSuspect(text)
		if text == "" || !p.cb.admit(t).Shown() || p.ix.hasCopy(text) {
			return ""
		}
		return text
	}
	problem, approach := admitted(n.Error), admitted(n.Approach)
	if problem+approach+insight == "" {
		return nil
	}
	return noteTexts(n, problem, approach, insight)
}

// admitsInsight reports whether the insight of a note may be shown.
func (p *notePolicy) admitsInsight(n *events.Note) bool {
	if n.Insight == "" {
		return false
	}
	t := p.facts(n, admit.UseInsight)
	t.Suspect = p.cb.isSuspect(n.Insight)
	return p.cb.admit(t).Shown() && !p.ix.hasCopy(n.Insight) && !p.repeatsDecided(n)
}

// repeatsDecided reports whether the insight of a note says about the same as that of another note on which the Curator has decided.
func (p *notePolicy) repeatsDecided(n *events.Note) bool {
	if p.decided == nil {
		p.decided = make(map[events.ID]*similar.Text)
		for _, other := range p.notes {
			if other.Insight != "" && p.facts(other, admit.UseInsight).State != admit.Undecided {
				p.decided[other.ID] = p.cb.prepare(other.Insight)
			}
		}
	}
	own := p.cb.prepare(n.Insight)
	for id, insight := range p.decided {
		if id != n.ID && insight.SimilarityTo(own) >= admit.NearCopy {
			return true
		}
	}
	return false
}

// noteTexts returns a copy of a note that has only these texts.
func noteTexts(n *events.Note, problem, approach, insight string) *events.Note {
	return &events.Note{
		Reflection: n.Reflection, ID: n.ID, Owner: n.Owner, Session: n.Session, At: n.At, Label: n.Label, Error: problem, Approach: approach, Insight: insight,
	}
}

// linkedBullets returns the bullets that were learned from a reflection.
func (ix *playbookIndex) linkedBullets(h events.Handle) []playbook.BulletID {
	seq, _, err := h.Parse()
	if err != nil {
		return nil
	}
	return ix.notes.Learned(seq)
}

// readNotes reads the newest reflections of the playbook and of the session. A pinned context shows none, because they change over time.
func (cb *ContextBuilder) readNotes(ctx context.Context, req *contextRequest, warns *warnings) []*events.Note {
	if req.pinnedVersion != nil || req.limits.Reflections <= 0 {
		return nil
	}
	newest, found := cb.notes.Get(req.book)
	isFresh := found && req.session == "" && time.Since(newest.readAt) < cb.timeouts.notesAge // each session has its own notes
	if !isFresh {
		var err error
		newest = bookNotes{readAt: time.Now()}
		newest.notes, newest.damaged, err = cb.windows.Notes(ctx, req.book, req.owner, req.session, maxNotes)
		if err != nil {
			warns.add("reflections: %s", shortError(ctx, err))
		} else if req.session == "" {
			cb.notes.Add(req.book, newest)
		}
	}
	if newest.damaged > 0 {
		warns.add("reflections: %d invalid entries", newest.damaged)
	}
	return newest.notes
}

// bookNotes are the newest reflections of a playbook read for a task without a session. Many tasks need the same ones, and to read
// them costs the server more than the rest of a context costs the generator.
type bookNotes struct {
	readAt  time.Time
	notes   []*events.Note
	damaged int // number of invalid entries
}

// admitRounds returns the earlier rounds of a task without the texts that look like orders to models. The publisher of the task could have written
// them, because the rounds are fields of the task.
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

// forgottenFilter finds the forgotten executions of an owner, at a version of a playbook.
type forgottenFilter struct {
	playbook.Admission
	owner string
}

// isForgotten reports whether an execution of a session is forgotten.
func (f *forgottenFilter) isForgotten(i *events.Interaction, session string) bool {
	return f.Forgets(&playbook.Evidence{
		Execution: string(i.Execution), Sample: string(cmp.Or(i.First, i.ID)), Owner: f.owner, User: i.User, Session: session, Source: i.Source, Inferred: i.Inferred,
	})
}

// dropForgotten removes the forgotten executions from the history of a session.
func (h *sessionHistory) dropForgotten(f *forgottenFilter, session string) {
	h.window = slices.DeleteFunc(h.window, func(i *events.Interaction) bool { return f.isForgotten(i, session) })
	h.marks = slices.DeleteFunc(h.marks, func(m events.MarkedInteraction) bool { return f.isForgotten(&m.Interaction, session) })
}

// maxScreened is the size of ContextBuilder.screened. The same few notes are in the contexts of many tasks.
const maxScreened = 4096

// isSuspect reports whether a text looks like an order to models.
func (cb *ContextBuilder) isSuspect(text string) bool {
	if strings.TrimSpace(text) == "" {
		return false
	}
	suspect, known := cb.screened.Get(text)
	if !known {
		_, suspect = admit.Screen(text)
		cb.screened.Add(text, suspect)
	}
	return suspect
}

// maxPrepared is the size of ContextBuilder.prepared: the notes of a few playbooks.
const maxPrepared = 512

// prepare returns an insight that is prepared for comparison.
func (cb *ContextBuilder) prepare(insight string) *similar.Text {
	prepared, known := cb.prepared.Get(insight)
	if !known {
		prepared = similar.Prepare(insight)
		cb.prepared.Add(insight, prepared)
	}
	return prepared
}

// maxNoteVectors is the size of ContextBuilder.noteVectors: the notes of a few playbooks. A vector takes 1.5 KiB.
const maxNoteVectors = 512

// noteVector returns the vector of hashed n-grams of the question of a note.
func (cb *ContextBuilder) noteVector(question string) []float32 {
	vector, known := cb.noteVectors.Get(question)
	if !known {
		vector = recall.HashedVector(question, nil)
		cb.noteVectors.Add(question, vector)
	}
	return vector
}

// noteOf returns a note with only the texts that a prompt had. names is the list of their names, which is the reason (Part.Why) of the part in
// the manifest. noteOf returns nil for a nil note.
func noteOf(n *events.Note, names string) *events.Note {
	if n == nil {
		return nil
	}
	n = n.Only(names)
	return noteTexts(n, n.Error, n.Approach, n.Insight)
}
