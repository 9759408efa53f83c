package books

import (
	"context"
	"fmt"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// diffBook compares two versions of a playbook.
type diffBook struct {
	cli.BookFlags
	From string `arg:"" help:"Old version." placeholder:"POINT"`
	To   string `arg:"" optional:"" help:"New version. Default: the newest." default:"newest" placeholder:"POINT"`
	JSON bool   `help:"Print one JSON line for each bullet that differs."`
}

// Help implements kong.HelpProvider.
func (*diffBook) Help() string {
	return cli.VersionHelp + `

Examples:

  debrief playbook diff 12
  debrief playbook diff 24h newest
  debrief playbook diff before-import 17@ab12cd`
}

// Run implements the command.
func (d *diffBook) Run(ctx context.Context, c *app.Common) error {
	b, err := d.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	was, from, err := b.At(ctx, d.From)
	if err != nil {
		return err
	}
	is, to, err := b.At(ctx, d.To)
	if err != nil {
		return err
	}
	return showDifferences(history.Diff(was, is), fmt.Sprintf("(%s → %s)", from, to), d.JSON)
}

// showDifferences prints the differences and their number. The text in end follows the number.
func showDifferences(all []history.Difference, end string, asJSON bool) error {
	if asJSON {
		for _, d := range all {
			if err := cli.WriteJSON(console.Stdout, d); err != nil {
				return err
			}
		}
		return nil
	}
	var added, removed, changed int
	for _, d := range all {
		switch {
		case d.Before == nil:
			added++
			console.Printf("%s", console.Block(marked("+ ", fullText(d.After))))
		case d.After == nil:
			removed++
			console.Printf("%s", console.Block(marked("- ", fullText(d.Before))))
		default:
			changed++
			console.Printf("%s", console.Block(difference(d.Before, d.After)))
		}
	}
	if len(all) == 0 {
		console.Println(strings.TrimSpace("No bullet differs. " + end))
		return nil
	}
	console.Println(strings.TrimSpace(fmt.Sprintf("%d added, %d removed, %d changed. %s", added, removed, changed, end)))
	return nil
}

// fullText formats all parts of a bullet that a person compares.
func fullText(b *book.Bullet) string {
	return fmt.Sprintf("%s [%s]%s %s\n%s", b.ID, b.Section, traits(b), votes(b), b.Content)
}

// traits returns the status and the pin of a bullet, "" for an active one without a pin.
func traits(b *book.Bullet) string {
	text := ""
	if !b.Shown() {
		text += " " + string(b.Status)
	}
	if b.Pinned {
		text += " pinned"
	}
	return text
}

// votes formats the votes of a bullet.
func votes(b *book.Bullet) string {
	return fmt.Sprintf("helpful %d, harmful %d, neutral %d", b.Helpful, b.Harmful, b.Neutral)
}

// difference formats the changes of one bullet.
func difference(was, is *book.Bullet) string {
	var out strings.Builder
	console.Fprintf(&out, "~ %s", is.ID)
	pair := func(field, a, b string) {
		if a != b {
			console.Fprintf(&out, "  %s: %s → %s", field, a, b)
		}
	}
	pair("section", was.Section, is.Section)
	pair("helpful", fmt.Sprint(was.Helpful), fmt.Sprint(is.Helpful))
	pair("harmful", fmt.Sprint(was.Harmful), fmt.Sprint(is.Harmful))
	pair("neutral", fmt.Sprint(was.Neutral), fmt.Sprint(is.Neutral))
	pair("status", shownStatus(was), shownStatus(is))
	pair("pinned", fmt.Sprint(was.Pinned), fmt.Sprint(is.Pinned))
	out.WriteString("\n")
	if was.Content != is.Content {
		out.WriteString(marked("  - ", was.Content) + marked("  + ", is.Content))
	}
	return out.String()
}

// shownStatus returns the status of a bullet; shown ones are active.
func shownStatus(b *book.Bullet) string {
	if b.Shown() {
		return string(book.Active)
	}
	return string(b.Status)
}
