// Package explain computes and formats the views that people read: the difference of two versions, the lineage of a bullet, the effects of
// an execution, the list of changes, the events of a stream and the losses of an export. Commands print its results.
//
// It also finds the versions of playbooks as people name them: by number, label, time or name. The errors about a version have the exit
// codes of commands: program.ExitUsage for an invalid version, program.ExitRefused for an unknown one and for a broken log.
package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// FullText formats all parts of a bullet that a person compares.
func FullText(b *playbook.Bullet) string {
	return fmt.Sprintf("%s [%s]%s %s\n%s", b.ID, b.Section, Traits(b), votes(b), b.Content)
}

// Traits returns the status and the pin of a bullet, each after a space. It returns "" for an active one without a pin.
func Traits(b *playbook.Bullet) string {
	text := ""
	if !b.Shown() {
		text += " " + string(b.Status)
	}
	if b.Pinned {
		text += " pinned"
	}
	return text
}

// votes formats the votes of a bullet.
func votes(b *playbook.Bullet) string {
	return fmt.Sprintf("helpful %d, harmful %d, neutral %d", b.Helpful, b.Harmful, b.Neutral)
}

// Status returns the status of a bullet; shown ones are active.
func Status(b *playbook.Bullet) playbook.Status {
	if b.Shown() {
		return playbook.Active
	}
	return b.Status
}

// Marked returns text with mark before every line, and a line break at the end.
func Marked(mark, text string) string {
	return mark + strings.ReplaceAll(text, "\n", "\n"+mark) + "\n"
}

// Bullet explains a bullet: the changes of its text and its votes, with their evidence.
type Bullet struct {
	Book   playbook.Book     `json:"book"`
	Labels map[uint64]string `json:"labels"` // labels of the versions of the events, by number
	*history.Lineage
	Executions map[string]*events.Execution `json:"executions"` // by handle; null if expired
	Expired    []string                     `json:"expired_reflections,omitempty"`
	// Compared has the runs that the Reflector compared these executions with, by the id of the reflection.
	Compared map[string]*events.OtherRun `json:"compared,omitempty"`
}

// BulletOf returns the explanation of a bullet, without executions. log is the log of the playbook, or the part that concerns the bullet. The
// error is history.ErrBulletNotFound for an unknown bullet.
func BulletOf(name playbook.Book, log deltalog.Log, id playbook.BulletID) (*Bullet, error) {
	labelledLog, labels := withLabels(log)
	l, err := history.LineageOf(labelledLog, id)
	if err != nil {
		return nil, LogError(err)
	}
	return &Bullet{Book: name, Labels: labelsOf(l.Events, labels), Lineage: l}, nil
}

// LimitVotes leaves out the events that only change votes or outcomes, except the newest limit of them. It returns the number of those left out.
func (x *Bullet) LimitVotes(limit int) (omitted int) {
	kept := []history.Event{}
	labels := map[uint64]string{}
	for _, e := range slices.Backward(x.Events) {
		if e.Kind.Counts() {
			if limit == 0 {
				omitted++
				continue
			}
			limit--
		}
		kept = append(kept, e)
		labels[e.Version] = x.Labels[e.Version]
	}
	slices.Reverse(kept)
	x.Events, x.Labels = kept, labels
	return omitted
}

// Extent selects the executions of a bullet that are listed.
type Extent string

// The extents.
const (
	FirstExecutions Extent = "first" // the first few of each event that changes more than votes
	AllExecutions   Extent = "all"   // those of every event
)

// Load reads the executions that support the events and that Text describes with the same extent, and records the reflections on them that have
// expired. It skips handles of other systems, which come with an imported log.
func (x *Bullet) Load(ctx context.Context, ev Evidence, extent Extent) error {
	x.Executions, x.Compared = map[string]*events.Execution{}, map[string]*events.OtherRun{}
	for _, e := range x.Events {
		for _, c := range describedSupport(&e, extent) {
			if err := x.load(ctx, ev, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// describedSupport returns the support of an event whose executions Text describes.
func describedSupport(e *history.Event, extent Extent) []playbook.Cover {
	covers := withEvidence(e.Support)
	switch {
	case extent == AllExecutions:
		return covers
	case e.Kind.Counts():
		return nil
	}
	return covers[:min(firstFew, len(covers))]
}

// load reads the execution behind a cover, which is the reference of a delta to a reflection or an edit. It records the reflection if that
// has expired.
func (x *Bullet) load(ctx context.Context, ev Evidence, c playbook.Cover) error {
	handle := c.Evidence.Execution
	if _, _, err := events.Handle(handle).Parse(); err != nil {
		return nil //nolint:nilerr // of another system
	}
	found, err := ev.Execution(ctx, handle)
	if err != nil {
		return err
	}
	x.Executions[handle] = found
	ref, err := ev.Reflection(ctx, c)
	switch {
	case err != nil:
		return err
	case ref == nil:
		x.Expired = append(x.Expired, c.ID)
	case ref.OtherRun != nil:
		x.Compared[c.ID] = ref.OtherRun
	}
	return nil
}

// Text formats the explanation. Load must have read the executions of the extent.
func (x *Bullet) Text(extent Extent) string {
	out := new(strings.Builder)
	if now := x.Current; now != nil {
		term.Fprintf(out, "%s [%s]%s %s\n%s", x.Bullet, now.Section, Traits(now), votes(now), term.Block(Marked("  ", now.Content)))
	} else {
		term.Fprintf(out, "%s is not in the playbook any more: %s in %s.\n", x.Bullet, strings.ToLower(string(x.RemovedBy.Kind)), x.Labels[x.RemovedBy.Version])
	}
	term.Fprintf(out, "\n%s\n", summary(x.Lineage))
	for _, e := range history.MergeExposures(x.Events) {
		term.Fprintf(out, "\n%s  %s  %s\n", x.Labels[e.Version], e.Time.Local().Format(time.DateTime), DescribeEvent(&e, x.Bullet))
		switch {
		case extent == AllExecutions:
			x.writeSupport(out, e.Support, len(e.Support))
		case e.Kind.Counts():
			term.Fprintf(out, "    from %s\n", handles(e.Support))
		default:
			x.writeSupport(out, e.Support, firstFew)
		}
	}
	return out.String()
}

// summary describes the author and the evidence of a bullet.
func summary(l *history.Lineage) string {
	n := 0
	var outcomes []string
	for _, label := range []events.Label{events.Success, events.Partial, events.Failure, events.Unknown} {
		if k := l.LearnedFrom[string(label)]; k > 0 {
			n += k
			outcomes = append(outcomes, fmt.Sprintf("%d %s", k, label))
		}
	}
	from := "no execution"
	if n > 0 {
		from = fmt.Sprintf("%s (%s)", term.Plural(n, "execution"), strings.Join(outcomes, ", "))
	}
	text := fmt.Sprintf("Added by %s. Learned from %s.", l.Author, from)
	if l.Helped+l.Harmed+l.NoEffect > 0 {
		text += fmt.Sprintf(" Helped in %d, harmed in %d, no effect in %d.", l.Helped, l.Harmed, l.NoEffect)
	}
	if l.Forgotten > 0 {
		text += fmt.Sprintf(" %d were forgotten.", l.Forgotten)
	}
	if len(l.Merged) > 0 {
		text += fmt.Sprintf(" %s merged into it.", strings.Join(l.Merged, ", "))
	}
	return text
}

// firstFew is the number of executions listed for a change unless all are wanted.
const firstFew = 3

// handles lists the handles of the executions behind a vote in one line.
func handles(covers []playbook.Cover) string {
	covers = withEvidence(covers)
	var all []string
	for i, c := range covers {
		if i == firstFew {
			all = append(all, fmt.Sprintf("and %d more", len(covers)-i))
			break
		}
		all = append(all, c.Evidence.Execution)
	}
	return strings.Join(all, ", ")
}

// withEvidence returns the covers that have evidence.
func withEvidence(covers []playbook.Cover) []playbook.Cover {
	return slices.DeleteFunc(slices.Clone(covers), func(c playbook.Cover) bool { return c.Evidence == nil })
}

// writeSupport lists the first executions behind a change, at most limit.
func (x *Bullet) writeSupport(out io.Writer, covers []playbook.Cover, limit int) {
	covers = withEvidence(covers)
	for i, c := range covers {
		if i == limit {
			term.Fprintf(out, "    and %d more\n", len(covers)-i)
			break
		}
		x.writeCover(out, c)
	}
}

// writeCover describes one execution behind a change: the digest from the log, and the stored execution if it has not expired.
func (x *Bullet) writeCover(out io.Writer, c playbook.Cover) {
	digest := c.Evidence
	term.Fprintf(out, "    %s  %s  %q\n", digest.Execution, NamedOutcome(digest.Outcome, digest.Score), digest.Excerpt)
	if digest.Reflector != "" { // the evidence of an edit has none
		note := ""
		if slices.Contains(x.Expired, c.ID) {
			note = expiredText("the reflection")
		}
		term.Fprintf(out, "        reflected on by %s%s\n", reflectorText(digest.Reflector, digest.Model), note)
	}
	e := x.Executions[digest.Execution]
	WriteOtherTry(out, "        ", e)
	WriteOtherRun(out, "        ", x.Compared[c.ID])
	if e == nil {
		term.Fprintf(out, "        %s\n", strings.TrimSpace(originText(digest.Session, digest.Source)+expiredText("the execution")))
		return
	}
	term.Fprintf(out, "        run %s%s%s, playbook version %d, %d bullets shown, %d cited\n",
		e.RunID, originText(e.Session, e.Origin.Source), modelText(e), e.Version, len(e.Shown), len(e.Cited))
}
