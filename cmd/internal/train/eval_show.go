package train

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
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
	ScoreDifference float64           `json:"score_difference"` // of the mean scores
	LeftOut         int               `json:"omitted"`          // samples without a score in one of the arms
	Changed         int               `json:"changed"`          // samples with different scores
	Differ          []differingSample `json:"differ"`           // those with the largest differences
}

// differingSample is a sample with different scores in two arms. Texts are shortened.
type differingSample struct {
	Index    int     `json:"index"`
	ID       string  `json:"id"`
	Question string  `json:"question"` // without the beginning that all questions share, such as instructions
	Target   string  `json:"target,omitempty"`
	Result   string  `json:"result"` // of the first arm: won or lost if only one arm is right, else better or worse
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
	shared := sharedBeginning(x.samples)
	for i := range x.samples {
		firstRight, firstKnown := first.answers[i].right()
		otherRight, otherKnown := other.answers[i].right()
		if !firstKnown || !otherKnown {
			c.LeftOut++
			continue
		}
		firstResults, otherResults = append(firstResults, firstRight), append(otherResults, otherRight)
		s := &x.samples[i]
		e, o := first.answers[i].execution, other.answers[i].execution
		c.ScoreDifference += e.Outcome.Score - o.Outcome.Score
		if e.Outcome.Score == o.Outcome.Score && firstRight == otherRight {
			continue
		}
		d := differingSample{
			Index: s.index, ID: s.ID, Question: term.OneLine(s.Question[shared:], 200), Target: term.OneLine(s.Target, 200),
			Answer: term.OneLine(e.Answer, 200), Score: e.Outcome.Score, Feedback: term.OneLine(e.Outcome.Feedback, 400),
			Other: term.OneLine(o.Answer, 200), OtherScore: o.Outcome.Score, OtherFeedback: term.OneLine(o.Outcome.Feedback, 400),
		}
		switch {
		case firstRight && !otherRight:
			d.Result = "won"
		case otherRight && !firstRight:
			d.Result = "lost"
		case d.Score > d.OtherScore:
			d.Result = "better"
		default:
			d.Result = "worse"
		}
		c.Differ = append(c.Differ, d)
	}
	c.Pair = report.Paired(otherResults, firstResults) // the other arm is "before": the difference is the first arm minus the other
	c.ScoreDifference /= float64(max(c.N, 1))
	c.Changed = len(c.Differ)
	slices.SortStableFunc(c.Differ, func(a, b differingSample) int {
		return cmp.Compare(math.Abs(b.Score-b.OtherScore), math.Abs(a.Score-a.OtherScore))
	})
	c.Differ = c.Differ[:min(len(c.Differ), maxDiffer)]
	return c
}

// Limits of sharedBeginning, in bytes: a shorter beginning stays, and it stays if no question has more than minOwn bytes after it.
const (
	minShared = 100
	minOwn    = 20
)

// sharedBeginning returns the length of the text that all questions begin with, up to the end of a word. It is 0 for a short one.
func sharedBeginning(samples []sample) int {
	if len(samples) < 2 {
		return 0
	}
	shared := samples[0].Question
	for i := range samples {
		n := 0
		for q := samples[i].Question; n < min(len(shared), len(q)) && shared[n] == q[n]; {
			n++
		}
		shared = shared[:n]
	}
	n := strings.LastIndexAny(shared, " \n") + 1
	isEnough := func(s sample) bool { return len(s.Question)-n >= minOwn }
	if n < minShared || !slices.ContainsFunc(samples, isEnough) { // else the questions are one, asked several times
		return 0
	}
	return n
}

// reason describes why two answers differ: by the expected answer, or by the verdict of the evaluator on each, if the sample has no expected
// answer or if the answers are too long to show.
func (d *differingSample) reason() string {
	isShort := max(len(d.Target), len(d.Answer), len(d.Other)) <= maxShortAnswer
	if d.Target != "" && isShort {
		return fmt.Sprintf("expected %s; got %s; the other got %s", shortAnswer(d.Target), shortAnswer(d.Answer), shortAnswer(d.Other))
	}
	return fmt.Sprintf("got %s (%s); the other got %s (%s)", shortAnswer(d.Answer), verdict(d.Score, d.Feedback), shortAnswer(d.Other), verdict(d.OtherScore, d.OtherFeedback))
}

// verdict formats the score of an evaluator for an answer, with its feedback.
func verdict(score float64, feedback string) string {
	if feedback == "" {
		return fmt.Sprintf("score %.2f", score)
	}
	return fmt.Sprintf("score %.2f: %s", score, strings.TrimSuffix(term.OneLine(feedback, 300), "."))
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
		term.Fprintf(w, "the first answers, against\tsamples\tdifference in points\t95 %% interval\twins\tlosses\tp\tmean score\t\n")
		for _, c := range r.Comparisons {
			term.Fprintf(w, "%s\t%d\t%+.1f\t%+.1f to %+.1f\t%d\t%d\t%s\t%+.3f\t\n", term.OneLine(c.Against, 40), c.N, 100*c.Difference, 100*c.Low, 100*c.High,
				c.Wins, c.Losses, chance(c.P), c.ScoreDifference)
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
			term.Fprintf(out, "\nAgainst %s, %d of the %s with another score:\n", c.Against, len(c.Differ), term.Plural(c.Changed, "sample"))
		}
		for _, d := range c.Differ {
			term.Fprintf(out, "  %-6s %s: %s\n         %s\n", d.Result, d.ID, term.OneLine(d.Question, 90), d.reason())
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

// maxShortAnswer is the length of an answer in a line of text.
const maxShortAnswer = 60

// shortAnswer returns the beginning of an answer on one line.
func shortAnswer(s string) string {
	if s == "" {
		return "nothing"
	}
	return term.OneLine(s, maxShortAnswer)
}

// chance formats a p-value.
func chance(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}
