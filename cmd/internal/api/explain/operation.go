package explain

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/program/term"
	"debrief/playbook"
	"debrief/playbook/history"
)

// operation describes the operations of one kind. Most kinds have a verb: their operations are counted and summed up as "3 added".
type operation struct {
	meaning  string                    // for readers who do not know the kind
	describe func(*playbook.Op) string // describes one operation, without its bullet
	verb     string

	// Without a verb:
	count   func(*playbook.Op) int // number of votes or outcomes that an operation concerns
	summary func(n int) string     // describes operations with the sum n of their counts
}

// operations has an entry for each kind.
var operations = map[playbook.OpKind]operation{
	playbook.Add: {
		meaning:  "Adds a bullet.",
		verb:     "added",
		describe: quoted("added"),
	},
	playbook.Put: {
		meaning:  "Stores a complete bullet of a file, another playbook or an earlier version.",
		verb:     "put",
		describe: func(op *playbook.Op) string { return fmt.Sprintf("put: %q", term.OneLine(op.PutBullet.Content, 100)) },
	},
	playbook.Update: {
		meaning:  "Replaces the text of a bullet.",
		verb:     "updated",
		describe: quoted("reworded"),
	},
	playbook.Remove: {
		meaning:  "Deletes a bullet.",
		verb:     "removed",
		describe: func(*playbook.Op) string { return "removed" },
	},
	playbook.SetStatus: {
		meaning: "Changes the status of a bullet, for example to retired.",
		verb:    "changed in status",
		describe: func(op *playbook.Op) string {
			if op.Standing != "" {
				return fmt.Sprintf("now %s, %s", op.Status, op.Standing)
			}
			return "now " + string(op.Status)
		},
	},
	playbook.Pin: {
		meaning: "Pins a bullet, which is then shown before all others, or unpins it.",
		verb:    "pinned or unpinned",
		describe: func(op *playbook.Op) string {
			if op.Pinned {
				return "pinned"
			}
			return "unpinned"
		},
	},
	playbook.Merge: {
		meaning: "Replaces several bullets by one, with all their votes.",
		verb:    "merged",
		describe: func(op *playbook.Op) string {
			return fmt.Sprintf("merged with %s: %q", term.Join(op.Sources), term.OneLine(op.Content, 100))
		},
	},
	playbook.Confirm: {
		meaning:  "Records that another sample gave the same lesson as a bullet.",
		verb:     "proposed again",
		describe: func(op *playbook.Op) string { return "proposed again by " + term.Plural(len(op.Support), "execution") },
	},
	playbook.Tag: {
		meaning: "Adds votes to a bullet: a reflection found it helpful, harmful or neutral for its sample.",
		count:   func(op *playbook.Op) int { return op.Helpful + op.Harmful + op.Neutral },
		summary: func(n int) string { return term.Plural(n, "vote") },
		describe: func(op *playbook.Op) string {
			return fmt.Sprintf("%s +%d", op.NewVote(), op.Helpful+op.Harmful+op.Neutral)
		},
	},
	playbook.Retag: {
		meaning: "Moves votes after a corrected outcome.",
		count:   func(op *playbook.Op) int { return len(op.Support) },
		summary: func(n int) string { return term.Plural(n, "vote") + " corrected" },
		describe: func(op *playbook.Op) string {
			text := VoteChange(op.OldVote, op.NewVote())
			if len(op.Support) > 1 {
				text = fmt.Sprintf("%d times %s", len(op.Support), text)
			}
			return text
		},
	},
	playbook.AddExposures: {
		meaning:  "Adds outcomes of samples to the record of a bullet, which decides whether it stays.",
		count:    func(op *playbook.Op) int { return len(op.Exposures) },
		summary:  func(n int) string { return term.Plural(n, "outcome") },
		describe: func(op *playbook.Op) string { return describeExposures(op.Exposures) },
	},
}

// OperationMeaning explains the operations of a kind in a sentence. It returns an empty string for an unknown kind.
func OperationMeaning(kind playbook.OpKind) string { return operations[kind].meaning }

// operationOrder is the order of the kinds in the summary of a delta.
var operationOrder = []playbook.OpKind{
	playbook.Add, playbook.Put, playbook.Update, playbook.Merge, playbook.Remove, playbook.SetStatus, playbook.Pin, playbook.Confirm, playbook.Tag, playbook.Retag,
	playbook.AddExposures,
}

// quoted returns a description with the text of the bullet, such as added: "Round at the end."
func quoted(verb string) func(*playbook.Op) string {
	return func(op *playbook.Op) string { return fmt.Sprintf("%s: %q", verb, term.OneLine(op.Content, 100)) }
}

// VoteChange describes a changed vote. If before is empty, the vote is new. If after is empty, the vote was withdrawn.
func VoteChange(before, after playbook.Vote) string {
	switch {
	case before == "":
		return string(after) + " (new)"
	case after == "":
		return string(before) + " (withdrawn)"
	}
	return fmt.Sprintf("%s → %s", before, after)
}

// armNames has the name of each arm of an experiment, in the order of a description.
var armNames = []struct {
	arm  playbook.Arm
	name string
}{
	{playbook.ArmShown, "shown"},
	{playbook.ArmWithheld, "withheld"},
	{playbook.ArmOpen, "shown without an experiment"},
}

// describeExposures returns the number and the mean score of the new outcomes in each arm of an experiment, and the number of outcomes that are
// taken back. An outcome that is added and taken back here counts only as taken back.
func describeExposures(all []playbook.Exposure) string {
	scores := map[playbook.Arm]playbook.Scores{}
	undone := 0
	for _, x := range all {
		counts := scores[x.Arm]
		if x.Undo {
			undone++
		}
		switch {
		case !x.Undo:
			counts[x.Score]++
		case counts[x.Score] > 0: // else it takes back an outcome of an earlier operation
			counts[x.Score]--
		}
		scores[x.Arm] = counts
	}
	var text []string
	for _, a := range armNames {
		counts := scores[a.arm]
		if n := counts.Count(); n > 0 {
			text = append(text, fmt.Sprintf("%d %s with a mean score of %.2f", n, a.name, counts.Mean()))
		}
	}
	if undone > 0 {
		text = append(text, term.Plural(undone, "outcome")+" corrected")
	}
	return "outcomes: " + strings.Join(text, ", ")
}

// DescribeEvent describes in one line the effect of an event on a bullet.
func DescribeEvent(e *history.Event, bullet playbook.BulletID) string {
	op := &e.Op
	var text string
	switch e.Kind {
	case history.DuplicateEvent:
		text = "requested again"
		if op.Content != "" {
			text = fmt.Sprintf("proposed again: %q", term.OneLine(op.Content, 100))
		}
	case history.RejectedEvent:
		text = fmt.Sprintf("%s rejected: %q", strings.ToLower(string(op.Kind)), term.OneLine(op.Content, 100))
	default:
		text = operations[e.Kind].describe(op)
	}
	if e.Bullet != bullet && e.Bullet != "" {
		text = fmt.Sprintf("%s %s", e.Bullet, text)
	}
	text += " by " + e.Author
	if e.Model != "" && e.Kind != playbook.Tag && e.Kind != playbook.AddExposures {
		text += fmt.Sprintf(" (model %s, prompt %s)", e.Model, e.Prompt)
	}
	if e.Restores != nil {
		text += fmt.Sprintf(", restoring version %d", *e.Restores)
	}
	if e.Forgets != nil {
		text += fmt.Sprintf(", forgetting %s", e.Forgets)
	}
	if e.Reason != "" {
		text += fmt.Sprintf(": %s", term.OneLine(e.Reason, 120))
	}
	return text
}

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
	sums := map[playbook.OpKind]int{}
	for i := range d.Ops {
		op := &d.Ops[i]
		if count := operations[op.Kind].count; count != nil {
			sums[op.Kind] += count(op)
		} else {
			sums[op.Kind]++
		}
	}
	for _, kind := range operationOrder {
		switch n, described := sums[kind], operations[kind]; {
		case n == 0:
		case described.summary != nil:
			parts = append(parts, described.summary(n))
		default:
			add("%d %s", n, described.verb)
		}
	}
	requested := 0 // proposals of advice that a bullet gives already: its log calls them requests, not mistakes
	for i := range d.Rejected {
		if d.Rejected[i].DuplicateOf != "" {
			requested++
		}
	}
	if requested > 0 {
		add("%d requested again", requested)
	}
	if n := len(d.Rejected) - requested; n > 0 {
		add("%d rejected", n)
	}
	if d.Reason != "" {
		add("%q", term.OneLine(d.Reason, 60))
	}
	return strings.Join(parts, ", ")
}
