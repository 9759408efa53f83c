package train

import (
	"fmt"

	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/replay"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/chat/openai"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// modelCalls is a number of calls of models, with their tokens.
type modelCalls struct {
	Calls  int `json:"calls"`
	Tokens int `json:"tokens"` // input and output
}

func (m *modelCalls) add(calls, tokens int) {
	m.Calls += calls
	m.Tokens += tokens
}

// String returns the calls as words.
func (m modelCalls) String() string {
	return fmt.Sprintf("%s with %s", pluralOf(m.Calls, "call of a model", "calls of models"), term.Plural(m.Tokens, "token"))
}

// madeBy returns the requests that the clients of models have sent, repeated ones included. A nil model has sent none.
func madeBy(models ...chat.Model) (made modelCalls) {
	for _, m := range models {
		if client, ok := m.(interface{ Stats() openai.Stats }); ok {
			s := client.Stats()
			made.add(int(s.Requests), int(s.InputTokens+s.OutputTokens))
		}
	}
	return made
}

// curatorCalls estimates the calls of the Curator for reflections that arrive in batches of at most batch.
func curatorCalls(reflections, batch int) (expected modelCalls) {
	batch = max(batch, 1)
	for ; reflections > 0; reflections -= batch {
		n := propose.Calls(min(reflections, batch))
		expected.add(n, n*propose.CallTokens)
	}
	return expected
}

// expectedCalls returns the maximum number of calls of a run over data sets, without repeated requests. The tokens are an estimate without the
// bullets: each answer counts with the mean of the training tasks.
func expectedCalls(cfg replay.Config, sets replay.Sets, r *reflector.Reflector, hasCurator bool) (expected modelCalls) {
	if sets.Train == nil || len(sets.Train.Tasks) == 0 {
		return expected
	}
	var answering, judging, reflecting modelCalls // of one pass over the training tasks
	for i := range sets.Train.Tasks {
		t := &sets.Train.Tasks[i]
		p := generator.Prompt([]chat.Message{{Speaker: chat.System, Text: generator.Instructions}, {Speaker: chat.User, Text: t.Context + "\n" + t.Question}})
		answering.add(1, p.Tokens()+chat.ReplyTokens)
		if t.Evaluator == scoring.ByJudge {
			asked := 1
			if t.Target != "" { // with the reference and the answer in both orders
				asked = 2
			}
			judging.add(asked, asked*(p.Tokens()+2*chat.ReplyTokens))
		}
		reflecting.add(r.Estimate(&events.Execution{
			Question: t.Question, Context: t.Context, Target: t.Target, Answer: t.Target, Outcome: events.Outcome{Label: events.Failure},
		}))
	}
	n := len(sets.Train.Tasks)
	rounds := 1
	if reflecting.Calls > 0 { // a Reflector without a model asks for no further rounds
		rounds = max(cfg.Rounds, 1)
	}
	learned, measured := cfg.Expected(sets)
	answers := learned*(max(cfg.Tries, 1)+rounds-1) + measured // for all tasks of the run; a further round has one try
	expected.add(answers, answers*answering.Tokens/n)
	expected.add(answers*judging.Calls/n, answers*judging.Tokens/n)
	expected.add(rounds*reflecting.Calls*learned/n, rounds*reflecting.Tokens*learned/n)
	if hasCurator {
		c := curatorCalls(learned, cfg.Window())
		expected.add(c.Calls, c.Tokens)
	}
	return expected
}
