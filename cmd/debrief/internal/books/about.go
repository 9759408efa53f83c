package books

import (
	"context"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"

	book "debrief/playbook"
)

// about shows or sets the name and the description.
type about struct {
	change
	Name        string `help:"New name for people, one line." placeholder:"NAME"`
	Description string `help:"New description: what the playbook is for." placeholder:"TEXT"`
	Clear       bool   `help:"Remove the name and the description before the new ones are set."`
}

// Help implements kong.HelpProvider.
func (*about) Help() string {
	return `Lists and the console show the name and the description beside the playbook. No prompt contains them.

Examples:

  debrief playbook about --book support
  debrief playbook about --book support --name "Support desk"
  debrief playbook about --book support --description "Tickets of shops."`
}

// Run implements the command.
func (a *about) Run(ctx context.Context, c *program.Common) error {
	if a.Name != "" || a.Description != "" || a.Clear {
		r := &api.EditRequest{About: new(api.AboutRequest)}
		if a.Name != "" || a.Clear {
			r.About.Name = &a.Name
		}
		if a.Description != "" || a.Clear {
			r.About.Description = &a.Description
		}
		return a.edit(ctx, c, apiclient.Create, r, func(*api.EditReply) string { return "Saved the name and the description." })
	}
	state, err := apiclient.Get[api.BookState](ctx, c, a.Flags, a.Path(), nil)
	switch {
	case err != nil:
		return err
	case a.JSON:
		return cli.WriteJSON(term.Stdout, struct {
			Book  book.Book `json:"book"`
			Label string    `json:"label"`
			book.About
		}{state.Book, state.Label, state.About})
	}
	term.Printf("Playbook %q at version %s\n  name: %s\n  description: %s\n", state.Book, state.Label, orNone(state.Name), orNone(state.Description))
	return nil
}

// orNone returns a text, or "none" for an empty one.
func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return term.OneLine(text, book.MaxContent)
}
