package main

import (
	"debrief/curator"

	book "debrief/playbook"
)

// arm is one configuration of feedback, gate, prompt and model. All arms learn from the same tasks.
type arm struct {
	name      string
	onRequest bool      // runs only if --arms names it
	gate      book.Gate // empty is the default
	wrong     bool      // a share of the verdicts is wrong
	judge     bool      // the verdicts are of a judge, a model whose share of errors Debrief knows
	showAll   bool      // the prompt contains all bullets
	isFixed   bool      // the playbook does not learn
	byHand    bool      // the playbook begins with the rules by hand
	isBinary  bool      // outcomes have the score 0 or 1, without partial scores
	forgets   bool      // the lessons of the models leave out the scope of a rule
	votesOnly bool      // the Reflector votes without errors, and gives no lessons
	silent    float64   // share of tasks without an outcome
	late      int       // number of tasks after which an outcome is reported, out of order
}

// wrongShare is the share of wrong verdicts in the arms with wrong verdicts.
const wrongShare = 0.2

// defaultGate is the mode of the gate that a user gets.
var defaultGate = curator.Config{}.WithDefaults().GateMode

// allArms lists the arms in the order of the output.
var allArms = []arm{
	{name: "off", gate: book.GateOff},
	{name: "guard", gate: book.GateGuard},
	{name: "strict", gate: book.GateStrict},
	{name: "off-wrong", gate: book.GateOff, wrong: true},
	{name: "guard-wrong", gate: book.GateGuard, wrong: true},
	{name: "strict-wrong", gate: book.GateStrict, wrong: true},
	{name: "all-shown", gate: book.GateOff, showAll: true},
	{name: "by-hand", isFixed: true, byHand: true},
	{name: "ceiling", isFixed: true, byHand: true, showAll: true},
	{name: "none", isFixed: true},
	{name: "perfect", onRequest: true, byHand: true},
	{name: "perfect-wrong", onRequest: true, byHand: true, wrong: true},
	{name: "votes-only", onRequest: true, byHand: true, votesOnly: true},
	{name: "right-or-wrong", onRequest: true, isBinary: true},
	{name: "forgetful", onRequest: true, forgets: true},
	{name: "silent", onRequest: true, silent: 0.7},
	{name: "late", onRequest: true, late: 200},
	{name: "off-late", onRequest: true, gate: book.GateOff, late: 200},
	{name: "off-silent", onRequest: true, gate: book.GateOff, silent: 0.7},
	{name: "judge", onRequest: true, wrong: true, judge: true},
}

// armNames returns the names of the arms for which accept returns true.
func armNames(accept func(*arm) bool) []string {
	var names []string
	for i := range allArms {
		if accept(&allArms[i]) {
			names = append(names, allArms[i].name)
		}
	}
	return names
}

func anyArm(*arm) bool { return true }
