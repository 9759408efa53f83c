package remedy

import (
	"cmp"
	"slices"
	"strings"
)

// Known is an error of a tool that agents met again although they could read it. It is a report for people and no lesson:
// its text is that of the tool.
type Known struct {
	Tool      string `json:"tool"`
	Error     string `json:"error"` // one clean line with placeholders
	Runs      int    `json:"runs"`
	Tasks     int    `json:"tasks"`
	Repeated  int    `json:"repeated"`  // runs in which another attempt had the same error
	Unchanged int    `json:"unchanged"` // runs in which the same call had the same error again
}

const (
	minRepeats = 2  // runs in which agents repeated an error
	maxKnown   = 20 // errors of a report
)

// Known returns the errors that agents repeated in several runs and tasks, the most frequent ones first, at most maxKnown.
func (x *Errors) Known() []Known {
	var all []Known
	for _, st := range x.stats {
		if st.repeated >= minRepeats && st.met.tasks >= minTasks {
			all = append(all, Known{Tool: st.tool, Error: st.text, Runs: st.met.runs, Tasks: st.met.tasks, Repeated: st.repeated, Unchanged: st.unchanged})
		}
	}
	slices.SortFunc(all, func(a, b Known) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Error, b.Error))
	})
	return all[:min(len(all), maxKnown)]
}
