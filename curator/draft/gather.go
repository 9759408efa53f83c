package draft

import (
	"fmt"
	"strings"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/text"
)

// draftGathered drafts the gathered reflections of an edit, except those that the log covers. It returns nil, or the reason
// why the edit is refused. The reflections count as evidence and not as decisions of a person.
func (d *draft) draftGathered(item *Item, out *playbook.Delta) *screen.Refusal {
	d.byPerson = false
	d.Burst = Burst{} // the result must not depend on the time
	reason := strings.TrimSuffix(fmt.Sprintf("gathered by %s: %s", out.Author, out.Reason), ": ")
	out.Author, out.Reason = history.Curator, text.Excerpt(reason, screen.MaxReason)
	size := sizeOf(&d.covers[item.coverIndex])
	for _, gathered := range item.Gathered.Items {
		if d.covered(gathered) {
			continue
		}
		cover := gathered.Cover()
		size += sizeOf(&cover)
		if size > hardBytes {
			return screen.Refusef(playbook.ReasonDeltaFull, "gather: the evidence of %d reflections does not fit in one delta: gather fewer at a time",
				len(item.Gathered.Items))
		}
		d.draftReflection(gathered, out)
	}
	return nil
}

// fillDecision sets the changed and added bullets in a decision about gathered reflections, unless the edit was refused.
func (d *draft) fillDecision(decision *events.EditReply) {
	if len(decision.Refused) > 0 {
		return
	}
	decision.Changed, decision.Added = len(d.changed), nil
	for i := range d.ops {
		if d.ops[i].Kind == playbook.Add {
			decision.Added = append(decision.Added, d.ops[i].Bullet)
		}
	}
}
