package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/console"
	"debrief/cmd/internal/traces"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
)

// asked is a point of a recorded run at which the agent called its model: the context that Debrief would have built,
// and the whole conversation, which an agent without a window sends.
type asked struct {
	in    assembly.Input
	shown *assembly.Context
	whole []chat.Message
}

// layOut builds a context for each model call of a run and passes it to each. With session, a turn of the user before
// the last one is an interaction of the window, as for an agent that reports each turn. Without session, all steps are
// one running turn, and the query is the question of the run. Recordings have no clock: a step takes a minute.
func layOut(e *events.Execution, in assembly.Input, session bool, l assembly.Limits, each func(*asked) error) error {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in.System, in.Query, in.TaskContext = generator.Instructions, e.Question, e.Context
	whole := []chat.Message{{Speaker: chat.System, Text: in.System}, {Speaker: chat.User, Text: e.Question}}
	budget := 0 // of the conversation, in the last context
	for i, s := range e.Steps {
		s.At = began.Add(time.Duration(i) * time.Minute)
		if in.Now = s.At; s.Speaker != chat.User {
			c, err := assembly.Assemble(in, l)
			if err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			budget = c.Manifest.Conversation
			if err := each(&asked{in, c, whole}); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		if s.Speaker == chat.User && session {
			in.Window = append(in.Window, turnOver(&in, len(in.Window)+1, budget))
			in.Window = in.Window[max(0, len(in.Window)-bus.WindowHistory):]
			in.Query, in.TaskContext, in.Running = s.Text, "", nil
		} else {
			in.Running = append(in.Running, s)
		}
		whole = append(whole, transcript(&s)...)
	}
	return nil
}

// turnOver returns the interaction of a finished turn.
func turnOver(in *assembly.Input, turn, budget int) *events.Interaction {
	id := events.Hash("replay", fmt.Sprint(turn))
	return events.NewInteraction(events.NewHandle(uint64(turn), id), &events.Execution{
		ID: id, Turn: turn, Started: in.Now, Question: in.Query, Context: in.TaskContext, Steps: in.Running,
		Outcome: events.Outcome{Label: events.Unknown}, Manifest: &events.Manifest{Conversation: budget},
	})
}

// transcript returns the messages of a step without omissions.
func transcript(s *events.Step) []chat.Message {
	said := chat.Message{Speaker: s.Speaker, Text: s.Text}
	var results []chat.Message
	for i, c := range s.Calls {
		id := fmt.Sprint("call_", i)
		said.Calls = append(said.Calls, chat.Call{ID: id, Tool: c.Tool, Arguments: c.Arguments})
		results = append(results, chat.Message{Speaker: chat.Tool, Text: c.Output, CallID: id})
	}
	return append([]chat.Message{said}, results...)
}

// runCost has the estimated tokens of a recorded run. Whole is the conversation without a window. Context is the
// context of Debrief. The totals are sums over all model calls.
type runCost struct {
	Source       string `json:"source"`
	Run          string `json:"run"`
	Asked        int    `json:"asked"`
	Whole        int    `json:"whole_last"`
	Context      int    `json:"context_last"`
	WholeTotal   int    `json:"whole_total"`
	ContextTotal int    `json:"context_total"`
	Over         int    `json:"over_limit"` // contexts above their limit
}

func (r *runCost) add(o *runCost) {
	r.Asked += o.Asked
	r.Whole += o.Whole
	r.Context += o.Context
	r.WholeTotal += o.WholeTotal
	r.ContextTotal += o.ContextTotal
	r.Over += o.Over
}

// take adds one model call of the run.
func (r *runCost) take(p *asked) {
	r.Whole, r.Context = 0, p.shown.Manifest.Tokens
	for i := range p.whole {
		r.Whole += p.whole[i].Tokens()
	}
	r.Asked++
	r.WholeTotal += r.Whole
	r.ContextTotal += r.Context
	if r.Context > p.shown.Manifest.Limit {
		r.Over++
	}
}

// costsOf returns the costs of the runs in a file. Each run is replayed as a session.
func costsOf(ctx context.Context, name string, l assembly.Limits) ([]runCost, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []runCost
	report, err := traces.Read(ctx, benchBook, filepath.Base(name), f, func(e *events.Execution) error {
		r := runCost{Source: e.Origin.Source, Run: e.RunID}
		err := layOut(e, assembly.Input{}, true, l, func(p *asked) error { r.take(p); return ctx.Err() })
		all = append(all, r)
		return err
	})
	for _, p := range report.Problems {
		console.Fprintf(console.Stderr, "%s: %s\n", name, p)
	}
	if err != nil {
		return all, fmt.Errorf("read %s: %w", name, err)
	}
	return all, nil
}

// tellRuns prints the costs of runs and the sums by source.
func tellRuns(out io.Writer, runs []runCost) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	console.Fprintf(w, "run\tasked\tlast: whole\tcontext\tsaved\tall: whole\tcontext\tsaved\t\n")
	line := func(name string, r *runCost) {
		console.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%d\t%d\t%s\t\n", name, r.Asked,
			r.Whole, r.Context, saved(r.Whole, r.Context), r.WholeTotal, r.ContextTotal, saved(r.WholeTotal, r.ContextTotal))
	}
	var sources []string
	sums, count := make(map[string]*runCost), make(map[string]int)
	for i := range runs {
		r := &runs[i]
		line(r.Run, r)
		if sums[r.Source] == nil {
			sums[r.Source] = new(runCost)
			sources = append(sources, r.Source)
		}
		sums[r.Source].add(r)
		count[r.Source]++
	}
	for _, s := range sources {
		line(fmt.Sprintf("%s, %s", s, console.Plural(count[s], "run")), sums[s])
	}
	return w.Flush()
}

func saved(whole, context int) string {
	return fmt.Sprintf("%.1f %%", 100*(1-float64(context)/float64(max(whole, 1))))
}
