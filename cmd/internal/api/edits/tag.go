package edits

import (
	"errors"

	"debrief/events"

	book "debrief/playbook"
)

// Tag returns the edit that names a version. It returns an error for version 0, the empty playbook: in an edit 0 means the newest version.
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
