package outcome

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"debrief/events"
)

// Names of the fields that decide in a JSON report of a tool. Names are compared in lower case and without "_" and "-".
var (
	exitFields    = []string{"exitcode", "returncode", "exitstatus", "rc"}
	errorMarks    = []string{"iserror", "haserror", "failed", "timedout"}
	successMarks  = []string{"success", "ok", "succeeded", "issuccess", "successful"}
	errorFields   = []string{"error", "errors", "errormessage", "errormsg", "errorcode", "errortype", "exception", "fault", "traceback", "stacktrace"}
	messageFields = []string{"message", "msg", "detail", "details", "reason", "description", "title", "errordescription", "hint", "info", "note"}
	// nested lists the fields whose own object has the marks: Codex and OpenHands ("metadata"), and results of SDKs.
	nested = []string{"metadata", "extras", "result", "response"}
	// textFields lists the fields of an envelope around a text. Standard error comes last: it has warnings, too.
	textFields = []string{"result", "output", "content", "text", "stdout", "response", "observation", "message", "stderr"}
)

// report is a JSON object that a tool returned: its fields by their plain names. The value of a null field is nil.
type report map[string]json.RawMessage

// newReport returns nil if raw is not an object.
func newReport(raw []byte) report {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	r := make(report, len(fields))
	plain := strings.NewReplacer("_", "", "-", "")
	for name, raw := range fields {
		v := bytes.TrimSpace(raw)
		if string(v) == "null" {
			v = nil
		}
		r[plain.Replace(strings.ToLower(name))] = v
	}
	return r
}

// text returns the first of the fields that is a text, without surrounding space.
func (r report) text(names ...string) string {
	for _, name := range names {
		var s string
		if r[name] != nil && json.Unmarshal(r[name], &s) == nil && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
	}
	return ""
}

// number returns the first of the fields that is an integer, or a text with one.
func (r report) number(names ...string) (int64, bool) {
	for _, name := range names {
		if r[name] == nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.Trim(string(r[name]), `"`), 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// mark returns the first of the fields that is true or false, or nil if there is none.
func (r report) mark(names ...string) *bool {
	for _, name := range names {
		switch string(r[name]) {
		case "true", "false":
			yes := string(r[name]) == "true"
			return &yes
		}
	}
	return nil
}

// ofJSON returns the outcome of a JSON value. It returns false if the text is not JSON.
func (o *toolOutput) ofJSON(text string) (events.Label, bool) {
	raw := []byte(text)
	if !json.Valid(raw) {
		return "", false
	}
	switch text[0] {
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s)
		return o.ofText(s), true
	case '[':
		if s, ok := partsText(raw); ok {
			return o.ofText(s), true
		}
		return events.Success, true // data; an empty list is an answer, too
	}
	return o.ofReport(newReport(raw)), true
}

// partsText returns the text of a list of parts such as {"type": "text", "text": "…"}. It returns false for other lists.
func partsText(raw []byte) (string, bool) {
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return "", false
	}
	var all []string
	for _, p := range parts {
		if !strings.HasSuffix(p.Type, "text") || p.Text == nil {
			return "", false
		}
		all = append(all, *p.Text)
	}
	return strings.Join(all, "\n"), true
}

// ofReport returns the outcome of an object: of its marks, of its error, else of the text inside it.
func (o *toolOutput) ofReport(r report) events.Label {
	if len(r) == 0 {
		return events.Unknown
	}
	label := r.marks()
	for _, name := range nested {
		if label == events.Unknown && r[name] != nil {
			label = newReport(r[name]).marks()
		}
	}
	if label != events.Unknown {
		return label
	}
	if label = r.ofError(); label != "" {
		return label
	}
	if s, ok := r.inside(); ok {
		return o.ofText(s)
	}
	if m := r.text(messageFields...); m != "" && isDoubtfulText(m) {
		return events.Unknown
	}
	return events.Success
}

// marks returns the outcome by the fields whose only content is the outcome, or Unknown if there is none. A failure wins if they differ.
func (r report) marks() events.Label {
	label := events.Unknown
	if code, ok := r.number(exitFields...); ok && code != stillRuns {
		label = labelOf(code == 0)
	}
	if failed := r.mark(errorMarks...); failed != nil && (label == events.Unknown || *failed) {
		label = labelOf(!*failed)
	}
	if worked := r.mark(successMarks...); worked != nil && (label == events.Unknown || !*worked) {
		label = labelOf(*worked)
	}
	if status, ok := r.number("statuscode", "httpstatus", "httpstatuscode"); ok && label == events.Unknown && status >= 200 {
		label = labelOf(status < 400)
	}
	return label
}

func labelOf(worked bool) events.Label {
	if worked {
		return events.Success
	}
	return events.Failure
}

// ofError returns the outcome by an error, a status or a problem in the fields, or "" without any of them. An object with few fields is a
// report of the tool itself. One with more can be the record that was asked for, in which an error or a status is data.
func (r report) ofError() events.Label {
	problem := r.text(messageFields...)
	for _, name := range errorFields {
		v := string(r[name])
		if slices.Contains([]string{"", `""`, "{}", "[]", "false", "0"}, v) {
			continue
		}
		isList := v[0] == '['
		isNumber := v != "true" && !strings.ContainsRune(`[{"`, rune(v[0]))
		switch {
		case isList && r["data"] == nil && len(r) > 2: // the findings of a checker
			return events.Unknown
		case isNumber && problem == "": // a measure
			return events.Unknown
		}
		return events.Failure
	}
	status := strings.ToLower(r.text("status", "state"))
	isFailed := status == "failed" || status == "failure" || status == "fail"
	code, _ := r.number("status", "code")
	isProblem := code >= 400 && code < 600         // RFC 9457
	isRPCError := code <= -32000 && code >= -32800 // JSON-RPC
	isErrorCode := isProblem || isRPCError
	switch {
	case status == "error", status == "exception":
		return events.Failure
	case len(r) <= 3 && problem != "" && (isFailed || status == "timeout"):
		return events.Failure
	case isFailed:
		return events.Unknown // maybe the status of the record that was asked for
	case problem != "" && isErrorCode:
		return events.Failure
	case len(r) == 1 && r["detail"] != nil: // FastAPI
		return events.Failure
	case strings.HasSuffix(r.text("type", "__type", "name"), "Exception") && problem != "":
		return events.Failure
	case status == "ok" && problem == "", status == "success" && problem == "":
		return events.Success
	}
	return ""
}

// inside returns the text in an envelope: an object with few fields, of which one is the output.
func (r report) inside() (string, bool) {
	if len(r) > 6 {
		return "", false
	}
	for _, name := range textFields {
		if name == "message" && len(r) > 2 { // a record, such as a ticket
			continue
		}
		if s := r.text(name); s != "" {
			return s, true
		}
		if s, ok := partsText(r[name]); ok {
			return s, true
		}
	}
	return "", false
}
