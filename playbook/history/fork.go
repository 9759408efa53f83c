package history

import (
	"fmt"
	"regexp"

	"debrief/playbook"
)

// Forker is the author of the edits that copy a book into a new one.
const Forker = "debrief"

// Fork says which book another one began as a copy of. Its text is the reason of the edits that made the copy, so that
// the log of a book tells by itself what was learned in it and what it came with.
type Fork struct {
	Of playbook.Book
	At string // label of the version
}

func (f Fork) String() string { return fmt.Sprintf("fork of %s at %s", f.Of, f.At) }

var forked = regexp.MustCompile(`^fork of ([A-Za-z0-9_-]{1,64}) at ([0-9]+(?:@[0-9a-f]{1,64})?)$`)

// ForkOf is what a log says about how its book began, and the version at which the copy was whole. That is 0, and the
// fork the zero one, of a book that began empty.
func ForkOf(log Log) (f Fork, whole uint64, err error) {
	err = log.changes(all, func(c change) error {
		d := c.last()
		m := forked.FindStringSubmatch(d.Reason)
		if d.Author != Forker || m == nil {
			return errEnough
		}
		is := Fork{playbook.Book(m[1]), m[2]}
		if whole > 0 && is != f {
			return errEnough
		}
		f, whole = is, d.Version
		return nil
	})
	return f, whole, err
}
