package books

import (
	"context"
	"fmt"
	"os"
	"slices"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/edits"
	"debrief/cmd/internal/explain"
	"debrief/events"
	"debrief/playbook/formats"
)

type importBook struct {
	change
	File   string `arg:"" help:"File to import; '-' reads standard input."`
	Format string `help:"Format: ace, appworld, kayba, swecli, json or jsonl. Default: detected." placeholder:"NAME"`
	DryRun bool   `help:"Only report the contents of the file."`
}

// Help implements kong.HelpProvider.
func (*importBook) Help() string {
	return `Imports a playbook of another system or of Debrief: ACE text and its AppWorld variant, JSON of kayba and swecli, JSON and
JSONL of Debrief. Ids, counters and times are preserved; other content of the file is ignored. All bullets become visible
at once. Importing a file again changes nothing.

Examples:

  debrief playbook import skillbook.json --book support
  debrief playbook import playbook.txt --dry-run`
}

// Run implements the command.
func (im *importBook) Run(ctx context.Context, c *app.Common) error {
	if im.File != "-" && im.Reason == "" {
		im.Reason = "import of " + im.File
	}
	data, err := cli.ReadFile(im.File)
	if err != nil {
		return err
	}
	format, err := parseFormat(im.Format, false)
	if err != nil {
		return err
	}
	b, err := im.open(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	now, _, err := b.At(ctx, "")
	if err != nil {
		return err
	}
	made, err := edits.NewImport(data, format, now)
	if err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("%s: %w", im.File, err))
	}
	for _, n := range made.Notes {
		console.Fprintf(console.Stderr, "%s: %s\n", im.File, n)
	}
	unchanged := im.DryRun || len(made.Ops) == 0
	if unchanged && im.JSON {
		return cli.WriteJSON(console.Stdout, struct {
			File    string         `json:"file"`
			Format  formats.Format `json:"format"`
			Bullets int            `json:"bullets"`
			New     int            `json:"new"`
			Changed int            `json:"changed"` // always 0: the playbook is unchanged
		}{im.File, made.Format, len(made.Bullets), len(made.Ops), 0})
	}
	if im.DryRun {
		console.Printf("%s: %s format with %s, %d of them new. Nothing was changed.\n", im.File, made.Format, console.Plural(len(made.Bullets), "bullet"), len(made.Ops))
		return nil
	}
	if len(made.Ops) == 0 {
		console.Printf("%s: nothing was changed; the playbook has everything in it (%s).\n", im.File, console.Plural(len(made.Bullets), "bullet"))
		return nil
	}
	var d *events.EditReply
	for part := range made.Parts() {
		if d, err = im.ask(ctx, b, &events.Edit{Ops: part}); err != nil {
			return err
		}
	}
	return im.done(b, d, "Imported %s from %s (%s).", console.Plural(len(made.Bullets), "bullet"), im.File, made.Format)
}

// open opens a session, with --dry-run one that only reads.
func (im *importBook) open(ctx context.Context, c *app.Common) (*cli.Playbook, error) {
	if !im.DryRun {
		return im.Open(ctx, c)
	}
	name, err := cli.ParseBook(im.Book)
	if err != nil {
		return nil, err
	}
	s, err := im.ConnectReadingOrEmpty(ctx, c.Logger())
	if err != nil {
		return nil, err
	}
	return s.Playbook(name), nil
}

// parseFormat validates the name of a format from the command line. Empty stays empty.
func parseFormat(name string, written bool) (formats.Format, error) {
	known, writable := formats.Formats()
	if written {
		known = writable
	}
	if f := formats.Format(name); name == "" || slices.Contains(known, f) {
		return f, nil
	}
	return "", app.Exit(app.ExitUsage, fmt.Errorf("--format: want one of %v, got %q", known, name))
}

type exportBook struct {
	cli.BookFlags
	Format string `help:"Format: ace, appworld, kayba, swecli, json, jsonl or markdown." required:"" placeholder:"NAME"`
	Out    string `short:"o" help:"File to write; '-' writes to standard output, as without the flag." type:"path" placeholder:"FILE"`
	At     string `help:"Version to export: number, label, time or tag. Default: the newest." placeholder:"POINT"`
	Hidden bool   `help:"Include bullets that generators do not show; json and jsonl always do."`
}

// Help implements kong.HelpProvider.
func (*exportBook) Help() string {
	return `Writes a playbook for another system. An import of the file gives the same bullets, except for fields that the format
cannot represent. These are listed, with exit code 5. Markdown is for people: fields that it never shows are no loss.

Examples:

  debrief playbook export --format markdown
  debrief playbook export --book support --format kayba -o skillbook.json
  debrief playbook export --format jsonl --at 2026-11-20 | wc -l`
}

// Run implements the command.
func (ex *exportBook) Run(ctx context.Context, c *app.Common) error {
	format, err := parseFormat(ex.Format, true)
	if err != nil {
		return err
	}
	b, err := ex.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, _, err := b.At(ctx, ex.At)
	if err != nil {
		return err
	}
	bullets := explain.Exported(p, format, ex.Hidden)
	data, losses, err := formats.Write(format, string(b.Name), bullets)
	if err != nil {
		return err
	}
	if ex.Out == "" || ex.Out == "-" {
		_, err = console.Stdout.Write(data)
	} else {
		err = os.WriteFile(ex.Out, data, 0o644)
	}
	if err != nil {
		return err
	}
	if left := p.Len() - len(bullets); left > 0 {
		console.Fprintf(console.Stderr, "Left out %s that generators do not show; --hidden includes them.\n", console.Plural(left, "bullet"))
	}
	return reportLosses(format, losses)
}

// shownFields are the fields of a bullet that a file in Markdown shows. A bullet that is left out has a loss in one of them.
var shownFields = []string{"id", "section", "content", "status"}

// reportLosses prints the fields that the format could not represent. It returns an error if there are any.
func reportLosses(f formats.Format, losses []formats.Loss) error {
	if f == formats.Markdown { // a person who reads the file expects no other fields
		losses = slices.DeleteFunc(losses, func(l formats.Loss) bool { return !slices.Contains(shownFields, l.Field) })
	}
	if len(losses) == 0 {
		return nil
	}
	for _, line := range explain.Losses(losses) {
		console.Fprintf(console.Stderr, "%s\n", line)
	}
	return app.Exit(app.ExitPartial, fmt.Errorf("exported with losses: %s cannot represent the fields above", f))
}
