package explain

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// Scanner reads stored events in order.
type Scanner interface {
	Scan(ctx context.Context, stream, subject string, seq uint64, fn func(bus.Stored) error) error
}

// BulletOutcomes compares the success rates of the runs with a bullet in the prompt and without it. It leaves out the runs before the first
// one with the bullet.
type BulletOutcomes struct {
	Bullet  book.BulletID   `json:"bullet_id"`
	With    report.Estimate `json:"with"`
	Without report.Estimate `json:"without"`
}

// Outcomes are the stored runs of a playbook with a known outcome.
type Outcomes struct {
	Runs    int              `json:"runs"`
	Bullets []BulletOutcomes `json:"bullets"` // the most shown ones first
	Windows []WindowOutcomes `json:"windows"` // of the runs in sessions, without their first turns
}

// rate counts runs and those with the label success.
type rate struct{ runs, right int }

func (r *rate) add(success bool) {
	r.runs++
	if success {
		r.right++
	}
}

// shownRuns counts the runs with a bullet, and all runs before the first of them.
type shownRuns struct{ with, before rate }

// ReadOutcomes reads the stored executions of a playbook with their feedback. A copy of an execution counts once.
func ReadOutcomes(ctx context.Context, s Scanner, b book.Book) (*Outcomes, error) {
	feedback := map[uint64][]*events.Feedback{}
	err := s.Scan(ctx, events.StreamExecutions, events.KindFeedback.Subject(b), 0, func(st bus.Stored) error {
		if f, ok := st.Event.(*events.Feedback); ok {
			if seq, _, err := f.Execution.Parse(); err == nil {
				feedback[seq] = append(feedback[seq], f)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all rate
	var windows windowRuns
	bullets, seen := map[book.BulletID]*shownRuns{}, map[events.ID]bool{}
	err = s.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject(b), 0, func(st bus.Stored) error {
		e, ok := st.Event.(*events.Execution)
		if !ok {
			return nil
		}
		if seen[e.ID] { // a copy
			return nil
		}
		seen[e.ID] = true
		for _, f := range feedback[st.Seq] {
			e.Outcome = e.Outcome.WithFeedback(f)
		}
		if e.Outcome.Known() {
			countShown(bullets, &all, e)
			windows.add(e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := newOutcomes(bullets, all)
	out.Windows = windows.outcomes()
	return out, nil
}

// countShown adds an execution with a known outcome to all, and to each bullet in its prompt.
func countShown(bullets map[book.BulletID]*shownRuns, all *rate, e *events.Execution) {
	success, before := e.Outcome.Label == events.Success, *all
	all.add(success)
	counted := map[book.BulletID]bool{} // an agent may report a bullet twice
	for _, shown := range e.Shown {
		if counted[shown.ID] {
			continue
		}
		counted[shown.ID] = true
		if bullets[shown.ID] == nil {
			bullets[shown.ID] = &shownRuns{before: before}
		}
		bullets[shown.ID].with.add(success)
	}
}

func newOutcomes(bullets map[book.BulletID]*shownRuns, all rate) *Outcomes {
	out := &Outcomes{Runs: all.runs, Bullets: []BulletOutcomes{}}
	for id, n := range bullets {
		out.Bullets = append(out.Bullets, BulletOutcomes{
			Bullet: id, With: report.Share(n.with.right, n.with.runs),
			Without: report.Share(all.right-n.before.right-n.with.right, all.runs-n.before.runs-n.with.runs),
		})
	}
	slices.SortFunc(out.Bullets, func(a, b BulletOutcomes) int {
		return cmp.Or(cmp.Compare(b.With.N, a.With.N), cmp.Compare(a.Bullet, b.Bullet))
	})
	return out
}

// Of removes the bullets that a playbook does not have. It returns o.
func (o *Outcomes) Of(p *book.Playbook) *Outcomes {
	o.Bullets = slices.DeleteFunc(o.Bullets, func(b BulletOutcomes) bool { return p.Bullet(b.Bullet) == nil })
	return o
}

// maxOutcomes is the number of bullets that Write lists.
const maxOutcomes = 20

// Write prints the comparison as a table with its limits.
func (o *Outcomes) Write(w io.Writer) error {
	if err := writeWindows(w, o.Windows); err != nil {
		return err
	}
	if len(o.Bullets) == 0 {
		term.Fprintf(w, "Outcomes with and without a bullet: no stored run with a known outcome showed one.\n")
		return nil
	}
	writeText(w, fmt.Sprintf("Success with a bullet in the prompt and without it, with the 95 %% interval, in %s with a known outcome:", term.Plural(o.Runs, "stored run")))
	t := term.NewTable(w)
	term.Fprintf(t, "bullet\twith\twithout\n")
	for _, b := range o.Bullets[:min(len(o.Bullets), maxOutcomes)] {
		term.Fprintf(t, "%s\t%s\t%s\n", b.Bullet, describeRate(b.With), describeRate(b.Without))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(o.Bullets) - maxOutcomes; more > 0 {
		term.Fprintf(w, "%s less often shown: --json lists all.\n", term.Plural(more, "bullet"))
	}
	writeText(w, notRandom)
	return nil
}

// writeText prints a sentence in lines that fit the terminal.
func writeText(w io.Writer, text string) {
	for _, line := range term.Wrap(text, cmp.Or(term.Width(w), 120)) {
		term.Fprintf(w, "%s\n", line)
	}
}

// notRandom explains what the comparison does not prove.
const notRandom = "Runs are not assigned at random: a bullet is shown where it fits the task, and the playbook changes with time. " +
	"So a difference does not prove an effect. The experiments of the gate assign at random."

// describeRate formats a success rate with its interval and its number of runs.
func describeRate(e report.Estimate) string {
	if e.N == 0 {
		return "no run"
	}
	return fmt.Sprintf("%.0f %% (%.0f to %.0f) of %d", 100*e.Mean, 100*e.Low, 100*e.High, e.N)
}
