package books

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"

	book "debrief/playbook"
)

// logBook lists the changes of a playbook.
type logBook struct {
	apiclient.BookFlags
	Limit int  `help:"Maximum number of changes to list; 0 lists all." default:"20"`
	Names bool `help:"List only the versions that have a name."`
	JSON  bool `help:"Print JSON lines with all operations, nothing if there are none."`
}

// Run implements the command.
func (l *logBook) Run(ctx context.Context, c *program.Common) error {
	a, err := l.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	limit := l.Limit
	if l.Names {
		limit = 0 // any version may have a name
	}
	all, _, err := api.List[index.Version](ctx, a.Client, l.Path("versions"), nil, limit)
	if err != nil {
		return err
	}
	if l.Names {
		all = slices.DeleteFunc(all, func(v index.Version) bool { return len(v.Names) == 0 })
		if l.Limit > 0 && len(all) > l.Limit {
			all = all[:l.Limit]
		}
	}
	if l.JSON {
		return l.printOperations(ctx, a, all)
	}
	return term.PrintTable(term.Stdout, "version\twhen\tby\tcovers\tchanges", all, func(w io.Writer, v index.Version) {
		title := strings.Join(append([]string{v.Label}, v.Names...), " ")
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", title, v.Time.Local().Format(time.DateTime), term.OneLine(v.Author, 20), v.Covers, v.Summary)
	})
}

// printOperations prints each version with its operations.
func (l *logBook) printOperations(ctx context.Context, a *apiclient.Client, all []index.Version) error {
	for _, v := range all {
		d, err := api.Get[api.VersionDetails](ctx, a.Client, l.Path("versions", fmt.Sprint(v.Version)), nil)
		if err != nil {
			return err
		}
		err = cli.WriteJSON(term.Stdout, struct {
			Label string `json:"label"`
			Bytes int    `json:"bytes"`
			*book.Delta
		}{v.Label, v.Bytes, d.Delta})
		if err != nil {
			return err
		}
	}
	return nil
}
