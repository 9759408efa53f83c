package books

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// executionExplanation is the output of --json for an execution.
type executionExplanation struct {
	Book      book.Book         `json:"book"`
	Labels    map[uint64]string `json:"labels"`
	Execution *events.Execution `json:"stored"` // null if expired
	Ignored   []string          `json:"ignored,omitempty"`
	*history.Trace
}

func (w *whyBook) execution(ctx context.Context, b *cli.Playbook, handle events.Handle) error {
	r := &evidence{b, map[string]*events.Execution{}}
	e, err := r.execution(ctx, string(handle))
	if err != nil {
		return err
	}
	if e != nil {
		b.Name = e.Book
	}
	t, err := history.TraceOf(b.Store.History(ctx, b.Name), string(handle))
	if err != nil {
		return cli.LogError(err)
	}
	if e == nil && len(t.Reflections) == 0 {
		return app.Exit(app.ExitRefused, fmt.Errorf("execution %s: not found: expired or never stored, and playbook %q does not refer to it", handle, b.Name))
	}
	labels, err := versionLabels(ctx, b, t.Events)
	if err != nil {
		return err
	}
	if w.JSON {
		var ignored []string
		for _, ref := range t.Reflections {
			stored, err := r.reflection(ctx, ref.Cover)
			if err != nil {
				return err
			}
			if stored != nil {
				ignored = append(ignored, stored.Ignored...)
			}
		}
		return cli.WriteJSON(console.Stdout, executionExplanation{b.Name, labels, e, ignored, t})
	}
	out := new(strings.Builder)
	w.printExecution(out, handle, e, t)
	if err := w.printLessons(ctx, out, r, e, t, labels); err != nil {
		return err
	}
	_, err = io.WriteString(console.Stdout, out.String())
	return err
}

// printExecution prints an execution, or its digest from the log if e is nil.
func (w *whyBook) printExecution(out io.Writer, handle events.Handle, e *events.Execution, t *history.Trace) {
	if e == nil {
		ev := t.Reflections[0].Cover.Evidence
		console.Fprintf(out, "Execution %s%s has expired; the log keeps only this digest.\n  asked     %q\n  outcome   %s\n",
			handle, origin(ev.Session, ev.Source), ev.Excerpt, outcome(ev.Outcome, ev.Score))
		return
	}
	console.Fprintf(out, "Execution %s of task %s in playbook %q%s%s\n", handle, e.TaskID, e.Book, origin(e.Session, e.Origin.Source), model(e))
	console.Fprintf(out, "  asked     %q\n", cli.OneLine(e.Question, 200))
	if n := len(e.Steps); n > 0 {
		console.Fprintf(out, "  did       %s\n", cli.Plural(n, "step"))
	}
	if e.Answer != "" {
		console.Fprintf(out, "  answered  %q\n", cli.OneLine(e.Answer, 200))
	}
	console.Fprintf(out, "  outcome   %s", outcome(string(e.Outcome.Label), e.Outcome.Score))
	if e.Outcome.Feedback != "" {
		console.Fprintf(out, ": %s", cli.OneLine(e.Outcome.Feedback, 300))
	}
	console.Fprintf(out, "\n  playbook  version %d", e.Version)
	if len(e.Shown) == 0 {
		console.Fprintf(out, ", no bullets shown")
	}
	console.Fprintln(out)
	for _, s := range e.Shown {
		mark := "shown"
		if slices.Contains(e.Cited, s.ID) {
			mark = "cited"
		}
		console.Fprintf(out, "  %s     %s  %s\n", mark, s.ID, cli.OneLine(s.Content, 120))
	}
}

// printLessons prints the reflections on an execution and their changes, or the reason for a missing reflection.
func (w *whyBook) printLessons(ctx context.Context, out io.Writer, r *evidence, e *events.Execution, t *history.Trace, labels map[uint64]string) error {
	if len(t.Reflections) > 0 {
		for _, ref := range t.Reflections {
			ev := ref.Cover.Evidence
			feedback := ""
			if ev.FeedbackSeq > 0 {
				feedback = fmt.Sprintf(" after feedback, %s", outcome(ev.Outcome, ev.Score))
			}
			console.Fprintf(out, "\nReflected on by %s%s; applied in version %d.\n", by(ev.Reflector, ev.Model), feedback, ref.Version)
			stored, err := r.reflection(ctx, ref.Cover)
			if err != nil {
				return err
			}
			printIgnored(out, stored)
		}
		for i := range t.Events {
			ev := &t.Events[i]
			console.Fprintf(out, "  %s  %s %s\n", labels[ev.Version], ev.Bullet, cli.DescribeEvent(ev, ev.Bullet))
		}
		if len(t.Events) == 0 {
			console.Fprintf(out, "  It changed nothing in the playbook.\n")
		}
		return nil
	}
	if e.Purpose == events.Evaluate {
		console.Fprintf(out, "\nIt was an evaluation: nothing is learned from it.\n")
		return nil
	}
	var waiting, later *events.Reflection
	err := r.ReadStored(ctx, events.StreamReflections, events.KindReflection.Subject(r.Name), func(s bus.Stored) error {
		ref, ok := s.Event.(*events.Reflection)
		switch {
		case !ok:
		case ref.Execution == e.ID:
			waiting = ref
			return bus.ErrStop
		case ref.ID == events.ReflectionID(e.SampleID(), "", ref.Reflector):
			later = ref
			return bus.ErrStop
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case waiting != nil:
		console.Fprintf(out, "\nIts reflection waits for a curator.\n")
		printIgnored(out, waiting)
	case later != nil:
		console.Fprintf(out, "\nA further round followed: see its last execution, %s.\n", later.Handle)
	default:
		console.Fprintf(out, "\nNo reflection on it is stored: it waits for a reflector, or there was nothing to learn.\n")
	}
	return nil
}

// printIgnored prints the parts of the model's reply that the reflection left out. A nil ref prints nothing.
func printIgnored(out io.Writer, ref *events.Reflection) {
	if ref == nil {
		return
	}
	for _, why := range ref.Ignored {
		console.Fprintf(out, "  ignored   %s\n", cli.OneLine(why, 300))
	}
}
