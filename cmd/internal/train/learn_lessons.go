package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program/cli"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/redact"
	"debrief/playbook/history"
	"debrief/playbook/text"
	"debrief/reflector/rules"

	book "debrief/playbook"
)

// sequences has the sequence of each stored execution. If several copies are stored, it is that of the first one.
type sequences map[runID]uint64

// maxUnanalysed limits the executions in memory that were read and not analysed yet.
const maxUnanalysed = 16

// analyse compares all stored executions of the playbook, those of earlier commands and of agents included, and adds the lessons that
// the playbook does not have.
func (l *Learn) analyse(ctx context.Context, s *cli.Session, b book.Book, res *learnResult) error {
	feedback, err := storedFeedback(ctx, s, b)
	if err != nil {
		return err
	}
	// One goroutine analyses the executions while another one reads and decodes the next ones.
	analysis, unanalysed := rules.NewAnalysis(), make(chan *events.Execution, maxUnanalysed)
	var analysing sync.WaitGroup
	analysing.Go(func() {
		for e := range unanalysed {
			analysis.Add(e)
		}
	})
	stored, texts := sequences{}, deltalog.New(s.JetStream()).Texts()
	progress := l.newProgressLine()
	defer progress.clear()
	err = s.Events.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject(b), 1, func(st bus.Stored) error {
		e, ok := st.Event.(*events.Execution)
		if !ok || stored[runIDOf(e.ID)] > 0 {
			return nil
		}
		stored[runIDOf(e.ID)] = st.Seq
		for _, f := range feedback[st.Seq] {
			e.Outcome = e.Outcome.WithFeedback(f)
		}
		if err := texts.Fill(ctx, b, e.Version, e.Shown); err != nil {
			return err
		}
		unanalysed <- e
		progress.report(func(seconds float64) (any, string) {
			return map[string]any{"analysed_executions": len(stored)}, fmt.Sprintf("%d runs analysed; %.0f runs a second", len(stored), float64(len(stored))/seconds)
		})
		return nil
	})
	close(unanalysed)
	analysing.Wait()
	if err != nil {
		return err
	}
	res.Analysis = analysis.Result()
	return l.addLessons(ctx, s, b, res, stored)
}

// storedFeedback returns the stored feedback on the executions of a playbook, by the sequence of the execution.
func storedFeedback(ctx context.Context, s *cli.Session, b book.Book) (map[uint64][]*events.Feedback, error) {
	feedback := map[uint64][]*events.Feedback{}
	err := s.Events.Scan(ctx, events.StreamExecutions, events.KindFeedback.Subject(b), 1, func(st bus.Stored) error {
		f, ok := st.Event.(*events.Feedback)
		if !ok {
			return nil
		}
		if seq, _, err := f.Execution.Parse(); err == nil { // invalid feedback counts for no execution
			feedback[seq] = append(feedback[seq], f)
		}
		return nil
	})
	return feedback, err
}

// addLessons adds the lessons that no bullet of the playbook has, except those that a person took out of it. Retired bullets count too, because a
// person may have retired them. Each lesson is an edit with the executions that support it.
func (l *Learn) addLessons(ctx context.Context, s *cli.Session, b book.Book, res *learnResult, stored sequences) error {
	w, err := deltalog.New(s.JetStream()).Writer(ctx, b)
	if err != nil {
		return err
	}
	lessons := newLessons(w.State().Playbook(), res.Analysis.Lessons)
	if lessons, err = l.withoutWithdrawn(ctx, s, b, lessons, res); err != nil {
		return err
	}
	if l.reflectorModel != nil {
		l.expect(res)
	}
	for _, lesson := range lessons {
		reply, err := addLesson(ctx, s, b, lesson, stored)
		if errors.As(err, new(*events.RefusedError)) || errors.Is(err, errNoEvidence) { // the other lessons are still added
			res.Refused = append(res.Refused, refusedLesson{text.Line(redact.Text(lesson.Content), maxEvidence), err.Error()})
			continue
		}
		if err != nil {
			return err
		}
		for _, id := range reply.Added {
			res.New = append(res.New, newBullet{ID: id, Evidence: evidenceText(lesson)})
		}
	}
	return nil
}

// withoutWithdrawn returns the lessons without those that a person took out of the playbook, and lists those in the result.
func (*Learn) withoutWithdrawn(ctx context.Context, s *cli.Session, b book.Book, lessons []*rules.Lesson, res *learnResult) ([]*rules.Lesson, error) {
	if len(lessons) == 0 { // the log need not be read
		return nil, nil
	}
	texts, err := history.Withdrawn(deltalog.New(s.JetStream()).History(ctx, b))
	if err != nil {
		return nil, err
	}
	withdrawn := bulletTexts{keys: map[book.ContentKey]bool{}}
	for content := range texts {
		withdrawn.add(content)
	}
	return slices.DeleteFunc(lessons, func(n *rules.Lesson) bool {
		if !withdrawn.has(n.Content) {
			return false
		}
		res.Withdrawn = append(res.Withdrawn, text.Line(redact.Text(n.Content), maxEvidence))
		return true
	}), nil
}

// expect prints the calls of the model that follow: to reflect on the new runs, which res.Expected has already, and to curate.
func (l *Learn) expect(res *learnResult) {
	curated := curatorCalls(res.Expected.Calls, l.MaxBatch)
	res.Expected.add(curated.Calls, curated.Tokens)
	if res.Expected.Calls > 0 {
		l.print(map[string]any{"expected_model_calls": res.Expected}, "About %s will follow.", res.Expected)
	}
}

// newLessons returns the lessons that no bullet has. A bullet has a lesson if its content is the lesson, or begins with it: a
// person may have added to it.
func newLessons(p *book.Playbook, all []rules.Lesson) (lessons []*rules.Lesson) {
	known := bulletTexts{keys: map[book.ContentKey]bool{}}
	for x := range p.All() {
		known.add(x.Content)
	}
	for i := range all {
		if !known.has(all[i].Content) {
			known.add(all[i].Content)
			lessons = append(lessons, &all[i])
		}
	}
	return lessons
}

// bulletTexts are texts of bullets.
type bulletTexts struct {
	keys map[book.ContentKey]bool
	all  []string
}

func (t *bulletTexts) add(content string) {
	t.keys[book.ContentKeyOf(content)] = true
	t.all = append(t.all, content)
}

// has reports whether one of the texts is a lesson, or begins with it.
func (t *bulletTexts) has(lesson string) bool {
	begins := func(content string) bool { return strings.HasPrefix(content, lesson+" ") }
	return t.keys[book.ContentKeyOf(lesson)] || slices.ContainsFunc(t.all, begins)
}

// evidenceText returns the counts of the analysis in a sentence.
func evidenceText(n *rules.Lesson) string { return text.Line(n.Evidence, maxEvidence) }

// errNoEvidence is returned for a lesson whose runs have expired. Without evidence, the edit would count as the decision of a person.
var errNoEvidence = errors.New("add lesson: none of the runs behind it is stored any more: run the command again")

// addLesson requests the edit that adds the lesson as a bullet.
func addLesson(ctx context.Context, s *cli.Session, b book.Book, n *rules.Lesson, stored sequences) (*events.EditReply, error) {
	e := &events.Edit{
		Book: b,
		ID:   events.NewID(), Author: learnAuthor, Reason: evidenceText(n), Created: time.Now().UTC(),
		Ops: []book.Op{{Kind: book.Add, Section: n.Section, Content: n.Content, Reason: evidenceText(n)}},
	}
	var err error
	if e.Evidence, err = evidenceOf(ctx, s, n.Executions, stored); err != nil {
		return nil, err
	}
	if len(e.Evidence) == 0 {
		return nil, errNoEvidence
	}
	return request.SubmitEdit(ctx, s.Conn, e, bus.PublishOptions{})
}

// newBullet is a bullet that the command added, with the counts of the analysis in a sentence.
type newBullet struct {
	ID       book.BulletID `json:"id"`
	Evidence string        `json:"evidence"`
}

// refusedLesson is a lesson that the Curator refused. A secret in its content is replaced.
type refusedLesson struct {
	Content string `json:"content"`
	Reason  string `json:"reason"`
}

// learnAuthor is the author of lessons of the comparison.
const learnAuthor = "debrief learn"

// maxEvidence is the maximum length of the evidence in a reason, in bytes.
const maxEvidence = 900

// evidenceOf returns the first executions that are still stored, as the evidence of an edit. An edit has at most events.MaxEvidence of them.
func evidenceOf(ctx context.Context, s *cli.Session, ids []events.ID, stored sequences) (all []book.Evidence, err error) {
	for _, id := range ids {
		if len(all) == events.MaxEvidence {
			break
		}
		e, err := storedRun(ctx, s, id, stored)
		if err != nil {
			return nil, err
		}
		if e != nil {
			all = append(all, e.Evidence(events.NewHandle(stored[runIDOf(id)], id)))
		}
	}
	return all, nil
}

// storedRun returns a stored execution, or nil if it has expired since the analysis.
func storedRun(ctx context.Context, s *cli.Session, id events.ID, stored sequences) (*events.Execution, error) {
	found, err := s.Events.Find(ctx, events.StreamExecutions, stored[runIDOf(id)], func(got events.ID) bool { return got == id })
	if errors.Is(err, bus.ErrNotFound) {
		return nil, nil
	}
	e, _ := found.(*events.Execution)
	return e, err
}
