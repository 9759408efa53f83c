package ops

import (
	"context"
	"fmt"
	"slices"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
)

// Tail shows events as they happen.
type Tail struct {
	cli.NATSFlags
	Book   string   `help:"Show only events of this playbook." placeholder:"NAME"`
	Kind   []string `help:"Show only these kinds: task, execution, feedback, reflection, edit, delta, dead." placeholder:"NAME"`
	Since  string   `help:"Start at an age such as 2h or 7d, or at a time such as 2026-11-20. Default: the last --lines events." placeholder:"TIME"`
	Lines  int      `short:"n" help:"Number of past events to start with." default:"10"`
	Follow bool     `short:"f" help:"Follow new events until interrupted."`
	JSON   bool     `help:"Print JSON lines with the whole event."`
}

func (*Tail) Help() string {
	return `Show one line per event, in the order of storage: time, kind, playbook, handle or version, outcome and the beginning of
the text. 'debrief playbook why HANDLE' shows details. The command changes nothing and reconnects after an outage of the
server. --lines looks at up to 1,000 past events of each stream.

Examples:

  debrief tail -f
  debrief tail --book support --kind execution,feedback --since 1h
  debrief tail --since 2026-11-20 --json | jq .event.answer`
}

// filter returns the filter that the flags describe.
func (t *Tail) filter() (f tailFilter, err error) {
	f.Follow, f.Last = t.Follow, t.Lines
	if t.Lines < 0 {
		return f, program.Exit(program.ExitUsage, fmt.Errorf("--lines: must be at least 0, got %d", t.Lines))
	}
	if t.Book != "" {
		if f.Book, err = cli.ParseBook(t.Book); err != nil {
			return f, err
		}
	}
	for _, k := range t.Kind {
		if !slices.Contains(tailKinds, events.Kind(k)) {
			return f, program.Exit(program.ExitUsage, fmt.Errorf("--kind: unknown kind %q; see 'debrief tail --help'", k))
		}
		f.Kinds = append(f.Kinds, events.Kind(k))
	}
	f.Since, err = explain.ParseSince(t.Since)
	return f, err
}

func (t *Tail) Run(ctx context.Context, c *program.Common) error {
	f, err := t.filter()
	if err != nil {
		return err
	}
	s, err := t.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	err = readTail(ctx, s.Conn, f, func(e *tailEntry) error {
		if t.JSON {
			return cli.WriteJSON(term.Stdout, e)
		}
		_, err := term.Println(e.line())
		return err
	})
	if t.Follow && ctx.Err() != nil { // an interrupt is the normal end of --follow
		return nil
	}
	return err
}
