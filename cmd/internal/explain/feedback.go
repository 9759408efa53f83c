package explain

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/console"
	"debrief/cmd/internal/request"
)

// Feedback describes the effect of feedback, without a line break at the end.
func Feedback(e *request.FeedbackResult) string {
	switch {
	case e.Version == "":
		return fmt.Sprintf("stored as %s; see its effect with: debrief playbook why %s", e.Handle, e.Execution)
	case e.Handle == "": // not published
		return "duplicate: version " + e.Version + " already covers this feedback; nothing was changed"
	}
	out := new(strings.Builder)
	if len(e.Moved) == 0 {
		console.Fprintf(out, "no vote moved, version %s", e.Version)
	} else {
		console.Fprintf(out, "%s moved, version %s", console.Plural(len(e.Moved), "vote"), e.Version)
	}
	for _, m := range e.Moved {
		console.Fprintf(out, "\n  %s  %s", m.Bullet, VoteChange(m.Before, m.After))
	}
	if e.Outcomes > 0 {
		console.Fprintf(out, "\n  outcomes in experiments moved as well")
	}
	for _, why := range slices.Compact(slices.Clone(e.Refused)) {
		console.Fprintf(out, "\n  not applied: %s", console.OneLine(why, 200))
	}
	return out.String()
}
