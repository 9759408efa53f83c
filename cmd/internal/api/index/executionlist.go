package index

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/text"
)

// ExecutionItem is an execution in a list.
type ExecutionItem struct {
	Handle   events.Handle `json:"handle"`
	RunID    string        `json:"run_id"`
	Task     string        `json:"task,omitempty" doc:"Label of the task."`
	Owner    string        `json:"owner,omitempty" doc:"Owner of the run; empty: the common owner."`
	User     string        `json:"user,omitempty"`
	Session  string        `json:"session,omitempty"`
	Turn     int           `json:"turn,omitempty"`
	Started  time.Time     `json:"started"`
	Question string        `json:"question" doc:"Beginning of the question."`
	Answer   string        `json:"answer" doc:"Beginning of the answer."`
	// AnswerLength lets people see whether a judge prefers long answers.
	AnswerLength int            `json:"answer_length" doc:"Length of the whole answer, in characters."`
	Outcome      events.Outcome `json:"outcome" doc:"As stored with the execution, without later feedback."`
	// Corrected is known soon after the feedback is stored.
	Corrected *events.Outcome `json:"corrected,omitempty" doc:"Outcome after feedback, without texts; missing without feedback on the outcome."`
	Purpose   events.Purpose  `json:"purpose,omitempty"`
	// LabelSuspect is set in the list of doubted executions.
	LabelSuspect string              `json:"label_suspect,omitempty" doc:"With the parameter doubted: reason why the Reflector doubts the outcome."`
	Version      uint64              `json:"playbook_version"`
	Shown        []playbook.BulletID `json:"shown" doc:"Bullets in the prompt."`
	Cited        []playbook.BulletID `json:"cited,omitempty"`
	Steps        int                 `json:"steps" doc:"Number of steps."`
	Model        string              `json:"model,omitempty"`
}

// maxExcerpt is the maximum length of a text in a list, in bytes.
const maxExcerpt = 300

// Excerpt returns the beginning of a text for a list.
func Excerpt(s string) string { return text.Clip(s, maxExcerpt) }

// NewExecutionItem returns the item of an execution with this sequence, without what later events say about it.
func NewExecutionItem(seq uint64, e *events.Execution) ExecutionItem {
	item := ExecutionItem{
		Handle: events.NewHandle(seq, e.ID), RunID: e.RunID, Task: e.Origin.Task, Owner: e.Owner, User: e.User,
		Session: e.Session, Turn: e.Turn, Started: e.Started,
		Question: Excerpt(e.Question), Answer: Excerpt(e.Answer), AnswerLength: utf8.RuneCountInString(e.Answer), Outcome: e.Outcome, Purpose: e.Purpose,
		Version: e.Version, Shown: []playbook.BulletID{}, Cited: e.Cited, Steps: len(e.Steps), Model: e.Model,
	}
	for _, b := range e.Shown {
		item.Shown = append(item.Shown, b.ID)
	}
	return item
}

// A list of executions goes back through the stream of executions, which has three parts, the newest first:
//
//   - sequences that the index has not read yet: a list scans them;
//   - sequences that the index covers: a list reads only the executions that the index finds;
//   - sequences that the index has dropped: a list scans them.
//
// Each function gets an end, the sequence above the first that it may return. It returns the end for the next call, 0 if nothing older is
// left.

// Numbers of sequences that a list scans without the index.
const (
	firstSpan = 1 << 10 // first scan; each further one is twice as long
	maxSpan   = 1 << 13 // longest scan
	maxRead   = 1 << 17 // of one request; the cursor continues the list
)

// MaxSearch is the number of sequences that a list of executions with certain words scans for one request.
const MaxSearch = 1 << 15

// batch is the number of executions that a list reads at a time after it found them by the index.
const batch = 64

// NewestFirst calls fn for the executions that match, with a sequence below end, newest first, until fn returns false. It returns the
// end for the next call, 0 at the beginning of the stream. An end of 0 is the end of the stream.
func (x *Executions) NewestFirst(ctx context.Context, f *Filter, end uint64, fn func(ExecutionItem) bool) (uint64, error) {
	stream, err := x.conn.JetStream().Stream(ctx, events.StreamExecutions)
	if err != nil {
		return 0, err
	}
	state := stream.CachedInfo().State
	if end == 0 || end > state.LastSeq+1 {
		end = state.LastSeq + 1
	}
	first := max(state.FirstSeq, 1)
	if f.Doubted {
		return x.doubted(ctx, f, end, fn)
	}
	oldest, last := x.Range()
	if end > last+firstSpan || f.OnlyWords() { // the index is far behind, as after a start, or of no use
		return x.scanBack(ctx, f, first, end, fn)
	}
	if end > last+1 {
		next, err := x.scanBack(ctx, f, max(first, last+1), end, fn)
		if err != nil || next > 0 {
			return next, err
		}
		end = last + 1
	}
	endOfDropped := min(end, oldest) // the end of the sequences that the index has dropped
	for end > first {
		seqs, next := x.Find(f, end, batch)
		all, err := x.readFound(ctx, f, seqs)
		if err != nil {
			return 0, err
		}
		for _, e := range all {
			if e != nil && !fn(e.ExecutionItem) {
				return e.seq, nil
			}
		}
		if next == 0 {
			break
		}
		end = next
	}
	if oldest > first { // the index has dropped older executions
		return x.scanBack(ctx, f, first, endOfDropped, fn)
	}
	return 0, nil
}

// readFound returns an entry for each sequence. The entry of an execution that has expired, or that does not match, is nil.
func (x *Executions) readFound(ctx context.Context, f *Filter, seqs []uint64) ([]*foundExecution, error) {
	all := make([]*foundExecution, len(seqs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, seq := range seqs {
		group.Go(func() error {
			found, err := x.conn.Events.Find(ctx, events.StreamExecutions, seq, func(events.ID) bool { return true })
			if err != nil && !errors.Is(err, bus.ErrNotFound) {
				return err
			}
			if e, ok := found.(*events.Execution); ok {
				all[i] = x.matching(f, seq, e)
			}
			return nil
		})
	}
	return all, group.Wait()
}

// scanBack is NewestFirst without the index, for sequences of at least first. It returns 0 if it has read all of them.
func (x *Executions) scanBack(ctx context.Context, f *Filter, first, end uint64, fn func(ExecutionItem) bool) (uint64, error) {
	span := uint64(firstSpan)
	read := uint64(0)
	limit := uint64(maxRead)
	if len(f.Words) > 0 {
		limit = MaxSearch
	}
	for end > first {
		if read >= limit {
			return end, nil
		}
		from := max(first, end-min(end, span))
		read += end - from
		all, err := x.readSpan(ctx, f, from, end)
		if err != nil {
			return 0, err
		}
		for _, e := range slices.Backward(all) {
			if !fn(e.ExecutionItem) {
				return e.seq, nil
			}
		}
		end = from
		span = min(2*span, maxSpan)
	}
	return 0, nil
}

// foundExecution is an execution of the stream, without its long texts.
type foundExecution struct {
	ExecutionItem
	seq uint64
}

// matching returns an execution as an item, with its outcome after feedback, or nil if it does not match.
func (x *Executions) matching(f *Filter, seq uint64, e *events.Execution) *foundExecution {
	item := &foundExecution{NewExecutionItem(seq, e), seq}
	r := newRow(seq, e)
	if item.Corrected = x.Corrected(seq); item.Corrected != nil {
		r.label = item.Corrected.Label
	}
	if !f.selects(&r) || !f.hasWords(e) {
		return nil
	}
	return item
}

// doubted is NewestFirst for the executions whose outcome the Reflector doubts. It reads all reflections of the playbook. The last one on an
// execution counts: a reflection on later feedback may have no doubt.
func (x *Executions) doubted(ctx context.Context, f *Filter, end uint64, fn func(ExecutionItem) bool) (uint64, error) {
	reasons := map[events.Handle]string{}
	err := x.conn.Events.Scan(ctx, events.StreamReflections, events.KindReflection.Subject(f.Book), 1, func(s bus.Stored) error {
		if r, ok := s.Event.(*events.Reflection); ok {
			reasons[r.Handle] = r.LabelSuspect
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var seqs []uint64 // newest first
	for handle, reason := range reasons {
		if seq, _, err := handle.Parse(); err == nil && reason != "" && seq < end {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	for part := range slices.Chunk(seqs, batch) {
		all, err := x.readFound(ctx, f, part)
		if err != nil {
			return 0, err
		}
		for _, e := range all {
			if e == nil || reasons[e.Handle] == "" { // expired, or another execution after a loss of data
				continue
			}
			e.LabelSuspect = reasons[e.Handle]
			if !fn(e.ExecutionItem) {
				return e.seq, nil
			}
		}
	}
	return 0, nil
}

// readSpan returns the executions that match, with a sequence of at least from and below end, oldest first.
func (x *Executions) readSpan(ctx context.Context, f *Filter, from, end uint64) (all []*foundExecution, err error) {
	err = x.conn.Events.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject(f.Book), from, func(s bus.Stored) error {
		if s.Seq >= end {
			return bus.ErrStop
		}
		if e, ok := s.Event.(*events.Execution); ok {
			if item := x.matching(f, s.Seq, e); item != nil {
				all = append(all, item)
			}
		}
		return nil
	})
	return all, err
}

// SessionItem is a session in a list.
type SessionItem struct {
	Session    string        `json:"session"`
	Owner      string        `json:"owner,omitempty" doc:"Owner of the session; empty: the common owner. Sessions of two owners with one name are two sessions."`
	Executions int           `json:"executions" doc:"Number of executions in the index of the gateway."`
	Last       events.Handle `json:"last" doc:"Handle of the last execution."`
	At         time.Time     `json:"at" doc:"Start of the last execution."`
	Question   string        `json:"question" doc:"Beginning of the last question."`
}

// Sessions returns the n sessions of a playbook that have the newest executions, newest first, except those whose last execution has expired.
// A nil owner means all owners.
func (x *Executions) Sessions(ctx context.Context, b playbook.Book, owner *string, n int) ([]*SessionItem, error) {
	f := &Filter{Book: b, Owner: owner, InSession: true}
	sessions := x.newestSessions(f, n)
	seqs := make([]uint64, len(sessions))
	for i, s := range sessions {
		seqs[i] = s.last
	}
	found, err := x.readFound(ctx, f, seqs)
	if err != nil {
		return nil, err
	}
	all := []*SessionItem{}
	for i, e := range found {
		if e != nil {
			all = append(all, &SessionItem{
				Session: e.Session, Owner: e.Owner, Executions: sessions[i].executions, Last: e.Handle, At: e.Started, Question: e.Question,
			})
		}
	}
	return all, nil
}

// awaitLimit is the longest wait of Await.
const awaitLimit = time.Second

// Await waits until the index has read the executions that are stored at the call, but at most awaitLimit.
func (x *Executions) Await(ctx context.Context) error {
	state, err := streamState(ctx, x.conn, events.StreamExecutions)
	if err != nil {
		return err
	}
	end := time.Now().Add(awaitLimit)
	for {
		if _, last := x.Range(); last >= state.LastSeq || time.Now().After(end) {
			return nil
		}
		if err := events.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
