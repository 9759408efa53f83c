package books

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"

	book "debrief/playbook"
)

// change has the flags of the commands that change a playbook over the API. A Curator makes the change.
type change struct {
	apiclient.BookFlags
	Author string `help:"Author of the change, for the log. Default: $USER; with --url the token." placeholder:"NAME"`
	Reason string `help:"Reason of the change, for the log." placeholder:"TEXT"`
	JSON   bool   `help:"Print one JSON document."`
}

// edit sends an edit to the API and prints its result: JSON, or the text for the reply and the new version. A dry run has no new
// version. If the edit conflicts with newer changes, it also prints the bullets as they are now.
func (ch *change) edit(ctx context.Context, c *program.Common, access apiclient.Access, r *api.EditRequest, text func(*api.EditReply) string) error {
	r.Reason = ch.Reason
	a, err := ch.Open(ctx, c, access, ch.Author)
	if err != nil {
		return err
	}
	defer term.Doing("waiting for a curator")()
	reply, err := api.Post[api.EditReply](ctx, a.Client, ch.Path("edits"), nil, r)
	err = errors.Join(err, a.Close())
	var refused *api.Error
	if errors.As(err, &refused) {
		for _, conflict := range refused.Conflicts {
			if conflict.Read != nil {
				term.Fprintf(term.Stderr, "%s", term.Block(explain.Conflict(*conflict.Read, conflict.Expectation)))
			}
		}
	}
	switch {
	case err != nil:
		return err
	case ch.JSON:
		return cli.WriteJSON(term.Stdout, reply)
	}
	term.Printf("%s\n", term.Block(text(reply)))
	if !reply.DryRun {
		term.Printf("Playbook %q is at version %s.\n", reply.Book, reply.Label)
	}
	return nil
}

// done returns a text for edit that does not depend on the reply.
func done(format string, args ...any) func(*api.EditReply) string {
	return func(*api.EditReply) string { return fmt.Sprintf(format, args...) }
}

// bulletArg is a bullet id on the command line. It may have brackets, because prompts show ids in brackets.
type bulletArg string

func (a bulletArg) id() book.BulletID { return book.BulletID(strings.Trim(string(a), "[] ")) }

// ids returns the ids of arguments.
func ids(args []bulletArg) []book.BulletID {
	out := make([]book.BulletID, len(args))
	for i, a := range args {
		out[i] = a.id()
	}
	return out
}
