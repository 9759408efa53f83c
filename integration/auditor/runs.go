package auditor

import (
	"fmt"
	"slices"
	"strings"
)

// AgentRun is a run that an agent made through a gateway, as the agent saw it.
type AgentRun struct {
	Question string // unique
	Answer   string // of the final call
	Steps    int    // replies before the final one
	Required bool   // the run must be stored once; otherwise it may be missing, partial, or stored twice
}

// RunReport is the result of CheckRuns. In a clean report Lost, Twice and Wrong are empty.
type RunReport struct {
	Lost    []string // required and not stored
	Twice   []string // required and stored more than once
	Wrong   []string // required and stored with another answer; or stored, but made by no agent
	Doubled []string // not required and stored more than once

	Runs, Required, Stored int
	Copies                 int // messages with the id of an earlier one, which counts once
}

func (r *RunReport) String() string {
	return fmt.Sprintf("%d runs of agents, %d of them must be stored; %d executions are stored, %d copies of them: %d runs lost, %d twice, %d wrong; %d of the other runs twice",
		r.Runs, r.Required, r.Stored, r.Copies, len(r.Lost), len(r.Twice), len(r.Wrong), len(r.Doubled))
}

// CheckRuns compares the stored executions with the runs that agents made. Two executions with the same question and other ids
// are one run that is stored twice.
func CheckRuns(s *Streams, runs []AgentRun) *RunReport {
	r := &RunReport{Runs: len(runs)}
	stored := map[string][]*run{} // by question
	known := map[string]bool{}
	for _, m := range s.Executions {
		if kind, _ := kindAndBook(m.Subject); kind != "execution" {
			continue
		}
		e, err := decode[run](m.Data)
		if err != nil {
			r.Wrong = append(r.Wrong, fmt.Sprintf("execution at %d: %v", m.Seq, err))
			continue
		}
		if known[e.ID] {
			r.Copies++
			continue
		}
		known[e.ID] = true
		r.Stored++
		stored[e.Question] = append(stored[e.Question], e)
	}
	for i := range runs {
		r.checkRun(&runs[i], stored[runs[i].Question])
		delete(stored, runs[i].Question)
	}
	for question := range stored {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%q: no agent has asked this", question))
	}
	slices.Sort(r.Wrong)
	return r
}

func (r *RunReport) checkRun(want *AgentRun, stored []*run) {
	if want.Required {
		r.Required++
	}
	switch {
	case len(stored) > 1:
		ids := make([]string, len(stored))
		for i, e := range stored {
			ids[i] = fmt.Sprintf("%s with %d steps and answer %q", e.ID, len(e.Steps), e.Answer)
		}
		problem := fmt.Sprintf("%q: %s", want.Question, strings.Join(ids, ", "))
		if want.Required {
			r.Twice = append(r.Twice, problem)
		} else {
			r.Doubled = append(r.Doubled, problem)
		}
	case len(stored) == 0 && want.Required:
		r.Lost = append(r.Lost, fmt.Sprintf("%q", want.Question))
	case len(stored) == 1 && want.Required && (stored[0].Answer != want.Answer || len(stored[0].Steps) != want.Steps):
		r.Wrong = append(r.Wrong, fmt.Sprintf("%q: got %d steps and answer %q, want %d and %q", want.Question, len(stored[0].Steps), stored[0].Answer, want.Steps, want.Answer))
	}
}
