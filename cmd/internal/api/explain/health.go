package explain

import (
	"fmt"
	"io"

	"debrief/cmd/internal/program/term"
	"debrief/curator/draft"
	"debrief/playbook/history"
	"debrief/playbook/text"

	book "debrief/playbook"
)

// Health is the health of a playbook, now and on the days before.
type Health struct {
	Book book.Book           `json:"book"`
	Now  history.HealthDay   `json:"now"`
	Days []history.HealthDay `json:"days" doc:"Health at the end of each day with a change, oldest first. The last one is now."`
	// SameSubject has the bullets of now, without retired ones.
	SameSubject []draft.Subject `json:"same_subject" doc:"Bullets that are perhaps one rule in other words, or that contradict each other. Merge them with refine, or retire or reject one of them."`
}

// Limits of the output of WriteSubjects.
const (
	maxSubjects    = 20
	maxSubjectText = 240 // bytes of a bullet
)

// NextStep says what a person can do about bullets on one subject.
func NextStep(s *draft.Subject) string {
	if s.Contradiction != "" {
		return "Read both, and remove or edit the wrong one."
	}
	return "Merge them if they say the same: 'debrief playbook refine --model MODEL' or 'debrief playbook merge'."
}

// WriteSubjects prints the bullets on one subject, each subject with its next step.
func WriteSubjects(w io.Writer, subjects []draft.Subject) {
	for i := range subjects[:min(len(subjects), maxSubjects)] {
		s := &subjects[i]
		kind := "Perhaps one rule in other words"
		if s.Contradiction != "" {
			kind = fmt.Sprintf("Perhaps a contradiction (%s)", s.Contradiction)
		}
		writeText(w, kind+". "+NextStep(s))
		for _, b := range s.Bullets {
			writeText(w, fmt.Sprintf("  %s (%s): %s", b.ID, b.State, text.Line(b.Content, maxSubjectText)))
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
	return []HealthFigure{
		{Name: "ever cited", Value: shareOf(h.Cited, h.Active), Note: fmt.Sprintf("%d of %s", h.Cited, term.Plural(h.Active, "active bullet"))},
		{Name: "contribution", Value: contribution, Note: measured},
		{Name: "no effect", Value: shareOf(h.NoEffect, h.Injections), Note: fmt.Sprintf("%d of %s with a vote", h.NoEffect, term.Plural(h.Injections, "injection"))},
		{Name: "contradictions", Value: fmt.Sprint(len(h.Contradictions)), Note: "bullets that contradict an active one"},
		{Name: "last confirmed", Value: fmt.Sprintf("%.0f days ago", h.MedianDays), Note: fmt.Sprintf("the median; the oldest %.0f days ago, %d more than 30", h.OldestDays, h.Stale)},
	}
}

func shareOf(part, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(of))
}

// Write prints the numbers of today, the alarms, and the numbers of the days before.
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
	WriteSubjects(w, h.SameSubject)
	if len(h.Days) < 2 {
		return nil
	}
	t = term.NewTable(w)
	term.Fprintf(t, "day")
	for _, f := range HealthFigures(&h.Now.Health) {
		term.Fprintf(t, "\t%s", f.Name)
	}
	term.Fprintf(t, "\n")
	for i := range h.Days {
		term.Fprintf(t, "%s", h.Days[i].Day)
		for _, f := range HealthFigures(&h.Days[i].Health) {
			term.Fprintf(t, "\t%s", f.Value)
		}
		term.Fprintf(t, "\n")
	}
	err := t.Flush()
	term.Fprintf(w, "\n")
	return err
}
