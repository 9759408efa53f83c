package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// followed is the output of --json for an execution.
type followed struct {
	Book      book.Book         `json:"book"`
	Labels    map[uint64]string `json:"labels"`
	Execution *events.Execution `json:"stored"` // null when it has expired
	Ignored   []string          `json:"ignored,omitempty"`
	*history.Trace
}

func (w *whyBook) execution(ctx context.Context, b *openBook, handle events.Handle) error {
	r := &records{b, map[string]*events.Execution{}}
	e, err := r.execution(ctx, string(handle))
	if err != nil {
		return err
	}
	if e != nil {
		b.name = e.Book
	}
	t, err := history.OfExecution(b.store.History(ctx, b.name), string(handle))
	if err != nil {
		return broken(err)
	}
	if e == nil && len(t.Reflections) == 0 {
		return app.Exit(app.ExitRefused, fmt.Errorf("execution %s: is not stored, and playbook %q has nothing from it", handle, b.name))
	}
	labels, err := b.labels(ctx, t.Events)
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
		return writeJSON(console.Stdout, followed{b.name, labels, e, ignored, t})
	}
	out := new(strings.Builder)
	w.tell(out, handle, e, t)
	if err := w.learned(ctx, out, r, e, t, labels); err != nil {
		return err
	}
	_, err = io.WriteString(console.Stdout, out.String())
	return err
}

// tell says what an execution was and how it went.
func (w *whyBook) tell(out io.Writer, handle events.Handle, e *events.Execution, t *history.Trace) {
	if e == nil {
		ev := t.Reflections[0].Cover.Evidence
		console.Fprintf(out, "Execution %s%s has expired; this is what the log keeps.\n  asked     %q\n  outcome   %s\n",
			handle, origin(ev.Session, ev.Source), ev.Excerpt, outcome(ev.Outcome, ev.Score))
		return
	}
	console.Fprintf(out, "Execution %s of task %s in playbook %q%s%s\n", handle, e.TaskID, e.Book, origin(e.Session, e.Origin.Source), model(e))
	console.Fprintf(out, "  asked     %q\n", inLine(e.Question, 200))
	if n := len(e.Steps); n > 0 {
		console.Fprintf(out, "  did       %s\n", plural(n, "step"))
	}
	if e.Answer != "" {
		console.Fprintf(out, "  answered  %q\n", inLine(e.Answer, 200))
	}
	console.Fprintf(out, "  outcome   %s", outcome(string(e.Outcome.Label), e.Outcome.Score))
	if e.Outcome.Feedback != "" {
		console.Fprintf(out, ": %s", inLine(e.Outcome.Feedback, 300))
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
		console.Fprintf(out, "  %s     %s  %s\n", mark, s.ID, inLine(s.Content, 120))
	}
}

// learned says what came of an execution.
func (w *whyBook) learned(ctx context.Context, out io.Writer, r *records, e *events.Execution, t *history.Trace, labels map[uint64]string) error {
	if len(t.Reflections) > 0 {
		for _, ref := range t.Reflections {
			ev := ref.Cover.Evidence
			what := ""
			if ev.Judged > 0 {
				what = fmt.Sprintf(" after feedback, %s", outcome(ev.Outcome, ev.Score))
			}
			console.Fprintf(out, "\nReflected on by %s%s; settled by version %d.\n", by(ev.Reflector, ev.Model), what, ref.Version)
			stored, err := r.reflection(ctx, ref.Cover)
			if err != nil {
				return err
			}
			tellIgnored(out, stored)
		}
		for i := range t.Events {
			ev := &t.Events[i]
			console.Fprintf(out, "  %s  %s %s\n", labels[ev.Version], ev.Bullet, happened(ev, ev.Bullet))
		}
		if len(t.Events) == 0 {
			console.Fprintf(out, "  Nothing in the playbook changed over it.\n")
		}
		return nil
	}
	if e.Purpose == events.Evaluate {
		console.Fprintf(out, "\nIt was for evaluation: nothing is learned from it.\n")
		return nil
	}
	var waits, later *events.Reflection
	err := r.ReadStored(ctx, events.StreamReflections, events.KindReflection.Subject(r.name), func(s bus.Stored) error {
		ref, ok := s.Event.(*events.Reflection)
		switch {
		case !ok:
		case ref.Execution == e.ID:
			waits = ref
			return bus.ErrStop
		case ref.ID == events.ReflectionID(e.Sample(), "", ref.Reflector):
			later = ref
			return bus.ErrStop
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case waits != nil:
		console.Fprintf(out, "\nIts reflection waits for a curator.\n")
		tellIgnored(out, waits)
	case later != nil:
		console.Fprintf(out, "\nA further round followed; what was learned is told of the last one, %s.\n", later.Handle)
	default:
		console.Fprintf(out, "\nThere is no reflection on it: it waits for a reflector, or there was nothing to learn from it.\n")
	}
	return nil
}

// tellIgnored says what of a model's reply did not become a part of the reflection, nil where that has expired.
func tellIgnored(out io.Writer, ref *events.Reflection) {
	if ref == nil {
		return
	}
	for _, why := range ref.Ignored {
		console.Fprintf(out, "  ignored   %s\n", inLine(why, 300))
	}
}
