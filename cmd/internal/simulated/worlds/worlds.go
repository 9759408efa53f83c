// Package worlds lists the simulated worlds that measure learning. A world has tasks with hidden rules, an agent, and a
// model for the Reflector and the Curator.
//
// A world shares no code with the product: it imports only the standard library and other packages below this one. The
// model of a world reads prompts, and knows language but no rules. It therefore learns only through the playbook.
package worlds

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/cmd/internal/simulated/worlds/procedures"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/simulated/worlds/tools"
	"debrief/cmd/internal/simulated/worlds/world"
)

// The types of package world under the names that users of this package need.
type (
	World        = world.World
	Caller       = world.Caller
	Task         = world.Task
	Message      = world.Message
	Step         = world.Step
	Attempt      = world.Attempt
	Verdict      = world.Verdict
	Imperfection = world.Imperfection
)

// Default returns moderate error rates.
func Default() Imperfection { return world.Default() }

// registry lists the worlds in the order of reports.
var registry = []struct {
	name string
	open func(seed uint64, e Imperfection) World
}{
	{invoice.Name, func(seed uint64, e Imperfection) World { return invoice.New(seed, e) }},
	{text.Name, func(seed uint64, e Imperfection) World { return text.New(seed, false, e) }},
	{tools.Name, func(seed uint64, e Imperfection) World { return tools.New(seed, e) }},
	{text.Drifting, func(seed uint64, e Imperfection) World { return text.New(seed, true, e) }},
	{procedures.Name, func(seed uint64, e Imperfection) World { return procedures.New(seed, e) }},
}

// New returns the world of a name and a seed. The seed determines the hidden rules, the tasks and the errors of the model.
func New(name string, seed uint64, e Imperfection) (World, error) {
	for _, r := range registry {
		if r.name == name {
			return r.open(seed, e), nil
		}
	}
	return nil, fmt.Errorf("open world %q: unknown name, must be one of %s", name, strings.Join(Names(), ", "))
}

// Names returns the names of all worlds, in the order of reports.
func Names() []string {
	names := make([]string, len(registry))
	for i, r := range registry {
		names[i] = r.name
	}
	return names
}
