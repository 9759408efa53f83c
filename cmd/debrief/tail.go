package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// tail shows events as they happen.
type tail struct {
	place
	Book   string   `help:"Only this playbook's." placeholder:"NAME"`
	Role   string   `help:"Only what this role makes or gives up: generator, reflector or curator." placeholder:"NAME"`
	Kind   []string `help:"Only these: task, execution, feedback, reflection, edit, delta, dead." placeholder:"NAME,…"`
	Since  string   `help:"Begin there: 2h for that long ago, or a time such as 2026-11-20. Default: with the last few." placeholder:"TIME"`
	Lines  int      `short:"n" help:"How many of the last ones to begin with." default:"10"`
	Follow bool     `short:"f" help:"Go on with what arrives, until interrupted."`
	JSON   bool     `help:"Print JSON lines, with the whole event."`
}

// Help implements kong.HelpProvider.
func (*tail) Help() string {
	return `One line an event, in the order in which they were stored: when, what, of which book, its handle or version, how it went and
the beginning of its text. 'debrief playbook why HANDLE' tells more. It changes nothing and goes on when the server has
been away. The last ones are those among the last 1,000 of each stream.

Examples:

  debrief tail -f
  debrief tail --book support --kind execution,feedback --since 1h
  debrief tail --role curator -f
  debrief tail --since 2026-11-20 --json | jq .event.answer`
}

// tailKinds are those that can be asked for.
var tailKinds = []events.Kind{events.KindTask, events.KindExecution, events.KindFeedback, events.KindReflection, events.KindEdit, events.KindDelta, events.KindDead}

// made is what each role makes.
var made = map[string][]events.Kind{
	events.RoleGenerator: {events.KindExecution, events.KindDead}, events.RoleReflector: {events.KindReflection, events.KindDead},
	events.RoleCurator: {events.KindDelta, events.KindDead},
}

func (t *tail) filter() (f bus.TailFilter, err error) {
	f.Follow, f.Last = t.Follow, t.Lines
	if t.Lines < 0 {
		return f, app.Exit(app.ExitUsage, fmt.Errorf("--lines: must be 0 or above, got %d", t.Lines))
	}
	if t.Book != "" {
		if f.Book, err = bookName(t.Book); err != nil {
			return f, err
		}
	}
	if t.Role != "" {
		if f.Kinds = made[t.Role]; f.Kinds == nil {
			return f, app.Exit(app.ExitUsage, fmt.Errorf("--role: want %s, got %q", strings.Join(workingRoles, ", "), t.Role))
		}
		if len(t.Kind) > 0 {
			return f, app.Exit(app.ExitUsage, errors.New("--role, --kind: want one of them"))
		}
	}
	for _, k := range t.Kind {
		if !slices.Contains(tailKinds, events.Kind(k)) {
			return f, app.Exit(app.ExitUsage, fmt.Errorf("--kind: there is no %q; see 'debrief tail --help'", k))
		}
		f.Kinds = append(f.Kinds, events.Kind(k))
	}
	f.Since, err = sinceFlag(t.Since)
	return f, err
}

// Run implements the command.
func (t *tail) Run(ctx context.Context, c *app.Common) error {
	f, err := t.filter()
	if err != nil {
		return err
	}
	s, err := t.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.Tail(ctx, f, func(e *bus.Entry) error {
		if dead, ok := e.Event.(*events.DeadLetter); ok && t.Role != "" && dead.Role != t.Role {
			return nil
		}
		if t.JSON {
			return writeJSON(console.Stdout, jsonEntry(e))
		}
		_, err := console.Println(entryLine(e))
		return err
	})
	if t.Follow && ctx.Err() != nil { // that is how it ends
		return nil
	}
	return err
}

// shownEntry is an entry for a program.
type shownEntry struct {
	Time    time.Time    `json:"time"`
	Kind    string       `json:"kind"`
	Book    string       `json:"book,omitempty"`
	Stream  string       `json:"stream"`
	Seq     uint64       `json:"seq"`
	ID      string       `json:"id,omitempty"` // handle, or version of a delta
	Repeat  bool         `json:"repeat,omitempty"`
	Event   events.Event `json:"event,omitempty"`
	Delta   *book.Delta  `json:"delta,omitempty"`
	Problem string       `json:"problem,omitempty"`
}

func jsonEntry(e *bus.Entry) shownEntry {
	out := shownEntry{Time: e.Time, Kind: string(e.Kind), Book: string(e.Book), Stream: e.Stream, Seq: e.Seq, ID: entryID(e), Repeat: e.Repeat, Event: e.Event, Delta: e.Delta}
	if e.Err != nil {
		out.Problem = e.Err.Error()
	}
	return out
}

func entryID(e *bus.Entry) string {
	switch {
	case e.Delta != nil:
		return book.Label(e.Delta.Version, e.Chain)
	case e.Event != nil:
		return string(events.NewHandle(e.Seq, e.Event.EventID()))
	}
	return fmt.Sprint(e.Seq)
}

// entryLine is an entry for a person. What is in it is anybody's, and may not command a terminal.
func entryLine(e *bus.Entry) string {
	how, text := "", ""
	switch x := e.Event.(type) {
	case *events.Task:
		text = x.Question
	case *events.Execution:
		how, text = outcomeOf(x.Outcome), x.Question
	case *events.Feedback:
		how, text = outcomeOf(x.Outcome), "on "+string(x.Execution)+" "+cmp.Or(x.Outcome.Feedback, x.Target)
	case *events.Reflection:
		how, text = outcomeOf(x.Outcome), cmp.Or(x.KeyInsight, x.ErrorIdentification, "on "+string(x.Handle))
	case *events.Edit:
		text = "by " + x.Author + " " + x.Reason
	case *events.DeadLetter:
		how, text = x.Role, x.Reason
	}
	if e.Delta != nil {
		how, text = settles(e.Delta), changes(e.Delta)
	}
	if e.Err != nil {
		text = "cannot be read: " + e.Err.Error()
	}
	if e.Repeat {
		text = "(again) " + text
	}
	return strings.TrimSpace(fmt.Sprintf("%s  %-10s  %-10s  %-16s  %-14s  %s", e.Time.Local().Format(time.DateTime), e.Kind, e.Book,
		entryID(e), console.Line(how), events.Beginning(console.Line(text), 120)))
}

// outcomeOf is an outcome in a word and a number.
func outcomeOf(o events.Outcome) string {
	if !o.Known() {
		return ""
	}
	return fmt.Sprintf("%s %.2f", o.Label, o.Score)
}
