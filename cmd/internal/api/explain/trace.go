package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Execution explains an execution: its bullets, its outcome, the reflections on it and their effects.
type Execution struct {
	Book      playbook.Book     `json:"book"`
	Labels    map[uint64]string `json:"labels"` // labels of the versions of the events, by number
	Execution *events.Execution `json:"stored"` // null if expired
	// Corrected is the outcome after feedback, without texts; nil without feedback on the outcome.
	Corrected *events.Outcome `json:"corrected,omitempty"`
	Ignored   []string        `json:"ignored,omitempty"` // parts of the models' replies that the reflections left out
	*history.Trace

	Analyses []*events.Reflection `json:"analyses"` // of Trace.Reflections; null if expired
}

// ErrExecutionNotFound is returned for an execution that is not stored and that the log does not refer to.
var ErrExecutionNotFound = errors.New("not found: expired or never stored")

// Effects returns the log of a playbook, or the part of it that covers an execution.
type Effects func(b playbook.Book, handle events.Handle) deltalog.Log

// ExecutionOf returns the explanation of an execution. If the execution is stored, its playbook replaces name.
func ExecutionOf(ctx context.Context, name playbook.Book, effects Effects, ev Evidence, handle events.Handle) (*Execution, error) {
	e, err := ev.Execution(ctx, string(handle))
	if err != nil {
		return nil, err
	}
	if e != nil {
		name = e.Book
	}
	log, labels := withLabels(effects(name, handle))
	t, err := history.TraceOf(log, string(handle))
	if err != nil {
		return nil, LogError(err)
	}
	if e == nil && len(t.Reflections) == 0 {
		return nil, fmt.Errorf("execution %s: %w, and playbook %q does not refer to it", handle, ErrExecutionNotFound, name)
	}
	x := &Execution{Book: name, Labels: labelsOf(t.Events, labels), Execution: e, Trace: t}
	return x, x.loadReflections(ctx, ev)
}

// loadReflections reads the reflections of the trace and sets Ignored.
func (x *Execution) loadReflections(ctx context.Context, ev Evidence) error {
	for _, r := range x.Reflections {
		ref, err := ev.Reflection(ctx, r.Cover)
		if err != nil {
			return err
		}
		x.Analyses = append(x.Analyses, ref)
		if ref != nil {
			x.Ignored = append(x.Ignored, ref.Ignored...)
		}
	}
	return nil
}

// Text formats the explanation.
func (x *Execution) Text() string {
	out := new(strings.Builder)
	if x.Execution == nil {
		x.writeDigest(out)
	} else {
		writeExecution(out, x.Trace.Execution, x.Execution)
	}
	if len(x.Reflections) > 0 {
		x.writeLessons(out)
	} else {
		x.writePending(out)
	}
	return out.String()
}

// writeDigest writes the digest of an expired execution.
func (x *Execution) writeDigest(out io.Writer) {
	digest := x.Reflections[0].Cover.Evidence
	term.Fprintf(out, "Execution %s%s has expired; the log keeps only this digest.\n  asked     %q\n  outcome   %s\n",
		x.Trace.Execution, originText(digest.Session, digest.Source), digest.Excerpt, Outcome(digest.Outcome, digest.Score))
}

// writeExecution writes a stored execution.
func writeExecution(out io.Writer, handle string, e *events.Execution) {
	term.Fprintf(out, "Execution %s of run %s in playbook %q%s%s\n", handle, e.RunID, e.Book, originText(e.Session, e.Origin.Source), modelText(e))
	term.Fprintf(out, "  asked     %q\n", term.OneLine(e.Question, 200))
	if n := len(e.Steps); n > 0 {
		term.Fprintf(out, "  did       %s\n", term.Plural(n, "step"))
	}
	if e.Answer != "" {
		term.Fprintf(out, "  answered  %q\n", term.OneLine(e.Answer, 200))
	}
	term.Fprintf(out, "  outcome   %s", Outcome(string(e.Outcome.Label), e.Outcome.Score))
	if remark := e.Outcome.Remark(); remark != "" {
		term.Fprintf(out, ": %s", term.OneLine(remark, 300))
	}
	term.Fprintln(out)
	WriteOtherTry(out, "  ", e)
	term.Fprintf(out, "  playbook  version %d", e.Version)
	if len(e.Shown) == 0 {
		term.Fprintf(out, ", no bullets shown")
	}
	term.Fprintln(out)
	for _, s := range e.Shown {
		mark := "shown"
		if slices.Contains(e.Cited, s.ID) {
			mark = "cited"
		}
		term.Fprintf(out, "  %s     %s  %s\n", mark, s.ID, cmp.Or(term.OneLine(s.Content, 120), "(its text is no longer stored)"))
	}
}

// writeLessons writes the reflections on the execution and their changes.
func (x *Execution) writeLessons(out io.Writer) {
	for i, ref := range x.Reflections {
		digest := ref.Cover.Evidence
		feedback := ""
		if digest.FeedbackSeq > 0 {
			feedback = fmt.Sprintf(" after feedback, %s", NamedOutcome(digest.Outcome, digest.Score))
		}
		if digest.Reflector == "" {
			term.Fprintf(out, "\nEvidence for an edit; applied in version %d.\n", ref.Version)
		} else {
			term.Fprintf(out, "\nReflected on by %s%s; applied in version %d.\n", reflectorText(digest.Reflector, digest.Model), feedback, ref.Version)
		}
		if r := x.Analyses[i]; r != nil {
			WriteOtherRun(out, "  ", r.OtherRun)
		}
		writeIgnored(out, x.Analyses[i])
	}
	for i := range x.Events {
		e := &x.Events[i]
		term.Fprintf(out, "  %s  %s %s\n", x.Labels[e.Version], e.Bullet, DescribeEvent(e, e.Bullet))
	}
	if len(x.Events) == 0 {
		term.Fprintf(out, "  It changed nothing in the playbook.\n")
	}
}

// writePending writes the reason why the log has no reflection on the execution.
func (x *Execution) writePending(out io.Writer) {
	if x.Execution.Purpose == events.Evaluate {
		term.Fprintf(out, "\nIt was an evaluation: nothing is learned from it.\n")
		return
	}
	term.Fprintf(out, "\nNo version has a reflection on it: it waits for a reflector or a curator, a further round followed, or there was nothing to learn.\n")
}

// OtherRuns returns the runs that the Reflector compared the execution with, each once.
func (x *Execution) OtherRuns() (all []events.OtherRun) {
	for _, ref := range x.Analyses {
		if ref != nil && ref.OtherRun != nil && !slices.Contains(all, *ref.OtherRun) {
			all = append(all, *ref.OtherRun)
		}
	}
	return all
}

// WriteOtherTry writes another answer to the task of an execution, if the execution has one.
func WriteOtherTry(out io.Writer, indent string, e *events.Execution) {
	if e != nil && e.OtherTry != nil {
		t := e.OtherTry
		term.Fprintf(out, "%sanother answer to the task: %s, %q\n", indent, NamedOutcome(string(t.Outcome.Label), t.Outcome.Score), term.OneLine(t.Answer, 200))
	}
}

// WriteOtherRun writes the run that the Reflector compared an execution with. It writes nothing for nil.
func WriteOtherRun(out io.Writer, indent string, o *events.OtherRun) {
	if o != nil {
		term.Fprintf(out, "%scompared with another run of the task: %s, %s\n", indent, o.Execution, o.Label)
	}
}

// writeIgnored writes the parts of the model's reply that the reflection left out. A nil ref writes nothing.
func writeIgnored(out io.Writer, ref *events.Reflection) {
	if ref == nil {
		return
	}
	for _, why := range ref.Ignored {
		term.Fprintf(out, "  ignored   %s\n", term.OneLine(why, 300))
	}
}
