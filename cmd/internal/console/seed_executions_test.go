package console

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// executions stores reports of agents: all outcomes, steps with tool calls, a session of four turns, and a context with its manifest.
func (s *seeding) executions() {
	s.Helper()
	usage := chat.Usage{Calls: 2, InputTokens: 1200, OutputTokens: 80, CachedTokens: 600, Cost: 0.004, Duration: 2 * time.Second}
	served, err := s.builder.Context(context.Background(), &events.ContextRequest{Book: "default", Session: s.say("session", "s-1"), Query: s.say("question", "Which invoice is due?"), Context: s.say("background of a question", "The customer is in France.")})
	check(s, err)
	var cited []playbook.BulletID
	for _, b := range served.Shown[:min(1, len(served.Shown))] {
		cited = append(cited, b.ID)
	}
	s.report("t-1", &events.Report{ContextID: served.ID, Steps: s.steps(), Reasoning: s.say("reasoning", "The list has one open invoice."), Answer: s.say("answer", "Invoice 7."), Cited: cited, Outcome: events.Outcome{Label: events.Success, Score: 1, By: s.say("evaluator of an outcome", "exact"), Feedback: s.say("comment of an evaluator", "exact match"), Scores: []events.NamedScore{{Name: s.say("name of a score", "correct"), Score: 1}, {Name: "tone", Score: 0.25}}}, Target: s.say("target", "Invoice 7."), Model: s.say("model", "simulated"), Usage: usage})
	for i, o := range []events.Outcome{{Label: events.Failure, By: "exact"}, {Label: events.Partial, Score: 0.5}, {Label: events.Unknown}} {
		task := fmt.Sprint("t-", i+2)
		s.report(task, &events.Report{RunID: s.say("task", "task") + " " + task, Session: s.say("session", "s-1"), Question: s.say("question", fmt.Sprintf("Which invoice is due on day %d?", i)), Steps: s.steps(), Answer: s.say("answer", "No invoice."), Outcome: o, Model: "simulated", Usage: usage})
	}
	s.report("t-5", &events.Report{RunID: "t-5", Session: "s-2", Question: "Who pays?", Answer: "The customer."})
	s.report("t-6", &events.Report{Book: "support", RunID: "t-6", Session: "s-support", Question: "Is anybody there?", Answer: "Yes."})
	s.storeLostContext()
}

// report stores the report of an agent.
func (s *seeding) report(task string, r *events.Report) {
	s.Helper()
	if r.Book == "" {
		r.Book = "default"
	}
	r.Started, r.Duration = s.ago(150-10*len(s.stored)), 3*time.Second
	stored, err := s.builder.Report(context.Background(), r)
	check(s, err)
	s.stored[task] = stored.Handle
	if r.Book == "default" {
		s.seeded.executions = append(s.seeded.executions, string(stored.Handle))
	}
}

// execution returns a stored execution by its task.
func (s *seeding) execution(task string) *events.Execution {
	s.Helper()
	found, err := explain.NewStored(s.conn, nil).Execution(context.Background(), string(s.stored[task]))
	check(s, err)
	if found == nil {
		s.Fatalf("%s: not stored", task)
	}
	return found
}

// steps are steps with a call of each outcome.
func (s *seeding) steps() []events.Step {
	call := func(o events.Label) events.ToolCall {
		return events.ToolCall{Tool: s.say("tool", "list_invoices"), Arguments: s.say("arguments of a tool", `{"open": true}`), Output: s.say("output of a tool", "7 | 2026-11-30 | 120.00"), Outcome: o, Duration: 120 * time.Millisecond}
	}
	return []events.Step{
		{Speaker: "assistant", Text: s.say("text of a step", "I look at the open invoices."), Calls: []events.ToolCall{call(events.Success), call(events.Failure)}, At: s.ago(140)},
		{Speaker: "user", Text: s.say("text of a user", "Only those of this year."), Feedback: s.say("comment on a step", "too slow"), At: s.ago(139)},
		{Speaker: "assistant", Text: "I look again.", Mode: "deep", Calls: []events.ToolCall{call(events.TimedOut), call(events.Errored)}, At: s.ago(138), Record: &events.Record{Synthesis: s.say("record of a step", "found one invoice"), Progress: events.Advancing}},
	}
}

// storeLostContext stores an execution with a manifest whose context is not stored.
func (s *seeding) storeLostContext() {
	e := &events.Execution{
		Book: "default",
		ID:   events.NewID(), RunID: "t-lost", Session: "s-lost", Question: "Where is the context?", Answer: "Lost.", Purpose: events.Evaluate, Outcome: events.Outcome{Label: events.Success, Score: 1},
		Version: 1, Shown: []events.ShownBullet{{ID: "inv-00001", Content: s.say("content of a shown bullet", "Ask.")}}, Cited: []playbook.BulletID{"inv-00001"}, RawReply: s.say("raw reply", "{}"), Started: s.ago(15), ContextID: events.NewID(),
		PreviousRounds: []events.PreviousRound{{Execution: events.NewID(), Handle: s.stored["t-2"], Answer: s.say("answer of a round", "8"), Error: s.say("error of a round", "wrong sum"), Approach: s.say("approach of a round", "add"), Insight: s.say("insight of a round", "add first")}},
		OtherTry:       &events.Try{Reasoning: s.say("reasoning of another try", "I guessed."), Answer: s.say("answer of another try", "In the drawer."), Outcome: events.Outcome{Label: events.Failure}},
		Manifest: &events.Manifest{
			Assembly: "old", Limit: 4000, Tokens: 900, BudgetReason: s.say("reason of a budget", "short session"), State: "general", At: s.ago(15),
			Parts:     []events.Part{{Kind: events.PartBullet, Ref: "inv-00001", Tokens: 12, Why: s.say("reason of a part", "pinned")}, {Kind: events.PartSummary, Tokens: 40, Text: s.say("text of a part", "earlier turns")}},
			Omitted:   []events.Omission{{Kind: events.PartBullet, Why: s.say("reason of an omission", "no room"), Count: 3, Tokens: 50, Refs: []string{"inv-00002"}}},
			Exposures: []events.Exposure{{Bullet: "inv-00003", Experiment: 1, Arm: playbook.ArmWithheld}}, Warnings: []string{s.say("warning of a context", "recall: the embedding server does not answer")},
		},
	}
	s.seeded.executions = append(s.seeded.executions, string(s.publish(e)))
}

// analyses stores feedback with words, and reflections.
func (s *seeding) analyses() {
	s.Helper()
	f := &events.Feedback{Book: "default", ID: events.NewID(), Execution: s.stored["t-2"], Outcome: events.Outcome{Label: events.Success, Score: 1, By: s.say("author of feedback", "ada"), Feedback: s.say("feedback", "It was right after all.")}, Target: s.say("target of feedback", "Invoice 9."), Created: s.ago(40)}
	s.publish(f)
	e := s.execution("t-3")
	r := &events.Reflection{
		Book: "default",
		ID:   events.ReflectionID(e.ID, "", "r1"), Execution: e.ID, Handle: s.stored["t-3"], Reflector: "r1", Session: e.Session, Question: e.Question, Outcome: e.Outcome,
		Reasoning: s.say("reasoning of a reflection", "The agent did not filter."), LabelSuspect: s.say("doubt of a reflection", "the list is older than the question"), ErrorIdentification: s.say("error of a reflection", "wrong list"), RootCauseAnalysis: s.say("cause of a reflection", "no filter"), CorrectApproach: s.say("approach of a reflection", "filter by year"), KeyInsight: s.say("insight of a reflection", "Filter lists by year."),
		Tags: []events.BulletTag{{ID: "inv-00001", Tag: events.Helpful}, {ID: "inv-00002", Tag: events.Harmful}}, Lessons: []events.Lesson{{Section: "payment", Content: s.say("lesson", "Filter the list of invoices by year.")}},
		OtherRun: &events.OtherRun{Execution: s.stored["t-1"], Label: events.Success},
		Ignored:  []string{s.say("ignored part of a reflection", "bullet_ids: unknown id")}, Model: s.say("model of a reflection", "simulated"), Created: s.ago(110),
	}
	s.analysed["t-3"] = s.publish(r)
}
