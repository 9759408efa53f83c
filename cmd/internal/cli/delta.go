package cli

import (
	"fmt"
	"strings"

	book "debrief/playbook"
)

// CoverSummary returns the number of reflections that a delta covers, or "an edit".
func CoverSummary(d *book.Delta) string {
	edits := 0
	for _, c := range d.Covers {
		if c.Evidence == nil {
			edits++
		}
	}
	switch reflections := len(d.Covers) - edits; {
	case d.More:
		return "part of a change"
	case reflections > 0:
		return Plural(reflections, "reflection")
	case edits > 0:
		return "an edit"
	}
	return ""
}

// DeltaSummary describes the effect of a delta in one line.
func DeltaSummary(d *book.Delta) string {
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
	if d.Gate != "" {
		add("the gate is %s", d.Gate)
	}
	count := map[book.OpKind]int{}
	votes, corrected, outcomes := 0, 0, 0
	for _, op := range d.Ops {
		count[op.Kind]++
		switch op.Kind {
		case book.Tag:
			votes += op.Helpful + op.Harmful + op.Neutral
		case book.Retag:
			corrected += len(op.Support)
		case book.AddExposures:
			outcomes += len(op.Exposures)
		}
	}
	for _, k := range []struct {
		kind book.OpKind
		verb string
	}{
		{book.Add, "added"},
		{book.Put, "put"},
		{book.Update, "updated"},
		{book.Merge, "merged"},
		{book.Remove, "removed"},
		{book.SetStatus, "changed in status"},
		{book.Pin, "pinned or unpinned"},
		{book.Confirm, "proposed again"},
	} {
		if count[k.kind] > 0 {
			add("%d %s", count[k.kind], k.verb)
		}
	}
	if votes > 0 {
		add("%s", Plural(votes, "vote"))
	}
	if corrected > 0 {
		add("%s corrected", Plural(corrected, "vote"))
	}
	if outcomes > 0 {
		add("%s", Plural(outcomes, "outcome"))
	}
	if len(d.Rejected) > 0 {
		add("%d rejected", len(d.Rejected))
	}
	if d.Reason != "" {
		add("%q", OneLine(d.Reason, 60))
	}
	return strings.Join(parts, ", ")
}
