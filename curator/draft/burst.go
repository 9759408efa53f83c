package draft

import (
	"fmt"
	"slices"
	"time"

	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/text"
)

// burstWindow is the time within which a session, or a source that is not fully trusted, may add Burst.Max bullets. Further
// bullets go to quarantine and wait for a person. Each Curator process counts for itself, and begins at 0 after a restart.
const burstWindow = 10 * time.Minute

// Contributor is the origin of bullets: a session, or a source that is not fully trusted.
type Contributor struct {
	source bool // name is that of a source, not of a session
	name   string
}

// String returns the kind and the name of the contributor.
func (c Contributor) String() string {
	if c.source {
		return fmt.Sprintf("source %q", c.name)
	}
	return fmt.Sprintf("session %q", c.name)
}

// Burst limits the bullets that one contributor may add within burstWindow. A value of Max below 1 disables the limit.
type Burst struct {
	Max    int
	Recent map[Contributor]int // bullets added within the window, before this draft
}

// contributors returns the contributors in the support of an operation, each once.
func (d *draft) contributors(support []int) (all []Contributor) {
	add := func(m Contributor) {
		if m.name != "" && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	for _, i := range support {
		e := d.evidenceOf(i)
		add(Contributor{name: e.Session})
		if d.Policy.Of(e.Source).Level != playbook.Trusted {
			add(Contributor{source: true, name: e.Source})
		}
		if e.Inferred && d.Policy.OfInferred().Level != playbook.Trusted {
			add(Contributor{source: true, name: playbook.InferredSource})
		}
	}
	return all
}

// limitBurst puts a new bullet into quarantine if one of its contributors has reached the burst limit.
func (d *draft) limitBurst(op *playbook.Op) {
	if d.Burst.Max < 1 {
		return
	}
	for _, m := range d.contributors(op.Support) {
		if d.Burst.Recent[m]+d.added[m] >= d.Burst.Max {
			op.Status, op.Code = playbook.Quarantined, playbook.ReasonTooManyAtOnce
			op.Reason = fmt.Sprintf("%s has added more than %d bullets in %d minutes", text.Excerpt(m.String(), screen.MaxName), d.Burst.Max, int(burstWindow.Minutes()))
			return
		}
	}
}

// Additions counts the bullets that each contributor has added within burstWindow. The zero value is empty.
type Additions struct {
	at map[Contributor][]additionCount
}

type additionCount struct {
	time time.Time
	n    int
}

// Recent returns the counts at the time now. It deletes the entries that are older than burstWindow.
func (b *Additions) Recent(now time.Time) map[Contributor]int {
	counts := map[Contributor]int{}
	for m, list := range b.at {
		list = slices.DeleteFunc(list, func(c additionCount) bool { return now.Sub(c.time) >= burstWindow })
		b.at[m] = list
		if len(list) == 0 {
			delete(b.at, m)
		}
		for _, c := range list {
			counts[m] += c.n
		}
	}
	return counts
}

// Add adds counts of new bullets.
func (b *Additions) Add(added map[Contributor]int, now time.Time) {
	for m, n := range added {
		if b.at == nil {
			b.at = map[Contributor][]additionCount{}
		}
		b.at[m] = append(b.at[m], additionCount{now, n})
	}
}
