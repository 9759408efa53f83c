package simulated

import (
	"fmt"
	"net/http"
	"strings"

	"debrief/cmd/internal/simulated/wires"
)

// maxBodyBytes limits a request. It is larger than any context window.
const maxBodyBytes = 8 << 20

// tokens estimates the number of tokens, at four bytes each.
func tokens(bytes int) int { return (bytes + 3) / 4 }

// serve answers the requests of the three model APIs, each after the latency.
func (m *model) serve(apis http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		if wires.Wait(r, m.Latency) { // else the client disconnected
			apis.ServeHTTP(w, r)
		}
	}
}

// reply answers a request of one of the model APIs.
func (m *model) reply(r *wires.Request) wires.Answer {
	c := newConversation(r, m.Seed)
	out := m.fault(c, r.Header)
	if out.Status != 0 || out.HTML != "" {
		return out // the fault in place of a reply; a fault that cuts the reply comes after this
	}
	out.ID, out.Model, out.Fingerprint = fmt.Sprintf("%016x", c.draw("id")), Name, fingerprint
	if call := c.call(r); call != nil {
		out.Calls = []wires.Call{*call}
	} else {
		out.Text = m.answer(c)
	}
	if maxBytes := 4 * r.MaxTokens; maxBytes > 0 && len(out.Text) > maxBytes {
		out.Text, out.Length = strings.ToValidUTF8(out.Text[:maxBytes], ""), true
	}
	out.Usage = &wires.Usage{Input: tokens(c.bytes), Output: tokens(len(out.Text))}
	return out
}
