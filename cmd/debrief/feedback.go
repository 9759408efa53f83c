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
	"debrief/generator"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// feedback judges an execution, or judges it otherwise.
type feedback struct {
	place
	Execution string        `arg:"" help:"Handle of the execution, such as 412-ab12cd34." placeholder:"HANDLE"`
	Good      bool          `help:"It was right."`
	Bad       bool          `help:"It was wrong."`
	Score     *float64      `help:"How good it was, 0 to 1." placeholder:"S"`
	Text      string        `help:"What to say about it. Alone it leaves the outcome as it is."`
	Target    string        `help:"What a right answer would have been. Alone it is held against the answer, where the task named how to compare."`
	By        string        `help:"Who says so. Default: $USER." env:"USER" placeholder:"NAME"`
	ID        string        `help:"Any name for this feedback: the same name again is the same feedback. Default: a new one." placeholder:"ID"`
	Book      string        `help:"Playbook of the execution, to be checked. Default: whichever it is." placeholder:"NAME"`
	NoWait    bool          `help:"Do not wait for what becomes of it."`
	Patience  time.Duration `help:"How long to wait." default:"1m"`
	JSON      bool          `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*feedback) Help() string {
	return `An execution can be judged at any time, as long as it is stored. Where nobody knew how it went, its votes are cast now;
where somebody did, they move: the old vote out, the new one in, once. Of several words on one execution the last counts.

Examples:

  debrief feedback 412-ab12cd34 --good
  debrief feedback 412-ab12cd34 --score 0.4 --text "half of it was there" --by ann
  debrief feedback 412-ab12cd34 --target 96.50`
}

// request is what the flags ask for.
func (f *feedback) request() (*events.FeedbackRequest, error) {
	if _, _, err := events.Handle(f.Execution).Parse(); err != nil {
		return nil, err
	}
	r := &events.FeedbackRequest{Execution: events.Handle(f.Execution), Target: f.Target}
	r.Outcome = events.Outcome{Feedback: strings.TrimSpace(f.Text), By: f.By}
	said := 0
	for _, o := range []struct {
		given bool
		label events.Label
		score float64
	}{{f.Good, events.Success, 1}, {f.Bad, events.Failure, 0}} {
		if o.given {
			said++
			r.Outcome.Label, r.Outcome.Score = o.label, o.score
		}
	}
	if f.Score != nil {
		said++
		if s := *f.Score; !(s >= 0 && s <= 1) {
			return nil, fmt.Errorf("--score: must be between 0 and 1, got %v", s)
		}
		r.Outcome.Label, r.Outcome.Score = events.LabelOf(*f.Score), *f.Score
	}
	switch {
	case said > 1:
		return nil, errors.New("--good, --bad, --score: want one of them")
	case said == 0 && r.Outcome.Feedback == "" && r.Target == "":
		return nil, errors.New("--good, --bad, --score, --text, --target: want at least one of them")
	}
	return r, nil
}

// Run implements the command.
func (f *feedback) Run(ctx context.Context, c *app.Common) error {
	r, err := f.request()
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if f.Book != "" {
		if r.Book, err = bookName(f.Book); err != nil {
			return err
		}
	}
	conn, err := f.running(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	e, err := f.execution(ctx, conn, r)
	if err != nil {
		return err
	}
	if r.Book = e.Book; f.ID != "" {
		r.ID = events.Hash("feedback", string(e.Book), f.ID)
	}
	said, err := generator.NewFeedback(r)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if err := generator.Judge(said, e); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--target: %w", err))
	}
	l := &later{conn: conn, store: natskv.New(conn.JetStream()), said: said, e: e}
	l.Execution, l.Book, l.Before = r.Execution, e.Book, e.Outcome
	if err := l.read(ctx); err != nil {
		return err
	}
	if l.cover != nil { // the same feedback was given before
		l.Duplicate, l.After = true, l.Before
		return f.print(l, l.tell())
	}
	receipt, err := conn.Publish(ctx, said, bus.Marks{})
	if err != nil {
		return err
	}
	l.at, l.Handle, l.Duplicate = receipt.Seq, receipt.Handle, receipt.Duplicate
	l.After = l.Before.After(said)
	if f.NoWait {
		return f.print(l, fmt.Sprintf("stored as %s; what becomes of it: debrief playbook why %s", l.Handle, l.Execution))
	}
	if err := l.wait(ctx, f.Patience); err != nil {
		return err
	}
	return f.print(l, l.tell())
}

// execution is the one that the flags name.
func (f *feedback) execution(ctx context.Context, conn *session, r *events.FeedbackRequest) (*events.Execution, error) {
	seq, is, _ := r.Execution.Parse() // the request has been checked
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if errors.Is(err, bus.ErrGone) {
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("execution %s %w", r.Execution, err))
	}
	if err != nil {
		return nil, err
	}
	e, ok := found.(*events.Execution)
	switch {
	case !ok:
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("%s is a %s and no execution", r.Execution, found.Kind()))
	case r.Book != "" && r.Book != e.Book:
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("execution %s is one of playbook %q, not of %q", r.Execution, e.Book, r.Book))
	case e.Purpose == events.Evaluate:
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("execution %s was for evaluation: nothing is learned from it", r.Execution))
	}
	return e, nil
}

// later is what became of feedback; its output with --json.
type later struct {
	Handle    events.Handle  `json:"handle,omitempty"` // of the feedback
	Execution events.Handle  `json:"execution"`
	Book      book.Book      `json:"book"`
	Duplicate bool           `json:"duplicate"`
	Before    events.Outcome `json:"before"`
	After     events.Outcome `json:"after"`
	Version   string         `json:"version,omitempty"` // that settled it
	Moved     []move         `json:"moved"`
	Outcomes  int            `json:"outcomes_moved"` // of bullets that are tried
	Refused   []string       `json:"refused,omitempty"`

	conn  *session
	store *natskv.Store
	said  *events.Feedback
	e     *events.Execution
	at    uint64 // sequence of the feedback

	readTo uint64 // of the log
	judged uint64 // by which feedback Before is
	cover  *natskv.Record
	index  int // of the cover in it
}

// move is a vote that went from one counter to another; one of the two is empty where it was cast or taken back.
type move struct {
	Bullet book.BulletID `json:"bullet_id"`
	Was    book.Vote     `json:"was,omitempty"`
	Is     book.Vote     `json:"is,omitempty"`
}

// read reads what is new in the log: the outcome as it was judged last, and the delta that settles the feedback.
func (l *later) read(ctx context.Context) error {
	err := l.store.Since(ctx, l.Book, l.readTo, func(r *natskv.Record) error {
		l.readTo = r.Seq
		for i, c := range r.Covers {
			e := c.Evidence
			if e == nil || e.Sample != string(l.e.Sample()) {
				continue
			}
			if l.ours(c) {
				l.cover, l.index = r, i
			}
			if l.at == 0 && e.Judged > l.judged {
				l.judged, l.Before = e.Judged, events.Outcome{Label: events.Label(e.Outcome), Score: e.Score}
			}
		}
		return nil
	})
	return broken(err)
}

// ours reports whether a cover is of this feedback.
func (l *later) ours(c book.Cover) bool {
	return c.Evidence.Judged > 0 && c.ID == string(l.said.ID)
}

// wait returns when the log says what became of the feedback.
func (l *later) wait(ctx context.Context, patience time.Duration) error {
	until := time.Now().Add(patience)
	for pause := 20 * time.Millisecond; l.cover == nil; pause = min(2*pause, 500*time.Millisecond) {
		if time.Now().After(until) {
			return l.late(ctx, patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if err := l.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// late says what the feedback still waits for.
func (l *later) late(ctx context.Context, patience time.Duration) error {
	lag, err := l.conn.Lag(ctx, events.RoleReflector)
	if err != nil {
		return err
	}
	missing := "it is reflected on and waits for a curator"
	if lag.Floor < l.at {
		missing = "it waits for a reflector"
	}
	return app.Exit(app.ExitUnreachable, fmt.Errorf("nothing has become of it in %s: %s; the feedback is stored as %s and will be learned from when one runs; see 'debrief status'",
		patience, missing, l.Handle))
}

// tell says what became of the feedback.
func (l *later) tell() string {
	l.Version, l.Moved = book.Label(l.cover.Version, l.cover.Chain), []move{}
	if l.at == 0 {
		return "this feedback was given before and is settled, by version " + l.Version + "; nothing changed"
	}
	for _, op := range l.cover.Ops {
		for range countOf(op.Support, l.index) {
			switch op.Kind {
			case book.Tag, book.Retag:
				l.Moved = append(l.Moved, move{op.Bullet, op.Was, castBy(&op)})
			case book.Trial:
				l.Outcomes++
			}
		}
	}
	for _, j := range l.cover.Rejected {
		if slices.Contains(j.Op.Support, l.index) {
			l.Refused = append(l.Refused, j.Reason)
		}
	}
	out := new(strings.Builder)
	if len(l.Moved) == 0 {
		console.Fprintf(out, "no vote moved, version %s", l.Version)
	} else {
		console.Fprintf(out, "%s moved, version %s", plural(len(l.Moved), "vote"), l.Version)
	}
	for _, m := range l.Moved {
		console.Fprintf(out, "\n  %s  %s", m.Bullet, m)
	}
	if l.Outcomes > 0 {
		console.Fprintf(out, "\n  outcomes of bullets that are tried moved, too")
	}
	for _, why := range slices.Compact(slices.Clone(l.Refused)) {
		console.Fprintf(out, "\n  not done: %s", inLine(why, 200))
	}
	return out.String()
}

func (m move) String() string {
	switch {
	case m.Was == "":
		return string(m.Is) + ", which is new"
	case m.Is == "":
		return string(m.Was) + " taken back"
	}
	return fmt.Sprintf("%s → %s", m.Was, m.Is)
}

func countOf(support []int, index int) (n int) {
	for _, s := range support {
		if s == index {
			n++
		}
	}
	return n
}

// castBy is the vote that an operation casts, none if it only takes one back.
func castBy(op *book.Op) book.Vote {
	switch {
	case op.Helpful > 0:
		return book.Helpful
	case op.Harmful > 0:
		return book.Harmful
	case op.Neutral > 0:
		return book.Neutral
	}
	return ""
}

func (f *feedback) print(l *later, then string) error {
	if f.JSON {
		return writeJSON(console.Stdout, l)
	}
	by := ""
	if l.After.By != "" {
		by = ", says " + l.After.By
	}
	console.Printf("execution %s: %s → %s%s\n%s\n", l.Execution, outcome(string(cmp.Or(l.Before.Label, events.Unknown)), l.Before.Score),
		outcome(string(cmp.Or(l.After.Label, events.Unknown)), l.After.Score), by, console.Block(then))
	return nil
}
