package learning

import (
	"debrief/curator"

	book "debrief/playbook"
)

// gates lists the modes of the gate, from the weakest to the strictest. All arms take their names from it.
var gates = []book.Gate{book.GateOff, book.GateGuard, book.GateStrict}

// strictest is the mode that shows new advice to the fewest tasks.
var strictest = gates[len(gates)-1]

// defaultGate is the mode that a user gets.
var defaultGate = curator.Config{}.WithDefaults().GateMode
