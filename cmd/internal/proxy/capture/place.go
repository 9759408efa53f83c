package capture

import (
	"encoding/hex"
	"errors"
	"slices"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// ErrNoTurn is returned for a call without text of a user and without a reference to an earlier response.
var ErrNoTurn = errors.New("the request has no text of a user")

// place is the position of a call in its conversation: the turn, the work on it, and the keys by which related runs are found.
type place struct {
	turn     int // index of the last user item, or -1 if only the provider has it
	number   int // of the turn in the items of the call, from 1
	question string
	exact    string          // hash of the whole request up to the turn
	work     []modelapi.Item // everything behind the turn
	answer   int             // index in work of the last item of the assistant, or -1
	// begins is set if no result of a tool follows the turn. If reply is set, too, the client has sent the beginning of the answer: a
	// draft (prefill), or a reply that was cut. Then the call begins a run unless that reply is known.
	begins bool
	chain  textChain // of all items

	start, named string // keys of the runs that began with this turn
	reply        string // key of the reply that the call extends; empty without one
	counted      bool   // the ids of the reply's calls only count: other runs may have the same

	previous      string          // key of the last reply before the turn; empty without an earlier turn
	previousCalls string          // key of the last reply with calls before the turn, if it is behind the earlier turn
	tail          []modelapi.Item // tool results between the last reply and the turn
	earlier       []earlierTurn   // the turns before this one that have a reply, newest first, at most maxEarlier
}

type earlierTurn struct {
	item     int    // index of the user item
	start    string // key of the runs that began with it
	question string // hash of its text
}

// maxEarlier is the number of earlier turns that are looked up.
const maxEarlier = 16

// locate returns the place of a call. It returns ErrNoTurn for a call without text of a user, unless it continues work on a turn that
// the provider stores.
func locate(c *Call) (*place, error) {
	r := c.Request
	turn := modelapi.LastTurn(r.Items)
	p := &place{turn: turn, number: 1, work: r.Items[turn+1:]}
	p.begins = !slices.ContainsFunc(p.work, func(i modelapi.Item) bool { return i.Role == modelapi.RoleTool })
	p.answer = lastAssistant(p.work)
	providerHasTurn := r.PreviousID != "" || r.Conversation != ""
	switch {
	case turn >= 0 && modelapi.WithoutReminders(r.Items[turn].Text) == "":
		return nil, ErrNoTurn
	case turn < 0 && (p.begins || !providerHasTurn):
		return nil, ErrNoTurn
	}
	chains := chainsOf(r.Items)
	p.chain = chains[len(r.Items)]
	p.setTurn(c, chains)
	p.setReply(c, chains)
	p.setEarlier(c, chains)
	return p, nil
}

// chainsOf returns the hashes of a conversation before each item, and of the whole.
func chainsOf(items []modelapi.Item) []textChain {
	chains := make([]textChain, len(items)+1)
	for i := range items {
		chains[i+1] = chains[i].add(&items[i])
	}
	return chains
}

// setTurn sets what identifies the turn. If only the provider has the turn, this is the work on it.
func (p *place) setTurn(c *Call, chains []textChain) {
	r := c.Request
	begin, end := r.Root[:], len(r.Items)
	if p.turn >= 0 {
		begin, end = r.Items[p.turn].Prefix[:], p.turn+1
		p.question = questionHash(r.Items[p.turn].Text)
	}
	p.exact = string(events.Hash(hex.EncodeToString(begin), r.PreviousID, r.Conversation))
	p.start = c.keys().start(chains[end], r)
	p.named = c.keys().named(c.Session, p.question)
}

// setReply sets the reply that the call extends.
func (p *place) setReply(c *Call, chains []textChain) {
	if p.answer >= 0 {
		last := &p.work[p.answer]
		p.reply = c.keys().reply(chains[p.turn+1+p.answer], last.Calls, last.Text)
		p.counted = slices.ContainsFunc(modelapi.ClientCalls(last.Calls), func(c modelapi.ToolCall) bool { return !isRandom(c.ID) })
	} else if !p.begins {
		p.reply = c.keys().stored(c.Request)
	}
}

// setEarlier sets the number of the turn, and what identifies the turns before it. A turn without a reply is part of the next one.
func (p *place) setEarlier(c *Call, chains []textChain) {
	items := c.Request.Items[:max(p.turn, 0)]
	end := len(items) // index behind the items of the turn at i
	for i := len(items) - 1; i >= 0; i-- {
		if !items[i].IsTurn() {
			continue
		}
		if lastAssistant(items[i:end]) >= 0 {
			p.number++
			if len(p.earlier) < maxEarlier {
				p.earlier = append(p.earlier, earlierTurn{i, c.keys().start(chains[i+1], c.Request), questionHash(items[i].Text)})
			}
		}
		end = i
	}
	answer := lastAssistant(items)
	if answer >= 0 && modelapi.LastTurn(items) >= 0 {
		p.previous = c.keys().reply(chains[answer], items[answer].Calls, items[answer].Text)
	} else if p.turn >= 0 && len(p.earlier) == 0 {
		p.previous = c.keys().stored(c.Request)
	}
	for i := len(items) - 1; i >= 0 && p.previousCalls == "" && !items[i].IsTurn(); i-- {
		if calls := items[i].Calls; items[i].Role == modelapi.RoleAssistant && len(modelapi.ClientCalls(calls)) > 0 {
			p.previousCalls = c.keys().reply(chains[i], calls, "")
		}
	}
	p.tail = slices.DeleteFunc(slices.Clone(items[answer+1:]), func(i modelapi.Item) bool { return i.Role != modelapi.RoleTool })
}

func questionHash(text string) string {
	return string(events.Hash("question", withoutSpaces(modelapi.WithoutReminders(text))))
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
