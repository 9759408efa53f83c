package books

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/playbook"
	"debrief/playbook/formats"
)

type importBook struct {
	change
	File   string `arg:"" help:"File to import; '-' reads standard input."`
	Format string `help:"Format: ace, kayba, swecli, json or jsonl. Default: detected." placeholder:"NAME"`
	DryRun bool   `help:"Only report the contents of the file."`
}

func (*importBook) Help() string {
	return `Imports a playbook of another system or of Debrief: ACE text, also without counters, JSON of kayba and swecli, JSON and
JSONL of Debrief. Ids, counters and times are preserved; other content of the file is ignored. All bullets become visible
at once. Importing a file again changes nothing.

Of a file with a block of 'playbook export --into' it reads what a person has changed in the block, as one edit: changed texts, new lines,
and removed lines, whose bullets retire. It is refused if a bullet has changed since the export.

Examples:

  debrief playbook import skillbook.json --book support
  debrief playbook import playbook.txt --dry-run
  debrief playbook import CLAUDE.md --book shop`
}

func (im *importBook) Run(ctx context.Context, c *program.Common) error {
	if im.File != "-" && im.Reason == "" {
		im.Reason = "import of " + im.File
	}
	data, err := cli.ReadFile(im.File)
	if err != nil {
		return err
	}
	if im.Format == "" && formats.HasBlock(data) {
		return im.importBlock(ctx, c, data)
	}
	access := apiclient.Create
	if im.DryRun {
		access = apiclient.ReadAny
	}
	body := &api.ImportRequest{Data: string(data), Format: formats.Format(im.Format), Reason: im.Reason, DryRun: im.DryRun}
	out, err := apiclient.Send[api.ImportReply](ctx, c, im.Flags, access, im.Author, im.Path("import"), body)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Field == "data" {
		return program.Exit(program.ExitUsage, fmt.Errorf("%s: %s", im.File, strings.TrimPrefix(refused.Detail, "data: ")))
	}
	if err != nil {
		return err
	}
	for _, n := range out.Notes {
		term.Fprintf(term.Stderr, "%s: %s\n", im.File, n)
	}
	bullets := term.Plural(out.Bullets, "bullet")
	switch {
	case im.JSON:
		return cli.WriteJSON(term.Stdout, out)
	case im.DryRun:
		_, err = term.Printf("%s: %s format with %s, %d of them new. Nothing was changed.\n", im.File, out.Format, bullets, out.New)
	case out.New == 0:
		_, err = term.Printf("%s: nothing was changed; the playbook has everything in it (%s).\n", im.File, bullets)
	default:
		_, err = term.Printf("Imported %s from %s (%s).\nPlaybook %q is at version %s.\n", bullets, im.File, out.Format, out.Book, out.Label)
	}
	return err
}

type exportBook struct {
	apiclient.BookFlags
	Format string `help:"Format: ace, kayba, swecli, json, jsonl or markdown; for coding agents claude-md, agents-md or skill." required:"" placeholder:"NAME"`
	Out    string `short:"o" help:"File to write; '-' writes to standard output, as without the flag." type:"path" placeholder:"FILE"`
	At     string `help:"Version to export: number, label, time or tag. Default: the newest." placeholder:"POINT"`
	Hidden bool   `help:"Include bullets that generators do not show; json and jsonl always do."`

	Into   string `help:"File of a coding agent: only the block between the marks of Debrief changes, or is appended." type:"path" placeholder:"FILE"`
	Budget int    `help:"Longest block, in tokens." default:"2000" placeholder:"N"`
	Check  bool   `help:"With --into: change nothing; exit code 3 if the block of the file is behind the playbook."`
}

func (*exportBook) Help() string {
	return `Writes a playbook for another system. An import of the file gives the same bullets, except for fields that the format
cannot represent. These are listed, with exit code 5. Markdown is for people: fields that it never shows are no loss.

The formats claude-md, agents-md and skill write a block into a file that a coding agent always reads, best bullets first, within
--budget. Such a text cannot be withheld in an experiment, so it has only bullets that a person wrote or approved, or that an
experiment has proven. All else in the file stays. 'playbook import' reads a change in the block back.

Examples:

  debrief playbook export --format markdown
  debrief playbook export --book support --format kayba -o skillbook.json
  debrief playbook export --format jsonl --at 2026-11-20 | wc -l
  debrief playbook export --book shop --format claude-md --into CLAUDE.md
  debrief playbook export --format agents-md --into AGENTS.md --check`
}

func (ex *exportBook) Run(ctx context.Context, c *program.Common) error {
	if slices.Contains(blockFormats, ex.Format) {
		return ex.exportBlock(ctx, c)
	}
	if ex.Into != "" || ex.Check {
		return program.Exit(program.ExitUsage, fmt.Errorf("--into, --check: want --format %s", strings.Join(blockFormats, ", ")))
	}
	format := formats.Format(ex.Format)
	_, writable := formats.Formats()
	if !slices.Contains(writable, format) {
		return program.Exit(program.ExitUsage, fmt.Errorf("--format: want one of %v, or for coding agents %v; got %q", writable, blockFormats, ex.Format))
	}
	all, _, err := apiclient.List[*playbook.Bullet](ctx, c, ex.Flags, ex.Path("bullets"), map[string]string{"at": ex.At}, 0)
	if err != nil {
		return err
	}
	p, err := newPlaybook(all)
	if err != nil {
		return err
	}
	bullets := explain.Exported(p, format, ex.Hidden)
	data, losses, err := formats.Write(format, ex.Book, bullets)
	if err != nil {
		return err
	}
	if ex.Out == "" || ex.Out == "-" {
		_, err = term.Stdout.Write(data)
	} else {
		err = os.WriteFile(ex.Out, data, 0o644)
	}
	if err != nil {
		return err
	}
	if leftOut := p.Len() - len(bullets); leftOut > 0 {
		term.Fprintf(term.Stderr, "Left out %s that generators do not show; --hidden includes them.\n", term.Plural(leftOut, "bullet"))
	}
	return reportLosses(format, losses)
}

// shownFields are the fields of a bullet that a file in Markdown shows. The Loss for a bullet that is left out names
// content or status, so reportLosses lists it.
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
		term.Fprintf(term.Stderr, "%s\n", line)
	}
	return program.Exit(program.ExitPartial, fmt.Errorf("exported with losses: %s cannot represent the fields above", f))
}
