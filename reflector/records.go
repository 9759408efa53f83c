package reflector

import (
	"encoding/json"
	"strconv"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/text"
)

// Records summarize the steps of an execution for later turns of the session, whose prompts do not contain the steps. The
// model writes them in the same call as the reflection.

const recordsForm = `, "records": [{"step": 1, "synthesis": "one sentence", "progress": "advancing|stuck|regressing", "calls": [{"line": "did … → found …", "insights": "…", "learning": "…", "relevance": "high|medium|low", "next_suggested_actions": ["…"]}]}]`

// Limits of records.
const (
	maxRecorded    = 64              // steps, the last ones: later turns see no more
	maxRecordText  = 200             // characters of each text
	maxRecordCalls = 16              // of a step
	maxRecordNext  = 3               // suggestions of a call
	maxRecordItems = 2 * maxRecorded // entries of a reply that are read; some may be invalid or repeat a step
)

// wantsRecords reports whether later turns can use records: the execution belongs to a session and has tool calls. A run with advice in a
// message of the user, as the gateway adds it, needs none: its agent keeps the conversation, which contains the steps.
func wantsRecords(e *events.Execution) bool {
	if e.Session == "" || e.Manifest != nil && e.Manifest.Advice {
		return false
	}
	for i := range e.Steps {
		if len(e.Steps[i].Calls) > 0 {
			return true
		}
	}
	return false
}

// readRecords parses the records of the steps from a reply.
func (a *analysis) readRecords(raw json.RawMessage, e *events.Execution) {
	if len(raw) == 0 || string(raw) == "null" || !wantsRecords(e) {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		a.ignore("records: not a list")
		return
	}
	skipped := max(0, len(e.Steps)-maxRecorded) // steps before the recorded ones
	records := make([]events.Record, len(e.Steps)-skipped)
	found := false
	for i, item := range list {
		if i == maxRecordItems {
			a.ignore("records: %d entries, more than steps", len(list))
			break
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil {
			a.ignore("records: entry %d: not an object", i+1)
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(strings.ToLower(chat.FieldText(fields["step"])), "step")))
		if err != nil || n < 1 || n > len(e.Steps) {
			a.ignore("records: step %q not found in the execution", shorten(chat.FieldText(fields["step"])))
			continue
		}
		k := n - 1 - skipped
		if k < 0 || !isEmpty(&records[k]) { // a skipped step, or a second record of the step
			continue
		}
		records[k] = readRecord(fields, len(e.Steps[n-1].Calls))
		found = found || !isEmpty(&records[k])
	}
	if found {
		a.Records = records
	}
}

func isEmpty(r *events.Record) bool {
	return r.Synthesis == "" && r.Progress == "" && len(r.Calls) == 0
}

func readRecord(fields map[string]json.RawMessage, calls int) events.Record {
	r := events.Record{Synthesis: recordText(fields["synthesis"])}
	switch p := events.Progress(strings.ToLower(chat.FieldText(fields["progress"]))); p {
	case events.Advancing, events.Stuck, events.Regressing:
		r.Progress = p
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(fields["calls"], &list) != nil {
		return r
	}
	for _, c := range list[:min(len(list), calls, maxRecordCalls)] {
		call := events.CallRecord{Line: recordText(c["line"]), Insights: recordText(c["insights"]), Learning: recordText(c["learning"])}
		switch tier := events.Relevance(strings.ToLower(chat.FieldText(c["relevance"]))); tier {
		case events.High, events.Medium, events.Low:
			call.Relevance = tier
		}
		var next []json.RawMessage
		if json.Unmarshal(c["next_suggested_actions"], &next) != nil {
			next = []json.RawMessage{c["next_suggested_actions"]}
		}
		for _, n := range next[:min(len(next), maxRecordNext)] {
			if text := recordText(n); text != "" {
				call.Next = append(call.Next, text)
			}
		}
		r.Calls = append(r.Calls, call)
	}
	return r
}

// recordText returns a text of a record as one line of limited length.
func recordText(raw json.RawMessage) string {
	return text.Quotable(text.UnlessNone(chat.FieldText(raw)), maxRecordText)
}
