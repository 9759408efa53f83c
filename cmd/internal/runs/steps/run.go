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
	HasRunID bool   // the execution already has its RunID
	// IDs has one entry for each step: the ids that the recorder gave to its messages, or "" without one. A copy of the run in another
	// file has the same ids. IDs is nil if no step has one.
	IDs     []string
	Omitted source.Omissions // content that was left out of the run
}
