package explain

import (
	"debrief/events"
)

// Turn is an interaction in the window of a session, with its mark, if any.
type Turn struct {
	*events.Interaction
	Mark events.Mark
}

// Window returns the turns in the window of a session, in the order of list, and the marked interactions that are older than the window, in
// the order of marks.
func Window(list []*events.Interaction, marks []events.MarkedInteraction) (turns []Turn, older []events.MarkedInteraction) {
	unused := make(map[events.Handle]events.Mark)
	for _, m := range marks {
		unused[m.Interaction.Execution] = m.Mark
	}
	for _, i := range list {
		turns = append(turns, Turn{i, unused[i.Execution]})
		delete(unused, i.Execution)
	}
	for _, m := range marks {
		if _, ok := unused[m.Interaction.Execution]; ok {
			older = append(older, m)
		}
	}
	return turns, older
}
