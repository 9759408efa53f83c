package learning

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
	lowest  // the minimum of the seeds, in points
)

// summary returns the average of the values of a column, one for each seed, or their minimum for the form lowest.
func (c column) summary(xs []float64) report.Estimate {
	if len(xs) == 1 {
		return report.Estimate{Mean: xs[0], Low: xs[0], High: xs[0], N: 1} // JSON has no infinite interval
	}
	if c.form == lowest {
		low := slices.Min(xs)
		return report.Estimate{Mean: low, Low: low, High: low, N: len(xs)}
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
	case c.form == lowest:
		return fmt.Sprintf("%+.1f\t", 100*e.Mean)
	case c.form == percent:
		return fmt.Sprintf("%.1f %%\t", 100*e.Mean)
	}
	return fmt.Sprintf("%.*f\t", map[form]int{count: 0, number1: 1, number2: 2}[c.form], e.Mean)
}

// worldRow is the average of one case over the seeds.
type worldRow struct {
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
func labelsOf(runs []*worldRun) []string {
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
func valuesOf(runs []*worldRun, label, key string) []float64 {
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
func (b *worldsBench) rows(runs []*worldRun) []worldRow {
	var out []worldRow
	for _, w := range b.worlds {
		runsOf := func(arm string) []*worldRun {
			return slices.DeleteFunc(slices.Clone(runs), func(r *worldRun) bool { return r.world != w || r.arm.name != arm })
		}
		for i := range worldArms {
			ofArm := runsOf(worldArms[i].name)
			for _, label := range labelsOf(ofArm) {
				out = append(out, b.row(ofArm, label, runsOf(b.reference())))
			}
		}
	}
	return out
}

// reference returns the arm that the others are compared with.
func (b *worldsBench) reference() string {
	if b.against != "" {
		return b.against
	}
	for i := range worldArms {
		if slices.Contains(b.arms, worldArms[i].name) {
			return worldArms[i].name
		}
	}
	return ""
}

// row averages one case over the seeds, and compares it with the same case of the reference arm. A fixed arm, and a case that the
// reference arm does not have, is compared with the last case of the reference arm.
func (b *worldsBench) row(ofArm []*worldRun, label string, reference []*worldRun) worldRow {
	row := worldRow{
		Part: b.part.name, World: ofArm[0].world, Arm: ofArm[0].arm.name, Seeds: len(ofArm), Values: make(map[string]report.Estimate), Errors: b.errors,
	}
	for _, p := range ofArm[0].points {
		if p.name() == label {
			row.Case, row.Tasks = p.label, p.tasks
			break
		}
	}
	for _, c := range b.part.columns {
		if xs := valuesOf(ofArm, label, c.key); len(xs) > 0 {
			row.Values[c.key] = c.summary(xs)
		}
	}
	isReference := len(reference) > 0 && reference[0] == ofArm[0]
	if isReference {
		return row
	}
	other := label
	labels := labelsOf(reference)
	hasCase := slices.Contains(labels, label) && !ofArm[0].arm.isFixed
	if len(labels) > 0 && !hasCase {
		other = labels[len(labels)-1]
	}
	key := b.part.columns[0].key
	xs, ys := valuesOf(ofArm, label, key), valuesOf(reference, other, key)
	if len(xs) == len(ofArm) && len(ys) == len(ofArm) { // one point for each seed, in the same order
		d := column{}.summary(pairDifferences(xs, ys))
		row.Difference, row.Against = &d, b.reference()
	}
	return row
}

// table returns the rows as a table.
func (b *worldsBench) table(rows []worldRow) *Table {
	differs := slices.ContainsFunc(rows, func(r worldRow) bool { return r.Difference != nil })
	t := &Table{
		Title: fmt.Sprintf("%s: %s; %d held-out tasks, %d seeds, default configuration; %.0f %% of verdicts wrong in the arms -wrong;\n%s",
			strings.ToUpper(b.part.name[:1])+b.part.name[1:], b.part.title, b.heldOut, b.seeds, 100*b.wrong, describeErrors(b.errors)),
		Head: "world\tarm\tcase\t",
	}
	for i, c := range b.part.columns {
		t.Head += c.heads()
		if i == 0 && differs {
			t.Head += "against " + b.reference() + "\t95 %\t"
		}
	}
	for i := range rows {
		r := &rows[i]
		name := r.Case
		if name == "" {
			name = fmt.Sprintf("%d tasks", r.Tasks)
		}
		line := r.World + "\t" + r.Arm + "\t" + name + "\t"
		for j, c := range b.part.columns {
			e, ok := r.Values[c.key]
			line += c.cells(e, ok)
			if j == 0 && differs {
				line += difference(r.Difference)
			}
		}
		t.Row(*r, "%s", line)
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
