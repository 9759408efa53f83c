package books

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook/history"

	book "debrief/playbook"
)

type whyBook struct {
	cli.BookFlags
	What string `arg:"" help:"Id of a bullet, or handle of an execution, such as 412-ab12cd34." placeholder:"BULLET|EXECUTION"`
	All  bool   `help:"List all executions of each change and vote. Default: the first three."`
	JSON bool   `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*whyBook) Help() string {
	return `Explain a bullet or an execution. For a bullet: all changes of its text and its votes, with their reflections,
executions, outcomes, models and prompts. For an execution: the shown and cited bullets, the outcome and the lessons.
Executions and reflections expire; the log keeps a digest of each forever. Expired ones are marked.

Examples:

  debrief playbook why shr-00012
  debrief playbook why 412-ab12cd34 --json`
}

var executionHandle = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Run implements the command.
func (w *whyBook) Run(ctx context.Context, c *app.Common) error {
	if executionHandle.MatchString(w.What) { // no bullet id of Debrief has this form
		b, err := w.Open(ctx, c)
		if err != nil {
			return err
		}
		defer b.Close()
		return w.execution(ctx, b, events.Handle(w.What))
	}
	b, err := w.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	l, err := history.LineageOf(b.Store.History(ctx, b.Name), bulletArg(w.What).id())
	if errors.Is(err, history.ErrBulletNotFound) {
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q: %w", b.Name, err))
	} else if err != nil {
		return cli.LogError(err)
	}
	return w.bullet(ctx, b, l)
}

// evidence reads the executions and reflections that a log refers to, if they are still stored.
type evidence struct {
	*cli.Playbook
	found map[string]*events.Execution // by handle; nil if not stored
}

// execution returns an execution, nil if it is not stored any more.
func (r *evidence) execution(ctx context.Context, handle string) (*events.Execution, error) {
	if e, ok := r.found[handle]; ok {
		return e, nil
	}
	seq, is, err := events.Handle(handle).Parse()
	if err != nil {
		return nil, nil // not our handle: imported with the log of another system
	}
	found, err := r.Find(ctx, events.StreamExecutions, seq, is)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	e, _ := found.(*events.Execution)
	r.found[handle] = e
	return e, nil
}

// reflection returns the reflection that a delta covers, nil if it is not stored any more.
func (r *evidence) reflection(ctx context.Context, c book.Cover) (*events.Reflection, error) {
	found, err := r.Find(ctx, events.StreamReflections, c.Seq, func(events.ID) bool { return true })
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	if ref, ok := found.(*events.Reflection); ok && ref.Cover(c.Seq).ID == c.ID {
		return ref, nil
	}
	return nil, nil
}

// versionLabels returns the labels of the versions of the events.
func versionLabels(ctx context.Context, b *cli.Playbook, all []history.Event) (map[uint64]string, error) {
	labels := map[uint64]string{}
	for _, e := range all {
		labels[e.Version] = ""
	}
	err := b.Store.ReadLog(ctx, b.Name, func(r *deltalog.Record) error {
		if _, ok := labels[r.Version]; ok {
			labels[r.Version] = book.VersionLabel(r.Version, r.Chain)
		}
		return nil
	})
	return labels, cli.LogError(err)
}

// bulletExplanation is the output of --json for a bullet.
type bulletExplanation struct {
	Book   book.Book         `json:"book"`
	Labels map[uint64]string `json:"labels"`
	*history.Lineage
	Executions map[string]*events.Execution `json:"executions"` // null if expired
}

func (w *whyBook) bullet(ctx context.Context, b *cli.Playbook, l *history.Lineage) error {
	labels, err := versionLabels(ctx, b, l.Events)
	if err != nil {
		return err
	}
	r := &evidence{b, map[string]*events.Execution{}}
	if w.JSON {
		for _, e := range l.Events {
			for _, c := range e.Support {
				if c.Evidence == nil {
					continue
				}
				if _, err := r.execution(ctx, c.Evidence.Execution); err != nil {
					return err
				}
			}
		}
		return cli.WriteJSON(console.Stdout, bulletExplanation{b.Name, labels, l, r.found})
	}
	out := new(strings.Builder)
	if l.Current != nil {
		console.Fprintf(out, "%s [%s]%s %s\n%s", l.Bullet, l.Current.Section, traits(l.Current), votes(l.Current), console.Block(marked("  ", l.Current.Content)))
	} else {
		console.Fprintf(out, "%s is not in the playbook any more: %s in %s.\n", l.Bullet, strings.ToLower(string(l.RemovedBy.Kind)), labels[l.RemovedBy.Version])
	}
	console.Fprintf(out, "\n%s\n", summary(l))
	for _, e := range history.MergeExposures(l.Events) {
		console.Fprintf(out, "\n%s  %s  %s\n", labels[e.Version], e.Time.Local().Format(time.DateTime), cli.DescribeEvent(&e, l.Bullet))
		if (e.Kind == book.Tag || e.Kind == book.AddExposures || e.Kind == book.Retag) && !w.All {
			console.Fprintf(out, "    from %s\n", handles(e.Support))
		} else if err := w.printSupport(ctx, out, r, e.Support); err != nil {
			return err
		}
	}
	_, err = io.WriteString(console.Stdout, out.String())
	return err
}

// summary describes the author and the evidence of a bullet.
func summary(l *history.Lineage) string {
	n := 0
	var outcomes []string
	for _, label := range []events.Label{events.Success, events.Partial, events.Failure, events.Unknown} {
		if k := l.Outcomes[string(label)]; k > 0 {
			n += k
			outcomes = append(outcomes, fmt.Sprintf("%d %s", k, label))
		}
	}
	text := fmt.Sprintf("Added by %s. ", l.Author)
	switch {
	case n > 0:
		text += fmt.Sprintf("Evidence: %s (%s).", cli.Plural(n, "execution"), strings.Join(outcomes, ", "))
	default:
		text += "Evidence: no executions."
	}
	if l.Forgotten > 0 {
		text += fmt.Sprintf(" %d were forgotten.", l.Forgotten)
	}
	if len(l.Merged) > 0 {
		text += fmt.Sprintf(" %s merged into it.", strings.Join(l.Merged, ", "))
	}
	return text
}

// firstFew is the number of executions listed for a change without --all.
const firstFew = 3

// handles lists the handles of the executions behind a vote in one line.
func handles(covers []book.Cover) string {
	var all []string
	for i, c := range covers {
		if i == firstFew {
			all = append(all, fmt.Sprintf("and %d more", len(covers)-i))
			break
		}
		if c.Evidence != nil {
			all = append(all, c.Evidence.Execution)
		}
	}
	return strings.Join(all, ", ")
}

// printSupport lists the executions behind a change.
func (w *whyBook) printSupport(ctx context.Context, out io.Writer, r *evidence, covers []book.Cover) error {
	covers = slices.DeleteFunc(slices.Clone(covers), func(c book.Cover) bool { return c.Evidence == nil })
	for i, c := range covers {
		if i == firstFew && !w.All {
			console.Fprintf(out, "    and %d more\n", len(covers)-i)
			break
		}
		ev := c.Evidence
		e, err := r.execution(ctx, ev.Execution)
		if err != nil {
			return err
		}
		ref, err := r.reflection(ctx, c)
		if err != nil {
			return err
		}
		console.Fprintf(out, "    %s  %s  %q\n        reflected on by %s%s\n", ev.Execution, outcome(ev.Outcome, ev.Score), ev.Excerpt,
			by(ev.Reflector, ev.Model), expired(ref == nil, "the reflection"))
		if e == nil {
			console.Fprintf(out, "        %s\n", strings.TrimSpace(origin(ev.Session, ev.Source)+expired(true, "the execution")))
			continue
		}
		console.Fprintf(out, "        task %s%s%s, playbook version %d, %d bullets shown, %d cited\n",
			e.TaskID, origin(e.Session, e.Origin.Source), model(e), e.Version, len(e.Shown), len(e.Cited))
	}
	return nil
}

// outcome formats a label with its score.
func outcome(label string, score float64) string {
	if label == "" || label == string(events.Unknown) {
		return "outcome unknown"
	}
	return fmt.Sprintf("%s %.2f", label, score)
}

// by formats a reflector with its model, if any.
func by(reflector, model string) string {
	if model == "" {
		return reflector
	}
	return fmt.Sprintf("%s, model %s", reflector, model)
}

// expired returns a note if something has expired, else "".
func expired(gone bool, object string) string {
	if gone {
		return fmt.Sprintf(" (%s itself has expired)", object)
	}
	return ""
}

// origin formats the session and the source of an execution, if any.
func origin(session, source string) string {
	text := ""
	if session != "" {
		text += ", session " + session
	}
	if source != "" {
		text += ", source " + source
	}
	return text
}

// model formats the model and the prompt of an execution, "" if it has no model.
func model(e *events.Execution) string {
	if e.Model == "" {
		return ""
	}
	return fmt.Sprintf(", model %s, prompt %s", e.Model, hex.EncodeToString(e.PromptSHA256[:min(4, len(e.PromptSHA256))]))
}
