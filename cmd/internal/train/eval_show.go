package train

import (
	"fmt"
	"io"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/dataset"
	"debrief/cmd/internal/train/report"
)

// evalResult is the result of an evaluation; the output of --json.
type evalResult struct {
	Data        report.Data           `json:"data"`
	Problems    []dataset.SampleError `json:"problems,omitempty"` // the first of the unreadable lines
	Drawn       int                   `json:"answered"`           // samples that were drawn; each arm has an answer or a loss for each
	Arms        []armResult           `json:"arms"`               // the first has the settings of the other flags
	Comparisons []comparison          `json:"comparisons"`
	Losses      []report.Loss         `json:"losses"`
}

// armResult is the settings of one arm, and the score and usage of its answers.
type armResult struct {
	Arm      string          `json:"arm"`
	Book     string          `json:"book,omitempty"` // empty without a playbook
	Version  uint64          `json:"playbook_version"`
	Label    string          `json:"playbook,omitempty"` // label of the version; empty without a playbook
	Model    string          `json:"model"`
	Prompt   string          `json:"prompt,omitempty"` // file with instructions; empty for the built-in ones
	Score    report.Score    `json:"score"`
	Accuracy report.Estimate `json:"accuracy"`
	Usage    report.Usage    `json:"usage"`
}

// comparison compares the first arm with another arm.
type comparison struct {
	Against string `json:"against"`
	report.Pair
	LeftOut int               `json:"omitted"` // samples without a score in one of the arms
	Differ  []differingSample `json:"differ"`  // the first samples with a different label
}

// differingSample is a sample that is right in one arm and wrong in the other.
type differingSample struct {
	Index    int     `json:"index"`
	ID       string  `json:"id"`
	Question string  `json:"question"`
	Target   string  `json:"target,omitempty"`
	Won      bool    `json:"first_arm_right"` // right in the first arm
	Answer   string  `json:"answer"`
	Score    float64 `json:"score"`
	Feedback string  `json:"feedback,omitempty"` // of the evaluator

	Other         string  `json:"other"` // the answer of the other arm
	OtherScore    float64 `json:"other_score"`
	OtherFeedback string  `json:"other_feedback,omitempty"`
}

// maxDiffer is the maximum number of samples shown for each comparison.
const maxDiffer = 5

// result returns the scores, comparisons and losses.
func (x *evaluation) result(data report.Data, problems []dataset.SampleError) *evalResult {
	r := &evalResult{Data: data, Problems: problems, Drawn: len(x.samples), Comparisons: []comparison{}, Losses: []report.Loss{}}
	for _, a := range x.arms {
		r.Arms = append(r.Arms, a.armResult)
		for i := range a.answers {
			if reason := a.answers[i].lost; reason != "" {
				r.Losses = append(r.Losses, report.Loss{Set: a.Arm, Sample: x.samples[i].ID, Reason: reason})
			}
		}
	}
	for _, a := range x.arms[1:] {
		r.Comparisons = append(r.Comparisons, x.compare(x.arms[0], a))
	}
	return r
}

// compare compares two arms on the samples that have a score in both.
func (x *evaluation) compare(first, other *evalArm) comparison {
	c := comparison{Against: other.Arm, Differ: []differingSample{}}
	var firstResults, otherResults []bool // whether the answer to a sample is right
	for i := range x.samples {
		firstRight, firstKnown := first.answers[i].right()
		otherRight, otherKnown := other.answers[i].right()
		if !firstKnown || !otherKnown {
			c.LeftOut++
			continue
		}
		firstResults, otherResults = append(firstResults, firstRight), append(otherResults, otherRight)
		if firstRight != otherRight && len(c.Differ) < maxDiffer {
			s, e, other := &x.samples[i], first.answers[i].execution, other.answers[i].execution
			c.Differ = append(c.Differ, differingSample{
				Index: s.index, ID: s.ID, Question: term.OneLine(s.Question, 200), Target: term.OneLine(s.Target, 200), Won: firstRight,
				Answer: term.OneLine(e.Answer, 200), Score: e.Outcome.Score, Feedback: term.OneLine(e.Outcome.Feedback, 200),
				Other: term.OneLine(other.Answer, 200), OtherScore: other.Outcome.Score, OtherFeedback: term.OneLine(other.Outcome.Feedback, 200),
			})
		}
	}
	c.Pair = report.Paired(otherResults, firstResults) // the other arm is "before": the difference is the first arm minus the other
	return c
}

// reason describes why two answers differ: by the expected answer, or without one by the verdict of the evaluator on each.
func (d *differingSample) reason() string {
	if d.Target != "" {
		return fmt.Sprintf("expected %s; got %s; the other got %s", shortAnswer(d.Target), shortAnswer(d.Answer), shortAnswer(d.Other))
	}
	return fmt.Sprintf("got %s (%s); the other got %s (%s)", shortAnswer(d.Answer), verdict(d.Score, d.Feedback), shortAnswer(d.Other), verdict(d.OtherScore, d.OtherFeedback))
}

// verdict formats the score of an evaluator for an answer, with its feedback.
func verdict(score float64, feedback string) string {
	if feedback == "" {
		return fmt.Sprintf("score %.2f", score)
	}
	return fmt.Sprintf("score %.2f: %s", score, strings.TrimSuffix(term.OneLine(feedback, 120), "."))
}

// print prints the result as text.
func (r *evalResult) print(out io.Writer) error {
	count := term.Plural(r.Data.Samples, "sample")
	if r.Drawn < r.Data.Samples {
		count = fmt.Sprintf("%d drawn of %s", r.Drawn, count)
	}
	term.Fprintf(out, "%s: %s\n\n", r.Data.File, count)
	w := term.NewTable(out)
	w.Right = true
	term.Fprintf(w, "answers\tplaybook\tmodel\tscored\tright\taccuracy\t95 %% interval\tmean score\tcalls\ttokens in\tout\tcost\t\n")
	for _, a := range r.Arms {
		name, which := a.Arm, "none"
		if a.Label != "" {
			which = a.Book + " " + a.Label
		}
		accuracy, interval := fmt.Sprintf("%.1f %%", 100*a.Accuracy.Mean), fmt.Sprintf("%.1f to %.1f", 100*a.Accuracy.Low, 100*a.Accuracy.High)
		cost := "-"
		if a.Usage.Dollars > 0 {
			cost = fmt.Sprintf("$%.4f", a.Usage.Dollars)
		}
		term.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%.3f\t%d\t%d\t%d\t%s\t\n", term.OneLine(name, 40), which, term.OneLine(a.Model, 30), a.Score.N, a.Score.Right,
			accuracy, interval, a.Score.Mean, a.Usage.Calls, a.Usage.InputTokens, a.Usage.OutputTokens, cost)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range r.Arms {
		if a.Score.Unjudged > 0 {
			term.Fprintf(out, "%s: %s without a score\n", a.Arm, term.Plural(a.Score.Unjudged, "answer"))
		}
	}
	if len(r.Comparisons) > 0 {
		term.Fprintln(out)
		term.Fprintf(w, "the first answers, against\tsamples\tdifference in points\t95 %% interval\twins\tlosses\tp\t\n")
		for _, c := range r.Comparisons {
			term.Fprintf(w, "%s\t%d\t%+.1f\t%+.1f to %+.1f\t%d\t%d\t%s\t\n", term.OneLine(c.Against, 40), c.N, 100*c.Difference, 100*c.Low, 100*c.High,
				c.Wins, c.Losses, chance(c.P))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for _, c := range r.Comparisons {
		if c.LeftOut > 0 {
			term.Fprintf(out, "%s: %s out: no score in one of the two\n", c.Against, pluralOf(c.LeftOut, "sample is left", "samples are left"))
		}
		if len(c.Differ) > 0 {
			term.Fprintf(out, "\nAgainst %s, %d of the %d samples with a different result:\n", c.Against, len(c.Differ), c.Wins+c.Losses)
		}
		for _, d := range c.Differ {
			result := "lost"
			if d.Won {
				result = "won "
			}
			term.Fprintf(out, "  %s %s: %s\n       %s\n", result, d.ID, term.OneLine(d.Question, 90), d.reason())
		}
	}
	for _, l := range r.Losses {
		term.Fprintf(out, "lost: %s, %s: %s\n", l.Set, l.Sample, term.OneLine(l.Reason, 200))
	}
	for _, p := range r.Problems {
		term.Fprintf(out, "%s was not read: %s\n", p.Place, term.OneLine(p.Reason, 200))
	}
	if more := r.Data.Unread - len(r.Problems); more > 0 {
		term.Fprintf(out, "%d more lines were not read\n", more)
	}
	return nil
}

// pluralOf returns a number with its noun, for nouns without a regular plural.
func pluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// shortAnswer returns the beginning of an answer on one line.
func shortAnswer(s string) string {
	if s == "" {
		return "nothing"
	}
	return term.OneLine(s, 60)
}

// chance formats a p-value.
func chance(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}
