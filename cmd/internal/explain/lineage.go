package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/console"
	"debrief/cmd/internal/versions"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// Bullet explains a bullet: the changes of its text and its votes, with their evidence.
type Bullet struct {
	Book   book.Book         `json:"book"`
	Labels map[uint64]string `json:"labels"` // of the versions of the events
	*history.Lineage
	Executions map[string]*events.Execution `json:"executions"` // null if expired
}

// BulletOf returns the explanation of a bullet, without executions, from the log of its playbook or the part of it that concerns the
// bullet. The error is history.ErrBulletNotFound for an unknown bullet.
func BulletOf(name book.Book, log deltalog.Log, id book.BulletID) (*Bullet, error) {
	read, labels := labelled(log)
	l, err := history.LineageOf(read, id)
	if err != nil {
		return nil, versions.LogError(err)
	}
	return &Bullet{Book: name, Labels: labelsOf(l.Events, labels), Lineage: l}, nil
}

// LoadExecutions sets Executions to all executions that support the events. It skips handles of other systems, which come
// with an imported log.
func (x *Bullet) LoadExecutions(ctx context.Context, ev Evidence) error {
	x.Executions = map[string]*events.Execution{}
	for _, e := range x.Events {
		for _, c := range withEvidence(e.Support) {
			handle := c.Evidence.Execution
			if _, _, err := events.Handle(handle).Parse(); err != nil {
				continue
			}
			found, err := ev.Execution(ctx, handle)
			if err != nil {
				return err
			}
			x.Executions[handle] = found
		}
	}
	return nil
}

// Text formats the explanation. For each change it lists the first three executions, or all of them.
func (x *Bullet) Text(ctx context.Context, ev Evidence, all bool) (string, error) {
	out := new(strings.Builder)
	if now := x.Current; now != nil {
		console.Fprintf(out, "%s [%s]%s %s\n%s", x.Bullet, now.Section, Traits(now), votes(now), console.Block(Marked("  ", now.Content)))
	} else {
		console.Fprintf(out, "%s is not in the playbook any more: %s in %s.\n", x.Bullet, strings.ToLower(string(x.RemovedBy.Kind)), x.Labels[x.RemovedBy.Version])
	}
	console.Fprintf(out, "\n%s\n", summary(x.Lineage))
	for _, e := range history.MergeExposures(x.Events) {
		console.Fprintf(out, "\n%s  %s  %s\n", x.Labels[e.Version], e.Time.Local().Format(time.DateTime), DescribeEvent(&e, x.Bullet))
		if isCount(e.Kind) && !all {
			console.Fprintf(out, "    from %s\n", handles(e.Support))
		} else if err := writeSupport(ctx, out, ev, e.Support, all); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// isCount reports whether events of a kind change only votes or outcomes.
func isCount(kind book.OpKind) bool {
	return kind == book.Tag || kind == book.AddExposures || kind == book.Retag
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
		text += fmt.Sprintf("Evidence: %s (%s).", console.Plural(n, "execution"), strings.Join(outcomes, ", "))
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

// firstFew is the number of executions listed for a change unless all are wanted.
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

// withEvidence returns the covers that have evidence.
func withEvidence(covers []book.Cover) []book.Cover {
	return slices.DeleteFunc(slices.Clone(covers), func(c book.Cover) bool { return c.Evidence == nil })
}

// writeSupport lists the executions behind a change.
func writeSupport(ctx context.Context, out io.Writer, ev Evidence, covers []book.Cover, all bool) error {
	covers = withEvidence(covers)
	for i, c := range covers {
		if i == firstFew && !all {
			console.Fprintf(out, "    and %d more\n", len(covers)-i)
			break
		}
		if err := writeCover(ctx, out, ev, c); err != nil {
			return err
		}
	}
	return nil
}

// writeCover describes one execution behind a change: the digest from the log, and the stored execution if it has not expired.
func writeCover(ctx context.Context, out io.Writer, ev Evidence, c book.Cover) error {
	digest := c.Evidence
	e, err := ev.Execution(ctx, digest.Execution)
	if err != nil {
		return err
	}
	ref, err := ev.Reflection(ctx, c)
	if err != nil {
		return err
	}
	console.Fprintf(out, "    %s  %s  %q\n", digest.Execution, Outcome(digest.Outcome, digest.Score), digest.Excerpt)
	if digest.Reflector != "" { // the evidence of an edit has none
		console.Fprintf(out, "        reflected on by %s%s\n", by(digest.Reflector, digest.Model), expired(ref == nil, "the reflection"))
	}
	if e == nil {
		console.Fprintf(out, "        %s\n", strings.TrimSpace(origin(digest.Session, digest.Source)+expired(true, "the execution")))
		return nil
	}
	console.Fprintf(out, "        run %s%s%s, playbook version %d, %d bullets shown, %d cited\n",
		e.RunID, origin(e.Session, e.Origin.Source), model(e), e.Version, len(e.Shown), len(e.Cited))
	return nil
}
