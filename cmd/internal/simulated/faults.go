package simulated

import (
	"net/http"
	"strings"
)

// A fault depends on a hash of the prompt and of the client's retry count. The same attempt at the same prompt always
// has the same fault; a retry can have another one or none.
const retryHeader = "X-Stainless-Retry-Count"

// fault returns the fault to inject into the reply, or "".
func (m *model) fault(p *prompt, r *http.Request) string {
	try := "fault " + r.Header.Get(retryHeader)
	if !p.chance(try, m.FaultRate) {
		return ""
	}
	kinds := [...]string{"busy", "broken", "cut", "garbage"}
	return kinds[p.draw("kind of "+try)%uint64(len(kinds))]
}

// writeFault writes the response of a fault, except "cut": cutBody and stream write that.
func writeFault(w http.ResponseWriter, fault string) {
	switch fault {
	case "busy":
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Retry-After-Ms", "50")
		writeError(w, http.StatusTooManyRequests, "rate_limit_exceeded", "simulated: too many requests, try again")
	case "broken":
		writeError(w, http.StatusInternalServerError, "server_error", "simulated: the server had an error")
	case "garbage":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusOK)
		// An error means that the client disconnected.
		_, _ = w.Write([]byte("<html><body>simulated: a proxy that answers for the model</body></html>\n"))
	}
}

// sloppy returns a reply in one of the ways in which models fail to return bare JSON.
func sloppy(p *prompt, reply any) string {
	text := asJSON(reply)
	switch p.draw("clumsiness") % 5 {
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

// sloppy returns the reply with null as bullet ids, or with an unknown id among them.
func (g generatorReply) sloppy(p *prompt) any {
	sloppy := map[string]any{"reasoning": g.Reasoning, "bullet_ids": nil, "final_answer": g.FinalAnswer}
	if p.draw("ids")%2 == 0 {
		ids := []any{"[nowhere-00000]", nil}
		for _, id := range g.BulletIDs {
			ids = append(ids, "["+id+"]")
		}
		sloppy["bullet_ids"] = ids
	}
	return sloppy
}

// sloppy returns the reply with other field names, with votes in a metadata field, and sometimes inside an "update".
func (c curatorReply) sloppy(p *prompt) any {
	operations := make([]any, len(c.Operations))
	for i, op := range c.Operations {
		operations[i] = map[string]any{
			"op": strings.ToLower(op.Type), "id": "[" + op.BulletID + "]", "section": op.Section, "content": op.Content,
			"source_ids": op.SourceIDs, "keep_id": op.KeepID, "reflections": op.Reflections, "metadata": map[string]int{"helpful": 5, "harmful": 0},
		}
	}
	batch := map[string]any{"reasoning": c.Reasoning, "operations": operations}
	if len(operations) == 0 {
		batch["operations"] = nil
	}
	if p.draw("wrapped")%2 == 0 {
		return map[string]any{"update": batch}
	}
	return batch
}
