package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/cmd/internal/cli"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/redact"
	"debrief/playbook/text"
	"debrief/reflector/rules"

	book "debrief/playbook"
)

// analyse compares all stored executions of the playbook, those of earlier commands and of agents included, and adds the lessons that
// the playbook does not have.
func (l *Learn) analyse(ctx context.Context, s *cli.Session, b book.Book, res *learnResult) error {
	feedback := map[uint64][]*events.Feedback{}
	err := s.ReadStored(ctx, events.StreamExecutions, events.KindFeedback.Subject(b), func(st bus.Stored) error {
		if f, ok := st.Event.(*events.Feedback); ok {
			if seq, _, err := f.Execution.Parse(); err == nil {
				feedback[seq] = append(feedback[seq], f)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a := rules.NewAnalysis()
	seen := map[runID]uint64{} // sequence of the first copy
	t := l.newTicker()
	defer t.clear()
	err = s.ReadStored(ctx, events.StreamExecutions, events.KindExecution.Subject(b), func(st bus.Stored) error {
		e, ok := st.Event.(*events.Execution)
		if !ok || seen[runIDOf(e.ID)] > 0 {
			return nil
		}
		seen[runIDOf(e.ID)] = st.Seq
		for _, f := range feedback[st.Seq] {
			e.Outcome = e.Outcome.WithFeedback(f)
		}
		a.Add(e)
		t.report(func(seconds float64) (any, string) {
			return map[string]any{"analysed_executions": len(seen)}, fmt.Sprintf("%d runs analysed; %.0f runs a second", len(seen), float64(len(seen))/seconds)
		})
		return nil
	})
	if err != nil {
		return err
	}
	res.Analysis = a.Result()
	return l.addLessons(ctx, s, b, res, seen)
}

// addLessons adds the lessons that no bullet of the playbook has, whatever its status: a person may have retired it. Each lesson is an
// edit with the executions that support it. stored has the sequences of the executions.
func (l *Learn) addLessons(ctx context.Context, s *cli.Session, b book.Book, res *learnResult, stored map[runID]uint64) error {
	w, err := deltalog.New(s.JetStream()).Writer(ctx, b)
	if err != nil {
		return err
	}
	known := map[book.ContentKey]bool{}
	for x := range w.State().Playbook().All() {
		known[book.ContentKeyOf(x.Content)] = true
	}
	for _, lesson := range res.Analysis.Lessons {
		key := book.ContentKeyOf(lesson.Content)
		if known[key] {
			continue
		}
		known[key] = true
		reason := text.Line(lesson.Evidence, maxEvidence)
		e := &events.Edit{
			ID: events.NewID(), Author: learnAuthor, Reason: reason, Created: time.Now().UTC(),
			Ops: []book.Op{{Kind: book.Add, Section: lesson.Section, Content: lesson.Content, Reason: reason}},
		}
		e.Book = b
		if e.Evidence, err = evidenceOf(ctx, s, lesson.Executions, stored); err != nil {
			return err
		}
		reply, err := cli.RequestEdit(ctx, s.Conn, e, bus.PublishOptions{})
		if refused := (*events.RefusedError)(nil); errors.As(err, &refused) { // it costs this lesson
			res.Refused = append(res.Refused, refusedLesson{text.Line(redact.Text(lesson.Content), maxEvidence), refused.Error()})
			continue
		}
		if err != nil {
			return err
		}
		for _, id := range reply.Added {
			res.New = append(res.New, newBullet{id, lesson.Evidence})
		}
	}
	return nil
}

// newBullet is a bullet that the command added, with its evidence in a sentence.
type newBullet struct {
	ID       book.BulletID `json:"id"`
	Evidence string        `json:"evidence"`
}

// refusedLesson is a lesson that the Curator refused. A secret in its content is replaced.
type refusedLesson struct {
	Content string `json:"content"`
	Reason  string `json:"reason"`
}

// learnAuthor is the author of lessons without a model.
const learnAuthor = "debrief learn"

// maxEvidence is the maximum length of the evidence in a reason, in bytes.
const maxEvidence = 900

// evidenceOf returns the stored executions as evidence of an edit.
func evidenceOf(ctx context.Context, s *cli.Session, ids []events.ID, stored map[runID]uint64) (all []book.Evidence, err error) {
	for _, id := range ids[:min(len(ids), events.MaxEvidence)] {
		seq := stored[runIDOf(id)]
		found, err := s.Find(ctx, events.StreamExecutions, seq, func(is events.ID) bool { return is == id })
		if errors.Is(err, bus.ErrNotFound) {
			continue // it has expired since
		}
		if err != nil {
			return nil, err
		}
		if e, ok := found.(*events.Execution); ok {
			all = append(all, e.Evidence(events.NewHandle(seq, id)))
		}
	}
	return all, nil
}
