package edits

import (
	"errors"

	"debrief/events"

	book "debrief/playbook"
)

// Tag returns the edit that names a version. Version 0 cannot be named: it is the empty playbook, and an edit means the newest
// version by 0.
func Tag(name string, version uint64) (*events.Edit, error) {
	n := book.Name{Name: name, Version: version}
	if version == 0 {
		return nil, errors.New("version 0: always the empty playbook, which has no name")
	}
	if err := n.Validate(); err != nil {
		return nil, err
	}
	return &events.Edit{Names: []book.Name{n}}, nil
}
