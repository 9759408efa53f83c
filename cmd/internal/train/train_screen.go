package train

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
)

// trainScreen prints the progress and the result of a run as text or as JSON lines.
type trainScreen struct {
	out  *term.Writer
	json bool
	bar  *progressLine

	mu     sync.Mutex       // because events come from several goroutines
	first  *replay.Progress // the first progress of this process, to compute rates
	newest *replay.Progress
	waited time.Time // when the screen last said that the run waits
}

// waitInterval is the least time between two texts that the run waits. With a slow model it waits for each call.
const waitInterval = time.Minute

func newTrainScreen(p *Training) *trainScreen {
	s := &trainScreen{out: term.Stdout, json: p.JSON, bar: newProgressLine(term.Stdout)}
	if p.JSON {
		s.bar.json = term.Stdout
	} else {
		s.bar.every = 100 * time.Millisecond
	}
	return s
}

// reportLine is the last line of --json.
type reportLine struct {
	Event  string         `json:"event"`
	Run    string         `json:"run"`
	Report *report.Report `json:"report"`
	Folder string         `json:"folder"`
}

// expect prints the expected calls of models.
func (s *trainScreen) expect(calls modelCalls) {
	switch {
	case calls.Calls == 0:
	case s.json:
		_ = cli.WriteJSON(s.out, struct {
			Event string `json:"event"`
			modelCalls
		}{"expected", calls})
	default:
		term.Fprintf(s.out, "The run makes at most about %s, and the bullets in the prompts.\n", calls)
	}
}

// event prints an event of the run.
func (s *trainScreen) event(e replay.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Progress != nil:
		if s.first == nil {
			s.first = e.Progress
		}
		s.newest = e.Progress
		s.bar.report(func(float64) (any, string) { return e, describeProgress(s.first, e.Progress) })
	case s.json:
		_ = cli.WriteJSON(s.out, e)
	case e.WaitsFor != "":
		for _, line := range s.stall(e.WaitsFor) {
			s.bar.clear()
			term.Fprintf(term.Stderr, "%s\n", line)
		}
	case e.Reflections > 0:
		s.bar.clear()
		term.Fprintf(term.Stderr, "The Curator's model gave no usable reply for %s (%s): they wait for the next window.\n", term.Plural(e.Reflections, "reflection"), e.Reason)
	case e.Epoch != nil:
		s.bar.clear()
		book := e.Epoch.Book
		term.Fprintf(s.out, "epoch %-4d training    %s  ·  %s, version %d\n", e.Epoch.Epoch, formatScore(e.Epoch.Train), term.Plural(book.Bullets, "bullet"), book.Version)
	case e.Point != nil && e.Point.Set != replay.Train: // the epoch has the score of its training tasks
		s.bar.clear()
		term.Fprintf(s.out, "%-10s %-11s %s\n", fmt.Sprintf("%d samples", e.Point.Step), e.Point.Set, formatScore(e.Point.Score))
	}
}

// stall returns lines with the progress of the run and the role that it waits for. It returns none if it returned some within the last
// waitInterval.
func (s *trainScreen) stall(role string) (lines []string) {
	if time.Since(s.waited) < waitInterval {
		return nil
	}
	s.waited = time.Now()
	if s.newest != nil {
		lines = append(lines, describeProgress(s.first, s.newest))
	}
	return append(lines, fmt.Sprintf("Waiting for the %s: no result for 5s. It is safe to interrupt; see 'debrief status'.", role))
}

// describeProgress describes the progress p of a run, with the rate since the progress first.
func describeProgress(first, p *replay.Progress) string {
	text := fmt.Sprintf("%s  task %d", p.Phase, p.Done)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %d", p.Total)
	}
	text += fmt.Sprintf("  ·  %d samples", p.Step)
	if p.Samples > 0 {
		text += fmt.Sprintf(" of %d", p.Samples)
	}
	if done, took := p.Step-first.Step, p.Seconds-first.Seconds; done > 0 && took > 0.5 {
		rate := float64(done) / took
		text += fmt.Sprintf(", %.1f/s", rate)
		if left := p.Samples - p.Step; left > 0 {
			text += ", about " + (time.Duration(float64(left)/rate) * time.Second).Round(time.Second).String() + " left"
		}
	}
	text += fmt.Sprintf("  ·  %d calls, %d tokens", p.Usage.Calls, p.Usage.InputTokens+p.Usage.OutputTokens)
	if p.Usage.Dollars > 0 {
		text += fmt.Sprintf(", $%.2f", p.Usage.Dollars)
	}
	return text
}

// formatScore formats a score.
func formatScore(s report.Score) string {
	text := "    –    0 of 0"
	if s.N > 0 {
		text = fmt.Sprintf("%5.1f %%  %d of %d", 100*s.Accuracy, s.Right, s.N)
		if mean := s.MeanText(); mean != "" {
			text += ", " + mean
		}
	}
	if s.Unjudged > 0 {
		text += fmt.Sprintf(", %d without a score", s.Unjudged)
	}
	if s.Lost > 0 {
		text += fmt.Sprintf(", %d lost", s.Lost)
	}
	return text
}

// result prints the report. It returns an error if samples or other things were lost, see lossError.
func (s *trainScreen) result(out *replay.Result, folder string) error {
	s.bar.clear()
	r := out.Report
	if s.json {
		if err := cli.WriteJSON(s.out, reportLine{Event: "report", Run: r.Run.Name, Report: r, Folder: folder}); err != nil {
			return err
		}
		return lossError(out)
	}
	text, err := summary(r)
	if err != nil {
		return err
	}
	term.Fprintf(s.out, "%s\nThe report and all results are in %s (report.html). The playbook is %q, its best version %d.\n", term.Block(text), folder, r.Run.Book, r.Best.Version)
	if r.Best.Version > 0 {
		term.Fprintf(s.out, "To use it: debrief playbook promote %s --to BOOK\n", r.Run.Name)
	}
	return lossError(out)
}

// scoreErrors returns the errors of evaluators. An evaluator that fails leaves its error as the feedback on an answer without a score.
func scoreErrors(out *replay.Result) (all []string) {
	for i := range out.Samples {
		s := &out.Samples[i]
		isRecorded := out.Report.Mode == string(replay.Executions) && s.Set == replay.Train // its feedback may be of a person
		lacksScore := s.Lost == "" && s.Label == events.Unknown
		if lacksScore && s.Feedback != "" && !isRecorded {
			all = append(all, s.Feedback)
		}
	}
	return all
}

// lossError returns an error if lines, samples, reflections or scores of answers were lost.
func lossError(out *replay.Result) error {
	var all []string
	for _, d := range out.Report.Data {
		if d.Unread > 0 {
			all = append(all, fmt.Sprintf("%s of %s could not be read", term.Plural(d.Unread, "line"), d.File))
		}
	}
	if n := len(out.Report.Losses); n > 0 {
		all = append(all, fmt.Sprintf("%s failed, the first error: %s", term.Plural(n, "sample"), out.Report.Losses[0].Reason))
	}
	if n := out.Report.Unlearned; n > 0 {
		all = append(all, term.Plural(n, "reflection")+" not learned from: the Curator's model gave no usable reply")
	}
	if scoreErrors := scoreErrors(out); len(scoreErrors) > 0 {
		all = append(all, fmt.Sprintf("%s without a score, the first error: %s", term.Plural(len(scoreErrors), "answer"), scoreErrors[0]))
	}
	if len(all) == 0 {
		return nil
	}
	return program.Exit(program.ExitPartial, errors.New(strings.Join(all, "; ")))
}

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
	sayHidden(r.Bullets, say)
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

// maxHidden limits the bullets that a summary lists.
const maxHidden = 5

// sayHidden lists the bullets of the final playbook that no prompt contains, with the next step of the gate for each.
func sayHidden(all []report.Bullet, say func(format string, args ...any)) {
	counts := map[playbook.Status]int{}
	var waiting []string
	hidden := 0
	for _, b := range all {
		status := playbook.Status(b.Status)
		if status == "" || status == playbook.Active || status == playbook.Probation {
			continue
		}
		hidden++
		counts[status]++
		if b.Next != "" {
			waiting = append(waiting, fmt.Sprintf("%s %s: %s", b.ID, b.Next, term.OneLine(b.Content, 80)))
		}
	}
	if hidden == 0 {
		return
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[status], status))
	}
	say("Of %s of the final playbook, %d are in no prompt (%s).", term.Plural(len(all), "bullet"), hidden, strings.Join(parts, ", "))
	for _, line := range waiting[:min(len(waiting), maxHidden)] {
		say("  %s", line)
	}
	if more := len(waiting) - maxHidden; more > 0 {
		say("  and %d more, listed in report.json", more)
	}
}

// dollars formats a cost as the end of a list of figures. It returns "" for no cost.
func dollars(d float64) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", $%.4f", d)
}
