package train

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/report"
)

// maxLosses limits the losses that a summary lists.
const maxLosses = 5

// summary returns the result of a run in sentences. It leaves out the epochs and the measurements, which the screen has shown before.
func summary(r *report.Report) (string, error) {
	fingerprint, err := r.Fingerprint()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	say := func(format string, args ...any) { term.Fprintf(&out, format+"\n", args...) }
	headline := r.Headline()
	figures := headline.To
	if headline.From != "" {
		figures = headline.From + " → " + headline.To
	}
	say("%s %s.", figures, headline.What)
	for _, sentence := range headline.Detail {
		say("%s", sentence)
	}
	switch {
	case r.Learned():
		say("Best playbook: version %d of %s, %s and some %s.", r.Best.Version, r.Run.Book, term.Plural(r.Best.Bullets, "bullet"), term.Plural(r.Best.Tokens, "token"))
	case r.Best != (report.Book{}):
		say("Nothing was learned that the best playbook contains. It has %s.", term.Plural(r.Best.Bullets, "bullet"))
	}
	if c := r.Against; c != nil {
		say("Against playbook %s, version %d with %s: %d the same, %d nearly, %d only here, %d only there.",
			c.Book, c.Version, term.Plural(c.Bullets, "bullet"), c.Same, c.Alike, c.OnlyHere, c.OnlyThere)
	}
	if r.Stopped != "" {
		say("The run ended before its last epoch: %s.", r.Stopped)
	}
	if w := r.Wrong; w.Wrong > 0 {
		say("Wrong: %d of %s. The first %d with their bullets are in report.html.", w.Wrong, term.Plural(w.Of, "answer"), len(w.First))
	}
	if len(r.Losses) > 0 {
		say("Lost %s:", term.Plural(len(r.Losses), "sample"))
	}
	for _, l := range r.Losses[:min(len(r.Losses), maxLosses)] {
		say("  %s of %s, epoch %d: %s", l.Sample, l.Set, l.Epoch, l.Reason)
	}
	if more := len(r.Losses) - maxLosses; more > 0 {
		say("  and %d more, listed in report.json", more)
	}
	all := r.Cost.Total()
	say("The run took %s of models, %s and %.1f s%s.", term.Plural(all.Calls, "call"), term.Plural(all.InputTokens+all.OutputTokens, "token"), r.Timing.Seconds, dollars(all.Dollars))
	if c := r.Cost.PerBullet; c != nil {
		say("For each of %s: %.1f calls of models, %.0f tokens and %.1f s%s.", term.Plural(c.Bullets, "added bullet"), c.Calls, c.Tokens, c.Seconds, dollars(c.Dollars))
	}
	say("Fingerprint of the result: %s", fingerprint)
	if r.Simulated() {
		say("The model was simulated: the figures say nothing about a real one.")
	}
	return out.String(), nil
}

// dollars formats a cost as the end of a list of figures. It returns "" for no cost.
func dollars(d float64) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", $%.4f", d)
}
