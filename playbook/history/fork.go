package history

import "debrief/playbook"

// ForkOf returns the origin of a playbook that began as a copy of another one, and the version at which the copy was
// complete: the last of the first changes that all have this Fork. For any other playbook it returns the zero Fork and 0.
func ForkOf(log Log) (f playbook.Fork, complete uint64, err error) {
	err = log.changes(endOfLog, func(c change) error {
		d := c.last()
		if d.Fork == nil || complete > 0 && *d.Fork != f {
			return errEnough
		}
		f, complete = *d.Fork, d.Version
		return nil
	})
	return f, complete, err
}
