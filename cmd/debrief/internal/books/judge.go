package books

import (
	"cmp"
	"context"
	"fmt"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/playbook"
)

// judge measures the error of the judge by the feedback on executions that it rated.
type judge struct {
	change
	Name string `help:"Name of the judge, with its model and rubric. Default: that of the newest rated execution." placeholder:"NAME"`
	Save bool   `help:"Store the error in the playbook, so that the gate allows for it."`
}

func (*judge) Help() string {
	return `A judge is a model that rates answers (--evaluator judge), and it errs. This command compares its verdicts with the feedback on
the same executions, which counts as the truth. Rate at least 50 of them, in the console or with 'debrief feedback', whether you agree
or not: rating only those that look false would overstate the error.

A score of at least a half counts as a success, on both sides. The intervals are exact, at 95 % (Clopper and Pearson 1934). A judge with
another model or rubric has another name, and another error.

Examples:

  debrief playbook judge --book support
  debrief playbook judge --book support --save --reason "labels of May"`
}

func (s *judge) Run(ctx context.Context, c *program.Common) error {
	stop := term.Doing("reading the executions")
	all, _, err := apiclient.List[index.ExecutionItem](ctx, c, s.Flags, s.Path("executions"), nil, 0)
	stop()
	if err != nil {
		return err
	}
	j := measure(all, s.Name)
	switch {
	case j.Name == "" && s.Name != "":
		return program.Exit(program.ExitRefused, fmt.Errorf("--name: no execution of playbook %q was rated by %q", s.Book, s.Name))
	case j.Name == "":
		return program.Exit(program.ExitRefused, fmt.Errorf("playbook %q: no execution was rated by a judge: submit tasks to a generator with --evaluator judge", s.Book))
	case s.Save:
		return s.edit(ctx, c, apiclient.Change, &api.EditRequest{Judge: &j}, fixedText("The gate allows for the error of %s.", j.Name))
	}
	failures, successes := j.Errors()
	if s.JSON {
		return cli.WriteJSON(term.Stdout, explain.Judge{Judge: j, Failures: failures, Successes: successes})
	}
	term.Printf("%s, on %s with feedback:\n", j.Name, term.Plural(j.Right+j.Wrong, "execution"))
	term.Printf("  false failures   %d of %d that are a success, %s\n", j.FalseFailures, j.Right, percents(failures))
	term.Printf("  false successes  %d of %d that are a failure, %s\n", j.FalseSuccesses, j.Wrong, percents(successes))
	if err := j.Validate(); err != nil {
		term.Printf("Not usable yet: %v.\n", err)
		return nil
	}
	term.Printf("Use it: debrief playbook judge --book %s --save\n", s.Book)
	return nil
}

func percents(i playbook.Interval) string {
	return fmt.Sprintf("%.1f to %.1f %%", 100*i.Low, 100*i.High)
}

// measure returns the judge with the counts of right and wrong answers with feedback, and of its false verdicts on both. all are in the order of the
// API, newest first. Without a name it takes the judge of the newest rated execution. The result has no name if no execution was rated by it.
func measure(all []index.ExecutionItem, name string) (j playbook.Judge) {
	for i := range all {
		verdict, label := &all[i].Outcome, all[i].Corrected
		name = cmp.Or(name, verdict.Judge())
		if name == "" || verdict.Judge() != name {
			continue
		}
		j.Name = name
		if label == nil || !verdict.Known() || !label.Known() {
			continue
		}
		saysRight := succeeded(verdict)
		switch {
		case succeeded(label):
			j.Right++
			if !saysRight {
				j.FalseFailures++
			}
		default:
			j.Wrong++
			if saysRight {
				j.FalseSuccesses++
			}
		}
	}
	return j
}

// succeeded reports whether an outcome, the verdict of a judge or the label of a person, counts as a success.
func succeeded(o *events.Outcome) bool { return o.Complete().Score >= 0.5 }
