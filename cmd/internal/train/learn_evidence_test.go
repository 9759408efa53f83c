package train

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/runs"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/simulated/worlds"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/chat/openai"
)

// recordedRun is a run in a recorded file.
type recordedRun struct {
	json.RawMessage
	fields map[string]any
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *recordedRun) UnmarshalJSON(data []byte) error {
	r.RawMessage = slices.Clone(data)
	return json.Unmarshal(data, &r.fields)
}

// recorded returns the runs in a field of a recorded file, or those of the whole file without a field. It skips the test without the file.
func recorded(t *testing.T, name, field string) (file map[string]json.RawMessage, list []*recordedRun) {
	t.Helper()
	path := filepath.Join(cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../shared/data"), name)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("no recorded runs: %v (DEBRIEF_DATA names their folder)", err)
	}
	if field != "" {
		if err := json.Unmarshal(raw, &file); err != nil {
			t.Fatal(err)
		}
		raw = file[field]
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return file, list
}

// sentPrompts learns from a file, with a Reflector whose model is a fake server. It returns the quotations of each prompt that the
// server received, by the question of the run.
func sentPrompts(t *testing.T, content any) map[string]map[string]string {
	t.Helper()
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "runs.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	prompts := map[string]map[string]string{}
	server := httptest.NewServer(simulated.NewProvider(func(r *simulated.Request) simulated.Answer {
		mu.Lock()
		defer mu.Unlock()
		quotes := worlds.ReadQuotes(r.Last().Text)
		quotes["instructions"] = r.Items[0].Text
		prompts[quotes["question"]] = quotes
		return simulated.Answer{Text: `{"reasoning": "r", "error_identification": "", "root_cause_analysis": "", "correct_approach": "", "key_insight": "Read the policy twice before each change.", "section": "", "further_insights": [], "label_suspect": "", "bullet_tags": []}`}
	}))
	t.Cleanup(server.Close)
	s, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(t.Context(), "100ms", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	model := bustest.Must(openai.New(openai.Config{BaseURL: server.URL + "/v1", Model: "m"}))
	l := &Learn{Book: "b", JSON: true, reflectorModel: model}
	res, err := l.learnWithRoles(t.Context(), s, &runs.Reader{Book: "b"}, []string{file})
	if err != nil || res.Dead > 0 {
		t.Fatalf("got %+v, error %v", res, err)
	}
	stored, failures := map[events.Handle]*events.Execution{}, false
	err = s.Events.Scan(t.Context(), events.StreamExecutions, events.KindExecution.Subject("b"), 1, func(st bus.Stored) error {
		e := st.Event.(*events.Execution)
		stored[events.NewHandle(st.Seq, e.ID)] = e
		if failures = failures || e.Outcome.Label == events.Failure; failures && e.Outcome.Label == events.Success {
			t.Errorf("the success %s is stored after a failure", e.RunID)
		}
		if e.Agent == nil || e.Agent.Ref == "" || e.Agent.SystemPrompt != "" {
			t.Errorf("run %s is stored with the agent %+v, want the name of a description", e.RunID, e.Agent)
		}
		return nil
	})
	if err != nil || len(stored) != len(prompts) {
		t.Errorf("got %d prompts for %d runs, error %v", len(prompts), len(stored), err)
	}
	reflections := 0
	err = s.Events.Scan(t.Context(), events.StreamReflections, events.KindReflection.Subject("b"), 1, func(st bus.Stored) error {
		reflections++
		ref := st.Event.(*events.Reflection)
		e, quoted := stored[ref.Handle], ""
		if o := ref.OtherRun; o != nil && stored[o.Execution] != nil && stored[o.Execution].Origin.Task == e.Origin.Task && stored[o.Execution].Outcome.Label == o.Label {
			quoted = fmt.Sprintf("outcome: %s\n", o.Label)
		}
		if got := prompts[strings.TrimSpace(e.Question)]["calls of another run of the task"]; !strings.HasPrefix(got, quoted) || quoted == "" && got != "" {
			t.Errorf("run %s: the reflection names the other run %+v, the prompt has %.40q", e.RunID, ref.OtherRun, got)
		}
		return nil
	})
	if err != nil || reflections != len(stored) {
		t.Errorf("got %d reflections on %d runs, error %v", reflections, len(stored), err)
	}
	return prompts
}

// TestReflectionNamesTheOtherRun learns from two runs of one task, the failed one first.
func TestReflectionNamesTheOtherRun(t *testing.T) {
	t.Parallel()
	run := func(trial, reward int, question, tool string) any {
		message := func(role, content string) map[string]any { return map[string]any{"role": role, "content": content} }
		call := message("assistant", "")
		call["tool_calls"] = []any{map[string]any{"id": "c", "type": "function", "function": map[string]any{"name": tool, "arguments": `{"berth":7}`}}}
		result := message("tool", "done")
		result["tool_call_id"], result["name"] = "c", tool
		return map[string]any{
			"task_id": 1, "trial": trial, "reward": reward, "info": map[string]any{},
			"traj": []any{message("system", strings.Repeat("You keep the harbour. ", 100)), message("user", question), call, result, message("assistant", "It is free now.")},
		}
	}
	prompts := sentPrompts(t, []any{run(0, 0, "Please free berth 7.", "close_berth"), run(1, 1, "Free berth 7, please.", "free_berth")})
	if got, want := prompts["Please free berth 7."]["calls of another run of the task"], "outcome: success\nfree_berth({\"berth\":7})"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// question returns the first message of the user.
func question(messages any) string {
	for _, m := range messages.([]any) {
		m := m.(map[string]any)
		if m["role"] == "user" {
			return strings.TrimSpace(m["content"].(string))
		}
	}
	return ""
}

// showMaterial prints the tokens of the parts of a prompt, and whether it has the cause of the failure and the other run.
func showMaterial(t *testing.T, run string, q map[string]string, cause []string) {
	t.Helper()
	tokens := func(name string) int { return chat.Tokens(q[name]) }
	evidence := tokens("system prompt of the agent") + tokens("tools of the agent") + tokens("calls of another run of the task")
	t.Logf("%-4s trace %4d, expected %3d, evidence %4d tokens (system prompt %d, tools %d, other run %d); cause: %s", run, tokens("trace"), tokens("expected answer"), evidence,
		tokens("system prompt of the agent"), tokens("tools of the agent"), tokens("calls of another run of the task"), strings.Join(cause, " | "))
	if evidence > 3000 {
		t.Errorf("run %s: got %d tokens of evidence, want at most the default budget", run, evidence)
	}
	if !strings.Contains(q["instructions"], chat.PromptAgentRules) {
		t.Errorf("run %s: the instructions do not say what to do with the agent's rules", run)
	}
	all := q["trace"] + q["expected answer"] + q["system prompt of the agent"]
	for _, part := range cause {
		if !strings.Contains(all, part) {
			t.Errorf("run %s: the prompt lacks %q", run, part)
		}
	}
}

// TestFailedRunsOfTauBenchShowTheirCause learns from 15 recorded runs: three attempts at five tasks. Read by hand, each of the 11 failures has
// its cause in a rule of the policy or in an expected call.
func TestFailedRunsOfTauBenchShowTheirCause(t *testing.T) {
	t.Parallel()
	_, all := recorded(t, "tau-bench/gpt-4o-airline-trials-0-2.json", "")
	causes := map[string][]string{ // by task and trial
		"1/0": {`cancel_reservation({"reservation_id":"Z7GOZK"})`, "can be cancelled only if travel insurance is bought and the condition is met"},
		"1/2": {`cancel_reservation({"reservation_id":"Z7GOZK"})`, "transfer the user to a human agent if and only if the request cannot be handled"},
		"2/0": {`update_reservation_flights({"reservation_id":"X7BYG1","cabin":"economy"`, "The agent tells the user: 23553"},
		"2/1": {"The agent tells the user: 23553"},
		"5/0": {`update_reservation_passengers({"reservation_id":"FQ8APE"`, `update_reservation_baggages({"reservation_id":"FQ8APE","total_baggages":3,"nonfree_baggages":0`, "The user can modify passengers but cannot modify the number"},
		"5/2": {`update_reservation_flights({"reservation_id":"FQ8APE"`, "Each user has a profile containing user id, email, addresses, date of birth, payment methods, reservation numbers"},
		"7/0": {`"flights":[{"flight_number":"HAT110","date":"2024-05-24"},{"flight_number":"HAT172","date":"2024-05-24"}]`},
		"7/1": {`update_reservation_flights({"reservation_id":"M05KNL","cabin":"economy"`, "can be modified without changing the origin, destination, and trip type"},
		"9/0": {`cancel_reservation({"reservation_id":"K1NW8N"})`, "each reservation can use at most one travel certificate", "The agent tells the user: 1286"},
		"9/1": {`cancel_reservation({"reservation_id":"K1NW8N"})`, "each reservation can use at most one travel certificate", "The agent tells the user: 1286"},
		"9/2": {`{"flight_number":"HAT204","date":"2024-05-28"}`, "each reservation can use at most one travel certificate"},
	}
	var chosen []*recordedRun
	for _, r := range all {
		if slices.Contains([]float64{1, 2, 5, 7, 9}, r.fields["task_id"].(float64)) {
			chosen = append(chosen, r)
		}
	}
	prompts := sentPrompts(t, chosen)
	if len(chosen) != 15 || len(prompts) != 15 {
		t.Fatalf("got %d runs and %d prompts, want 15", len(chosen), len(prompts))
	}
	succeeded := map[any]bool{}
	for _, r := range chosen {
		succeeded[r.fields["task_id"]] = succeeded[r.fields["task_id"]] || r.fields["reward"].(float64) == 1
	}
	failed, contrasts := 0, 0
	for _, r := range chosen {
		run, q := fmt.Sprintf("%v/%v", r.fields["task_id"], r.fields["trial"]), prompts[question(r.fields["traj"])]
		if r.fields["reward"].(float64) == 1 {
			if q["system prompt of the agent"] != "" || q["expected answer"] != "" {
				t.Errorf("run %s: a success has the system prompt or the expected answer", run)
			}
			continue
		}
		failed++
		showMaterial(t, run, q, causes[run])
		if len(causes[run]) == 0 {
			t.Errorf("run %s: no cause is known", run)
		}
		for _, a := range r.fields["info"].(map[string]any)["task"].(map[string]any)["actions"].([]any) {
			if name := a.(map[string]any)["name"].(string); !strings.Contains(q["expected answer"], name+"(") {
				t.Errorf("run %s: the expected answer lacks the call %s", run, name)
			}
		}
		other := q["calls of another run of the task"]
		if has := strings.HasPrefix(other, "outcome: success\n"); has != succeeded[r.fields["task_id"]] {
			t.Errorf("run %s: got the other run %.80q; the task succeeded in the file: %v", run, other, succeeded[r.fields["task_id"]])
		} else if has {
			contrasts++
			if !strings.Contains(other, `({"`) {
				t.Errorf("run %s: the calls of the other run have no arguments: %.200s", run, other)
			}
		}
	}
	if failed != 11 || contrasts != 8 {
		t.Errorf("got %d failures and %d contrasts, want 11 and 8", failed, contrasts)
	}
}

// TestFailedRunsOfTau2ShowTheirCause does the same for tau2-bench, whose policy is in the header of the file and whose criteria are in the
// evaluation of each run.
func TestFailedRunsOfTau2ShowTheirCause(t *testing.T) {
	t.Parallel()
	file, all := recorded(t, "tau2/airline-gpt-5.json", "simulations")
	causes := map[string][]string{
		"0":  {`send_certificate({"user_id":"ethan_martin_2396","amount":150}) [made]`, "one too many changed it", "confirming the facts and changing or cancelling the reservation"},
		"1":  {`"dob":"1985-04-04"`, `"dob":"1981-05-26"`, "[not made]"},
		"3":  {`update_reservation_flights({"reservation_id":"XEHM4B","cabin":"economy"`, "The agent tells the user: 1628 [not met]"},
		"6":  {`[{"flight_number":"HAT169","date":"2024-05-17"},{"flight_number":"HAT033","date":"2024-05-19"}]`, "[not made]"},
		"9":  {`"certificate_9984806","amount":250`, "[not made]", "can use at most one travel certificate"},
		"14": {`send_certificate({"user_id":"noah_muller_9847","amount":50}) [not made]`, "the amount being $50 times the number of passengers"},
	}
	var chosen []*recordedRun
	for _, r := range all {
		if causes[r.fields["task_id"].(string)] != nil {
			chosen = append(chosen, r)
		}
	}
	content := map[string]any{"timestamp": file["timestamp"], "info": file["info"], "tasks": file["tasks"], "simulations": chosen}
	prompts := sentPrompts(t, content)
	for _, r := range chosen {
		run := r.fields["task_id"].(string)
		showMaterial(t, run, prompts[question(r.fields["messages"])], causes[run])
	}
	if len(chosen) != 6 || len(prompts) != 6 {
		t.Errorf("got %d runs and %d prompts, want 6", len(chosen), len(prompts))
	}
}

// TestPostponedRunsAreBounded postpones failed runs up to the limit, and no others.
func TestPostponedRunsAreBounded(t *testing.T) {
	t.Parallel()
	var p postponedRuns
	run := func(l events.Label, size int) *events.Execution {
		return &events.Execution{Outcome: events.Outcome{Label: l}, Steps: []events.Step{{Text: strings.Repeat("x", size)}}}
	}
	for _, l := range []events.Label{events.Success, events.Partial, events.Unknown} {
		if p.add("f", run(l, 1)) {
			t.Errorf("a run with the label %s is postponed", l)
		}
	}
	if !p.add("f", run(events.Failure, maxPostponed)) || !p.add("f", run(events.Failure, 1)) {
		t.Error("a failed run below the limit is not postponed")
	}
	if p.add("f", run(events.Failure, 1)) || len(p.runs) != 2 {
		t.Errorf("got %d postponed runs beyond the limit, want 2", len(p.runs))
	}
}
