package deltalog

import (
	"fmt"

	"debrief/playbook"
)

// repeatedCover is an event that is covered again, and the version that does so.
type repeatedCover struct {
	cover   playbook.Cover
	version uint64
}

// checkCovers finds events that the next delta of a log covers again.
func (v *verifier) checkCovers(r *Record) {
	inDelta := make(map[playbook.CoverKey]bool, len(r.Covers))
	for _, cover := range r.Covers {
		key := cover.Key()
		if v.covered.has(key) || inDelta[key] {
			v.repeated = append(v.repeated, repeatedCover{cover, r.Version})
		}
		inDelta[key] = true
	}
	v.covered.add(r)
}

// reportCovers adds a finding for each event that is covered again.
func (v *verifier) reportCovers() {
	for _, found := range v.repeated[:min(len(v.repeated), maxDifferences)] {
		fix := ""
		if e := found.cover.Evidence; e != nil {
			fix = fmt.Sprintf("; run 'debrief playbook forget --book %s --execution %s' to remove its votes", v.Book, e.Execution)
		}
		v.addFinding(Broken, FindingDuplicate, "%s %s is applied more than once: again in version %d%s", found.cover.Kind(), found.cover.ID, found.version, fix)
	}
	if more := len(v.repeated) - maxDifferences; more > 0 {
		v.addFinding(Broken, FindingDuplicate, "%d more are applied more than once", more)
	}
}
