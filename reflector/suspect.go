package reflector

import (
	"slices"

	"debrief/events"
	"debrief/playbook"
)

// maxSuspect limits the reason of a doubt, in bytes.
const maxSuspect = 500

// withdraw drops the lessons, the votes and the advice of a reflection whose outcome is doubted, and the outcomes of bullets that
// no experiment assigned. It keeps the outcomes of the random arms: a model doubts some kinds of outcomes more than others, so to leave out
// the doubted ones would bias the comparison of the arms.
func withdraw(ref *events.Reflection) {
	ref.KeyInsight = ""
	ref.CorrectApproach = ""
	ref.Lessons = nil
	ref.Tags = nil
	ref.Exposures = slices.DeleteFunc(slices.Clone(ref.Exposures), func(x events.Exposure) bool { return x.Arm == playbook.ArmOpen })
}
