package explain

import (
	"slices"
	"strings"

	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/request"
)

// Feedback formats the effect of feedback that a version covers, without a line break at the end.
func Feedback(e *request.FeedbackEffect, version string) string {
	out := new(strings.Builder)
	if len(e.Moved) == 0 {
		console.Fprintf(out, "no vote moved, version %s", version)
	} else {
		console.Fprintf(out, "%s moved, version %s", cli.Plural(len(e.Moved), "vote"), version)
	}
	for _, m := range e.Moved {
		console.Fprintf(out, "\n  %s  %s", m.Bullet, cli.VoteChange(m.Before, m.After))
	}
	if e.Outcomes > 0 {
		console.Fprintf(out, "\n  outcomes in experiments moved as well")
	}
	for _, why := range slices.Compact(slices.Clone(e.Refused)) {
		console.Fprintf(out, "\n  not applied: %s", cli.OneLine(why, 200))
	}
	return out.String()
}
