package capture

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// ErrNoTurn is returned for a call without text of a user and without a reference to an earlier response.
var ErrNoTurn = errors.New("the request has no text of a user")

// A place says where a call stands in its conversation, and has the keys of the references by which Begin finds related runs. This is an
// example: the items of a call, oldest first, with the fields that are made of them.
//
//	user       fix the build        earlier[0]
//	assistant  run("go build")      previousCalls
//	tool       exit 1
//	assistant  It is fixed.         previous
//	user       now run the tests    the turn: question, exact, start, named
//	assistant  run("go test")       work[0]: reply
//	tool       exit 0               work[1]
//
// This call continues a run: it sends the result of a tool. Begin looks for the run in this order:
//
//  1. reply: an open run with this reply
//  2. named: the open run that began with this question in the session that the client names
//  3. start: the open run that began with the same texts
//  4. reply, then start: a closed run. Such a call is not captured, but gets the advice of the closed run again (see blocks.go)
//
// A call without a result of a tool behind the turn may begin a run. Then Begin looks for related runs in this order:
//
//  1. start and exact: the run that began with the same call. This call repeats it
//  2. previous: the run of the turn before, by its last reply. If several runs have this reply, those count that also have previousCalls
//  3. earlier[0]: the run of the turn before, by its texts. This is only looked up if no run has the last reply
type place struct {
	// The turn, and the runs that began with it.
	turn       int    // index of the last user item, or -1 if only the provider has it or the client has dropped it
	turnNumber int    // of the turn in the items of the call, from 1
	question   string // hash of the lasting text of the turn; empty if turn is -1
	system     string // hash of the system prompt
	exact      string // hash of the whole request up to the turn, with the system prompt
	start      string // key of the texts of the conversation up to the turn
	named      string // key of the named session and the question; empty without one of them

	// The work on the turn, and the reply that the call extends.
	work   []modelapi.Item // everything behind the turn
	answer int             // index in work of the last item of the assistant, or -1
	reply  string          // key of that item, or of the reply that the provider has; empty without one
	// numberedIDs is set if the ids of the reply's calls are numbers, such as call_1, and not random. Other runs may have the same ids.
	numberedIDs bool
	// mayBegin is set if no result of a tool follows the turn. Such a call continues a run only if an open run has the reply behind the turn.
	// Otherwise the call begins a run. Its reply, if it has one, is then the beginning of an answer that the model continues: the client
	// wrote it (prefill), or the provider cut an earlier answer.
	mayBegin bool
	chain    textChain // of all items; the key of the reply to this call is made from it

	// The turns before.
	previous      string          // key of the last reply before the turn; empty without an earlier turn
	previousCalls string          // key of the last reply with calls between the earlier turn and this one; empty without one
	tail          []modelapi.Item // results of tools that the call has between that reply and the turn
	earlier       []string        // keys of the runs that began with the turns before, newest first, at most maxEarlier
}

// before returns the key of the runs that began with the turn before, or "".
func (p *place) before() string {
	if len(p.earlier) == 0 {
		return ""
	}
	return p.earlier[0]
}

const maxEarlier = 16 // number of earlier turns that are looked up

// locate returns the place of a call. It returns ErrNoTurn for a call without text of a user, unless it has work on a turn: the provider
// stores the turn, or the client dropped it from a long history.
func locate(c *Call) (*place, error) {
	r := c.Request
	turn := modelapi.LastTurn(r.Items)
	p := &place{turn: turn, turnNumber: 1, system: string(events.Hash(string(r.API), r.System)), work: r.Items[turn+1:]}
	p.mayBegin = !slices.ContainsFunc(p.work, func(i modelapi.Item) bool { return i.Role == modelapi.RoleTool })
	p.answer = lastAssistant(p.work)
	switch {
	case turn >= 0 && modelapi.WithoutReminders(r.Items[turn].Text) == "":
		return nil, ErrNoTurn
	case turn < 0 && p.mayBegin: // the call has no turn, and is not later work on one
		return nil, ErrNoTurn
	}
	chains := chainsOf(r.Items)
	p.chain = chains[len(r.Items)]
	p.setTurn(c, chains)
	p.setReply(c, chains)
	itemsBefore := r.Items[:max(turn, 0)]
	p.setEarlier(c, itemsBefore, chains)
	p.setPrevious(c, itemsBefore, chains)
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

// setTurn sets the hashes and keys of the turn. If the call does not have the turn, the key of its start includes the work on it.
func (p *place) setTurn(c *Call, chains []textChain) {
	r := c.Request
	if p.turn >= 0 {
		p.question = questionHash(r.Items[p.turn].Text)
		p.start = c.keys().start(chains[p.turn+1], r)
	} else {
		p.start = c.keys().start(chains[len(r.Items)], r)
	}
	p.exact = string(events.Hash(p.system, string(r.Raw(p.turn+1)), r.PreviousID, r.Conversation)) // no items if turn is -1
	p.named = c.keys().named(c.Session, p.question)
}

// setReply sets the reply that the call extends. Results of tools without a reply before them extend the last reply that the provider has.
func (p *place) setReply(c *Call, chains []textChain) {
	if p.answer >= 0 {
		last := &p.work[p.answer]
		p.reply = c.keys().reply(chains[p.turn+1+p.answer], last.Calls, last.Text)
		p.numberedIDs = slices.ContainsFunc(modelapi.ClientCalls(last.Calls), func(c modelapi.ToolCall) bool { return !isRandom(c.ID) })
	} else if !p.mayBegin {
		p.reply = c.keys().stored(c.Request)
	}
}

// setEarlier sets the number of the turn, and the keys of the runs that began with the turns before it. itemsBefore has the items before the turn.
// A turn without a reply is part of the next one.
func (p *place) setEarlier(c *Call, itemsBefore []modelapi.Item, chains []textChain) {
	end := len(itemsBefore) // of the items of the turn that begins at i
	for i := len(itemsBefore) - 1; i >= 0; i-- {
		if !itemsBefore[i].IsTurn() {
			continue
		}
		if lastAssistant(itemsBefore[i:end]) >= 0 {
			p.turnNumber++
			if len(p.earlier) < maxEarlier {
				p.earlier = append(p.earlier, c.keys().start(chains[i+1], c.Request))
			}
		}
		end = i
	}
}

// setPrevious sets the keys of the last replies before the turn, and the results of tools behind the last one. itemsBefore has the items before the
// turn. It must be called after setEarlier.
func (p *place) setPrevious(c *Call, itemsBefore []modelapi.Item, chains []textChain) {
	answer := lastAssistant(itemsBefore)
	hasTurn := modelapi.LastTurn(itemsBefore) >= 0
	switch {
	case answer >= 0 && hasTurn:
		p.previous = c.keys().reply(chains[answer], itemsBefore[answer].Calls, itemsBefore[answer].Text)
	case p.turn >= 0 && len(p.earlier) == 0: // only the provider has the turns before
		p.previous = c.keys().stored(c.Request)
	}
	p.setPreviousCalls(c, itemsBefore, chains)
	p.tail = slices.DeleteFunc(slices.Clone(itemsBefore[answer+1:]), func(i modelapi.Item) bool { return i.Role != modelapi.RoleTool })
}

// setPreviousCalls sets the key of the last reply with calls after the last turn of items. Two runs may end with the same text after the
// same texts, and differ in the ids of their calls. The id of a call identifies the reply, see keys.reply, so its text is left out.
func (p *place) setPreviousCalls(c *Call, items []modelapi.Item, chains []textChain) {
	for i := len(items) - 1; i >= 0 && !items[i].IsTurn(); i-- {
		calls := items[i].Calls
		if items[i].Role == modelapi.RoleAssistant && len(modelapi.ClientCalls(calls)) > 0 {
			p.previousCalls = c.keys().reply(chains[i], calls, "")
			return
		}
	}
}

func questionHash(text string) string {
	return string(events.Hash("question", withoutSpaces(lastingText(text))))
}

// lastingText returns the text of a user's message without the parts that a client writes again for each call: reminders, blocks in tags, such
// as <env>, and times of day. If nothing but blocks is there, they stay.
func lastingText(text string) string {
	text = modelapi.WithoutReminders(text)
	if rest := withoutBlocks(text); strings.TrimSpace(rest) != "" {
		text = rest
	}
	return timeOfDay.ReplaceAllString(text, "")
}

// maxBlocks bounds the tags that withoutBlocks reads: for each it may search the whole text for the end tag.
const maxBlocks = 32

// withoutBlocks returns a text without its first blocks: a tag at the start of a line, up to the end tag of the same name.
func withoutBlocks(text string) string {
	var rest strings.Builder
	for range maxBlocks {
		tag := openingTag.FindStringSubmatchIndex(text)
		if tag == nil {
			break
		}
		block, after, ok := strings.Cut(text[tag[1]:], "</"+text[tag[2]:tag[3]]+">")
		if !ok { // a tag without an end is text
			after = block
			rest.WriteString(text[:tag[1]])
		} else {
			rest.WriteString(text[:tag[0]])
		}
		text = after
	}
	rest.WriteString(text)
	return rest.String()
}

var (
	openingTag = regexp.MustCompile(`(?m)^[ \t]*<([A-Za-z][\w-]*)(?: [^<>]*)?>`)
	timeOfDay  = regexp.MustCompile(`\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\b`)
)

// lastAssistant returns the index of the last item of the assistant, or -1.
func lastAssistant(items []modelapi.Item) int {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].Role == modelapi.RoleAssistant {
			return i
		}
	}
	return -1
}
