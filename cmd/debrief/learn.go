package main

import (
	"context"
	"errors"

	"debrief/cmd/debrief/internal/books"
	"debrief/cmd/internal/agents/hooks"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/train"
)

// learnCommands are the commands that learn and measure learning.
func learnCommands() []program.Command {
	return []program.Command{
		{Name: "learn", Run: &train.Learn{HandOver: handOver}, Help: "Learn from recorded runs of any agent, in the formats of many tools."},
		{Name: "feedback", Run: new(books.Feedback), Help: "Record or change feedback on an execution."},
		{Name: "train", Run: new(train.Training), Help: "Train a playbook on tasks in epochs, online, or from recorded executions."},
		{Name: "report", Run: new(books.Report), Help: "Say what a playbook is worth: its effect against the control group."},
		{Name: "eval", Run: new(train.Eval), Help: "Score a playbook on a data set; compare versions, playbooks, models and prompts."},
	}
}

// handOver hands over the runs of coding agents that wait on this machine.
func handOver(ctx context.Context) (int, error) {
	settings, err := hooks.SettingsFile()
	dir, stateErr := hooks.StateDir()
	if err := errors.Join(err, stateErr); err != nil {
		return 0, err
	}
	return hooks.HandOver(ctx, settings, dir)
}
