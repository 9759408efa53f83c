package auditor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Accepted lists the events that were acknowledged to clients, by book. Each must have its effect once, or a dead letter.
type Accepted struct {
	Tasks    map[string][]string // book → task ids, of tasks and of reported executions that teach something
	Feedback map[string][]string // book → the text of the feedback, unique for each
	Edits    map[string][]string // book → edit ids
}

// Report is the result of an audit. In a clean report Lost, Twice, Both and Wrong are empty.
type Report struct {
	Lost  []string // accepted, without effect and without a dead letter
	Twice []string // counted more than once
	Both  []string // a message that has an effect and a dead letter
	Wrong []string // log, votes or view contradict each other

	Events, Covered, Letters, Strays, Deltas, Bullets, Votes int
	// Copies counts events of which one copy has an effect and another one a dead letter.
	Copies int
}

func (r *Report) String() string {
	return fmt.Sprintf("%d events, %d covered by %d deltas, %d votes, %d bullets, %d dead letters (%d of a copy whose other copy has the effect), %d strays: %d lost, %d twice, %d both counted and dead-lettered, %d wrong",
		r.Events, r.Covered, r.Deltas, r.Votes, r.Bullets, r.Letters, r.Copies, r.Strays, len(r.Lost), len(r.Twice), len(r.Both), len(r.Wrong))
}

// Problems lists at most n problems of each kind.
func (r *Report) Problems(n int) (all []string) {
	for kind, list := range map[string][]string{"lost": r.Lost, "twice": r.Twice, "both": r.Both, "wrong": r.Wrong} {
		for _, p := range list[:min(n, len(list))] {
			all = append(all, kind+": "+p)
		}
		if len(list) > n {
			all = append(all, fmt.Sprintf("%s: and %d more", kind, len(list)-n))
		}
	}
	slices.Sort(all)
	return all
}

// check is the state of an audit.
type check struct {
	Report
	books    map[string]*fold
	stored   map[string]map[string]bool     // book → ids of events in EXECUTIONS and edits in REFLECTIONS
	feedback map[string]map[string]string   // book → text of a feedback → its id
	dead     map[string]map[string][]letter // book → id of the event → its letters
	reflect  map[uint64]*reflection         // by sequence
}

// Check audits the streams against the events that were acknowledged to clients.
func Check(s *Streams, in Accepted) *Report {
	a := &check{
		books: map[string]*fold{}, stored: map[string]map[string]bool{}, feedback: map[string]map[string]string{},
		dead: map[string]map[string][]letter{}, reflect: map[uint64]*reflection{},
	}
	a.letters(s.Dead)
	a.executions(s.Executions)
	a.reflections(s.Reflections)
	for _, m := range s.Deltas {
		a.book(m.last()).add(m)
	}
	a.waiting(s.Tasks)
	for _, name := range slices.Sorted(maps.Keys(a.books)) {
		f := a.books[name]
		a.Wrong = append(a.Wrong, f.faults...)
		a.Deltas += int(f.version)
		a.Bullets += len(f.bullets)
		a.Strays += len(f.strays)
		a.coverage(f)
		a.votes(f)
		a.view(f, s.View)
	}
	a.accepted(in)
	return &a.Report
}

func (a *check) book(name string) *fold {
	if a.books[name] == nil {
		a.books[name], a.stored[name] = newFold(name), map[string]bool{}
		a.feedback[name], a.dead[name] = map[string]string{}, map[string][]letter{}
	}
	return a.books[name]
}

func (a *check) wrong(format string, args ...any) {
	a.Wrong = append(a.Wrong, fmt.Sprintf(format, args...))
}

// kindAndBook returns the second and the third token of a subject, such as debrief.execution.<book>.
func kindAndBook(subject string) (kind, book string) {
	parts := strings.Split(subject, ".")
	if len(parts) < 3 {
		return "", ""
	}
	return parts[1], parts[2]
}

// letters notes the event of each dead letter.
func (a *check) letters(all []Message) {
	for _, m := range all {
		l, err := readLetter(&m)
		if err != nil {
			a.wrong("dead letter at %d: %v", m.Seq, err)
		}
		if l == nil {
			continue
		}
		a.Letters++
		kind, book := kindAndBook(l.Subject)
		a.book(book)
		key := effectID(kind, book, l.Data)
		a.dead[book][key] = append(a.dead[book][key], *l)
	}
}

// readLetter returns a dead letter, or nil if the message replaces a deleted one.
func readLetter(m *Message) (*letter, error) {
	if m.Header.Get("Nats-TTL") != "" {
		return nil, nil
	}
	return decode[letter](m.Data)
}

// effectID returns the id of the event that a dead letter prevents, or "" for a letter that cannot be decoded: the execution of a
// task, the event that a reflection is about, or the event of the letter itself.
func effectID(kind, book string, data []byte) string {
	if kind == "reflection" {
		if r, err := decode[reflection](data); err == nil {
			return source(r)
		}
	}
	event, err := decode[struct {
		ID  string `msgpack:"id"`
		Run string `msgpack:"run_id"` // of a task
	}](data)
	if err != nil {
		return ""
	}
	if kind == "task" {
		return executionID(book, event.Run)
	}
	return event.ID
}

// source is the id of the event that a reflection is about: the feedback, or else the execution.
func source(r *reflection) string {
	if r.Feedback != "" {
		return r.Feedback
	}
	return r.Execution
}

// read decodes a message. A message that cannot be decoded is a problem.
func read[T any](a *check, m *Message) (event *T, ok bool) {
	event, err := decode[T](m.Data)
	if err != nil {
		kind, _ := kindAndBook(m.Subject)
		a.wrong("%s at %d: %v", kind, m.Seq, err)
	}
	return event, err == nil
}

// executions notes the ids of executions and of feedback.
func (a *check) executions(all []Message) {
	for i := range all {
		kind, book := kindAndBook(all[i].Subject)
		a.book(book)
		if kind == "feedback" {
			if f, ok := read[feedback](a, &all[i]); ok {
				a.stored[book][f.ID] = true
				a.feedback[book][f.Outcome.Feedback] = f.ID
			}
		} else if e, ok := read[run](a, &all[i]); ok {
			a.stored[book][e.ID] = true
		}
	}
}

// reflections notes the reflections, and the ids of edits.
func (a *check) reflections(all []Message) {
	for i := range all {
		kind, book := kindAndBook(all[i].Subject)
		a.book(book)
		if kind == "edit" {
			if e, ok := read[edit](a, &all[i]); ok {
				a.stored[book][e.ID] = true
			}
		} else if r, ok := read[reflection](a, &all[i]); ok {
			a.reflect[all[i].Seq] = r
		}
	}
}

// waiting reports each task that is still in its stream as a problem, because the audit runs when all roles are idle.
func (a *check) waiting(all []Message) {
	for _, m := range all {
		a.wrong("task at %d still waits", m.Seq)
	}
}

// coverage checks that each covered id is covered once, belongs to a stored event, and has no dead letter.
func (a *check) coverage(f *fold) {
	for _, id := range slices.Sorted(maps.Keys(f.covered)) {
		if at := f.covered[id]; len(at) > 1 {
			a.Twice = append(a.Twice, fmt.Sprintf("book %s: event %s is covered by the deltas at %v", f.book, id, at))
		}
		if !a.stored[f.book][id] {
			a.wrong("book %s: event %s is covered and was never stored", f.book, id)
		}
		for _, l := range a.dead[f.book][id] {
			if !a.tookEffect(f, id, &l) {
				a.Copies++
				continue
			}
			a.Both = append(a.Both, fmt.Sprintf("book %s: event %s is covered by a delta of %s, and has a dead letter of %s %d by the %s of %s: %s",
				f.book, id, f.times[id].Format(time.StampMilli), l.Stream, l.Seq, l.Role, l.Time.Format(time.StampMilli), l.Reason))
		}
	}
	a.Events += len(a.stored[f.book])
	a.Covered += len(f.covered)
}

// tookEffect reports whether the message of a letter is the copy of its event that has the effect.
func (a *check) tookEffect(f *fold, id string, l *letter) bool {
	for _, c := range f.covers {
		if c.ID != id {
			continue
		}
		r := a.reflect[c.Seq]
		switch {
		case l.Stream == "REFLECTIONS":
			return c.Seq == l.Seq
		case l.Stream == "EXECUTIONS" && r != nil && r.Feedback != "":
			return r.FeedbackSeq == l.Seq
		case l.Stream == "EXECUTIONS" && r != nil:
			return strings.HasPrefix(r.Handle, fmt.Sprint(l.Seq, "-"))
		}
		return true // a task, whose sequence its execution does not name, or an event that an edit covers: any copy counts
	}
	return false
}

// votes checks that each vote is in its reflection, and that no vote is counted twice.
func (a *check) votes(f *fold) {
	once := map[string]uint64{}
	for _, v := range f.votes {
		if v.tag == "" || v.forgotten {
			continue
		}
		a.Votes++
		r := a.reflect[v.by.Seq]
		if r == nil {
			a.wrong("book %s: delta at %d counts a vote of %s, which has no reflection at %d", f.book, v.delta, v.by.ID, v.by.Seq)
			continue
		}
		if source(r) != v.by.ID {
			a.wrong("book %s: delta at %d covers %s by the reflection at %d, which is about %s", f.book, v.delta, v.by.ID, v.by.Seq, source(r))
		}
		if !f.hasVote(r, v) {
			a.wrong("book %s: delta at %d counts %s for %s, which the reflection at %d does not say", f.book, v.delta, v.tag, v.bullet, v.by.Seq)
		}
		key := v.by.ID + " " + v.bullet
		if at, again := once[key]; again && len(f.merged) == 0 { // an event may vote on two bullets that are merged later
			a.Twice = append(a.Twice, fmt.Sprintf("book %s: event %s votes on %s in the deltas at %d and %d", f.book, v.by.ID, v.bullet, at, v.delta))
		}
		once[key] = v.delta
	}
}

// hasVote reports whether a reflection contains this vote, for the bullet or for one that was merged into it.
func (f *fold) hasVote(r *reflection, v vote) bool {
	for _, t := range r.Tags {
		sameBullet := t.ID == v.bullet || f.mergedInto(t.ID) == f.mergedInto(v.bullet)
		if t.Tag == v.tag && sameBullet {
			return true
		}
	}
	return false
}

// view checks that bullets and head in the bucket equal the folded log. The recent bullets in the head replace those of the keys.
func (a *check) view(f *fold, all []Message) {
	prefix := "$KV.playbook." + f.book + "."
	var top *head
	got := map[string]record{}
	for _, m := range all {
		key, ours := strings.CutPrefix(m.Subject, prefix)
		if !ours || m.Header.Get("KV-Operation") != "" {
			continue
		}
		if key == "head" {
			h, err := decode[head](m.Data)
			if err != nil {
				a.wrong("book %s: head: %v", f.book, err)
				continue
			}
			top = h
			continue
		}
		b, err := decode[record](m.Data)
		if err != nil {
			a.wrong("book %s: view key %s: %v", f.book, key, err)
			continue
		}
		got[b.ID] = *b
	}
	if top != nil {
		for _, r := range top.Recent {
			delete(got, r.ID)
			if len(r.Data) == 0 {
				continue
			}
			b, err := decode[record](r.Data)
			if err != nil || b.ID != r.ID {
				a.wrong("book %s: bullet %s in the head: %v", f.book, r.ID, err)
				continue
			}
			got[b.ID] = *b
		}
	}
	if f.version == 0 {
		return
	}
	isComplete := top != nil && !top.Partial
	isCurrent := isComplete && top.Version == f.version && string(top.Chain) == string(f.chain)
	if !isCurrent || top.Count != len(f.bullets) {
		a.wrong("book %s: the view's head is %+v, the log is at version %d with %d bullets", f.book, top, f.version, len(f.bullets))
	}
	for id, want := range f.bullets {
		if b, ok := got[id]; !ok || !b.equal(want) {
			a.wrong("book %s: the view has %+v, the log folds to %+v", f.book, b, want)
		}
		delete(got, id)
	}
	for id := range got {
		a.wrong("book %s: the view has bullet %s, which is not in the log", f.book, id)
	}
}

// accepted reports each accepted event that has neither an effect nor a dead letter.
func (a *check) accepted(in Accepted) {
	for name, tasks := range in.Tasks {
		f := a.book(name)
		for _, t := range tasks {
			a.checkEffect(f, executionID(name, t), "task "+t)
		}
	}
	for name, texts := range in.Feedback {
		f := a.book(name)
		for _, text := range texts {
			id, ok := a.feedback[name][text]
			if !ok {
				a.Lost = append(a.Lost, fmt.Sprintf("book %s: feedback %q is not stored", name, text))
				continue
			}
			a.checkEffect(f, id, "feedback "+text)
		}
	}
	for name, edits := range in.Edits {
		f := a.book(name)
		for _, id := range edits {
			a.checkEffect(f, id, "edit "+id)
		}
	}
}

// checkEffect reports an accepted event without an effect and without a dead letter as lost.
func (a *check) checkEffect(f *fold, id, what string) {
	if len(f.covered[id]) == 0 && len(a.dead[f.book][id]) == 0 {
		a.Lost = append(a.Lost, fmt.Sprintf("book %s: %s (event %s, stored: %t) has no effect and no dead letter", f.book, what, id, a.stored[f.book][id]))
	}
}
