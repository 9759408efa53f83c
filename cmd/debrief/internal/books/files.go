package books

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/formats"
)

type importBook struct {
	change
	File   string `arg:"" help:"File to import; '-' reads standard input."`
	Format string `help:"Format: ace, kayba, swecli, json or jsonl. Default: detected." placeholder:"NAME"`
	DryRun bool   `help:"Only report the contents of the file."`
}

// Help implements kong.HelpProvider.
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

// Run implements the command.
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

// Help implements kong.HelpProvider.
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

// Run implements the command.
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
		return program.Exit(program.ExitUsage, fmt.Errorf("--format: want one of %v, got %q", writable, ex.Format))
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

// formatSkill is the format of a file with a head that tells an agent when to read it.
const formatSkill = "skill"

// blockFormats are the formats of files for coding agents, which have a block.
var blockFormats = []string{"claude-md", "agents-md", formatSkill}

// skillHead begins a new file of the format skill. Its argument is the name of the playbook.
const skillHead = `---
name: lessons-%[1]s
description: Lessons from earlier work in this project (playbook %[1]s). Read them before you plan or change anything.
---
`

// exportBlock writes the block of a file for coding agents.
func (ex *exportBook) exportBlock(ctx context.Context, c *program.Common) error {
	switch {
	case ex.Out != "" || ex.Hidden:
		return program.Exit(program.ExitUsage, fmt.Errorf("--out, --hidden: not for --format %s; name the file with --into", ex.Format))
	case ex.Check && ex.Into == "":
		return program.Exit(program.ExitUsage, errors.New("--check: want --into"))
	case ex.Budget < 1:
		return program.Exit(program.ExitUsage, fmt.Errorf("--budget: must be at least 1, got %d", ex.Budget))
	}
	a, err := ex.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	state, bullets, err := versionOf(ctx, a, ex.BookFlags, ex.At)
	if err != nil {
		return err
	}
	chosen := formats.ForBlock(bullets, ex.Budget, chat.Tokens)
	var before []byte
	if ex.Into != "" {
		if before, err = os.ReadFile(ex.Into); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	text := before
	if ex.Format == formatSkill && len(before) == 0 {
		text = fmt.Appendf(nil, skillHead, ex.Book)
	}
	after, err := formats.WriteBlock(text, ex.Book, state.Version, chosen)
	if err != nil {
		return fmt.Errorf("%s: %w", ex.Into, err)
	}
	if ex.Into == "" {
		_, err := term.Stdout.Write(after)
		return err
	}
	return ex.writeBlock(before, after, len(chosen))
}

// writeBlock writes a file, or only compares it with --check. A file whose block has the same bullets stays as it is, also if the version
// in the first line of the block is older.
func (ex *exportBook) writeBlock(before, after []byte, bullets int) error {
	if sameBlock(before, after) {
		_, err := term.Printf("%s has the newest %s of playbook %q.\n", ex.Into, term.Plural(bullets, "bullet"), ex.Book)
		return err
	}
	if ex.Check {
		return program.Exit(program.ExitRefused, fmt.Errorf("%s: the block is behind playbook %q, or a person changed it: run the command without --check, or import the file", ex.Into, ex.Book))
	}
	if err := os.MkdirAll(filepath.Dir(ex.Into), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(ex.Into, after, 0o644); err != nil {
		return err
	}
	_, err := term.Printf("Wrote %s of playbook %q into %s.\n", term.Plural(bullets, "bullet"), ex.Book, ex.Into)
	return err
}

// sameBlock reports whether two files differ at most in the book and the version that the first line of their blocks names.
func sameBlock(before, after []byte) bool {
	old, err := formats.ReadBlock(before)
	if err != nil {
		return false
	}
	now, err := formats.ReadBlock(after)
	if err != nil {
		return false
	}
	from := fmt.Appendf(nil, "book=%s version=%d ", old.Book, old.Version)
	to := fmt.Appendf(nil, "book=%s version=%d ", now.Book, now.Version)
	return bytes.Equal(bytes.Replace(before, from, to, 1), after)
}

// versionOf returns a version of a playbook with its bullets. An empty point is the newest version.
func versionOf(ctx context.Context, a *apiclient.Client, p apiclient.BookFlags, at string) (*api.BookState, []*playbook.Bullet, error) {
	state, err := api.Get[api.BookState](ctx, a.Client, p.Path(), map[string]string{"at": at})
	if err != nil {
		return nil, nil, err
	}
	all, _, err := api.List[*playbook.Bullet](ctx, a.Client, p.Path("bullets"), map[string]string{"at": strconv.FormatUint(state.Version, 10)}, 0)
	return state, all, err
}

// importBlock turns the changes of a person in a block into one edit.
func (im *importBook) importBlock(ctx context.Context, c *program.Common, data []byte) error {
	b, err := formats.ReadBlock(data)
	if err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("%s: %w", im.File, err))
	}
	if b.Book != im.Book { // the person chooses the playbook, not the file
		return program.Exit(program.ExitUsage, fmt.Errorf("%s: the block is of playbook %q: pass --book %s", im.File, b.Book, b.Book))
	}
	a, err := im.Open(ctx, c, apiclient.Read, im.Author)
	if err != nil {
		return err
	}
	version := strconv.FormatUint(b.Version, 10)
	_, written, err := versionOf(ctx, a, im.BookFlags, version)
	if err := errors.Join(err, a.Close()); err != nil {
		return err
	}
	changed, added, removed := b.Changed(written)
	if len(changed)+len(added)+len(removed) == 0 {
		if im.JSON {
			return cli.WriteJSON(term.Stdout, api.EditReply{Book: playbook.Book(im.Book), Version: b.Version, DryRun: im.DryRun})
		}
		_, err := term.Printf("%s: nothing was changed in the block since its export.\n", im.File)
		return err
	}
	r := &api.EditRequest{Retire: removed, Read: version, DryRun: im.DryRun}
	for _, l := range changed {
		r.Change = append(r.Change, api.ChangedBullet{ID: l.ID, Content: l.Text})
	}
	for _, l := range added {
		r.Add = append(r.Add, api.NewBullet{Content: l.Text, Section: l.Section})
	}
	access := apiclient.Change
	if im.DryRun {
		access = apiclient.Read
	}
	return im.edit(ctx, c, access, r, func(*api.EditReply) string {
		return fmt.Sprintf("From the block: %s changed, %d added, %d retired.", term.Plural(len(changed), "bullet"), len(added), len(removed))
	})
}
