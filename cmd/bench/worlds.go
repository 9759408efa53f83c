package main

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/cmd/internal/simulated/worlds/procedures"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/simulated/worlds/tools"
)

// newWorld returns the world of a name and a seed. The seed determines the hidden rules, the tasks and the errors of the model.
func newWorld(name string, seed uint64, e worlds.Imperfection) (worlds.World, error) {
	switch name {
	case invoice.Name:
		return invoice.New(seed, e), nil
	case text.Name:
		return text.New(seed, false, e), nil
	case tools.Name:
		return tools.New(seed, e), nil
	case text.Drifting:
		return text.New(seed, true, e), nil
	case procedures.Name:
		return procedures.New(seed, e), nil
	}
	return nil, fmt.Errorf("open world %q: unknown name, must be one of %s", name, strings.Join(worldNames, ", "))
}

// worldNames are the names of all worlds, in the order of reports.
var worldNames = []string{invoice.Name, text.Name, tools.Name, text.Drifting, procedures.Name}
