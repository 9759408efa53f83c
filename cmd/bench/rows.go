package main

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/train/report"
)

// column is one measured quantity: its key in points and in JSON, its head in tables, and its form.
type column struct {
	key, head string
	form      form
}

// form is how a quantity is averaged and printed.
type form int

const (
	percentInterval form = iota // a share with its 95 % interval
	percent
	count
	number1 // one decimal place
	number2 // two decimal places
)

// summaryOf returns the average of values, one for each seed.
func summaryOf(xs []float64) report.Estimate {
	if len(xs) == 1 {
		return report.Estimate{Mean: xs[0], Low: xs[0], High: xs[0], N: 1} // JSON has no infinite interval
	}
	return meanOf(xs)
}

// heads returns the cells of the column in the head of a table.
func (c column) heads() string {
	if c.form == percentInterval {
		return c.head + "\t95 %\t"
	}
	return c.head + "\t"
}

// cells returns the cells of the column in a row.
func (c column) cells(e report.Estimate, isKnown bool) string {
	switch {
	case !isKnown && c.form == percentInterval:
		return "\t\t"
	case !isKnown:
		return "\t"
	case c.form == percentInterval && e.N < 2:
		return fmt.Sprintf("%.1f %%\t\t", 100*e.Mean)
	case c.form == percentInterval:
		return e.Percent() + "\t"
	case c.form == percent:
		return fmt.Sprintf("%.1f %%\t", 100*e.Mean)
	}
	return fmt.Sprintf("%.*f\t", map[form]int{count: 0, number1: 1, number2: 2}[c.form], e.Mean)
}

// resultRow is the average of one case over the seeds.
type resultRow struct {
	Part   string                     `json:"part"`
	World  string                     `json:"world"`
	Arm    string                     `json:"arm"`
	Case   string                     `json:"case,omitempty"`
	Tasks  int                        `json:"tasks"`
	Seeds  int                        `json:"seeds"`
	Values map[string]report.Estimate `json:"values"`
	// Difference is the difference of the first column to the arm Against, paired by seed; nil without a counterpart.
	Difference *report.Estimate    `json:"difference,omitempty"`
	Against    string              `json:"against,omitempty"`
	Errors     worlds.Imperfection `json:"simulated_errors"`
}

// name returns the label of a point.
func (p *point) name() string {
	if p.label != "" {
		return p.label
	}
	return fmt.Sprint(p.tasks)
}

// labelsOf returns the labels of the points in their order.
func labelsOf(runs []*run) []string {
	var out []string
	for _, r := range runs {
		for _, p := range r.points {
			if !slices.Contains(out, p.name()) {
				out = append(out, p.name())
			}
		}
	}
	return out
}

// valuesOf returns the known values of all points with a label, in the order of the runs.
func valuesOf(runs []*run, label, key string) []float64 {
	var out []float64
	for _, r := range runs {
		for _, p := range r.points {
			if x, ok := p.values[key]; ok && p.name() == label {
				out = append(out, x)
			}
		}
	}
	return out
}

// rows averages the runs over the seeds.
func (m *measurement) rows(runs []*run) []resultRow {
	var out []resultRow
	for _, w := range m.worlds {
		runsOf := func(arm string) []*run {
			return slices.DeleteFunc(slices.Clone(runs), func(r *run) bool { return r.world != w || r.arm.name != arm })
		}
		for i := range allArms {
			ofArm := runsOf(allArms[i].name)
			for _, label := range labelsOf(ofArm) {
				out = append(out, m.row(ofArm, label, runsOf(m.reference())))
			}
		}
	}
	return out
}

// reference returns the arm that the others are compared with.
func (m *measurement) reference() string {
	if m.against != "" {
		return m.against
	}
	for i := range allArms {
		if slices.Contains(m.arms, allArms[i].name) {
			return allArms[i].name
		}
	}
	return ""
}

// row averages one case over the seeds, and compares it with the same case of the reference arm, if that has it. A fixed arm
// has one case. So if one of the arms is fixed, the case is compared with the last one of the reference arm.
func (m *measurement) row(ofArm []*run, label string, reference []*run) resultRow {
	row := resultRow{
		Part: m.part.name, World: ofArm[0].world, Arm: ofArm[0].arm.name, Seeds: len(ofArm), Values: make(map[string]report.Estimate), Errors: m.part.imperfection,
	}
	for _, p := range ofArm[0].points {
		if p.name() == label {
			row.Case, row.Tasks = p.label, p.tasks
			break
		}
	}
	for _, c := range m.part.columns {
		if xs := valuesOf(ofArm, label, c.key); len(xs) > 0 {
			row.Values[c.key] = summaryOf(xs)
		}
	}
	isReference := len(reference) > 0 && reference[0] == ofArm[0]
	if isReference {
		return row
	}
	other := label
	if labels := labelsOf(reference); len(labels) > 0 && (ofArm[0].arm.isFixed || reference[0].arm.isFixed) {
		other = labels[len(labels)-1]
	}
	key := m.part.columns[0].key
	xs, ys := valuesOf(ofArm, label, key), valuesOf(reference, other, key)
	if len(xs) == len(ofArm) && len(ys) == len(ofArm) { // one point for each seed, in the same order
		d := summaryOf(pairDifferences(xs, ys))
		row.Difference, row.Against = &d, m.reference()
	}
	return row
}

// table returns the rows as a table.
func (m *measurement) table(rows []resultRow) *table {
	differs := slices.ContainsFunc(rows, func(r resultRow) bool { return r.Difference != nil })
	t := &table{
		Title: fmt.Sprintf("%s: %s; %d held-out tasks, %d seeds, default configuration; %.0f %% of verdicts wrong in the arms -wrong;\n%s",
			strings.ToUpper(m.part.name[:1])+m.part.name[1:], m.part.title, m.heldOut, m.seeds, 100*wrongShare, describeErrors(m.part.imperfection)),
		Head: "world\tarm\tcase\t",
	}
	for i, c := range m.part.columns {
		t.Head += c.heads()
		if i == 0 && differs {
			t.Head += "against " + m.reference() + "\t95 %\t"
		}
	}
	for i := range rows {
		r := &rows[i]
		name := r.Case
		if name == "" {
			name = fmt.Sprintf("%d tasks", r.Tasks)
		}
		line := r.World + "\t" + r.Arm + "\t" + name + "\t"
		for j, c := range m.part.columns {
			e, ok := r.Values[c.key]
			line += c.cells(e, ok)
			if j == 0 && differs {
				line += difference(r.Difference)
			}
		}
		t.add(*r, "%s", line)
	}
	return t
}

// difference formats a difference in points with its interval.
func difference(e *report.Estimate) string {
	if e == nil {
		return "\t\t"
	}
	return fmt.Sprintf("%+.1f\t%+.1f to %+.1f\t", 100*e.Mean, 100*e.Low, 100*e.High)
}

// describeErrors describes the error rates of the simulated models.
func describeErrors(e worlds.Imperfection) string {
	return fmt.Sprintf("simulated Reflector and Curator: %.0f %% wrong generalisations, %.0f %% platitudes, %.0f %% idle, %.0f %% wrong tags, "+
		"%.0f %% unknown ids, %.0f %% broken JSON, %.0f %% duplicates, %.0f %% paraphrases",
		100*e.WrongGeneralisation, 100*e.Platitude, 100*e.Idle, 100*e.WrongTag, 100*e.UnknownID, 100*e.BrokenJSON, 100*e.Duplicate, 100*e.Paraphrase)
}
