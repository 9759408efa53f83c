package books

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/playbook"
)

// Feedback records feedback on an execution, or changes it.
type Feedback struct {
	apiclient.Flags
	Execution   string        `arg:"" help:"Handle of the execution, such as 412-ab12cd34, or a session, run or response id." placeholder:"EXECUTION"`
	Good        bool          `help:"The answer was right: score 1."`
	Bad         bool          `help:"The answer was wrong: score 0."`
	Score       string        `help:"Score from 0 to 1, or a form such as 4/5, partial, up, 👎 or 3 stars." placeholder:"S"`
	Violation   bool          `help:"The run broke a rule: score 0, and the bullets behind it wait in quarantine until a person decides."`
	Text        string        `help:"Comment. Without a score or label the outcome stays unchanged."`
	Target      string        `help:"Correct answer. Without a score, the task's evaluator compares it with the answer."`
	Author      string        `help:"Author of the feedback, for the log. Default: $USER; with --url the token." placeholder:"NAME"`
	ID          string        `help:"Id of this feedback; a repeated id has no effect. Default: a new id." placeholder:"ID"`
	Book        string        `help:"Playbook of the execution. Default: that of the handle; 'default' for other ids." placeholder:"NAME"`
	NoWait      bool          `help:"Do not wait for the result."`
	WaitTimeout time.Duration `help:"Longest wait for the result, up to 10m." default:"1m"`
	JSON        bool          `help:"Print one JSON document."`
}

func (*Feedback) Help() string {
	return `Records or changes the outcome of an execution, at any time while the execution is stored. If the execution had no outcome,
its votes are cast now. Otherwise each vote moves once from the old counter to the new one. The last feedback on an
execution counts. A session stands for its latest run, SESSION/3 for its third turn. 'debrief tail --kind execution' lists
handles. With another id than a handle, the command does not wait for the result.

A violation also suspends bullets: those that the run cited, or, if it cited none, those that an experiment had put into its prompt. They
wait in quarantine for 'debrief playbook review', also if later feedback changes the outcome.

Examples:

  debrief feedback 412-ab12cd34 --good
  debrief feedback 412-ab12cd34 --score 0.4 --text "half is missing"
  debrief feedback session-17 --book desk --bad --text "the wrong card"
  debrief feedback 412-ab12cd34 --violation --text "refunded unasked"
  debrief feedback 412-ab12cd34 --target 96.50`
}

// outcome returns the outcome of the flags in a form that the API accepts. It is nil if the flags have only a text or a target.
func (f *Feedback) outcome() (any, error) {
	var given []any
	if f.Good {
		given = append(given, events.Success)
	}
	if f.Bad {
		given = append(given, events.Failure)
	}
	if f.Violation {
		given = append(given, map[string]any{"label": events.Failure, "violation": true})
	}
	switch {
	case json.Valid([]byte(f.Score)): // a number; the API also understands other forms, as texts
		given = append(given, json.RawMessage(f.Score))
	case f.Score != "":
		given = append(given, f.Score)
	}
	switch {
	case len(given) > 1:
		return nil, errors.New("--good, --bad, --violation, --score: cannot be combined")
	case len(given) == 1:
		return given[0], nil
	case strings.TrimSpace(f.Text) == "" && f.Target == "":
		return nil, errors.New("--good, --bad, --violation, --score, --text, --target: at least one required")
	}
	return nil, nil
}

func (f *Feedback) Run(ctx context.Context, c *program.Common) error {
	outcome, err := f.outcome()
	if err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	a, err := f.Open(ctx, c, apiclient.Running, f.Author)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := f.checkBook(ctx, a); err != nil {
		return withHint(err)
	}
	body := map[string]any{"book": f.Book, "execution": f.Execution, "id": f.ID, "target": f.Target}
	if outcome != nil {
		body["outcome"] = outcome
	}
	if text := strings.TrimSpace(f.Text); text != "" {
		body["feedback"] = text
	}
	wait := f.WaitTimeout.String()
	if f.NoWait {
		wait = "" // do not wait
	}
	defer term.Doing("waiting for the effect of the feedback")()
	reply, err := api.Post[api.FeedbackReply](ctx, a.Client, "/feedback", map[string]string{"wait": wait}, body)
	if err != nil {
		return withHint(err)
	}
	return f.print(reply)
}

// checkBook sets the playbook of an execution that is named by its handle. It returns an error if the flag has another one.
func (f *Feedback) checkBook(ctx context.Context, a *apiclient.Client) error {
	if _, _, err := events.Handle(f.Execution).Parse(); err != nil {
		return nil //nolint:nilerr // the API knows the other ids of runs
	}
	e, err := api.Get[api.FoundExecution](ctx, a.Client, api.Path("executions", f.Execution), nil)
	if err != nil {
		return err
	}
	if f.Book != "" && e.Book != playbook.Book(f.Book) {
		return program.Exit(program.ExitRefused, fmt.Errorf("execution %s: belongs to playbook %q, not %q", f.Execution, e.Book, f.Book))
	}
	f.Book = string(e.Book)
	return nil
}

// withHint adds to the error for an unknown execution where to find one.
func withHint(err error) error {
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeNotFound {
		return fmt.Errorf("%w; 'debrief tail --kind execution' and the console list handles", err)
	}
	return err
}

// print prints the effect of the feedback, or that it is stored if the command did not wait for the effect.
func (f *Feedback) print(reply *api.FeedbackReply) error {
	effect := reply.Effect
	switch {
	case effect == nil && f.JSON:
		return cli.WriteJSON(term.Stdout, reply)
	case effect == nil:
		_, err := term.Printf("stored as %s; see its effect with: debrief playbook why %s\n", reply.Handle, cmp.Or(string(reply.Execution), f.Execution))
		return err
	case f.JSON:
		return cli.WriteJSON(term.Stdout, effect)
	}
	by := ""
	if effect.After.By != "" {
		by = ", by " + effect.After.By
	}
	_, err := term.Printf("execution %s: %s → %s%s\n%s\n", effect.Execution, outcomeText(effect.Before), outcomeText(effect.After), by, term.Block(effectText(effect)))
	return err
}

func outcomeText(o events.Outcome) string {
	return explain.NamedOutcome(string(cmp.Or(o.Label, events.Unknown)), o.Score)
}

// effectText describes the effect of feedback, without a line break at the end.
func effectText(r *request.FeedbackResult) string {
	if r.Duplicate {
		return "duplicate: version " + r.Version + " already covers this feedback; nothing was changed"
	}
	moved := "no vote moved"
	if n := len(r.Moved); n > 0 {
		moved = term.Plural(n, "vote") + " moved"
	}
	text := fmt.Sprintf("%s, version %s", moved, r.Version)
	for _, m := range r.Moved {
		text += fmt.Sprintf("\n  %s  %s", m.Bullet, explain.VoteChange(m.Before, m.After))
	}
	if r.Outcomes > 0 {
		text += "\n  outcomes in experiments moved as well"
	}
	for i, reason := range r.Refused {
		isRepeated := i > 0 && reason == r.Refused[i-1]
		if !isRepeated {
			text += "\n  not applied: " + term.OneLine(reason, 200)
		}
	}
	return text
}
