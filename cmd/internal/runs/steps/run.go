package steps

import (
	"debrief/cmd/internal/runs/source"
	"debrief/events"
)

// Run is an execution with the recorder's name for it.
type Run struct {
	events.Execution
	Name     string // the recorder's name within the file; may be empty
	Task     string // the recorder's name of the task, the same for all attempts in the file; may be empty
	HasRunID bool   // the execution already has its task id
	// IDs has the recorder's ids of each step, which a copy of the run keeps, "" for a step without one. It is nil if there are none.
	IDs     []string
	Omitted source.Omissions
}
