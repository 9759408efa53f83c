package capture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/direct"
	"debrief/events/outcome"
	"debrief/events/redact"
)

// part is what one call adds to a run: results of tools, and a reply.
type part struct {
	Call     int             `msgpack:"n"`           // number of the call, from 1
	Try      int             `msgpack:"t"`           // number of the attempt, from 1
	Question string          `msgpack:"q,omitempty"` // of a call that extends no stored reply
	Items    []modelapi.Item `msgpack:"i,omitempty"` // added by the client: tool results, or all work if the call extends no stored reply
	Complete bool            `msgpack:"ok,omitempty"`
	Reply    modelapi.Item   `msgpack:"r,omitempty"`
	Finish   modelapi.Finish `msgpack:"f,omitempty"`
	Status   int             `msgpack:"s,omitempty"`
	Model    string          `msgpack:"m,omitempty"`
	Usage    modelapi.Usage  `msgpack:"u,omitempty"`
	Begun    time.Time       `msgpack:"b"`
	Ended    time.Time       `msgpack:"e"`
}

// A small part is stored in its run, which saves a message: on a server that flushes each message to disk, the number of messages
// limits the rate of calls. The limits bound the size of a run, because each call writes the whole run twice.
const (
	maxSmall      = 4 << 10 // of a small part, in bytes
	maxSmallCalls = 4       // of a run
)

// isSmall reports whether the part is stored in its run.
func (p *part) isSmall() bool {
	return p.Call <= maxSmallCalls && p.Try == 1 && p.size() <= maxSmall
}

// key returns the key of the part of a run.
func (p *part) key(id events.ID) string {
	return fmt.Sprintf("%s.%d.%d", partKey(id), p.Call, p.Try)
}

// Limits of stored texts, in bytes. From a longer text both ends are kept, with a note between them.
const (
	maxQuestion = 64 << 10
	maxText     = 15 << 10  // of any other text: below the 16 KiB at which later conversions of runs would cut the note
	minText     = 64        // of a text of a call that is too long for a message
	maxCall     = 512 << 10 // of all texts of a call, so that it fits into a message of 1 MB
	maxID       = 256       // of an id or a name
	maxParts    = 4096      // calls of an item, and results
	minParts    = 128       // of each if short texts do not suffice: two items of them fit into maxCall
)

// newPart returns the stored form of the call, redacted.
func (ac *ActiveCall) newPart(reply *modelapi.Reply, status int) *part {
	p := &part{
		Call: ac.attempt.Call, Try: ac.attempt.Try, Begun: ac.call.At,
		Items: newItems(ac.added()), Model: steps.ClipTo(ac.call.Request.Model, maxID),
	}
	if ac.isFirst() && ac.place.turn >= 0 {
		p.Question = steps.ClipTo(modelapi.WithoutReminders(ac.call.Request.Items[ac.place.turn].Text), maxQuestion)
	}
	p.setReply(reply, status)
	return p
}

// setReply sets the reply to the call, and shortens and redacts the part.
func (p *part) setReply(reply *modelapi.Reply, status int) {
	p.Complete, p.Finish = reply.Complete(), reply.Finish
	p.Status, p.Usage = status, reply.Usage
	p.Ended = time.Now()
	if reply.Model != "" {
		p.Model = steps.ClipTo(reply.Model, maxID)
	}
	if p.Complete {
		p.Reply = newItem(modelapi.Item{Role: modelapi.RoleAssistant, Text: reply.Text, Calls: reply.Calls, Results: reply.Results})
	}
	p.shrink()
	redact.Fields(p)
}

// isFirst reports whether the call extends no stored reply. It begins its run, or the end of each earlier call was lost.
func (ac *ActiveCall) isFirst() bool { return ac.attempt.After == 0 }

// added returns the items that the client has added to the work on the turn. If no earlier reply of the run is stored, these are all items.
// Otherwise they are the results of tools after the last reply. Some clients write a reply with two calls as call 1, result 1, call 2, result 2,
// so that the first results are before the last item of the assistant. They are after the work that the earlier request had.
func (ac *ActiveCall) added() []modelapi.Item {
	p := ac.place
	if ac.isFirst() {
		return p.work
	}
	from := p.answer + 1
	earlier := ac.match.run.attemptAt(ac.attempt.After)
	hasAllWork := p.turn >= 0
	if earlier != nil && hasAllWork {
		from = min(from, earlier.Work)
	}
	return slices.DeleteFunc(slices.Clone(p.work[from:]), func(i modelapi.Item) bool { return i.Role != modelapi.RoleTool })
}

// newItems returns the stored form of the items of the assistant and of tools.
func newItems(list []modelapi.Item) (items []modelapi.Item) {
	for _, i := range list {
		if i.Role == modelapi.RoleAssistant || i.Role == modelapi.RoleTool {
			items = append(items, newItem(i))
		}
	}
	return items
}

// newItem returns the stored form of an item.
func newItem(i modelapi.Item) modelapi.Item {
	leaveOut(&i, maxParts)
	out := modelapi.Item{Role: i.Role, Text: steps.ClipTo(i.Text, maxText)}
	for _, c := range i.Calls {
		call := modelapi.ToolCall{ID: steps.ClipTo(c.ID, maxID), Name: steps.ClipTo(c.Name, maxID), Arguments: steps.ClipTo(c.Arguments, maxText)}
		if c.Result != nil {
			result := newResult(c.Result)
			call.Result = &result
		}
		out.Calls = append(out.Calls, call)
	}
	for _, r := range i.Results {
		out.Results = append(out.Results, newResult(&r))
	}
	return out
}

// leaveOut leaves out the calls and the results of an item above a limit, and adds a note to its text.
func leaveOut(i *modelapi.Item, limit int) {
	calls, results := min(len(i.Calls), limit), min(len(i.Results), limit)
	if n := len(i.Calls) - calls + len(i.Results) - results; n > 0 {
		i.Text += fmt.Sprintf(" [left out %d calls or results]", n)
	}
	i.Calls, i.Results = i.Calls[:calls], i.Results[:results]
}

// newResult returns the stored form of a result.
func newResult(r *modelapi.ToolResult) modelapi.ToolResult {
	out := modelapi.ToolResult{CallID: steps.ClipTo(r.CallID, maxID), Output: r.Output, Signs: r.Signs}
	clipOutput(&out, maxText)
	return out
}

// clipOutput shortens the output of a result. Whether the call failed is decided later, by both ends of its output. Cut JSON is an exception: its
// error may be in the part that is cut, so it is marked here.
func clipOutput(r *modelapi.ToolResult, limit int) {
	isCutJSON := len(r.Output) > limit && strings.HasPrefix(r.Output, "{")
	if isCutJSON && outcome.OfTool(nil, r.Output, r.Signs) == events.Failure {
		r.Signs.Error = new(true)
	}
	r.Output = steps.ClipTo(r.Output, limit)
}

// shrink cuts the texts of a part until they fit into a message. If short texts do not fit either, it leaves out the first items, and then
// calls and results. Only a run that begins in the middle has thousands of items, and only a faulty client sends thousands of calls at once.
func (p *part) shrink() {
	for limit := maxText; p.size() > maxCall && limit > minText; {
		limit = max(limit/2, minText)
		for i := range p.Items {
			clipItem(&p.Items[i], limit)
		}
		clipItem(&p.Reply, limit)
	}
	for p.size() > maxCall && len(p.Items) > 1 {
		p.Items = p.Items[(len(p.Items)+1)/2:]
	}
	if p.size() > maxCall {
		for i := range p.Items {
			leaveOut(&p.Items[i], minParts)
		}
		leaveOut(&p.Reply, minParts)
	}
}

func clipItem(i *modelapi.Item, limit int) {
	i.Text = steps.ClipTo(i.Text, limit)
	for n := range i.Calls {
		i.Calls[n].Arguments = steps.ClipTo(i.Calls[n].Arguments, limit)
		if r := i.Calls[n].Result; r != nil {
			clipOutput(r, limit)
		}
	}
	for n := range i.Results {
		clipOutput(&i.Results[n], limit)
	}
}

func (p *part) size() int {
	size := len(p.Question) + itemSize(&p.Reply)
	for i := range p.Items {
		size += itemSize(&p.Items[i])
	}
	return size
}

func itemSize(i *modelapi.Item) int {
	const overhead = 32 // of an element
	size := overhead + len(i.Text)
	for _, c := range i.Calls {
		size += overhead + len(c.ID) + len(c.Name) + len(c.Arguments)
		if c.Result != nil {
			size += overhead + len(c.Result.CallID) + len(c.Result.Output)
		}
	}
	for _, r := range i.Results {
		size += overhead + len(r.CallID) + len(r.Output)
	}
	return size
}

// parts returns the parts of a run, one for each stored attempt, and the keys of those that are stored apart from the run.
func (s *Store) parts(ctx context.Context, r *run) (parts []*part, keys []string, err error) {
	parts = slices.Clone(r.Parts)
	err = s.open.read(ctx, partKey(r.ID)+".>", func(m *direct.Message) error {
		p, err := decode[part](m)
		if err != nil || p == nil {
			return nil //nolint:nilerr // an unreadable call is lost
		}
		parts = append(parts, p)
		keys = append(keys, m.Subject[len(s.open.prefix()):])
		return nil
	})
	return parts, keys, err
}

// countedParts returns one part for each call, in order: of several attempts the last complete one, else the last one.
func countedParts(parts []*part) (list []*part) {
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b *part) int { return cmp.Compare(a.Call, b.Call) })
	for _, p := range parts {
		last := len(list) - 1
		switch {
		case last < 0 || list[last].Call != p.Call:
			list = append(list, p)
		case p.replaces(list[last]):
			list[last] = p
		}
	}
	return list
}

// replaces reports whether an attempt counts instead of another one at the same call.
func (p *part) replaces(other *part) bool {
	if p.Complete != other.Complete {
		return p.Complete
	}
	return p.Try > other.Try
}
