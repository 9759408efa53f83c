package books

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/formats"
)

const formatSkill = "skill" // format of a file with a head that tells an agent when to read it

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
	if n := countUnproven(bullets); n > 0 {
		term.Fprintf(term.Stderr, "Left out %s that no person has approved and no experiment has proven yet: read them, then 'debrief playbook review approve'.\n", term.Plural(n, "bullet"))
	}
	if ex.Into == "" {
		file, err := ex.withBlock(nil, state.Version, chosen)
		if err == nil {
			_, err = term.Stdout.Write(file)
		}
		return err
	}
	before, err := os.ReadFile(ex.Into)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	after, err := ex.withBlock(before, state.Version, chosen)
	if err != nil {
		return err
	}
	return ex.writeBlock(before, after, len(chosen), state.Version)
}

// withBlock returns a file with the block of these bullets. A new file of the format skill begins with its head.
func (ex *exportBook) withBlock(file []byte, version uint64, bullets []*playbook.Bullet) ([]byte, error) {
	if ex.Format == formatSkill && len(file) == 0 {
		file = fmt.Appendf(nil, skillHead, ex.Book)
	}
	file, err := formats.WriteBlock(file, ex.Book, version, bullets)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ex.Into, err)
	}
	return file, nil
}

// countUnproven counts the bullets in prompts that may enter a file only after an approval or a proof.
func countUnproven(bullets []*playbook.Bullet) (n int) {
	for _, b := range bullets {
		if explain.Unapproved(b) && b.CurrentExperiment().Standing != playbook.StandingProven {
			n++
		}
	}
	return n
}

// writeBlock writes a file, or only compares it with --check. A file whose block has the same bullets stays as it is, also if the version
// in the first line of the block is older.
func (ex *exportBook) writeBlock(before, after []byte, bullets int, version uint64) error {
	if sameBlock(before, after) {
		_, err := term.Printf("%s has the %s of version %d of playbook %q.\n", ex.Into, term.Plural(bullets, "bullet"), version, ex.Book)
		return err
	}
	if ex.Check {
		return program.Exit(program.ExitRefused, fmt.Errorf("%s: the block does not have the bullets of version %d of playbook %q: run the command without --check, or import the file if a person changed it",
			ex.Into, version, ex.Book))
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

// sameBlock reports whether two files differ at most in the version that the first line of their blocks names.
func sameBlock(before, after []byte) bool {
	old, err := formats.ReadBlock(before)
	if err != nil {
		return false
	}
	now, err := formats.ReadBlock(after)
	if err != nil || now.Book != old.Book {
		return false
	}
	from := fmt.Appendf(nil, "book=%s version=%d ", old.Book, old.Version)
	to := fmt.Appendf(nil, "book=%s version=%d ", now.Book, now.Version)
	return bytes.Equal(bytes.Replace(before, from, to, 1), after)
}

// versionOf returns a version of a playbook with its bullets. An empty at selects the newest version.
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
	// edit opens another client, with the access that it needs.
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
		r.Change = append(r.Change, request.ChangedBullet{ID: l.ID, Content: l.Text})
	}
	for _, l := range added {
		r.Add = append(r.Add, request.NewBullet{Content: l.Text, Section: l.Section})
	}
	access := apiclient.Change
	if im.DryRun {
		access = apiclient.Read
	}
	return im.edit(ctx, c, access, r, func(*api.EditReply) string {
		return fmt.Sprintf("From the block: %s changed, %d added, %d retired.", term.Plural(len(changed), "bullet"), len(added), len(removed))
	})
}
