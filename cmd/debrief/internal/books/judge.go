package books

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
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
or not: rating only those that look false would overstate the error. From 50 on it also shows the errors on short and on long answers.

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
	name, rated := ratingsOf(all, s.Name)
	j := withCounts(name, rated)
	switch {
	case j.Name == "" && s.Name != "":
		return program.Exit(program.ExitRefused, fmt.Errorf("--name: no execution of playbook %q was rated by %q", s.Book, s.Name))
	case j.Name == "":
		return program.Exit(program.ExitRefused, fmt.Errorf("playbook %q: no execution was rated by a judge: submit tasks to a generator with --evaluator judge", s.Book))
	case s.Save:
		return s.edit(ctx, c, apiclient.Change, &api.EditRequest{Judge: &j}, fixedText("The gate allows for the error of %s.", j.Name))
	}
	lengths := byLength(name, rated)
	if s.JSON {
		failures, successes := j.Errors()
		return cli.WriteJSON(term.Stdout, struct {
			playbook.Judge
			Failures  playbook.Interval `json:"false_failure_interval"`
			Successes playbook.Interval `json:"false_success_interval"`
			Missing   int               `json:"missing_labels"`
			ByLength  *judgeLengths     `json:"by_length,omitempty"`
		}{j, failures, successes, max(0, playbook.MinLabels-len(rated)), lengths})
	}
	term.Printf("%s, on %s with feedback:\n", j.Name, term.Plural(len(rated), "execution"))
	printErrors(&j)
	if lengths != nil {
		lengths.print()
	}
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

// printErrors prints the errors of a judge with their intervals.
func printErrors(j *playbook.Judge) {
	failures, successes := j.Errors()
	term.Printf("  false failures   %d of %d that are a success, %s\n", j.FalseFailures, j.Right, percents(failures))
	term.Printf("  false successes  %d of %d that are a failure, %s\n", j.FalseSuccesses, j.Wrong, percents(successes))
}

// rating compares the verdict of a judge on an answer with the label of a person.
type rating struct {
	saysRight bool // the judge
	isRight   bool // the person
	length    int  // of the answer, in characters
}

// ratingsOf returns the verdicts of a judge on executions with feedback. all are in the order of the API, newest first. Without a
// name it takes the judge of the newest rated execution. judge is "" if no execution was rated by it.
func ratingsOf(all []index.ExecutionItem, name string) (judge string, rated []rating) {
	for i := range all {
		verdict, label := &all[i].Outcome, all[i].Corrected
		if name == "" {
			name = verdict.Judge()
		}
		if name == "" || verdict.Judge() != name {
			continue
		}
		judge = name
		if label != nil && verdict.Known() && label.Known() {
			rated = append(rated, rating{saysRight: succeeded(verdict), isRight: succeeded(label), length: all[i].AnswerLength})
		}
	}
	return judge, rated
}

// withCounts returns the judge with a name and the counts of its right and false verdicts.
func withCounts(name string, rated []rating) playbook.Judge {
	j := playbook.Judge{Name: name}
	for _, r := range rated {
		switch {
		case r.isRight && r.saysRight:
			j.Right++
		case r.isRight:
			j.Right++
			j.FalseFailures++
		case r.saysRight:
			j.Wrong++
			j.FalseSuccesses++
		default:
			j.Wrong++
		}
	}
	return j
}

// judgeLengths has the errors of a judge on short and on long answers. Models often prefer the longer answer.
type judgeLengths struct {
	Median  int            `json:"median"` // length in characters up to which an answer is short
	Shorter playbook.Judge `json:"shorter"`
	Longer  playbook.Judge `json:"longer"`
}

// byLength divides the answers at their median length. It returns nil for too few labels, or for answers of one length.
func byLength(name string, rated []rating) *judgeLengths {
	if len(rated) < playbook.MinLabels {
		return nil
	}
	rated = slices.SortedStableFunc(slices.Values(rated), func(a, b rating) int { return cmp.Compare(a.length, b.length) })
	median := rated[(len(rated)-1)/2].length
	cut, _ := slices.BinarySearchFunc(rated, median+1, func(r rating, length int) int { return cmp.Compare(r.length, length) })
	if cut == len(rated) {
		return nil
	}
	return &judgeLengths{Median: median, Shorter: withCounts(name, rated[:cut]), Longer: withCounts(name, rated[cut:])}
}

func (l *judgeLengths) print() {
	term.Printf("Answers of at most %s:\n", term.Plural(l.Median, "character"))
	printErrors(&l.Shorter)
	term.Println("Longer answers:")
	printErrors(&l.Longer)
	shortFailures, shortSuccesses := l.Shorter.Errors()
	longFailures, longSuccesses := l.Longer.Errors()
	if shortFailures.Low > longFailures.High || longSuccesses.Low > shortSuccesses.High {
		term.Println("It prefers longer answers: say in the rubric that length does not count.")
	} else if longFailures.Low > shortFailures.High || shortSuccesses.Low > longSuccesses.High {
		term.Println("It prefers shorter answers: say in the rubric that length does not count.")
	}
}

// succeeded reports whether an outcome, the verdict of a judge or the label of a person, counts as a success.
func succeeded(o *events.Outcome) bool { return o.Complete().Score >= 0.5 }
