package events

import "fmt"

// Control is the random arm of a session, while its playbook has a control share (playbook.Share). All runs of the session have the same
// arm. A run without a session is a session of its own. Evaluations, pinned tasks, training and calls that are only observed have none: a
// run without a Control is neither in the control group nor in the other one.
type Control struct {
	// Held is set in the control group: no prompt of the session contains learned texts of the playbook. In the other arm it is false, and
	// the prompts are as usual. Some of these have no learned text either, for example if no bullet applies.
	Held bool `msgpack:"h,omitempty" json:"held"`
	// Share is the probability of the control group when the session was assigned, in tenths of a percent: 1 to 500.
	Share int `msgpack:"s" json:"share_per_mille"`
}

// Probability returns the probability with which the session got its arm.
func (c *Control) Probability() float64 {
	held := float64(c.Share) / 1000
	if c.Held {
		return held
	}
	return 1 - held
}

// Validate returns an error for an invalid share. Nil is valid.
func (c *Control) Validate() error {
	if c != nil && (c.Share < 1 || c.Share > 500) {
		return fmt.Errorf("control.share_per_mille: must be 1 to 500, got %d", c.Share)
	}
	return nil
}
