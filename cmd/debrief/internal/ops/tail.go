package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/inspect"
	"debrief/playbook/text"

	book "debrief/playbook"
)

// Tail shows events as they happen.
type Tail struct {
	cli.ServerFlags
	Book   string   `help:"Show only events of this playbook." placeholder:"NAME"`
	Role   string   `help:"Show only results and dead letters of generator, reflector or curator." placeholder:"NAME"`
	Kind   []string `help:"Show only: task, execution, feedback, reflection, edit, delta, dead." placeholder:"NAME,…"`
	Since  string   `help:"Start at 2h ago, or at a time such as 2026-11-20. Default: the last --lines events." placeholder:"TIME"`
	Lines  int      `short:"n" help:"Number of past events to start with." default:"10"`
	Follow bool     `short:"f" help:"Follow new events until interrupted."`
	JSON   bool     `help:"Print JSON lines with the whole event."`
}

// Help implements kong.HelpProvider.
func (*Tail) Help() string {
	return `Show one line per event, in the order of storage: time, kind, playbook, handle or version, outcome and the beginning of
the text. 'debrief playbook why HANDLE' shows details. The command changes nothing and reconnects after an outage of the
server. --lines looks at up to 1,000 past events of each stream.

Examples:

  debrief tail -f
  debrief tail --book support --kind execution,feedback --since 1h
  debrief tail --role curator -f
  debrief tail --since 2026-11-20 --json | jq .event.answer`
}

// tailKinds are the valid values of --kind.
var tailKinds = []events.Kind{events.KindTask, events.KindExecution, events.KindFeedback, events.KindReflection, events.KindEdit, events.KindDelta, events.KindDead}

// roleKinds are the events that each role publishes.
var roleKinds = map[string][]events.Kind{
	events.RoleGenerator: {events.KindExecution, events.KindDead}, events.RoleReflector: {events.KindReflection, events.KindDead},
	events.RoleCurator: {events.KindDelta, events.KindDead},
}

// filter returns the filter that the flags describe.
func (t *Tail) filter() (f inspect.TailFilter, err error) {
	f.Follow, f.Last = t.Follow, t.Lines
	if t.Lines < 0 {
		return f, app.Exit(app.ExitUsage, fmt.Errorf("--lines: must be at least 0, got %d", t.Lines))
	}
	if t.Book != "" {
		if f.Book, err = cli.ParseBook(t.Book); err != nil {
			return f, err
		}
	}
	if t.Role != "" {
		if f.Kinds = roleKinds[t.Role]; f.Kinds == nil {
			return f, app.Exit(app.ExitUsage, fmt.Errorf("--role: want %s, got %q", strings.Join(cli.Roles, ", "), t.Role))
		}
		if len(t.Kind) > 0 {
			return f, app.Exit(app.ExitUsage, errors.New("--role: is set, and so is --kind: choose one"))
		}
	}
	for _, k := range t.Kind {
		if !slices.Contains(tailKinds, events.Kind(k)) {
			return f, app.Exit(app.ExitUsage, fmt.Errorf("--kind: unknown kind %q; see 'debrief tail --help'", k))
		}
		f.Kinds = append(f.Kinds, events.Kind(k))
	}
	f.Since, err = cli.ParseSince(t.Since)
	return f, err
}

// Run implements the command.
func (t *Tail) Run(ctx context.Context, c *app.Common) error {
	f, err := t.filter()
	if err != nil {
		return err
	}
	s, err := t.Connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	err = inspect.Tail(ctx, s.Conn, f, func(e *inspect.Entry) error {
		if dead, ok := e.Event.(*events.DeadLetter); ok && t.Role != "" && dead.Role != t.Role {
			return nil
		}
		if t.JSON {
			return cli.WriteJSON(console.Stdout, jsonEntry(e))
		}
		_, err := console.Println(entryLine(e))
		return err
	})
	if t.Follow && ctx.Err() != nil { // the normal end of --follow
		return nil
	}
	return err
}

// shownEntry is a line of --json.
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

// jsonEntry returns an event as a line of --json.
func jsonEntry(e *inspect.Entry) shownEntry {
	out := shownEntry{Time: e.Time, Kind: string(e.Kind), Book: string(e.Book), Stream: e.Stream, Seq: e.Seq, ID: entryID(e), Repeat: e.Repeat, Event: e.Event, Delta: e.Delta}
	if e.Err != nil {
		out.Problem = e.Err.Error()
	}
	return out
}

// entryID returns the label of a delta, the handle of another event, or the sequence of an unreadable message.
func entryID(e *inspect.Entry) string {
	switch {
	case e.Delta != nil:
		return book.VersionLabel(e.Delta.Version, e.Chain)
	case e.Event != nil:
		return string(events.NewHandle(e.Seq, e.Event.EventID()))
	}
	return fmt.Sprint(e.Seq)
}

// entryLine formats an event as a line of text. It escapes control characters, which may come from untrusted input.
func entryLine(e *inspect.Entry) string {
	detail, summary := "", ""
	switch x := e.Event.(type) {
	case *events.Task:
		summary = x.Question
	case *events.Execution:
		detail, summary = outcomeOf(x.Outcome), x.Question
	case *events.Feedback:
		detail, summary = outcomeOf(x.Outcome), "on "+string(x.Execution)+" "+cmp.Or(x.Outcome.Feedback, x.Target)
	case *events.Reflection:
		detail, summary = outcomeOf(x.Outcome), cmp.Or(x.KeyInsight, x.ErrorIdentification, "on "+string(x.Handle))
	case *events.Edit:
		summary = "by " + x.Author + " " + x.Reason
	case *events.DeadLetter:
		detail, summary = x.Role, x.Reason
	}
	if e.Delta != nil {
		detail, summary = cli.CoverSummary(e.Delta), cli.DeltaSummary(e.Delta)
	}
	if e.Err != nil {
		summary = "unreadable: " + e.Err.Error()
	}
	if e.Repeat {
		summary = "(again) " + summary
	}
	return strings.TrimSpace(fmt.Sprintf("%s  %-10s  %-10s  %-16s  %-14s  %s", e.Time.Local().Format(time.DateTime), e.Kind, e.Book,
		entryID(e), console.Line(detail), text.Clip(console.Line(summary), 120)))
}

// outcomeOf formats an outcome as its label and score, "" if it is unknown.
func outcomeOf(o events.Outcome) string {
	if !o.Known() {
		return ""
	}
	return fmt.Sprintf("%s %.2f", o.Label, o.Score)
}
