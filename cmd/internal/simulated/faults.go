package simulated

import (
	"encoding/json"
	"net/http"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// retryHeader has the client's retry count. A fault depends on a hash of the prompt and of this count: the same attempt at the same prompt
// always has the same fault; a retry can have another one or none.
const retryHeader = "X-Stainless-Retry-Count"

// fault returns the fault to inject into the reply. The zero answer stands for no fault.
func (m *model) fault(c *conversation, h http.Header) Answer {
	purpose := "fault " + h.Get(retryHeader)
	if !c.chance(purpose, m.FaultRate) {
		return Answer{}
	}
	faults := [...]Answer{
		{Status: http.StatusTooManyRequests, Message: "simulated: too many requests, try again", RetryAfter: "1", RetryAfterMS: "50"},
		{Status: http.StatusInternalServerError, Message: "simulated: the server had an error"},
		{Cut: Half},
		{HTML: "<html><body>simulated: a proxy that answers for the model</body></html>\n"},
	}
	return faults[c.draw("kind of "+purpose)%uint64(len(faults))]
}

// sloppy returns a reply as careless models write it: with fields that the role did not ask for, and with text around the JSON or
// a trailing comma.
func sloppy(c *conversation, role, reply string) string {
	var fields map[string]any
	if err := json.Unmarshal([]byte(reply), &fields); err != nil {
		panic(err) // the reply is from this package, so it is JSON
	}
	switch role {
	case "generator":
		fields["bullet_ids"] = unknownIDs(c, fields["bullet_ids"].([]any))
	case "reflector":
		fields["bullet_tags"] = append(fields["bullet_tags"].([]any), map[string]string{"id": "[nowhere-00000]", "tag": "Helpful"})
	case "curator", "refiner":
		fields = otherNames(c, fields)
	}
	text := worlds.ReplyJSON(fields)
	switch c.draw("clumsiness") % 5 {
	case 0:
		return "```json\n" + text + "\n```"
	case 1:
		return "Sure! Here is the JSON you asked for:\n\n" + text + "\n\nLet me know if you need anything else."
	case 2:
		return "<think>The user wants JSON. Something like {\"reasoning\": \"…\"}? Let me see.</think>\n" + text
	case 3:
		return "Let me think.\n```\n" + text + "\n```\nDone."
	}
	// A trailing comma, which strict parsers reject.
	return strings.TrimSuffix(text, "}") + ",}"
}

// unknownIDs returns null, or ids in brackets with an unknown one among them.
func unknownIDs(c *conversation, ids []any) []any {
	if c.draw("ids")%2 > 0 {
		return nil
	}
	out := []any{"[nowhere-00000]", nil}
	for _, id := range ids {
		out = append(out, "["+id.(string)+"]")
	}
	return out
}

// otherNames returns the reply of a curator with other field names, with votes in a metadata field, and sometimes inside an
// "update".
func otherNames(c *conversation, reply map[string]any) map[string]any {
	var operations []any
	for _, in := range reply["operations"].([]any) {
		op := in.(map[string]any)
		operations = append(operations, map[string]any{
			"op": strings.ToLower(op["type"].(string)), "id": "[" + op["bullet_id"].(string) + "]", "section": op["section"], "content": op["content"],
			"source_ids": op["source_ids"], "keep_id": op["keep_id"], "reflections": op["reflections"], "metadata": map[string]int{"helpful": 5, "harmful": 0},
		})
	}
	batch := map[string]any{"reasoning": reply["reasoning"], "operations": operations}
	if c.draw("wrapped")%2 == 0 {
		return map[string]any{"update": batch}
	}
	return batch
}
