package explain

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/playbook"
)

// CoverSummary returns the number of reflections that a delta covers, or "an edit", or "" if the delta covers nothing.
func CoverSummary(d *playbook.Delta) string {
	edits := 0
	for _, c := range d.Covers {
		if c.Evidence == nil {
			edits++
		}
	}
	switch reflections := len(d.Covers) - edits; {
	case d.More: // the last delta of the change has the covers
		return "part of a change"
	case reflections > 0:
		return term.Plural(reflections, "reflection")
	case edits > 0:
		return "an edit"
	}
	return ""
}

// DeltaSummary describes the effect of a delta in one line.
func DeltaSummary(d *playbook.Delta) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for _, n := range d.Names {
		add("version %d is named %s", n.Version, n.Name)
	}
	if d.RestoredVersion != nil {
		add("restores version %d", *d.RestoredVersion)
	}
	if d.Forget != nil {
		add("forgets %s", d.Forget)
	}
	if n := len(d.Redacted); n > 0 {
		add("erased texts of %d earlier changes", n)
	}
	if d.Gate != "" {
		add("the gate is %s", d.Gate)
	}
	if d.Review != "" {
		add("review %s", d.Review)
	}
	if d.Control != "" {
		add("control share %s", d.Control)
	}
	switch name := d.LeadingScore; {
	case name != nil && *name == "":
		add("no leading score")
	case name != nil:
		add("the leading score is %q", *name)
	}
	if d.About != nil {
		add("the name is %q and the description %q", d.About.Name, d.About.Description)
	}
	if j := d.Judge; j != nil {
		add("the error of judge %s is %d of %d false failures and %d of %d false successes", j.Name, j.FalseFailures, j.Right, j.FalseSuccesses, j.Wrong)
	}
	count := map[playbook.OpKind]int{}
	for i := range d.Ops {
		count[d.Ops[i].Kind] += operations[d.Ops[i].Kind].count(&d.Ops[i])
	}
	for _, kind := range operationOrder {
		if n := count[kind]; n > 0 {
			parts = append(parts, operations[kind].summary(n))
		}
	}
	if len(d.Rejected) > 0 {
		add("%d rejected", len(d.Rejected))
	}
	if d.Reason != "" {
		add("%q", term.OneLine(d.Reason, 60))
	}
	return strings.Join(parts, ", ")
}
