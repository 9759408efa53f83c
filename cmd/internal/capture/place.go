package capture

import (
	"encoding/hex"
	"errors"
	"slices"

	"debrief/cmd/internal/modelapi"
	"debrief/events"
	"debrief/playbook"
)

// ErrNoTurn is returned for a call without text of a user and without a reference to an earlier response.
var ErrNoTurn = errors.New("the request has no text of a user")

// place is the position of a call in a conversation. The references are keys of the buckets.
type place struct {
	turn int // index of the last user item, or -1
	// start names the runs that began with the same texts of the conversation, named those that began with the same question in
	// the session that the client names; empty without one.
	start, named string
	exact        string // hash of the whole request up to the turn
	question     string // hash of the question; empty without one
	// reply names the runs with the reply that the call extends. It is empty if the request has no reply.
	reply string
	// counted is set if the ids of the reply's calls may be equal in other runs.
	counted bool
	// begins is set if no work follows the turn. With reply it is a draft of the answer (a prefill) or a cut answer: the call
	// begins a run unless that reply is known.
	begins bool
	// previous is the last reply before the turn, and previousCalls the last one with calls in the turn before. Tail are tool results
	// between the last reply and the turn.
	previous, previousCalls string
	tail                    []modelapi.Item
	// earlier are the turns before this one that have a reply, newest first, at most maxEarlier.
	earlier []earlierTurn
	number  int             // of the turn in the items of the call, from 1
	work    []modelapi.Item // everything behind the turn
	answer  int             // index in work of the last item of the assistant, or -1
	chain   textChain       // of all items
}

type earlierTurn struct {
	item     int
	start    string
	question string
}

// maxEarlier is the number of earlier turns that are looked up.
const maxEarlier = 16

// locate returns the place of a call.
func locate(c *Call) (*place, error) {
	r := c.Request
	p := &place{turn: lastTurnOf(r.Items)}
	p.work = r.Items[p.turn+1:]
	if p.turn < 0 && r.PreviousID == "" && r.Conversation == "" ||
		p.turn >= 0 && modelapi.WithoutReminders(r.Items[p.turn].Text) == "" {
		return nil, ErrNoTurn
	}
	works := slices.ContainsFunc(p.work, func(i modelapi.Item) bool { return i.Role == modelapi.RoleTool })
	p.begins, p.answer = !works, lastAssistant(p.work)
	if p.begins && p.turn < 0 {
		return nil, ErrNoTurn
	}
	p.addTexts(c)
	return p, nil
}

// addTexts sets the references.
func (p *place) addTexts(c *Call) {
	items, r := c.Request.Items, c.Request
	var before textChain // without the last reply
	answer, answered := -1, false
	for i := range items {
		switch {
		case i == p.turn:
			p.addTurn(c, answer, before)
		case i < p.turn && isTurn(&items[i]):
			p.earlier = append(p.earlier, earlierTurn{i, startKey(c, p.chain.add(&items[i])), questionHash(items[i].Text)})
			answered, p.previousCalls = false, ""
		}
		if items[i].Role == modelapi.RoleAssistant {
			if before = p.chain; i < p.turn && !answered && len(p.earlier) > 0 {
				p.number, answered = p.number+1, true
			}
			answer = i
			if i < p.turn && len(modelapi.ClientCalls(items[i].Calls)) > 0 {
				p.previousCalls = replyKey(c, before, items[i].Calls, "")
			}
		}
		p.chain = p.chain.add(&items[i])
	}
	if p.turn < 0 {
		p.addTurn(c, -1, "")
	}
	p.dropUnanswered(items)
	switch {
	case p.answer >= 0:
		last := &p.work[p.answer]
		p.reply = replyKey(c, before, last.Calls, last.Text)
		p.counted = slices.ContainsFunc(modelapi.ClientCalls(last.Calls), func(c modelapi.ToolCall) bool { return !isRandom(c.ID) })
	case !p.begins:
		p.reply = historyKey(c)
	}
	if p.previous == "" && p.turn >= 0 && len(p.earlier) == 0 {
		p.previous = historyKey(c)
	}
	p.exact = string(events.Hash(hex.EncodeToString(prefixOf(r, p.turn)), r.PreviousID, r.Conversation))
}

// addTurn sets what is known at the turn. Answer is the index of the last reply before it, or -1, and before the chain up to that.
func (p *place) addTurn(c *Call, answer int, before textChain) {
	items := c.Request.Items
	p.number++
	chain := p.chain
	if p.turn >= 0 {
		chain = chain.add(&items[p.turn])
		p.question = questionHash(items[p.turn].Text)
	}
	p.start = startKey(c, chain)
	if c.Session != "" && p.question != "" {
		p.named = key(c, "named", c.Session, p.question)
	}
	if answer >= 0 && len(p.earlier) > 0 {
		p.previous = replyKey(c, before, items[answer].Calls, items[answer].Text)
	}
	p.tail = slices.DeleteFunc(slices.Clone(items[answer+1:max(p.turn, 0)]), func(i modelapi.Item) bool { return i.Role != modelapi.RoleTool })
}

// dropUnanswered leaves the newest earlier turns that have a reply, newest first.
func (p *place) dropUnanswered(items []modelapi.Item) {
	var list []earlierTurn
	end := p.turn
	for _, t := range slices.Backward(p.earlier) {
		if lastAssistant(items[t.item:end]) >= 0 && len(list) < maxEarlier {
			list = append(list, t)
		}
		end = t.item
	}
	p.earlier = list
}

func questionHash(text string) string {
	return string(events.Hash("question", withoutSpaces(modelapi.WithoutReminders(text))))
}

// prefixOf returns the hash of a request up to a turn.
func prefixOf(r *modelapi.Request, turn int) []byte {
	if turn < 0 {
		return r.Root[:]
	}
	return r.Items[turn].Prefix[:]
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

// key returns the key of references. The owner and the book are parts of it, so that an owner finds only its own runs.
func key(c *Call, kind string, parts ...string) string {
	return referenceKey(c.Owner, string(c.Book), kind, parts...)
}

func referenceKey(owner, book, kind string, parts ...string) string {
	return "r." + string(events.Hash(append([]string{kind, owner, book}, parts...)...))
}

// publicKey returns the key of references that feedback may use: a response, a session, a turn or a trace of any owner in a playbook. To
// continue such a run, a call must have its owner.
func publicKey(book playbook.Book, kind, id string) string {
	return referenceKey("", string(book), kind, id)
}

// startKey returns the key of the runs that began with a conversation.
func startKey(c *Call, chain textChain) string {
	return key(c, "start", string(chain), c.Request.PreviousID, c.Request.Conversation)
}

// historyKey returns the key of the reply that the provider's stored history ends with, or "".
func historyKey(c *Call) string {
	switch r := c.Request; {
	case r.PreviousID != "":
		return publicKey(c.Book, "response", r.PreviousID)
	case r.Conversation != "":
		return key(c, "conversation", r.Conversation)
	}
	return ""
}

// replyKey returns the key of a reply. A reply with calls is known by the last of them: its id, name and arguments. Clients write
// parallel calls with the results between them, so that only the last call stands in a known place. Calls that the provider has run do
// not count. A call without an id, and a text, are known together with the conversation before them.
func replyKey(c *Call, before textChain, calls []modelapi.ToolCall, text string) string {
	calls = modelapi.ClientCalls(calls)
	if n := len(calls); n > 0 && calls[n-1].ID != "" {
		return key(c, "calls", callParts(calls[n-1:], true)...)
	}
	return key(c, "reply", append([]string{string(before), replyText(text)}, callParts(calls, false)...)...)
}
