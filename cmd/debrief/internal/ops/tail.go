package ops

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
	"debrief/playbook/text"
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

// tailKinds are the kinds of the entries of a tail.
var tailKinds = []string{
	string(events.KindTask), string(events.KindExecution), string(events.KindFeedback), string(events.KindReflection), string(events.KindEdit),
	string(events.KindDelta), string(events.KindDead),
}

func (t *Tail) Run(ctx context.Context, c *program.Common) error {
	if t.Lines < 0 {
		return program.Exit(program.ExitUsage, fmt.Errorf("--lines: must be at least 0, got %d", t.Lines))
	}
	var book playbook.Book
	if t.Book != "" {
		var err error
		if book, err = cli.ParseBook(t.Book); err != nil {
			return err
		}
	}
	for _, k := range t.Kind {
		if !slices.Contains(tailKinds, k) {
			return program.Exit(program.ExitUsage, fmt.Errorf("--kind: unknown kind %q; see 'debrief tail --help'", k))
		}
	}
	since, err := explain.ParseSince(t.Since)
	if err != nil {
		return err
	}
	s, err := t.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	err = t.show(ctx, s.Conn, book, since, func(e *tailEntry) error {
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

const (
	// tailBatch is the number of messages that a tail reads of a stream at a time.
	tailBatch = 1000
	// tailPollInterval is the interval at which a tail reads a stream again after its end. It polls because a work queue
	// allows no second consumer.
	tailPollInterval = 200 * time.Millisecond
)

// show calls fn for the messages of the streams of tasks, executions, reflections, deltas and dead letters, in the order of their
// time: those since a time, or the newest --lines if that is zero. An empty book is all books. With --follow it continues until ctx ends,
// and waits if the server does not answer. It may miss a task that is answered between two polls.
func (t *Tail) show(ctx context.Context, c *bus.Conn, book playbook.Book, since time.Time, fn func(*tailEntry) error) error {
	all, err := openTail(ctx, c, book, since)
	if err != nil {
		return err
	}
	var newest []*tailEntry // without --since: the last --lines entries, shown at the first end of the streams
	for collecting := since.IsZero(); ; {
		entries, atEnd, err := readTail(ctx, c, all)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && t.Follow && bus.Unreachable(err):
			atEnd = true
		case err != nil:
			return err
		}
		entries = slices.DeleteFunc(entries, func(e *tailEntry) bool { return len(t.Kind) > 0 && !slices.Contains(t.Kind, string(e.Kind)) })
		if collecting {
			newest = append(newest, entries...)
			newest = newest[max(len(newest)-t.Lines, 0):]
			entries = nil
			if atEnd && err == nil {
				entries, collecting = newest, false
			}
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		switch {
		case atEnd && !t.Follow:
			return nil
		case atEnd:
			_ = events.Sleep(ctx, tailPollInterval) // an end of ctx ends the next read, too
		}
	}
}

// tailStream has the messages of one subject of a stream.
type tailStream struct {
	name  string
	query direct.Query     // for the next messages
	read  []direct.Message // read and not shown yet
}

// openTail returns the streams that a tail reads, at the first message of each. The stream of tasks has several subjects for a book.
func openTail(ctx context.Context, c *bus.Conn, b playbook.Book, since time.Time) (all []*tailStream, err error) {
	ofBook := []string{events.Kind("*").Subject(b)}
	for name, subjects := range map[string][]string{
		events.StreamTasks: events.TaskSubjects(b), events.StreamExecutions: ofBook, events.StreamReflections: ofBook, events.StreamDeltas: ofBook,
		events.StreamDead: {events.DeadSubject("", b)},
	} {
		s, err := c.JetStream().Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("open stream %s: %w", name, natserr.AsTimeout(ctx, err))
		}
		var from uint64 // with a time, it selects the first message
		if since.IsZero() {
			from = max(s.CachedInfo().State.LastSeq, tailBatch) - tailBatch + 1
		}
		for _, subject := range subjects {
			all = append(all, &tailStream{name: name, query: direct.Query{Subject: subject, From: from, Since: since}})
		}
	}
	return all, nil
}

// errBatch ends a read after tailBatch messages.
var errBatch = errors.New("enough messages")

// readTail returns the next entries of all streams in the order of their time. atEnd is set at the end of all streams.
func readTail(ctx context.Context, c *bus.Conn, all []*tailStream) (entries []*tailEntry, atEnd bool, err error) {
	reader := direct.NewReader(c.NATS(), natserr.WatchOf(c.JetStream()))
	atEnd = true
	var until time.Time // all messages up to it were read; zero if all streams were read to their ends
	for _, w := range all {
		err := reader.Read(ctx, w.name, w.query, func(m direct.Message) error {
			w.read = append(w.read, m)
			// By time and not by sequence: a server that crashed may use the last sequences again.
			w.query.From, w.query.Since = 0, m.Stored().Add(1)
			if len(w.read) >= tailBatch {
				return errBatch
			}
			return nil
		})
		switch {
		case errors.Is(err, errBatch):
			atEnd = false
			if last := w.read[len(w.read)-1].Stored(); until.IsZero() || last.Before(until) {
				until = last
			}
		case err != nil:
			return nil, false, fmt.Errorf("read %s: %w", w.name, err)
		}
	}
	// Show no message after until: a stream with unread messages may have an older one. It stays in w.read.
	for _, w := range all {
		n := 0
		for n < len(w.read) && (until.IsZero() || !w.read[n].Stored().After(until)) {
			entries = append(entries, newTailEntry(ctx, c, w.name, &w.read[n]))
			n++
		}
		w.read = w.read[n:]
	}
	slices.SortStableFunc(entries, func(a, b *tailEntry) int { return a.Time.Compare(b.Time) })
	return entries, atEnd, nil
}

// newTailEntry decodes a message of a stream.
func newTailEntry(ctx context.Context, c *bus.Conn, stream string, m *direct.Message) *tailEntry {
	e := &tailEntry{Stream: stream, Seq: m.Seq, Time: m.Stored(), Repeat: m.Header.Get(events.HeaderRepeat) != "", ID: strconv.FormatUint(m.Seq, 10)}
	var err error
	e.Kind, e.Book, err = events.ParseSubject(m.Subject)
	switch {
	case err != nil:
	case e.Kind == events.KindDelta:
		if err = events.CheckSchema(m.Header); err == nil {
			e.Delta, err = events.DecodeDelta(m.Data)
		}
		if err == nil {
			sum := sha256.Sum256(m.Data) // the chain of the log, of which the label of a version has the first digits
			e.ID = playbook.VersionLabel(e.Delta.Version, sum[:])
		}
	default:
		e.Event, err = c.Events.Decode(ctx, m.Subject, m.Header, m.Data)
		if err == nil {
			e.ID = string(events.NewHandle(e.Seq, e.Event.EventID()))
		}
	}
	if err != nil {
		e.Problem = err.Error()
	}
	return e
}

// tailEntry is an event or a delta of a stream.
type tailEntry struct {
	Time    time.Time       `json:"time"` // when the server stored it
	Kind    events.Kind     `json:"kind"`
	Book    playbook.Book   `json:"book,omitempty"`
	Stream  string          `json:"stream"`
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id,omitempty"`     // handle, version of a delta, or sequence of an unreadable message
	Repeat  bool            `json:"repeat,omitempty"` // it may be a copy of an earlier event
	Event   events.Event    `json:"event,omitempty"`
	Delta   *playbook.Delta `json:"delta,omitempty"`
	Problem string          `json:"problem,omitempty"` // reason why the message is unreadable
}

// line formats an entry as a line of text. It escapes control characters, which may come from untrusted input.
func (e *tailEntry) line() string {
	detail, summary := "", ""
	switch x := e.Event.(type) {
	case *events.Task:
		summary = x.Question
	case *events.Execution:
		detail, summary = outcomeOf(x.Outcome), x.Question
	case *events.Feedback:
		detail, summary = outcomeOf(x.Outcome), "on "+string(x.Execution)+" "+cmp.Or(x.Outcome.Feedback, x.Target)
	case *events.Reflection:
		detail, summary = outcomeOf(x.Outcome), cmp.Or(x.KeyInsight, doubt(x), x.ErrorIdentification, "on "+string(x.Handle))
	case *events.Edit:
		summary = "by " + x.Author + " " + x.Reason
	case *events.DeadLetter:
		detail, summary = x.Role, x.Reason
	}
	if e.Delta != nil {
		detail, summary = explain.CoverSummary(e.Delta), explain.DeltaSummary(e.Delta)
	}
	if e.Problem != "" {
		summary = "unreadable: " + e.Problem
	}
	if e.Repeat {
		summary = "(may be a copy) " + summary
	}
	return strings.TrimSpace(fmt.Sprintf("%s  %-10s  %-10s  %-16s  %-14s  %s", e.Time.Local().Format(time.DateTime), e.Kind, e.Book,
		e.ID, term.Line(detail), text.Clip(term.Line(summary), 120)))
}

// doubt returns the reason why a reflection doubts its outcome, or "".
func doubt(r *events.Reflection) string {
	if r.LabelSuspect == "" {
		return ""
	}
	return "doubts the outcome: " + r.LabelSuspect
}

// outcomeOf formats an outcome as its label and score, "" if it is unknown.
func outcomeOf(o events.Outcome) string {
	if !o.Known() {
		return ""
	}
	return fmt.Sprintf("%s %.2f", o.Label, o.Score)
}
