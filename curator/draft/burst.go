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
	isSource bool // name is that of a source, not of a session
	name     string
}

// String returns the kind and the name of the contributor.
func (c Contributor) String() string {
	if c.isSource {
		return fmt.Sprintf("source %q", c.name)
	}
	return fmt.Sprintf("session %q", c.name)
}

// Burst limits the bullets that one contributor may add within burstWindow. A value of Max below 1 disables the limit.
type Burst struct {
	Max    int
	Recent map[Contributor]int // bullets added within the window, before this draft
}

// contributors returns the contributors behind an operation, each once.
func (d *draft) contributors(op *playbook.Op) (all []Contributor) {
	add := func(c Contributor) {
		if c.name != "" && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	for _, e := range d.evidenceBehind(op.Support) {
		add(Contributor{name: e.Session})
		if d.Policy.Of(e.Source).Level != playbook.Trusted {
			add(Contributor{isSource: true, name: e.Source})
		}
		if e.Inferred && d.Policy.OfInferred().Level != playbook.Trusted {
			add(Contributor{isSource: true, name: playbook.InferredSource})
		}
	}
	return all
}

// limitBurst puts a new bullet into quarantine if one of its contributors has reached the burst limit.
func (d *draft) limitBurst(op *playbook.Op) {
	if d.Burst.Max < 1 {
		return
	}
	for _, c := range d.contributors(op) {
		if d.Burst.Recent[c]+d.added[c] >= d.Burst.Max {
			op.Status, op.Code = playbook.Quarantined, playbook.ReasonTooManyAtOnce
			op.Reason = fmt.Sprintf("%s has added more than %d bullets in %d minutes", text.Excerpt(c.String(), screen.MaxName), d.Burst.Max, int(burstWindow.Minutes()))
			return
		}
	}
}

// Additions counts the bullets that each contributor has added within burstWindow. The zero value is empty.
type Additions struct {
	counts map[Contributor][]additionCount // oldest first
}

type additionCount struct {
	time time.Time
	n    int
}

// Recent returns the counts at the time now. It deletes the entries that are older than burstWindow.
func (a *Additions) Recent(now time.Time) map[Contributor]int {
	sums := map[Contributor]int{}
	for c, list := range a.counts {
		list = slices.DeleteFunc(list, func(added additionCount) bool { return now.Sub(added.time) >= burstWindow })
		if len(list) == 0 {
			delete(a.counts, c)
			continue
		}
		a.counts[c] = list
		for _, added := range list {
			sums[c] += added.n
		}
	}
	return sums
}

// Add adds the numbers of bullets that the contributors have added at the time now.
func (a *Additions) Add(added map[Contributor]int, now time.Time) {
	if a.counts == nil {
		a.counts = map[Contributor][]additionCount{}
	}
	for c, n := range added {
		a.counts[c] = append(a.counts[c], additionCount{now, n})
	}
}
