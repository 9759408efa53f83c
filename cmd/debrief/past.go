package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/playbook/history"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

type logBook struct {
	onBook
	Limit int  `help:"Most changes to list; 0 is all." default:"20"`
	Names bool `help:"Only the changes that named a version."`
	JSON  bool `help:"Print JSON lines, with every operation."`
}

// loggedDelta is a line of --json.
type loggedDelta struct {
	Label string `json:"label"`
	Chain string `json:"chain"`
	Bytes int    `json:"bytes"`
	book.Delta
}

// Run implements the command.
func (l *logBook) Run(ctx context.Context, c *app.Common) error {
	b, err := l.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	var last []*natskv.Record // the newest ones
	names := map[uint64][]string{}
	err = b.store.Log(ctx, b.name, func(r *natskv.Record) error {
		for _, n := range r.Names {
			for v, list := range names {
				names[v] = slices.DeleteFunc(list, func(s string) bool { return s == n.Name })
			}
			names[n.Version] = append(names[n.Version], n.Name)
		}
		if l.Names && len(r.Names) == 0 {
			return nil
		}
		if last = append(last, r); l.Limit > 0 && len(last) > l.Limit {
			last = last[1:]
		}
		return nil
	})
	if err != nil {
		return broken(err)
	}
	slices.Reverse(last)
	if l.JSON {
		for _, r := range last {
			if err := writeJSON(console.Stdout, loggedDelta{book.Label(r.Version, r.Chain), fmt.Sprintf("%x", r.Chain), r.Size, r.Delta}); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	console.Fprintf(w, "version\twhen\tby\tsettles\tchanges\n")
	for _, r := range last {
		label := book.Label(r.Version, r.Chain)
		if n := names[r.Version]; len(n) > 0 {
			label += " " + strings.Join(n, " ")
		}
		console.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", label, r.Time.Local().Format(time.DateTime), inLine(r.Author, 20), settles(&r.Delta), changes(&r.Delta))
	}
	return w.Flush()
}

// settles says what a delta covers.
func settles(d *book.Delta) string {
	edits := 0
	for _, c := range d.Covers {
		if c.Evidence == nil {
			edits++
		}
	}
	switch reflections := len(d.Covers) - edits; {
	case d.More:
		return "part of a change"
	case reflections > 0:
		return plural(reflections, "reflection")
	case edits > 0:
		return "an edit"
	}
	return ""
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// changes says in a line what a delta did.
func changes(d *book.Delta) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for _, n := range d.Names {
		say("version %d is named %s", n.Version, n.Name)
	}
	if d.Restores != nil {
		say("restores version %d", *d.Restores)
	}
	if d.Forgets != nil {
		say("forgets %s", d.Forgets)
	}
	if d.Gate != "" {
		say("the gate is %s", d.Gate)
	}
	count := map[book.OpKind]int{}
	votes, corrected, outcomes := 0, 0, 0
	for _, op := range d.Ops {
		count[op.Kind]++
		switch op.Kind {
		case book.Tag:
			votes += op.Helpful + op.Harmful + op.Neutral
		case book.Retag:
			corrected += len(op.Support)
		case book.Trial:
			outcomes += len(op.Seen)
		}
	}
	for _, k := range []struct {
		kind book.OpKind
		verb string
	}{
		{book.Add, "added"},
		{book.Put, "put"},
		{book.Update, "updated"},
		{book.Merge, "merged"},
		{book.Remove, "removed"},
		{book.SetStatus, "changed in status"},
		{book.Pin, "pinned or unpinned"},
		{book.Second, "asked for again"},
	} {
		if count[k.kind] > 0 {
			say("%d %s", count[k.kind], k.verb)
		}
	}
	if votes > 0 {
		say("%s", plural(votes, "vote"))
	}
	if corrected > 0 {
		say("%s corrected", plural(corrected, "vote"))
	}
	if outcomes > 0 {
		say("%s", plural(outcomes, "outcome"))
	}
	if len(d.Rejected) > 0 {
		say("%d rejected", len(d.Rejected))
	}
	if d.Reason != "" {
		say("%q", inLine(d.Reason, 60))
	}
	return strings.Join(parts, ", ")
}

// inLine is the beginning of text, in one line.
func inLine(text string, most int) string {
	r := []rune(console.Line(text))
	if len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return string(r)
}

type diffBook struct {
	onBook
	From string `arg:"" help:"The version before." placeholder:"POINT"`
	To   string `arg:"" optional:"" help:"The version after. Default: the newest." default:"newest" placeholder:"POINT"`
	JSON bool   `help:"Print JSON lines, one for each bullet that differs."`
}

// Help implements kong.HelpProvider.
func (*diffBook) Help() string {
	return pointHelp + `

Examples:

  debrief playbook diff 12
  debrief playbook diff 24h newest
  debrief playbook diff before-import 17@ab12cd`
}

// Run implements the command.
func (d *diffBook) Run(ctx context.Context, c *app.Common) error {
	b, err := d.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	was, from, err := b.at(ctx, d.From)
	if err != nil {
		return err
	}
	is, to, err := b.at(ctx, d.To)
	if err != nil {
		return err
	}
	return showDifferences(history.Between(was, is), fmt.Sprintf("(%s → %s)", from, to), d.JSON)
}

// showDifferences shows what is not the same in two states; end comes last.
func showDifferences(all []history.Difference, end string, asJSON bool) error {
	if asJSON {
		for _, d := range all {
			if err := writeJSON(console.Stdout, d); err != nil {
				return err
			}
		}
		return nil
	}
	var added, removed, changed int
	for _, d := range all {
		switch {
		case d.Was == nil:
			added++
			console.Printf("%s", console.Block(marked("+ ", described(d.Is))))
		case d.Is == nil:
			removed++
			console.Printf("%s", console.Block(marked("- ", described(d.Was))))
		default:
			changed++
			console.Printf("%s", console.Block(difference(d.Was, d.Is)))
		}
	}
	if len(all) == 0 {
		console.Println(strings.TrimSpace("No bullet differs. " + end))
		return nil
	}
	console.Println(strings.TrimSpace(fmt.Sprintf("%d added, %d removed, %d changed. %s", added, removed, changed, end)))
	return nil
}

// described is a bullet in full: what a person compares.
func described(b *book.Bullet) string {
	return fmt.Sprintf("%s [%s]%s %s\n%s", b.ID, b.Section, traits(b), votes(b), b.Content)
}

// traits are the status and the pin of a bullet, where they are not the usual ones.
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

func votes(b *book.Bullet) string {
	return fmt.Sprintf("helpful %d, harmful %d, neutral %d", b.Helpful, b.Harmful, b.Neutral)
}

// difference shows how one bullet has changed.
func difference(was, is *book.Bullet) string {
	var out strings.Builder
	console.Fprintf(&out, "~ %s", is.ID)
	pair := func(what, a, b string) {
		if a != b {
			console.Fprintf(&out, "  %s: %s → %s", what, a, b)
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

func shownStatus(b *book.Bullet) string {
	if b.Shown() {
		return string(book.Active)
	}
	return string(b.Status)
}
