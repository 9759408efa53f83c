package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"debrief/cmd/internal/console"
	"debrief/cmd/internal/dataset"
	"debrief/cmd/internal/report"
	"debrief/cmd/internal/stats"
)

// examined is what an evaluation came to; the output of --json.
type examined struct {
	Data        report.Data       `json:"data"`
	Problems    []dataset.Problem `json:"problems,omitempty"` // lines that could not be read, the first of them
	Drawn       int               `json:"drawn"`              // samples that were answered
	Arms        []armScore        `json:"arms"`               // the first is that of the other flags
	Comparisons []comparison      `json:"comparisons"`
	Losses      []report.Loss     `json:"losses"`
}

// armScore is how well one way did.
type armScore struct {
	Arm      string         `json:"arm"`
	Book     string         `json:"book,omitempty"`
	Version  uint64         `json:"playbook_version"`
	Label    string         `json:"playbook,omitempty"` // the version's; empty without a playbook
	Model    string         `json:"model"`
	Prompt   string         `json:"prompt,omitempty"`
	Score    report.Score   `json:"score"`
	Accuracy stats.Estimate `json:"accuracy"`
	Usage    report.Usage   `json:"usage"`
}

// comparison is the first way after another one.
type comparison struct {
	Against string `json:"against"`
	report.Pair
	LeftOut int        `json:"left_out"` // samples that one of the two has no judgement of
	Differ  []contrast `json:"differ"`   // the first of those that came out differently
}

// contrast is a sample that came out differently.
type contrast struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Question string `json:"question"`
	Target   string `json:"target,omitempty"`
	Won      bool   `json:"won"` // right in the first way
	Answer   string `json:"answer"`
	Other    string `json:"other"` // the answer of the other way
}

// maxDiffer bounds the samples that are shown of a comparison.
const maxDiffer = 5

// result adds everything up.
func (x *exam) result(data report.Data, problems []dataset.Problem) *examined {
	r := &examined{Data: data, Problems: problems, Drawn: len(x.samples), Comparisons: []comparison{}, Losses: []report.Loss{}}
	for _, a := range x.ways {
		s := a.score()
		row := armScore{
			Arm: a.name, Version: a.version, Label: a.label, Model: a.model, Prompt: a.prompt, Score: s,
			Accuracy: stats.Share(s.Right, s.N), Usage: a.usage(),
		}
		if a.label != "" {
			row.Book = string(a.book)
		}
		r.Arms = append(r.Arms, row)
		for i := range a.answers {
			if why := a.answers[i].lost; why != "" {
				r.Losses = append(r.Losses, report.Loss{Set: a.name, Sample: x.samples[i].ID, Reason: why})
			}
		}
	}
	for _, a := range x.ways[1:] {
		r.Comparisons = append(r.Comparisons, x.compare(x.ways[0], a))
	}
	return r
}

// compare holds one way against another, on the samples that both have a judgement of.
func (x *exam) compare(first, other *way) comparison {
	c := comparison{Against: other.name, Differ: []contrast{}}
	var before, after []bool
	for i := range x.samples {
		is, known := first.answers[i].right()
		was, too := other.answers[i].right()
		if !known || !too {
			c.LeftOut++
			continue
		}
		before, after = append(before, was), append(after, is)
		if is != was && len(c.Differ) < maxDiffer {
			s := &x.samples[i]
			c.Differ = append(c.Differ, contrast{
				s.index, s.ID, inLine(s.Question, 200), inLine(s.Target, 200), is,
				inLine(first.answers[i].execution.Answer, 200), inLine(other.answers[i].execution.Answer, 200),
			})
		}
	}
	c.Pair = report.Pair(stats.Paired(before, after))
	return c
}

func (e *eval) show(r *examined) error {
	if e.JSON {
		return writeJSON(console.Stdout, r)
	}
	return r.tell(console.Stdout)
}

// tell is a result for people.
func (r *examined) tell(out io.Writer) error {
	what := plural(r.Data.Samples, "sample")
	if r.Drawn < r.Data.Samples {
		what = fmt.Sprintf("%d drawn of %s", r.Drawn, what)
	}
	console.Fprintf(out, "%s: %s\n\n", r.Data.File, what)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	console.Fprintf(w, "answers\tplaybook\tmodel\tjudged\tright\taccuracy\t95 %% interval\tmean score\tcalls\ttokens in\tout\tcost\t\n")
	for _, a := range r.Arms {
		name, which := a.Arm, "none"
		if a.Label != "" {
			which = a.Book + " " + a.Label
		}
		cost := "-"
		if a.Usage.Dollars > 0 {
			cost = fmt.Sprintf("$%.4f", a.Usage.Dollars)
		}
		console.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%.3f\t%d\t%d\t%d\t%s\t\n", inLine(name, 40), which, inLine(a.Model, 30), a.Score.N, a.Score.Right,
			a.Accuracy.Percent(), a.Score.Mean, a.Usage.Calls, a.Usage.InputTokens, a.Usage.OutputTokens, cost)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range r.Arms {
		if a.Score.Unjudged > 0 {
			console.Fprintf(out, "%s: nobody can say how good %s\n", a.Arm, pluralOf(a.Score.Unjudged, "answer is", "answers are"))
		}
	}
	if len(r.Comparisons) > 0 {
		console.Fprintln(out)
		console.Fprintf(w, "the first answers, against\tsamples\tdifference in points\t95 %% interval\twins\tlosses\tp\t\n")
		for _, c := range r.Comparisons {
			console.Fprintf(w, "%s\t%d\t%+.1f\t%+.1f to %+.1f\t%d\t%d\t%s\t\n", inLine(c.Against, 40), c.N, 100*c.Difference, 100*c.Low, 100*c.High,
				c.Wins, c.Losses, chance(c.P))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for _, c := range r.Comparisons {
		if c.LeftOut > 0 {
			console.Fprintf(out, "%s: %s out, for want of a judgement of one of the two\n", c.Against, pluralOf(c.LeftOut, "sample is left", "samples are left"))
		}
		if len(c.Differ) > 0 {
			console.Fprintf(out, "\nAgainst %s, %d of the %d that came out differently:\n", c.Against, len(c.Differ), c.Wins+c.Losses)
		}
		for _, d := range c.Differ {
			verdict := "lost"
			if d.Won {
				verdict = "won "
			}
			console.Fprintf(out, "  %s %s: %s\n       expected %s; got %s; the other got %s\n", verdict, d.ID, inLine(d.Question, 90),
				quoted(d.Target), quoted(d.Answer), quoted(d.Other))
		}
	}
	for _, l := range r.Losses {
		console.Fprintf(out, "lost: %s, %s: %s\n", l.Set, l.Sample, inLine(l.Reason, 200))
	}
	for _, p := range r.Problems {
		console.Fprintf(out, "line %d was not read: %s\n", p.Line, inLine(p.Reason, 200))
	}
	if more := r.Data.Unread - len(r.Problems); more > 0 {
		console.Fprintf(out, "%d more lines were not read\n", more)
	}
	return nil
}

// pluralOf is a number with what it counts.
func pluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// quoted is an answer in a line.
func quoted(s string) string {
	if s == "" {
		return "nothing"
	}
	return inLine(s, 60)
}

// chance shows how likely something is by chance.
func chance(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}
