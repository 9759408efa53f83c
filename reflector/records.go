package reflector

import (
	"encoding/json"
	"strconv"
	"strings"

	"debrief/events"
)

// The second layer of an execution's steps in the same call: what each taught in a few words, for later turns of the
// session, which do not see the steps themselves.

const layerText = `

The work goes on after this attempt, and who continues it will not see these steps. So sum them up as well, in "records": one entry for each step of the trace that called tools, by its number, with what it came to in one sentence, whether it brought the task on, and for each of its calls, in their order, one line "what was done → what it showed" with the names, numbers and paths that matter, what it showed about the matter, what it teaches about the tool, how much it matters to what follows, and at most three things worth doing next. Leave a text "" where there is nothing to say.`

const layerForm = `, "records": [{"step": 1, "synthesis": "one sentence", "progress": "advancing|stuck|regressing", "calls": [{"line": "did … → found …", "insights": "…", "learning": "…", "relevance": "high|medium|low", "next_suggested_actions": ["…"]}]}]`

type wireRecord struct {
	Step      int              `json:"step"`
	Synthesis string           `json:"synthesis"`
	Progress  string           `json:"progress"`
	Calls     []wireCallRecord `json:"calls"`
}

type wireCallRecord struct {
	Line      string   `json:"line"`
	Insights  string   `json:"insights"`
	Learning  string   `json:"learning"`
	Relevance string   `json:"relevance"`
	Next      []string `json:"next_suggested_actions"`
}

// Bounds of records.
const (
	maxRecorded    = 64  // steps, the last ones: as many as later turns see
	maxRecordText  = 200 // characters of each text
	maxRecordCalls = 16  // of a step
	maxRecordNext  = 3   // suggestions of a call
)

// layered reports whether a second layer of the steps is of use: to later turns of a session that has calls of tools.
func layered(e *events.Execution) bool {
	if e.Session == "" {
		return false
	}
	for i := range e.Steps {
		if len(e.Steps[i].Calls) > 0 {
			return true
		}
	}
	return false
}

// readRecords takes over what a reply says of the execution's steps.
func (o *Output) readRecords(raw json.RawMessage, e *events.Execution) {
	if len(raw) == 0 || string(raw) == "null" || !layered(e) {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		o.ignore("records: is no list")
		return
	}
	kept := min(len(e.Steps), maxRecorded)
	records := make([]events.Record, kept)
	said := false
	for i, item := range list {
		if i == 2*maxRecorded {
			o.ignore("records: %d entries, more than there are steps", len(list))
			break
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil {
			o.ignore("records: entry %d is no object", i+1)
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(strings.ToLower(fieldText(fields["step"])), "step")))
		at := n - 1 - (len(e.Steps) - kept)
		if err != nil || n < 1 || n > len(e.Steps) {
			o.ignore("records: the execution has no step %q", inLine(fieldText(fields["step"])))
			continue
		}
		if at < 0 || !empty(&records[at]) {
			continue
		}
		records[at] = readRecord(fields, len(e.Steps[n-1].Calls))
		said = said || !empty(&records[at])
	}
	if said {
		o.Records = records
	}
}

func empty(r *events.Record) bool { return r.Synthesis == "" && r.Progress == "" && len(r.Calls) == 0 }

func readRecord(fields map[string]json.RawMessage, calls int) events.Record {
	r := events.Record{Synthesis: recordText(fields["synthesis"])}
	switch p := events.Progress(strings.ToLower(fieldText(fields["progress"]))); p {
	case events.Advancing, events.Stuck, events.Regressing:
		r.Progress = p
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(fields["calls"], &list) != nil {
		return r
	}
	for _, c := range list[:min(len(list), calls, maxRecordCalls)] {
		said := events.CallRecord{Line: recordText(c["line"]), Insights: recordText(c["insights"]), Learning: recordText(c["learning"])}
		switch tier := events.Relevance(strings.ToLower(fieldText(c["relevance"]))); tier {
		case events.High, events.Medium, events.Low:
			said.Relevance = tier
		}
		var next []json.RawMessage
		if json.Unmarshal(c["next_suggested_actions"], &next) != nil {
			next = []json.RawMessage{c["next_suggested_actions"]}
		}
		for _, n := range next[:min(len(next), maxRecordNext)] {
			if text := recordText(n); text != "" {
				said.Next = append(said.Next, text)
			}
		}
		r.Calls = append(r.Calls, said)
	}
	return r
}

// recordText is a text of a record: one line of bounded length.
func recordText(raw json.RawMessage) string {
	text := fieldText(raw)
	if text == "" || text == "null" {
		return ""
	}
	return clean(text, maxRecordText)
}
