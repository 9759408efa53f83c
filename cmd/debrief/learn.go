package main

import (
	"debrief/cmd/debrief/internal/books"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/train"
)

// learnCommands are the commands that learn and measure learning.
func learnCommands() []program.Command {
	return []program.Command{
		{Name: "learn", Run: new(train.Learn), Help: "Learn from recorded runs of any agent, in the formats of many tools."},
		{Name: "feedback", Run: new(books.Feedback), Help: "Record or change feedback on an execution."},
		{Name: "train", Run: new(train.Training), Help: "Train a playbook on tasks in epochs, online, or from recorded executions."},
		{Name: "eval", Run: new(train.Eval), Help: "Score a playbook on a data set; compare versions, playbooks, models and prompts."},
	}
}
