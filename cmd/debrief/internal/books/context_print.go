package books

import (
	"io"
	"strings"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/prompt/conversation"
)

// writeReflectorSaw prints the other answer and the other runs of the same task, if the Reflector compared the execution with them.
func writeReflectorSaw(out io.Writer, x *explain.Execution) {
	hasTry, others := x.Execution != nil && x.Execution.OtherTry != nil, x.OtherRuns()
	if !hasTry && len(others) == 0 {
		return
	}
	term.Fprintf(out, "\nBeside this execution, the Reflector saw:\n")
	explain.WriteOtherTry(out, "  ", x.Execution)
	for _, o := range others {
		explain.WriteOtherRun(out, "  ", &o)
	}
}

// writeVerification prints whether the messages are those that the model received. If not, it prints the reasons.
func writeVerification(out io.Writer, r *generator.RebuiltContext) {
	if r.Verified {
		term.Fprintf(out, "\nSHA-256 %s: the messages are identical to those that the model received.\n", r.SHA256)
		return
	}
	term.Fprintf(out, "\nThe messages differ from those that the model received:\n")
	for _, reason := range r.Reasons {
		term.Fprintf(out, "  %s\n", reason)
	}
	for _, p := range r.Missing {
		term.Fprintf(out, "  %s %s has expired\n", p.Kind, p.Ref)
	}
}

// writeManifest prints the size of a context, the parts in it and the parts left out, with reasons.
func writeManifest(out io.Writer, m *events.Manifest) {
	window := term.Plural(m.Window, "turn")
	if m.Window < 0 {
		window = "unlimited"
	}
	term.Fprintf(out, "%d of %d tokens (estimated); window %s, conversation budget %d tokens, state %s.\n\n", m.Tokens, m.Limit, window, m.Conversation, m.State)
	_ = term.PrintTable(out, "part\tin\ttokens\tleft out\ttokens\treason", m.Totals(), func(w io.Writer, t events.PartTotals) {
		term.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", t.Kind, t.Included, t.Tokens, t.Omitted, t.OmittedTokens, strings.Join(t.Reasons, ", "))
	})
	for _, p := range m.Parts {
		if p.Why != "" && p.Kind != events.PartRecord { // the table has the reasons of records
			term.Fprintf(out, "%s %s: %s\n", p.Kind, p.Ref, p.Why)
		}
	}
	for _, e := range m.Exposures {
		term.Fprintf(out, "experiment %d: bullet %s is %s at random\n", e.Experiment, e.Bullet, e.Arm)
	}
	for _, warning := range m.Warnings {
		term.Fprintf(out, "warning: %s\n", warning)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// writeScores prints the parts of the scores of bullets.
func writeScores(out io.Writer, scores []events.BulletScore) {
	if len(scores) == 0 {
		return
	}
	_ = term.PrintTable(out, "\nbullet\ttotal\teffectiveness\trecency\trelevance\ttokens\tin\treason", scores, func(w io.Writer, s events.BulletScore) {
		term.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%s\t%s\n", s.ID, s.Total, s.Effectiveness, s.Recency, s.Relevance, s.Tokens, yesNo(s.Shown), s.Why)
	})
}

// writeWindowScores prints the parts of the scores of earlier turns.
func writeWindowScores(out io.Writer, scores []events.WindowScore) {
	if len(scores) == 0 {
		return
	}
	_ = term.PrintTable(out, "\nwindow\titem\tpriority\ttotal\trecency\tflags\tsemantic\tsource\ttokens\tin\treason", scores, func(w io.Writer, s events.WindowScore) {
		term.Fprintf(w, "%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%s\t%s\n",
			s.Kind, s.Ref, s.Priority, s.Total, s.Recency, s.Flags, s.Semantic, s.Source, s.Tokens, yesNo(s.Shown), s.Why)
	})
}

// writeCalls prints the costs of each tool of a run, and its tool calls with the agent's text before each.
func writeCalls(out io.Writer, calls []conversation.Call) {
	if len(calls) == 0 {
		return
	}
	_ = term.PrintTable(out, "\ntool\tcalls\tfailed\ttime\ttokens", conversation.Costs(calls), func(w io.Writer, c conversation.Cost) {
		term.Fprintf(w, "%s\t%d\t%d\t%s\t%d\n", c.Tool, c.Calls, c.Failed, c.Took.Round(time.Millisecond), c.Tokens)
	})
	_ = term.PrintTable(out, "\niteration\ttool\toutcome\ttime\ttokens\tmodel tokens\trationale", calls, func(w io.Writer, c conversation.Call) {
		term.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%s\n",
			c.Iteration, c.Tool, c.Outcome, c.Took.Round(time.Millisecond), c.Tokens, c.Usage.Tokens(), term.OneLine(c.Rationale, 80))
	})
}

// writeMessages prints messages with their tool calls.
func writeMessages(out io.Writer, messages []chat.Message) {
	for _, m := range messages {
		term.Fprintf(out, "\n──── %s ────\n", m.Speaker)
		if m.Text != "" {
			term.Fprintln(out, term.Block(strings.TrimRight(m.Text, "\n")))
		}
		for _, c := range m.Calls {
			term.Fprintf(out, "%s %s(%s)\n", c.ID, c.Tool, c.Arguments)
		}
	}
}
