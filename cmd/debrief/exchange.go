package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/redact"
	"debrief/playbook/formats"
	"debrief/playbook/history"

	book "debrief/playbook"
)

type importBook struct {
	change
	File   string `arg:"" help:"The file; '-' is standard input."`
	Format string `help:"What it is: ace, appworld, kayba, swecli, json, jsonl. Default: what it looks like." placeholder:"NAME"`
	DryRun bool   `help:"Only say what is in it."`
}

// Help implements kong.HelpProvider.
func (*importBook) Help() string {
	return `Reads the playbook of another system, or one of ours: text of ACE and of its AppWorld dialect, JSON of kayba and of
swecli, our JSON and JSONL. Ids, counters and times stay. What the file has besides its bullets is kept, so that an
export in its format gives back the same file. All bullets become visible at once, and importing a file twice is the
same as once.

Examples:

  debrief playbook import skillbook.json --book support
  debrief playbook import playbook.txt --dry-run`
}

// most is the largest file that is read; perEdit how many of its bullets go in one edit, which is what becomes visible at
// once.
const (
	most    = 16 << 20
	perEdit = 10_000
)

// Run implements the command.
func (im *importBook) Run(ctx context.Context, c *app.Common) error {
	if im.File != "-" && im.Reason == "" {
		im.Reason = "import of " + im.File
	}
	data, err := readFile(im.File)
	if err != nil {
		return err
	}
	format, err := knownFormat(im.Format, false)
	if err != nil {
		return err
	}
	b, err := im.openBook(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	now, _, err := b.at(ctx, "")
	if err != nil {
		return err
	}
	data = []byte(redact.Text(string(data))) // also what is kept of the file besides its bullets
	doc, err := formats.Read(data, format, func(id book.BulletID, section, content string) bool {
		there := now.Bullet(id)
		return there != nil && (there.Section != section || there.Content != content)
	})
	if err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("%s: %w", im.File, err))
	}
	for _, n := range doc.Notes {
		console.Fprintf(console.Stderr, "%s: %s\n", im.File, n)
	}
	ops := im.ops(doc, now)
	if im.DryRun {
		console.Printf("%s is %s with %s, %d of them new here. Nothing was changed.\n", im.File, doc.Format, plural(len(doc.Bullets), "bullet"), len(ops))
		return nil
	}
	if frame, err := history.Frame(b.store.History(ctx, b.name), now.Version()); err != nil {
		return broken(err)
	} else if len(ops) == 0 && string(frame) == string(doc.Frame) {
		console.Printf("All of %s's %s are there already; nothing was changed.\n", im.File, plural(len(doc.Bullets), "bullet"))
		return nil
	}
	var d *events.Decision
	for first := true; first || len(ops) > 0; first = false {
		e := &events.Edit{Ops: ops[:min(len(ops), perEdit)]}
		if ops = ops[len(e.Ops):]; len(ops) == 0 {
			e.Frame = doc.Frame
		}
		if d, err = im.ask(ctx, b, e); err != nil {
			return err
		}
	}
	return im.done(b, d, "Imported %s from %s (%s).", plural(len(doc.Bullets), "bullet"), im.File, doc.Format)
}

// ops are the operations that bring in what is not there yet. A bullet that comes without times has none: when it came is
// in the log.
func (*importBook) ops(doc *formats.Document, now *book.Playbook) []book.Op {
	var ops []book.Op
	for _, b := range doc.Bullets {
		if now.Bullet(b.ID) != nil {
			continue
		}
		ops = append(ops, book.Op{Kind: book.Put, Bullet: b.ID, Whole: b})
	}
	return ops
}

func readFile(name string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, app.Exit(app.ExitUsage, fmt.Errorf("%s: there is no such file", name))
		} else if err != nil {
			return nil, app.Exit(app.ExitUsage, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("is larger than %d MiB", most>>20)
	}
	if err != nil {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("%s: %w", name, err))
	}
	return data, nil
}

// knownFormat checks the name of a format from the command line.
func knownFormat(name string, written bool) (formats.Format, error) {
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
	onBook
	Format string `help:"ace, appworld, kayba, swecli, json, jsonl or markdown." required:"" placeholder:"NAME"`
	Output string `short:"o" help:"Where to; default standard output." type:"path" placeholder:"FILE"`
	At     string `help:"How it was: a version, a time or a name." placeholder:"POINT"`
	All    bool   `help:"Also bullets that generators are not shown. json and jsonl have them always."`
}

// Help implements kong.HelpProvider.
func (*exportBook) Help() string {
	return `Writes a playbook for another system. After an import in the same format the file is the same, byte by byte in text
and by value in JSON, apart from what has changed. What the format cannot hold is listed and the exit code is 5.

Examples:

  debrief playbook export --format markdown
  debrief playbook export --book support --format kayba -o skillbook.json
  debrief playbook export --format jsonl --at 2026-11-20 | wc -l`
}

// Run implements the command.
func (ex *exportBook) Run(ctx context.Context, c *app.Common) error {
	format, err := knownFormat(ex.Format, true)
	if err != nil {
		return err
	}
	b, err := ex.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, _, err := b.at(ctx, ex.At)
	if err != nil {
		return err
	}
	frame, err := history.Frame(b.store.History(ctx, b.name), p.Version())
	if err != nil {
		return broken(err)
	}
	bullets := p.Sorted()
	if !ex.All {
		bullets = slices.DeleteFunc(bullets, func(b *book.Bullet) bool { return !exported(format, b) })
	}
	data, losses, err := formats.Write(format, string(b.name), bullets, frame)
	if err != nil {
		return err
	}
	if ex.Output == "" {
		_, err = console.Stdout.Write(data)
	} else {
		err = os.WriteFile(ex.Output, data, 0o644)
	}
	if err != nil {
		return err
	}
	if left := p.Len() - len(bullets); left > 0 {
		console.Fprintf(console.Stderr, "%s that generators are not shown left out; --all writes them, too.\n", plural(left, "bullet"))
	}
	return lost(format, losses)
}

// exported reports whether a bullet is written unless all are asked for.
func exported(f formats.Format, b *book.Bullet) bool {
	switch f {
	case formats.JSON, formats.JSONL:
		return true
	case formats.Kayba: // it knows what is invalid
		return b.Shown() || b.Status == book.Retired
	}
	return b.Shown()
}

// lost lists what a format could not hold.
func lost(f formats.Format, losses []formats.Loss) error {
	if len(losses) == 0 {
		return nil
	}
	bullets := map[string][]string{}
	var kinds []string
	for _, l := range losses {
		kind := l.Field + ": " + l.Reason
		if bullets[kind] == nil {
			kinds = append(kinds, kind)
		}
		bullets[kind] = append(bullets[kind], string(l.Bullet))
	}
	for _, kind := range kinds {
		which := bullets[kind]
		if len(which) > 3 {
			which = append(which[:3:3], fmt.Sprintf("and %d more", len(bullets[kind])-3))
		}
		console.Fprintf(console.Stderr, "%s (%s)\n", kind, strings.Join(which, ", "))
	}
	return app.Exit(app.ExitLosses, fmt.Errorf("written, but %s cannot hold all of it: see above", f))
}
