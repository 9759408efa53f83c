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

// New returns the world of a name and a seed. The seed determines the hidden rules, the tasks and the errors of the model.
func New(name string, seed uint64, e world.Imperfection) (world.World, error) {
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
	return nil, fmt.Errorf("open world %q: unknown name, must be one of %s", name, strings.Join(Names(), ", "))
}

// Names returns the names of all worlds, in the order of reports.
func Names() []string {
	return []string{invoice.Name, text.Name, tools.Name, text.Drifting, procedures.Name}
}
