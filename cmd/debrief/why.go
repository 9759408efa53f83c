package main

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
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/history"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

type whyBook struct {
	onBook
	What string `arg:"" help:"Id of a bullet, or handle of an execution such as 412-ab12cd34." placeholder:"BULLET|EXECUTION"`
	All  bool   `help:"Every execution behind every change and vote, not only the first three."`
	JSON bool   `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*whyBook) Help() string {
	return `Of a bullet: every change that made, reworded and counted it, with the reflections and executions behind each, what
came of those, and the models and prompts that took part. Of an execution: what it was shown, what it cited, how it went
and what was learned from it. Executions and reflections expire; the log keeps a digest of each for ever, and what has
expired is said.

Examples:

  debrief playbook why shr-00012
  debrief playbook why 412-ab12cd34 --json`
}

var executionHandle = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Run implements the command.
func (w *whyBook) Run(ctx context.Context, c *app.Common) error {
	if executionHandle.MatchString(w.What) { // no bullet of ours is called that
		b, err := w.openBook(ctx, c)
		if err != nil {
			return err
		}
		defer b.Close()
		return w.execution(ctx, b, events.Handle(w.What))
	}
	b, err := w.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	l, err := history.Of(b.store.History(ctx, b.name), bulletArg(w.What).id())
	if errors.Is(err, history.ErrNoBullet) {
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q: %w", b.name, err))
	} else if err != nil {
		return broken(err)
	}
	return w.bullet(ctx, b, l)
}

// records finds what stands behind the digests of a log, as far as it is still stored.
type records struct {
	*openBook
	found map[string]*events.Execution // by handle; nil for what is not stored
}

func (r *records) execution(ctx context.Context, handle string) (*events.Execution, error) {
	if e, ok := r.found[handle]; ok {
		return e, nil
	}
	seq, is, err := events.Handle(handle).Parse()
	if err != nil {
		return nil, nil // it came with a foreign log
	}
	found, err := r.Find(ctx, events.StreamExecutions, seq, is)
	if err != nil && !errors.Is(err, bus.ErrGone) {
		return nil, err
	}
	e, _ := found.(*events.Execution)
	r.found[handle] = e
	return e, nil
}

// reflection is the reflection that a log covers, nil if it is not stored any more.
func (r *records) reflection(ctx context.Context, c book.Cover) (*events.Reflection, error) {
	found, err := r.Find(ctx, events.StreamReflections, c.Seq, func(events.ID) bool { return true })
	if err != nil && !errors.Is(err, bus.ErrGone) {
		return nil, err
	}
	if ref, ok := found.(*events.Reflection); ok && ref.Cover(c.Seq).ID == c.ID {
		return ref, nil
	}
	return nil, nil
}

// labels are those of some versions.
func (b *openBook) labels(ctx context.Context, all []history.Event) (map[uint64]string, error) {
	labels := map[uint64]string{}
	for _, e := range all {
		labels[e.Version] = ""
	}
	err := b.store.Log(ctx, b.name, func(r *natskv.Record) error {
		if _, ok := labels[r.Version]; ok {
			labels[r.Version] = book.Label(r.Version, r.Chain)
		}
		return nil
	})
	return labels, broken(err)
}

// explained is the output of --json for a bullet.
type explained struct {
	Book   book.Book         `json:"book"`
	Labels map[uint64]string `json:"labels"`
	*history.Lineage
	Executions map[string]*events.Execution `json:"executions"` // null for what has expired
}

func (w *whyBook) bullet(ctx context.Context, b *openBook, l *history.Lineage) error {
	labels, err := b.labels(ctx, l.Events)
	if err != nil {
		return err
	}
	r := &records{b, map[string]*events.Execution{}}
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
		return writeJSON(console.Stdout, explained{b.name, labels, l, r.found})
	}
	out := new(strings.Builder)
	if l.Is != nil {
		console.Fprintf(out, "%s [%s]%s %s\n%s", l.Bullet, l.Is.Section, traits(l.Is), votes(l.Is), console.Block(marked("  ", l.Is.Content)))
	} else {
		console.Fprintf(out, "%s is not in the playbook any more: %s in %s.\n", l.Bullet, strings.ToLower(string(l.Ended.Kind)), labels[l.Ended.Version])
	}
	console.Fprintf(out, "\n%s\n", summary(l))
	for _, e := range gathered(l.Events) {
		console.Fprintf(out, "\n%s  %s  %s\n", labels[e.Version], e.Time.Local().Format(time.DateTime), happened(&e, l.Bullet))
		if (e.Kind == book.Tag || e.Kind == book.Trial || e.Kind == book.Retag) && !w.All {
			console.Fprintf(out, "    from %s\n", handles(e.Support))
		} else if err := w.support(ctx, out, r, e.Support); err != nil {
			return err
		}
	}
	_, err = io.WriteString(console.Stdout, out.String())
	return err
}

// summary says in a sentence what stands behind a bullet.
func summary(l *history.Lineage) string {
	n := 0
	var outcomes []string
	for _, label := range []events.Label{events.Success, events.Partial, events.Failure, events.Unknown} {
		if k := l.Outcomes[string(label)]; k > 0 {
			n += k
			outcomes = append(outcomes, fmt.Sprintf("%d %s", k, label))
		}
	}
	text := fmt.Sprintf("Made by %s. ", l.Author)
	switch {
	case n > 0:
		text += fmt.Sprintf("%s behind it: %s.", plural(n, "execution"), strings.Join(outcomes, ", "))
	default:
		text += "No execution behind it."
	}
	if l.Forgotten > 0 {
		text += fmt.Sprintf(" %d were forgotten.", l.Forgotten)
	}
	if len(l.Merged) > 0 {
		text += fmt.Sprintf(" %s went into it.", strings.Join(l.Merged, ", "))
	}
	return text
}

// happened says in a line what an event did to a bullet.
func happened(e *history.Event, bullet book.BulletID) string {
	op := &e.Op
	var text string
	switch e.Kind {
	case book.Add:
		text = fmt.Sprintf("added: %q", inLine(op.Content, 100))
	case book.Update:
		text = fmt.Sprintf("reworded: %q", inLine(op.Content, 100))
	case book.Tag:
		for _, v := range []struct {
			n    int
			name string
		}{{op.Helpful, "helpful"}, {op.Harmful, "harmful"}, {op.Neutral, "neutral"}} {
			if v.n > 0 {
				text += fmt.Sprintf("%s +%d ", v.name, v.n)
			}
		}
		text = strings.TrimSpace(text)
	case book.Retag:
		if text = fmt.Sprint(move{Was: op.Was, Is: castBy(op)}); len(op.Support) > 1 {
			text = fmt.Sprintf("%d times %s", len(op.Support), text)
		}
	case book.Trial:
		text = tried(op.Seen)
	case book.Second:
		text = fmt.Sprintf("asked for again by %s", plural(len(op.Support), "execution"))
	case book.Merge:
		text = fmt.Sprintf("merged with %s: %q", joined(op.Sources), inLine(op.Content, 100))
	case book.SetStatus:
		text = fmt.Sprintf("now %s", op.Status)
	case book.Pin:
		text = map[bool]string{true: "pinned", false: "unpinned"}[op.Pinned]
	case book.Put:
		text = fmt.Sprintf("put: %q", inLine(op.Whole.Content, 100))
	case history.Again:
		text = fmt.Sprintf("said again: %q", inLine(op.Content, 100))
	case history.TurnedDown:
		text = fmt.Sprintf("%s turned down: %q", strings.ToLower(string(op.Kind)), inLine(op.Content, 100))
	default:
		text = strings.ToLower(string(e.Kind)) + "d"
	}
	if e.Bullet != bullet && e.Bullet != "" {
		text = fmt.Sprintf("%s %s", e.Bullet, text)
	}
	text += " by " + e.Author
	if e.Model != "" && e.Kind != book.Tag && e.Kind != book.Trial {
		text += fmt.Sprintf(" (model %s, prompt %s)", e.Model, e.Prompt)
	}
	if e.Restores != nil {
		text += fmt.Sprintf(", restoring version %d", *e.Restores)
	}
	if e.Forgets != nil {
		text += fmt.Sprintf(", forgetting %s", e.Forgets)
	}
	if e.Reason != "" {
		text += fmt.Sprintf(": %s", inLine(e.Reason, 120))
	}
	return text
}

// gathered are events with the outcomes of tasks that come one after the other as one: a bullet on trial has thousands.
func gathered(all []history.Event) (some []history.Event) {
	for _, e := range all {
		if n := len(some) - 1; n >= 0 && e.Kind == book.Trial && some[n].Kind == book.Trial &&
			some[n].Bullet == e.Bullet && some[n].Op.Case == e.Op.Case {
			last := &some[n] // the version is that of the first
			last.Op.Seen = slices.Concat(last.Op.Seen, e.Op.Seen)
			last.Support = slices.Concat(last.Support, e.Support)
			continue
		}
		some = append(some, e)
	}
	return some
}

// tried says what came of tasks that a bullet bears on.
func tried(seen []book.Seen) string {
	var scores [3]book.Scores
	undone := 0
	for _, s := range seen {
		arm := &scores[max(0, slices.Index([]book.Arm{book.ArmShown, book.ArmWithheld, book.ArmOpen}, s.Arm))]
		if s.Undo {
			undone++
			arm[s.Score]--
		} else {
			arm[s.Score]++
		}
	}
	var text []string
	for i, name := range []string{"shown", "withheld", "open"} {
		if n := scores[i].N(); n > 0 {
			text = append(text, fmt.Sprintf("%s %d with a mean score of %.2f", name, n, scores[i].Mean()))
		}
	}
	if undone > 0 {
		text = append(text, plural(undone, "outcome")+" corrected")
	}
	return "outcomes: " + strings.Join(text, ", ")
}

// firstFew is how many executions are named behind a change.
const firstFew = 3

// handles names the executions behind a vote, in a line.
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

// support lists the executions behind a change.
func (w *whyBook) support(ctx context.Context, out io.Writer, r *records, covers []book.Cover) error {
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

func outcome(label string, score float64) string {
	if label == "" || label == string(events.Unknown) {
		return "outcome unknown"
	}
	return fmt.Sprintf("%s %.2f", label, score)
}

func by(reflector, model string) string {
	if model == "" {
		return reflector
	}
	return fmt.Sprintf("%s, model %s", reflector, model)
}

func expired(gone bool, what string) string {
	if gone {
		return fmt.Sprintf(" (%s itself has expired)", what)
	}
	return ""
}

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

func model(e *events.Execution) string {
	if e.Model == "" {
		return ""
	}
	return fmt.Sprintf(", model %s, prompt %s", e.Model, hex.EncodeToString(e.PromptSHA256[:min(4, len(e.PromptSHA256))]))
}
