package history

import "debrief/playbook"

// ForkOf returns the origin of a playbook that began as a copy of another one, and the version at which the copy was
// complete. The copy is one or several changes at the beginning of the log, all with the same Fork. For a playbook that is no copy
// ForkOf returns the zero Fork and 0.
func ForkOf(log Log) (f playbook.Fork, complete uint64, err error) {
	err = log.changes(endOfLog, func(c change) error {
		d := c.last()
		if isCopy := d.Fork != nil && (complete == 0 || *d.Fork == f); !isCopy {
			return errEnough
		}
		f, complete = *d.Fork, d.Version
		return nil
	})
	return f, complete, err
}
