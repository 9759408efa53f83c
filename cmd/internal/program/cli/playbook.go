package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"

	book "debrief/playbook"
)

// BookFlags has the flags of a command on one playbook.
type BookFlags struct {
	ServerFlags
	Book string `help:"Name of the playbook." default:"default"`
}

// Playbook is a session and a playbook on its server. The playbook may not exist yet.
type Playbook struct {
	*Session
	*explain.Book
}

// Playbook returns a playbook on the server of the session. It sends no request.
func (s *Session) Playbook(name book.Book) *Playbook {
	return &Playbook{s, explain.NewBook(s.JetStream(), name)}
}

// OpenExisting opens a session that only reads. It returns an error if the playbook has no version.
func (f BookFlags) OpenExisting(ctx context.Context, c *program.Common) (*Playbook, error) {
	name, err := ParseBook(f.Book)
	if err != nil {
		return nil, err
	}
	s, err := f.ConnectReading(ctx, c.Logger())
	if err != nil {
		return nil, err
	}
	b := s.Playbook(name)
	known, err := b.Store.AllBooks(ctx)
	if err == nil && !slices.Contains(known, b.Name) {
		err = program.Exit(program.ExitRefused, NotFoundError(b.Name, known))
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// NotFoundError is the error for an unknown playbook.
func NotFoundError(name book.Book, known []book.Book) error {
	if len(known) == 0 {
		return fmt.Errorf("playbook %q: not found, and there are no playbooks: create one with 'debrief learn FILE', or submit tasks to 'debrief up'", name)
	}
	return fmt.Errorf("playbook %q: not found; select one of these: %s", name, JoinBooks(known))
}

// JoinBooks returns the names of playbooks for a sentence.
func JoinBooks(names []book.Book) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
