package train

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/runs"
	"debrief/reflector/rules"
)

// print prints v as a JSON line with --json, else the formatted text.
func (l *Learn) print(v any, format string, args ...any) {
	if l.JSON {
		_ = cli.WriteJSON(term.Stdout, v)
		return
	}
	term.Printf(format+"\n", args...)
}

// skip prints an unread item, and adds it to the list of the result.
func (l *Learn) skip(u unreadItem, res *learnResult) {
	l.print(u, "%s: %s", u.File, u.Problem)
	if len(res.Problems) < maxListed {
		res.Problems = append(res.Problems, u)
	}
}

// printFile prints the number of runs in a file, and its problems.
func (l *Learn) printFile(name string, report runs.Report, res *learnResult) {
	l.print(map[string]any{"file": name, "source": report.Source, "runs": report.Runs, "invalid_lines": report.Skipped},
		"%s: %s of %s", name, term.Plural(report.Runs, "run"), report.Source)
	for _, r := range report.Problems {
		u := newUnreadItem(name, r)
		l.print(u, "  %s was not read: %s", r.Where(), r.Reason)
		if len(res.Problems) < maxListed {
			res.Problems = append(res.Problems, u)
		}
	}
	if more := report.Skipped - len(report.Problems); more > 0 {
		l.print(map[string]any{"file": name, "more_invalid_lines": more}, "  %d more were not read", more)
	}
	if n := report.Invalid; n > 0 {
		l.print(map[string]any{"file": name, "invalid_texts": n}, "  %d invalid characters or texts", n)
	}
	res.Unread += report.Skipped
}

// show prints the result.
func (l *Learn) show(res *learnResult) error {
	if l.JSON {
		return cli.WriteJSON(term.Stdout, res)
	}
	term.Println()
	if err := res.printBullets(term.Stdout); err != nil {
		return err
	}
	term.Println()
	if len(res.New) > 0 {
		term.Printf("Evidence of the new bullets:\n")
		for _, n := range res.New {
			term.Printf("%s", term.Block(fmt.Sprintf("  %s  %s\n", n.ID, n.Evidence)))
		}
		term.Printf("\n")
	}
	if len(res.Refused) > 0 {
		term.Printf("The curator refused %s:\n", term.Plural(len(res.Refused), "lesson"))
		for _, r := range res.Refused {
			term.Printf("%s", term.Block(fmt.Sprintf("  %s: %s\n", r.Content, r.Reason)))
		}
		term.Printf("\n")
	}
	if len(res.Withdrawn) > 0 {
		term.Printf("Left out, because a person removed or changed these bullets ('debrief playbook add' brings one back):\n")
		for _, lesson := range res.Withdrawn {
			term.Printf("%s", term.Block(fmt.Sprintf("  %s\n", lesson)))
		}
		term.Printf("\n")
	}
	if known := res.Analysis.Known; len(known) > 0 {
		term.Printf("Errors of tools that agents repeated (a report, no lessons):\n")
		for _, k := range known {
			term.Printf("%s", term.Block(fmt.Sprintf("  %s: %q in %s of %s, repeated in %d\n",
				k.Tool, k.Error, term.Plural(k.Runs, "run"), rules.CountTasks(k.Tasks), k.Repeated)))
		}
		term.Printf("\n")
	}
	term.Printf("%s\n", res.Analysis.Explain())
	reflected := ""
	if res.Reflected+res.Dead > 0 {
		reflected = fmt.Sprintf(" %d reflected on, %d with nothing to learn, %s.", res.Reflected, res.Nothing, term.Plural(res.Dead, "dead letter"))
	}
	state := fmt.Sprintf("is at %s with %s in use", res.Playbook, term.Plural(res.Bullets, "bullet"))
	if waiting := res.waiting(); waiting != "" {
		state += "; " + waiting
	}
	if res.version == 0 {
		state = "does not exist yet: nothing was learned"
	}
	term.Printf("%s compared.%s Playbook %q %s.\n", term.Plural(res.Analysis.Runs, "stored run"), reflected, res.Book, state)
	for _, reason := range slices.Sorted(maps.Keys(res.DeadReasons)) {
		term.Printf("  %s: %s\n", term.Plural(res.DeadReasons[reason], "dead letter"), reason)
	}
	if res.Stored > 0 {
		term.Printf("%d of the runs in the files were stored before.\n", res.Stored)
	}
	if res.Made.Calls > 0 {
		term.Printf("The command made %s.\n", res.Made)
	}
	for _, note := range res.Notes {
		term.Printf("%s\n", note)
	}
	return nil
}

// printBullets prints the shown bullets as a table.
func (r *learnResult) printBullets(out io.Writer) error {
	if waiting := r.waiting(); len(r.shown) == 0 && waiting != "" {
		_, err := term.Fprintf(out, "No bullet is shown yet: %s.\n", waiting)
		return err
	}
	return cli.PrintBullets(out, r.shown)
}

// waiting describes the bullets that are not shown yet, "" without any.
func (r *learnResult) waiting() string {
	var parts []string
	if r.ForPerson > 0 {
		parts = append(parts, fmt.Sprintf("%d for a person ('debrief playbook review')", r.ForPerson))
	}
	if r.Candidates > 0 {
		parts = append(parts, fmt.Sprintf("%d for another execution ('debrief playbook show --hidden')", r.Candidates))
	}
	if len(parts) == 0 {
		return ""
	}
	return term.Plural(r.ForPerson+r.Candidates, "more bullet") + " waiting: " + strings.Join(parts, ", ")
}

// unreadItem is a part of a file that was not read, or was read after a repair.
type unreadItem struct {
	File    string `json:"file"`
	Line    *int   `json:"line,omitempty"`
	Element *int   `json:"element,omitempty"`
	Problem string `json:"problem,omitempty"`
	noFile  bool   // a link to a directory, a pipe or the like: it is listed and is no loss
}

// maxListed limits the list of unread items in the result. The counts include all of them.
const maxListed = 100

func newUnreadItem(file string, p runs.Problem) unreadItem {
	u := unreadItem{File: file, Problem: p.Reason}
	if p.Line > 0 {
		u.Line = &p.Line
	} else {
		u.Element = &p.Index
	}
	return u
}

// reasonOf returns the text of an error without the name of its file. The caller prints the name before it.
func reasonOf(err error) string {
	if inPath, ok := errors.AsType[*fs.PathError](err); ok {
		return inPath.Op + ": " + inPath.Err.Error()
	}
	return err.Error()
}

// losses describes the unread data and the dead letters, "" without any.
func (r *learnResult) losses() string {
	var unread, parts []string
	if r.Unread > 0 {
		unread = append(unread, term.Plural(r.Unread, "run"))
	}
	if r.BadFiles > 0 {
		unread = append(unread, term.Plural(r.BadFiles, "file"))
	}
	if len(unread) > 0 {
		parts = append(parts, strings.Join(unread, " and ")+" could not be read")
	}
	if r.Dead > 0 {
		parts = append(parts, pluralOf(r.Dead, "run became a dead letter", "runs became dead letters"))
	}
	return strings.Join(parts, ", ")
}
