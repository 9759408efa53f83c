// Package gate decides from outcomes which learned bullets stay. A decision depends on the records of bullets. Their texts matter only for
// the question whether a new text contradicts a bullet or extends it; see isExtension. A record counts outcomes in two ways.
//
//   - Cited: the outcomes of tasks whose answer cited the bullet. They come fast, but they also depend on the difficulty of
//     the tasks. An answer may cite several bullets. If the task has a flaw, package draft counts it only for the bullets that the
//     reflection votes on: with the score 0 for a harmful bullet, and with the score of the task for a helpful one.
//   - Shown and Withheld: the outcomes of an experiment. A bullet is withheld from a random half of the tasks of the
//     experiment. The two groups differ only at random, so the difference between their outcomes is the effect of the bullet.
//
// # Assessment of a record
//
// Assess turns a record into a decision.
//
//   - Harm and benefit come from the experiment, by a bound that holds at any time; see below.
//   - A bullet fails if the tasks that cite it succeed less often than the tasks that it was withheld from. The evidence is
//     the Bayes factor of two success rates against one; see failing. It needs few outcomes if the effect is large. While
//     nothing was withheld, the bullet is compared with the tasks that do not cite it; see playbook.Typical.
//   - A new bullet that seems to fail is suspended: it goes back to the waiting candidates, and its record stays. It is shown
//     again when enough other executions request it (lead to a proposal of its text): more for stronger evidence against it.
//   - A bullet is trusted if the tasks that cite it mostly succeed.
//   - The outcomes of a trusted bullet have drifted if its newest tasks fail more often than chance explains; see drifted.
//
// # The bound
//
// Each outcome y of an experiment, a score from 0 to 1, becomes
//
//	z = 2·(y - m) if shown, -2·(y - m) if withheld
//
// where m is any constant. The arm is random with probability 1/2, so the expected value of z is the lift, independent of
// the task, the other bullets and the model. This is the inverse probability weighting of Horvitz and Thompson (1952). It
// holds for each outcome given all earlier ones; outcomes need not be independent. Which tasks are used for an experiment
// may depend on everything before them.
//
// The test of the hypothesis "the lift is at most d" is a betting martingale. A bet starts with the wealth 1. Each outcome multiplies the
// wealth by 1 + b·(z - d), with a stake b so small that each factor is positive. If the hypothesis is true, the wealth is a non-negative
// supermartingale. It reaches 1/α with a probability of at most α, even if it is checked after every outcome (Ville 1939). So an
// experiment can stop at any time. The mean wealth of several bets is a supermartingale too. The package takes the mean over five
// constants m and five stakes, because the best ones are not known in advance (Waudby-Smith and Ramdas, "Estimating means of bounded
// random variables by betting", 2024). The wealth is also called an e-value. It depends only on the number of outcomes of each kind and
// not on their order, because the stakes are fixed. Therefore an experiment stores only counts, and outcomes can be added in any order
// and removed again.
//
// # Decisions on a playbook
//
// Package draft decides which new advice waits as a candidate. A Decider applies assessments to the bullets with new evidence: which ones
// retire, return, or replace another. It changes bullets only through Decider.Apply. Three rules are for a candidate that would
// replace a bullet, or that contradicts one:
//
//   - If the bullet has a good record, a share of the failures blamed on it must request the candidate. Wrong verdicts lead to
//     proposals of many different texts. The failures of a wrong bullet lead to proposals of the same text.
//   - If the bullet is trusted, a share of all its outcomes must request the candidate that would replace it, and at least three.
//   - Both rules end when the newest outcomes of the bullet are bad. They do not apply to a candidate that only adds to the bullet.
package gate

import (
	"cmp"

	"debrief/events/config"
)

// Config configures the gate. A zero field has its default.
type Config struct {
	// Alpha is the error probability of each decision: that a bullet without effect becomes proven, or that a bullet that does
	// no harm retires; default 0.05.
	Alpha float64
	// MaxOutcomes is the number of outcomes after which a bullet on probation retires if its record is still undecided. Only a
	// strict gate uses it; default 200.
	MaxOutcomes int
}

// WithDefaults replaces zero fields by their defaults.
func (c Config) WithDefaults() Config {
	c.Alpha = cmp.Or(c.Alpha, 0.05)
	c.MaxOutcomes = cmp.Or(c.MaxOutcomes, 200)
	return c
}

// Validate returns all invalid fields, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var e config.Errors
	if !(c.Alpha > 0 && c.Alpha < 0.5) {
		e.Add("Alpha", "must be above 0 and below 0.5, got %v", c.Alpha)
	}
	config.AtLeast(&e, "MaxOutcomes", c.MaxOutcomes, 1)
	return e.Join()
}
