package explain

import (
	"fmt"
	"io"

	"debrief/cmd/internal/program/term"
	"debrief/curator/draft"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/text"
)

// Health is the health of a playbook, now and on the days before.
type Health struct {
	Book playbook.Book       `json:"book"`
	Now  history.HealthDay   `json:"now"`
	Days []history.HealthDay `json:"days" doc:"Health at the end of each day with a change, oldest first. The last one is now."`
}

// Limits of the output of WriteSubjects.
const (
	maxSubjects    = 20
	maxOfSubject   = 10  // bullets
	maxSubjectText = 240 // bytes of a bullet
)

// WriteSubjects prints groups of bullets on one subject, with the next step.
func WriteSubjects(w io.Writer, subjects [][]draft.SubjectBullet) {
	if len(subjects) == 0 {
		return
	}
	writeText(w, "Bullets on one subject: merge those that say the same, with 'debrief playbook refine --model MODEL' or 'debrief playbook merge', and remove the wrong one of two that contradict each other.")
	for i, bullets := range subjects[:min(len(subjects), maxSubjects)] {
		for _, b := range bullets[:min(len(bullets), maxOfSubject)] {
			writeText(w, fmt.Sprintf("  %d. %s (%s): %s", i+1, b.ID, b.State, text.Line(b.Content, maxSubjectText)))
		}
		if more := len(bullets) - maxOfSubject; more > 0 {
			writeText(w, fmt.Sprintf("  %d. %s: add --json.", i+1, term.Plural(more, "more bullet")))
		}
	}
	if more := len(subjects) - maxSubjects; more > 0 {
		writeText(w, fmt.Sprintf("%s: add --json.", term.Plural(more, "more subject")))
	}
}

// HealthFigure is one number of the health of a playbook, as people read it.
type HealthFigure struct{ Name, Value, Note string }

// HealthFigures returns the numbers of the health of a playbook.
func HealthFigures(h *history.Health) []HealthFigure {
	contribution, measured := "-", "no bullet has outcomes with and without it"
	if c := h.Contribution; c != nil {
		contribution = fmt.Sprintf("%+.0f points (%+.0f to %+.0f)", 100*c.Estimate, 100*c.Low, 100*c.High)
		measured = fmt.Sprintf("of %s, %d outcomes with and %d without; 95 %% interval", term.Plural(c.Bullets, "bullet"), c.Shown, c.Withheld)
	}
	confirmed, ages := "-", "no active bullet"
	if h.Active > 0 {
		confirmed = fmt.Sprintf("%.0f days ago", h.MedianDays)
		ages = fmt.Sprintf("the median; the oldest %.0f days ago, %d more than 30", h.OldestDays, h.Stale)
	}
	return []HealthFigure{
		{Name: "ever cited", Value: shareOf(h.Cited, h.Active), Note: fmt.Sprintf("%d of %s", h.Cited, term.Plural(h.Active, "active bullet"))},
		{Name: "contribution", Value: contribution, Note: measured},
		{Name: "no effect", Value: shareOf(h.NoEffect, h.Injections), Note: fmt.Sprintf("%d of %s with a vote", h.NoEffect, term.Plural(h.Injections, "injection"))},
		{Name: "contradictions", Value: fmt.Sprint(len(h.Contradictions)), Note: "bullets that contradict an active one"},
		{Name: "last confirmed", Value: confirmed, Note: ages},
	}
}

func shareOf(part, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(of))
}

// Write prints the numbers of today and the alarms.
func (h *Health) Write(w io.Writer) error {
	t := term.NewTable(w)
	term.Fprintf(t, "health now\t\t\n")
	for _, f := range HealthFigures(&h.Now.Health) {
		term.Fprintf(t, "  %s\t%s\t%s\n", f.Name, f.Value, f.Note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, a := range h.Now.Alarms {
		writeText(w, fmt.Sprintf("Alarm %s: %s.", a.Code, a.Text))
	}
	term.Fprintf(w, "\n")
	return nil
}
