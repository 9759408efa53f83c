package reflector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/window"
)

// worker is a Reflector on a connection.
type worker struct {
	*Reflector
	conn    *bus.Conn
	windows *window.Store // nil in tests without a server: the worker then waits for no feedback and compares no runs
	texts   *deltalog.Texts
}

func newWorker(r *Reflector, conn *bus.Conn) *worker {
	return &worker{Reflector: r, conn: conn, windows: window.New(conn.NATS(), conn.JetStream()), texts: deltalog.New(conn.JetStream()).Texts()}
}

// Run processes deliveries until ctx ends. The roles of a process may share one Conn. To stop, cancel ctx, wait for Run, then close the
// connection.
func (r *Reflector) Run(ctx context.Context, conn *bus.Conn) error {
	w := newWorker(r, conn)
	return conn.Run(ctx, bus.Worker{
		Role:    events.RoleReflector,
		Slots:   r.cfg.Slots,
		Waiting: func() string { return chat.Waiting(r.model) },
		Handle: func(ctx context.Context, batch []*bus.Delivery) []bus.Result {
			ctx = chat.ObserveReplies(ctx, func(q chat.Quality) {
				conn.Stats.CountReply(events.RoleReflector, q == chat.Repaired, q == chat.Invalid)
			})
			result := w.handle(ctx, batch[0])
			_, isExecution := batch[0].Event.(*events.Execution)
			result.ReplyOriginal = isExecution && !result.Forward // to the requester of a task that has no further round
			if len(result.Events) > 0 {
				if ref, ok := result.Events[0].(*events.Reflection); ok && ref.Model != "" && ref.Outcome.Known() {
					conn.Stats.CountLabel(events.RoleReflector, ref.LabelSuspect != "")
				}
			}
			return []bus.Result{result}
		},
		Done: w.done,
	})
}

// input has the events of a delivery that the Reflector reflects on.
type input struct {
	delivery  *bus.Delivery
	execution *events.Execution // with the outcome after the feedback
	handle    events.Handle     // of the execution
	feedback  feedbackInfo      // zero if the delivery is the execution itself
}

// inputOf returns the input of a delivery. For feedback it loads the execution.
func (w *worker) inputOf(ctx context.Context, d *bus.Delivery) (input, error) {
	switch event := d.Event.(type) {
	case *events.Execution:
		return input{delivery: d, execution: event, handle: d.Handle()}, nil
	case *events.Feedback:
		e, fb, err := w.resolveFeedback(ctx, event, d)
		if err != nil {
			return input{}, fmt.Errorf("feedback on %s: %w", event.Execution, err)
		}
		return input{delivery: d, execution: e, handle: event.Execution, feedback: fb}, nil
	}
	return input{}, bus.Discard(fmt.Errorf("handle event: unexpected kind %s", d.Event.Kind()))
}

// handle processes one execution or feedback. The result has a reflection, the task of the next round, or no event.
func (w *worker) handle(ctx context.Context, d *bus.Delivery) bus.Result {
	in, err := w.inputOf(ctx, d)
	if err != nil {
		return bus.Result{Err: err}
	}
	e := in.execution
	if e.Purpose == events.Evaluate || e.Origin.Held && in.feedback.id != "" { // feedback on a held execution has no effect
		return bus.Result{}
	}
	if waits, err := w.waitsForFeedback(ctx, in); waits || err != nil {
		return bus.Result{Err: err}
	}
	var pair *comparison // nil finds and stores nothing
	if w.windows != nil && w.model != nil {
		pair = newComparison(e, in.handle)
	}
	fail := func(err error) bus.Result { return bus.Result{Err: fmt.Errorf("reflect on %s: %w", in.handle, err)} }
	other, err := pair.find(ctx, w.windows, e)
	if err != nil {
		return fail(err)
	}
	if w.asks(e, in.feedback.id) {
		if err := w.loadTexts(ctx, e); err != nil {
			return fail(err)
		}
	}
	ref, err := w.reflect(ctx, e, other, in.feedback.id)
	if err != nil {
		return fail(err)
	}
	ref.Handle = in.handle
	result := w.resultOf(ctx, in, ref, pair, other)
	result.ModelUseful = ref.Model != ""
	return result
}

// loadTexts loads into an execution the texts that it only refers to as stored: the description of the agent, the bullets and the
// reflections in its prompt, and the withheld bullets. The prompt about the execution needs them.
func (w *worker) loadTexts(ctx context.Context, e *events.Execution) error {
	if e.Agent != nil && e.Agent.Ref != "" {
		if err := w.conn.Events.LoadAgent(ctx, e); err != nil {
			return err
		}
	}
	if err := w.texts.Fill(ctx, e.Book, e.Version, e.Shown); err != nil {
		return err
	}
	for _, x := range withheldExposures(e) {
		if x.Wording == 0 { // of a report from outside
			continue
		}
		bullet := []events.ShownBullet{{ID: x.Bullet, Wording: x.Wording}}
		if err := w.texts.Fill(ctx, e.Book, e.Version, bullet); err != nil {
			return err
		}
		x.Content = bullet[0].Content
	}
	return w.loadNotes(ctx, e)
}

// loadNotes sets the texts of the reflections in the prompt of an execution, which the manifest names. The text of a deleted reflection stays empty.
func (w *worker) loadNotes(ctx context.Context, e *events.Execution) error {
	for _, p := range shownNotes(e) {
		p.Text = ""
		seq, matches, err := events.Handle(p.Ref).Parse()
		if err != nil {
			continue
		}
		found, err := w.conn.Events.Find(ctx, events.StreamReflections, seq, matches)
		if errors.Is(err, bus.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reflection %s in the prompt: %w", p.Ref, err)
		}
		ref, isReflection := found.(*events.Reflection)
		if !isReflection || ref.Book != e.Book {
			continue
		}
		if note := events.NewNote(events.Handle(p.Ref), ref); note != nil {
			p.Text = strings.Join(noteLines(note.Only(p.Why)), "\n")
		}
	}
	return nil
}

// resultOf completes a reflection and returns the result of its delivery. It stores the run for comparisons, and the note for prompts.
func (w *worker) resultOf(ctx context.Context, in input, ref *events.Reflection, pair *comparison, other *otherRun) bus.Result {
	e, fb := in.execution, in.feedback
	if fb.id == "" {
		if w.hasNextRound(e) {
			if next := nextRound(e, in.handle, ref); next != nil {
				return bus.Result{Events: []events.Event{next}, Forward: true}
			}
		}
		finishSample(e, ref)
	}
	markCopies(e, ref, other, w.cfg)
	ref.FeedbackSeq = fb.seq
	ref.Corrects = fb.corrects
	ref.FirstOutcome = fb.first
	isEmpty := !hasContent(ref) && fb.id == ""        // with feedback it can still take back votes
	if isEmpty && ref.Model == "" && !e.Origin.Held { // else it is stored, for the usage of the model or for the replay that waits for it
		return bus.Result{Err: w.remember(ctx, in, pair, nil)}
	}
	return bus.Result{Events: []events.Event{ref}, AfterStore: func(ctx context.Context, stored bus.Receipt) error {
		if isEmpty || e.Origin.Held { // without a note: later prompts must not depend on the order of held executions
			return w.remember(ctx, in, pair, nil)
		}
		return w.remember(ctx, in, pair, events.NewNote(stored.Handle, ref))
	}}
}

// remember stores the run, if it is comparable, and the note, if it is not nil. Only the first copy of an event has this effect: a later one
// would replace the last run of the task, and repeat the note.
func (w *worker) remember(ctx context.Context, in input, pair *comparison, note *events.Note) error {
	if pair == nil && note == nil {
		return nil
	}
	book := in.execution.Book
	isFirst, err := w.windows.ClaimFirstCopy(ctx, book, window.EffectNote, in.delivery.Event.EventID(), in.delivery.Seq)
	if err != nil || !isFirst {
		return err
	}
	if err := pair.store(ctx, w.windows, in.execution); err != nil || note == nil {
		return err
	}
	return w.windows.AddNote(ctx, book, note)
}
