package reflector

import (
	"slices"

	"debrief/events"
	"debrief/playbook"
)

// suspectText asks the model to say if the outcome itself looks wrong.
const suspectText = `- The outcome may be wrong itself: the expected answer contradicts a formula or a fact in the task, or what a person said contradicts what the attempt shows. Then do not explain the attempt by an invented rule: label_suspect says in one sentence what contradicts what, and key_insight is "". Otherwise label_suspect is "". That an outcome is unwelcome, or that you would have answered otherwise, is no reason.
`

// maxSuspect limits the reason of a doubt, in bytes.
const maxSuspect = 500

// withdraw drops what a doubted outcome would teach: lessons, votes, the approach for later prompts, and the outcome of
// bullets that no experiment assigned. It keeps the random arms: there, doubt in one kind of outcome would bias the gate.
func withdraw(ref *events.Reflection) {
	ref.KeyInsight, ref.CorrectApproach, ref.Lessons, ref.Tags = "", "", nil, nil
	ref.Exposures = slices.DeleteFunc(slices.Clone(ref.Exposures), func(x events.Exposure) bool { return x.Arm == playbook.ArmOpen })
}
