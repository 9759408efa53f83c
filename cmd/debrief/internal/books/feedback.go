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
	"debrief/cmd/internal/versions"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/events/outcome"
	"debrief/generator"
)

// Feedback records feedback on an execution, or changes it.
type Feedback struct {
	cli.ServerFlags
	Execution   string        `arg:"" help:"Handle of the execution, such as 412-ab12cd34." placeholder:"HANDLE"`
	Good        bool          `help:"The answer was right: score 1."`
	Bad         bool          `help:"The answer was wrong: score 0."`
	Score       string        `help:"Score from 0 to 1, or a form such as 4/5, partial, up, 👎 or 3 stars." placeholder:"S"`
	Violation   bool          `help:"The run broke a rule: score 0, and the bullets behind it wait in quarantine until a person decides."`
	Text        string        `help:"Comment. Without a score or label the outcome stays unchanged."`
	Target      string        `help:"Correct answer. Without a score, the task's evaluator compares it with the answer."`
	Author      string        `help:"Author of the feedback, for the log. Default: $USER." placeholder:"NAME"`
	ID          string        `help:"Id of this feedback; a repeated id has no effect. Default: a new id." placeholder:"ID"`
	Book        string        `help:"Refuse if the execution belongs to another playbook. Default: any." placeholder:"NAME"`
	NoWait      bool          `help:"Do not wait for the result."`
	WaitTimeout time.Duration `help:"Longest wait for the result." default:"1m"`
	JSON        bool          `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*Feedback) Help() string {
	return `Records or changes the outcome of an execution, at any time while the execution is stored. If the execution had no outcome,
its votes are cast now. Otherwise each vote moves once from the old counter to the new one. The last feedback on an
execution counts. A violation also suspends the bullets that the run cited, without a citation those that an experiment showed it.
They wait in quarantine for 'debrief playbook review', also if later feedback changes the outcome.

Examples:

  debrief feedback 412-ab12cd34 --good
  debrief feedback 412-ab12cd34 --score 0.4 --text "half is missing"
  debrief feedback 412-ab12cd34 --violation --text "refunded unasked"
  debrief feedback 412-ab12cd34 --target 96.50`
}

// request validates the flags and returns the request.
func (f *Feedback) request() (*events.FeedbackRequest, error) {
	if _, _, err := events.Handle(f.Execution).Parse(); err != nil {
		return nil, err
	}
	r := &events.FeedbackRequest{Execution: events.Handle(f.Execution), Target: f.Target}
	r.Outcome = events.Outcome{Feedback: strings.TrimSpace(f.Text), By: cli.Author(f.Author), Violation: f.Violation}
	given := 0
	for _, o := range []struct {
		set   bool
		label events.Label
		score float64
	}{{f.Good, events.Success, 1}, {f.Bad, events.Failure, 0}, {f.Violation, events.Failure, 0}} {
		if o.set {
			given++
			r.Outcome.Label, r.Outcome.Score = o.label, o.score
		}
	}
	if f.Score != "" {
		given++
		o, err := outcome.Parse(f.Score)
		if err == nil && o.Label == "" {
			err = fmt.Errorf("want %s", outcome.Accepted)
		}
		if err != nil {
			return nil, fmt.Errorf("--score: %w", err)
		}
		r.Outcome.Label, r.Outcome.Score = o.Label, o.Score
		r.Outcome.Feedback = cmp.Or(r.Outcome.Feedback, o.Feedback)
	}
	switch {
	case given > 1:
		return nil, errors.New("--good, --bad, --violation, --score: cannot be combined")
	case given == 0 && r.Outcome.Feedback == "" && r.Target == "":
		return nil, errors.New("--good, --bad, --violation, --score, --text, --target: at least one required")
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
	e, err := request.FeedbackTarget(ctx, conn, r.Execution, r.Book)
	if errors.As(err, new(*request.TargetError)) {
		return app.Exit(app.ExitRefused, err)
	}
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
	result, err := request.Feedback(ctx, conn, deltalog.New(conn.JetStream()), fb, e)
	if err != nil {
		return versions.LogError(err)
	}
	if !f.NoWait {
		done := console.Doing("waiting for the effect of the feedback")
		checked, unchecked := request.WithModelCheck(ctx, conn.Conn, events.RoleReflector, events.RoleCurator)
		err := result.Wait(checked, conn, f.WaitTimeout)
		unchecked()
		done()
		if model := (*request.ModelError)(nil); err != nil && errors.As(context.Cause(checked), &model) {
			return app.Exit(app.ExitUnreachable, fmt.Errorf("feedback not applied yet: %w; it is stored as %s and is applied after that is fixed", model, result.Handle))
		}
		if errors.As(err, new(*request.PendingError)) {
			return app.Exit(app.ExitUnreachable, fmt.Errorf("%w; see 'debrief status'", err))
		}
		if err != nil {
			return versions.LogError(err)
		}
	}
	return f.print(result)
}

func (f *Feedback) print(l *request.FeedbackResult) error {
	if f.JSON {
		return cli.WriteJSON(console.Stdout, l)
	}
	by := ""
	if l.After.By != "" {
		by = ", by " + l.After.By
	}
	console.Printf("execution %s: %s → %s%s\n%s\n", l.Execution, explain.Outcome(string(cmp.Or(l.Before.Label, events.Unknown)), l.Before.Score),
		explain.Outcome(string(cmp.Or(l.After.Label, events.Unknown)), l.After.Score), by, console.Block(explain.Feedback(l)))
	return nil
}
