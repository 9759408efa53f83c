package capture

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/events"
	"debrief/playbook"
)

// ErrNoTurn is returned for a call without text of a user and without a reference to an earlier response.
var ErrNoTurn = errors.New("the request has no text of a user")

// place is the position of a call in a conversation. The references are keys of the bucket.
type place struct {
	turn  int    // index of the last user item, or -1
	start string // runs that began with the items up to this turn
	reply string // the reply that the call extends; empty if the request has no reply
	// begins is set if no work follows the turn. With reply it is a draft of the answer (a prefill) or a cut answer: the call
	// begins a run unless that reply is known.
	begins bool
	// previous is the last reply before the turn. Tail are tool results between that reply and the turn.
	previous string
	tail     []modelapi.Item
	// earlier are the turns before this one that have a reply, newest first, at most maxEarlier.
	earlier []earlierTurn
	number  int             // of the turn in the items of the call, from 1
	fresh   []modelapi.Item // items behind the reply that the call extends
	work    []modelapi.Item // everything behind the turn
}

type earlierTurn struct {
	item  int
	start string
}

// maxEarlier is the number of earlier turns that are looked up.
const maxEarlier = 16

// locate returns the place of a call.
func locate(c *Call) (*place, error) {
	r := c.Request
	p := &place{turn: r.Turn()}
	p.work = r.Items[p.turn+1:]
	if p.turn < 0 && r.PreviousID == "" && r.Conversation == "" ||
		p.turn >= 0 && strings.TrimSpace(r.Items[p.turn].Text) == "" {
		return nil, ErrNoTurn
	}
	p.start = startKey(c, p.turn)
	works := slices.ContainsFunc(p.work, func(i modelapi.Item) bool { return i.Role == modelapi.RoleTool })
	answer := lastAssistant(p.work)
	p.begins, p.fresh = !works, p.work[answer+1:]
	switch {
	case answer >= 0:
		p.reply = replyKey(p.start, p.work[answer].Calls, p.work[answer].Text)
	case works:
		p.reply = historyKey(c)
	}
	if p.begins && p.turn < 0 {
		return nil, ErrNoTurn
	}
	p.addEarlier(c)
	return p, nil
}

// addEarlier sets the references to the turns before this one.
func (p *place) addEarlier(c *Call) {
	items := c.Request.Items[:max(p.turn, 0)]
	answer := lastAssistant(items)
	p.tail = slices.DeleteFunc(slices.Clone(items[answer+1:]), func(i modelapi.Item) bool { return i.Role != modelapi.RoleTool })
	p.number = 1
	for i, answered := len(items)-1, false; i >= 0; i-- {
		switch items[i].Role {
		case modelapi.RoleAssistant:
			answered = true
		case modelapi.RoleUser:
			if answered {
				p.number++
			}
			if answered && len(p.earlier) < maxEarlier {
				p.earlier = append(p.earlier, earlierTurn{i, startKey(c, i)})
			}
			answered = false
		}
	}
	switch {
	case len(p.earlier) > 0:
		p.previous = replyKey(p.earlier[0].start, items[answer].Calls, items[answer].Text)
	case p.turn >= 0:
		p.previous = historyKey(c)
	}
}

// lastAssistant returns the index of the last item of the assistant, or -1.
func lastAssistant(items []modelapi.Item) int {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].Role == modelapi.RoleAssistant {
			return i
		}
	}
	return -1
}

// key returns the key of a reference. The owner and the book are parts of it, so that an owner finds only its own runs.
func key(c *Call, kind string, parts ...string) string {
	return referenceKey(c.Owner, string(c.Book), kind, parts...)
}

func referenceKey(owner, book, kind string, parts ...string) string {
	return "r." + string(events.Hash(append([]string{kind, owner, book}, parts...)...))
}

// publicKey returns the key of a reference that feedback may use: a response, a task or a session of any owner in a playbook. To
// continue such a run, a call must have its owner.
func publicKey(book playbook.Book, kind, id string) string {
	return referenceKey("", string(book), kind, id)
}

// startKey returns the reference to the runs that began with the items up to a turn.
func startKey(c *Call, turn int) string {
	r := c.Request
	prefix := r.Root
	if turn >= 0 {
		prefix = r.Items[turn].Prefix
	}
	return key(c, "start", hex.EncodeToString(prefix[:]), r.PreviousID, r.Conversation)
}

// historyKey returns the reference to the reply that the provider's stored history ends with, or "".
func historyKey(c *Call) string {
	switch r := c.Request; {
	case r.PreviousID != "":
		return publicKey(c.Book, "response", r.PreviousID)
	case r.Conversation != "":
		return key(c, "conversation", r.Conversation)
	}
	return ""
}

// replyKey returns the reference to a reply of a run that began at start. It depends on the ids of the calls that the client answers, or
// else on the text. Clients may change the spaces of a text and remove a model's thoughts from it.
func replyKey(start string, calls []modelapi.ToolCall, text string) string {
	calls = modelapi.ClientCalls(calls)
	parts := []string{"reply", start}
	for _, c := range calls {
		if c.ID != "" {
			parts = append(parts, c.ID)
		} else {
			parts = append(parts, c.Name+" "+withoutSpaces(c.Arguments))
		}
	}
	if len(calls) == 0 {
		if _, answer, ok := strings.Cut(text, "</think>"); ok && strings.HasPrefix(strings.TrimSpace(text), "<think>") {
			text = answer
		}
		parts = append(parts, "", withoutSpaces(text))
	}
	return "r." + string(events.Hash(parts...))
}

func withoutSpaces(s string) string { return strings.Join(strings.Fields(s), "") }
