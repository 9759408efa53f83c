package books

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/request"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/generator"

	book "debrief/playbook"
)

// Feedback records feedback on an execution, or changes it.
type Feedback struct {
	cli.ServerFlags
	Execution string        `arg:"" help:"Handle of the execution, such as 412-ab12cd34." placeholder:"HANDLE"`
	Good      bool          `help:"The answer was right: score 1."`
	Bad       bool          `help:"The answer was wrong: score 0."`
	Score     *float64      `help:"Score of the answer, from 0 to 1." placeholder:"S"`
	Text      string        `help:"Comment. Without a score or label the outcome stays unchanged."`
	Target    string        `help:"Correct answer. Without a score, the task's evaluator compares it with the answer."`
	By        string        `help:"Author of the feedback. Default: $USER." env:"USER" placeholder:"NAME"`
	ID        string        `help:"Id of this feedback; a repeated id has no effect. Default: a new id." placeholder:"ID"`
	Book      string        `help:"Refuse if the execution belongs to another playbook. Default: any." placeholder:"NAME"`
	NoWait    bool          `help:"Do not wait for the effect."`
	Patience  time.Duration `help:"Timeout for the effect." default:"1m"`
	JSON      bool          `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*Feedback) Help() string {
	return `Records or changes the outcome of an execution, at any time while the execution is stored. If the execution had no outcome,
its votes are cast now. Otherwise each vote moves once from the old counter to the new one. The last feedback on an
execution counts.

Examples:

  debrief feedback 412-ab12cd34 --good
  debrief feedback 412-ab12cd34 --score 0.4 --text "half of the answer is missing" --by ann
  debrief feedback 412-ab12cd34 --target 96.50`
}

// request validates the flags and returns the request.
func (f *Feedback) request() (*events.FeedbackRequest, error) {
	if _, _, err := events.Handle(f.Execution).Parse(); err != nil {
		return nil, err
	}
	r := &events.FeedbackRequest{Execution: events.Handle(f.Execution), Target: f.Target}
	r.Outcome = events.Outcome{Feedback: strings.TrimSpace(f.Text), By: f.By}
	given := 0
	for _, o := range []struct {
		set   bool
		label events.Label
		score float64
	}{{f.Good, events.Success, 1}, {f.Bad, events.Failure, 0}} {
		if o.set {
			given++
			r.Outcome.Label, r.Outcome.Score = o.label, o.score
		}
	}
	if f.Score != nil {
		given++
		if s := *f.Score; !(s >= 0 && s <= 1) {
			return nil, fmt.Errorf("--score: must be between 0 and 1, got %v", s)
		}
		r.Outcome.Label, r.Outcome.Score = events.LabelOf(*f.Score), *f.Score
	}
	switch {
	case given > 1:
		return nil, errors.New("--good, --bad, --score: cannot be combined")
	case given == 0 && r.Outcome.Feedback == "" && r.Target == "":
		return nil, errors.New("--good, --bad, --score, --text, --target: at least one required")
	}
	return r, nil
}

// Run implements the command.
func (f *Feedback) Run(ctx context.Context, c *app.Common) error {
	r, err := f.request()
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if f.Book != "" {
		if r.Book, err = cli.ParseBook(f.Book); err != nil {
			return err
		}
	}
	conn, err := f.ConnectRunning(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer conn.Close()
	e, err := f.findExecution(ctx, conn, r)
	if err != nil {
		return err
	}
	if r.Book = e.Book; f.ID != "" {
		r.ID = events.Hash("feedback", string(e.Book), f.ID)
	}
	fb, err := generator.NewFeedback(r)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if err := generator.ScoreFeedback(fb, e); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--target: %w", err))
	}
	l := &feedbackResult{
		Execution: r.Execution, Book: e.Book, FeedbackEffect: request.NewFeedbackEffect(fb, e),
		conn: conn, store: deltalog.New(conn.JetStream()),
	}
	if err := l.readLog(ctx); err != nil {
		return err
	}
	if l.Covering() != nil { // duplicate of earlier feedback
		l.Duplicate, l.After = true, l.Before
		return f.print(l, l.summarize())
	}
	receipt, err := conn.Publish(ctx, fb, bus.PublishOptions{})
	if err != nil {
		return err
	}
	l.sequence, l.Handle, l.Duplicate = receipt.Seq, receipt.Handle, receipt.Duplicate
	l.After = l.Before.WithFeedback(fb)
	if f.NoWait {
		return f.print(l, fmt.Sprintf("stored as %s; see its effect with: debrief playbook why %s", l.Handle, l.Execution))
	}
	if err := l.wait(ctx, f.Patience); err != nil {
		return err
	}
	return f.print(l, l.summarize())
}

// findExecution returns the execution that the flags name.
func (f *Feedback) findExecution(ctx context.Context, conn *cli.Session, r *events.FeedbackRequest) (*events.Execution, error) {
	seq, is, _ := r.Execution.Parse() // the request has been checked
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("execution %s %w", r.Execution, err))
	}
	if err != nil {
		return nil, err
	}
	e, ok := found.(*events.Execution)
	switch {
	case !ok:
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("%s: want an execution, got a %s", r.Execution, found.Kind()))
	case r.Book != "" && r.Book != e.Book:
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("execution %s: belongs to playbook %q, not %q", r.Execution, e.Book, r.Book))
	case e.Purpose == events.Evaluate:
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("execution %s: made for evaluation, which is never learned from", r.Execution))
	}
	return e, nil
}

// feedbackResult is the effect of feedback, and the output of --json.
type feedbackResult struct {
	Handle    events.Handle  `json:"handle,omitempty"` // of the feedback
	Execution events.Handle  `json:"execution"`
	Book      book.Book      `json:"book"`
	Duplicate bool           `json:"duplicate"`
	After     events.Outcome `json:"after"`
	Version   string         `json:"version,omitempty"` // version that covers the feedback
	*request.FeedbackEffect

	conn     *cli.Session
	store    *deltalog.Store
	sequence uint64 // sequence of the feedback, 0 before it is published
	logEnd   uint64 // sequence of the last delta read
}

// readLog reads the new deltas of the log.
func (l *feedbackResult) readLog(ctx context.Context) error {
	err := l.store.DeltasAfter(ctx, l.Book, l.logEnd, func(r *deltalog.Record) error {
		l.logEnd = r.Seq
		l.Read(r, l.sequence > 0)
		return nil
	})
	return cli.LogError(err)
}

// wait polls the log until a delta covers the feedback.
func (l *feedbackResult) wait(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for pause := 20 * time.Millisecond; l.Covering() == nil; pause = min(2*pause, 500*time.Millisecond) {
		if time.Now().After(deadline) {
			return l.timeoutError(ctx, timeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if err := l.readLog(ctx); err != nil {
			return err
		}
	}
	return nil
}

// timeoutError returns an error that names the role that has not processed the feedback.
func (l *feedbackResult) timeoutError(ctx context.Context, timeout time.Duration) error {
	lag, err := l.conn.Lag(ctx, events.RoleReflector)
	if err != nil {
		return err
	}
	missing := "it waits for a curator"
	if lag.Floor < l.sequence {
		missing = "it waits for a reflector"
	}
	return app.Exit(app.ExitUnreachable, fmt.Errorf("feedback not applied after %s: %s; it is stored as %s and will be applied when one runs; see 'debrief status'",
		timeout, missing, l.Handle))
}

// summarize sets the version that covers the feedback, and returns the effect as text.
func (l *feedbackResult) summarize() string {
	l.Version = book.VersionLabel(l.Covering().Version, l.Covering().Chain)
	if l.sequence == 0 {
		return "duplicate: version " + l.Version + " already covers this feedback; nothing was changed"
	}
	return explain.Feedback(l.FeedbackEffect, l.Version)
}

func (f *Feedback) print(l *feedbackResult, then string) error {
	if f.JSON {
		return cli.WriteJSON(console.Stdout, l)
	}
	by := ""
	if l.After.By != "" {
		by = ", by " + l.After.By
	}
	console.Printf("execution %s: %s → %s%s\n%s\n", l.Execution, explain.Outcome(string(cmp.Or(l.Before.Label, events.Unknown)), l.Before.Score),
		explain.Outcome(string(cmp.Or(l.After.Label, events.Unknown)), l.After.Score), by, console.Block(then))
	return nil
}
