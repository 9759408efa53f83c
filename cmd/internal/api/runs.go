package api

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/train/replay"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// runRoutes are the routes that read the runs of train.
func runRoutes() []route {
	runs := get("/runs", "listRuns", "List the runs of train, newest first.", listRuns)
	runs.query = pageParameters
	run := get("/runs/{id}", "getRun", "Return the progress of a run.", getRun)
	run.example = example{path: map[string]string{"id": "run-1"}}
	compare := get("/runs/{id}/compare/{other}", "compareRuns", "Compare the answers of two runs to the same samples of their evaluations, pair by pair.", compareRuns)
	compare.waits, compare.query = true, limitParameter
	compare.example = example{path: map[string]string{"id": "run-1", "other": "run-2"}, query: "limit=20"}
	return []route{runs, run, compare}
}

func listRuns(c *call) (*Page[replay.RunState], error) {
	all, err := replay.ListRuns(c.ctx, c.handler.conn.JetStream())
	if err != nil {
		return nil, err
	}
	permitted := slices.DeleteFunc(all, func(r replay.RunState) bool { return !c.token.AllowsBook(r.Book) })
	return paginate(c, permitted, func(r replay.RunState) string { return string(r.Book) })
}

func getRun(c *call) (*replay.RunState, error) {
	b := playbook.Book(c.path("id")) // a run has the name of its playbook
	if err := b.Validate(); err != nil {
		return nil, invalid("id", err.Error())
	}
	if err := c.checkPermitted(b); err != nil {
		return nil, err
	}
	return replay.ReadRun(c.ctx, c.handler.conn.JetStream(), b)
}

// RunComparison compares two runs on the samples that both have answered.
type RunComparison struct {
	Set    string          `json:"set" doc:"Set of the samples: test, else validation."`
	Run    RunAnswers      `json:"run"`
	Other  RunAnswers      `json:"other"`
	Pair   report.Pair     `json:"pair" doc:"Accuracy of the run minus that of the other; wins are samples that only the run has right."`
	Differ []DifferingPair `json:"differ" doc:"Samples that only one of them has right."`
}

// RunAnswers are the answers of a run to a set.
type RunAnswers struct {
	Run      playbook.Book   `json:"run"`
	Version  uint64          `json:"version" doc:"Version of the playbook of the newest evaluation."`
	Accuracy report.Estimate `json:"accuracy" doc:"Over all samples with an outcome, also those that the other run does not have."`
}

// DifferingPair is a sample that one run has right and the other wrong.
type DifferingPair struct {
	Sample      string        `json:"sample"`
	Question    string        `json:"question"`
	Target      string        `json:"target,omitempty"`
	Right       bool          `json:"right" doc:"The run is right, and the other is wrong."`
	Answer      string        `json:"answer"`
	OtherAnswer string        `json:"other_answer"`
	Handle      events.Handle `json:"handle"`
	OtherHandle events.Handle `json:"other_handle"`
}

// evaluatedAnswer is an answer of a run in an evaluation.
type evaluatedAnswer struct {
	index.ExecutionItem
	target  string
	version uint64
}

// known reports whether the answer has an outcome.
func (e *evaluatedAnswer) known() bool { return e.Outcome.Known() }

func (e *evaluatedAnswer) right() bool { return e.Outcome.Label == events.Success }

func compareRuns(c *call) (*RunComparison, error) {
	run, err := c.evaluations("id")
	if err != nil {
		return nil, err
	}
	other, err := c.evaluations("other")
	if err != nil {
		return nil, err
	}
	out := &RunComparison{Set: replay.Test, Differ: []DifferingPair{}}
	if len(run[out.Set]) == 0 || len(other[out.Set]) == 0 {
		out.Set = replay.Validation
	}
	answers, others := run[out.Set], other[out.Set]
	out.Run, out.Other = answersOf(playbook.Book(c.path("id")), answers), answersOf(playbook.Book(c.path("other")), others)
	var right, otherRight []bool
	for _, sample := range slices.Sorted(maps.Keys(answers)) {
		x, y := answers[sample], others[sample]
		if y == nil || !x.known() || !y.known() {
			continue
		}
		right, otherRight = append(right, x.right()), append(otherRight, y.right())
		if x.right() != y.right() && len(out.Differ) < c.limit() {
			out.Differ = append(out.Differ, DifferingPair{
				Sample: sample, Question: x.Question, Target: x.target, Right: x.right(),
				Answer: x.Answer, OtherAnswer: y.Answer, Handle: x.Handle, OtherHandle: y.Handle,
			})
		}
	}
	out.Pair = report.Paired(otherRight, right) // the difference is that of the run minus the other
	return out, nil
}

// answersOf returns the summary of the answers of a run to a set.
func answersOf(run playbook.Book, all map[string]*evaluatedAnswer) RunAnswers {
	out := RunAnswers{Run: run}
	right := 0
	known := 0
	for _, e := range all {
		out.Version = max(out.Version, e.version)
		if e.known() {
			known++
		}
		if e.right() {
			right++
		}
	}
	out.Accuracy = report.Share(right, known)
	return out
}

// evaluations returns the answers of the newest evaluations of a run, by set and sample. The run is in the parameter of the path.
func (c *call) evaluations(parameter string) (map[string]map[string]*evaluatedAnswer, error) {
	run := playbook.Book(c.path(parameter))
	if err := run.Validate(); err != nil {
		return nil, invalid(parameter, err.Error())
	}
	if err := c.checkPermitted(run); err != nil {
		return nil, err
	}
	if _, err := replay.ReadRun(c.ctx, c.handler.conn.JetStream(), run); err != nil {
		return nil, err
	}
	all := map[string]map[string]*evaluatedAnswer{}
	err := c.handler.conn.Events.Scan(c.ctx, events.StreamExecutions, events.KindExecution.Subject(run), 1, func(s bus.Stored) error {
		e, ok := s.Event.(*events.Execution)
		if !ok || e.Purpose != events.Evaluate {
			return nil
		}
		set, version, sample, ok := splitTask(e.RunID)
		if !ok {
			return nil
		}
		if all[set] == nil {
			all[set] = map[string]*evaluatedAnswer{}
		}
		all[set][sample] = &evaluatedAnswer{index.NewExecutionItem(s.Seq, e), index.Excerpt(e.Target), version} // a later evaluation replaces it
		return nil
	})
	return all, err
}

// splitTask returns the parts of the id of a task in an evaluation, such as test@17/sample.
func splitTask(id string) (set string, version uint64, sample string, ok bool) {
	phase, sample, ok := strings.Cut(id, "/")
	set, number, hasVersion := strings.Cut(phase, "@")
	version, err := strconv.ParseUint(number, 10, 64)
	return set, version, sample, ok && hasVersion && err == nil
}
