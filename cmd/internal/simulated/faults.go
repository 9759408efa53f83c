package simulated

import (
	"net/http"
	"strings"
)

// Faults come from a hash of the prompt and the client's count of retries: the first try of a prompt fares the same
// every time, its second try fares the same every time, and the two need not fare alike.
const retryHeader = "X-Stainless-Retry-Count"

// fault says what goes wrong with a request, "" for nothing.
func (m *model) fault(p *prompt, r *http.Request) string {
	try := "fault " + r.Header.Get(retryHeader)
	if !p.chance(try, m.Fail) {
		return ""
	}
	kinds := [...]string{"busy", "broken", "cut", "garbage"}
	return kinds[p.draw("kind of "+try)%uint64(len(kinds))]
}

// misbehave carries a fault out. What is cut off ends with the connection, after half of what was promised.
func misbehave(w http.ResponseWriter, fault string) {
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
		// A client that is gone has no use for the rest.
		_, _ = w.Write([]byte("<html><body>simulated: a proxy that answers for the model</body></html>\n"))
	}
}

// clumsy is a reply as a model writes it that was asked for bare JSON.
func clumsy(p *prompt, reply any) string {
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
	// A comma too many, which strict readers refuse.
	return strings.TrimSuffix(text, "}") + ",}"
}

// clumsy cites nothing, or also a bullet that is not there.
func (g generated) clumsy(p *prompt) any {
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

// clumsy uses other names for the fields, wraps the batch and tries to set counters.
func (c curated) clumsy(p *prompt) any {
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
