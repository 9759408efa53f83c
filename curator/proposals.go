package curator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"debrief/events/chat"
	"debrief/playbook"
)

// Proposal is an operation that a model asks for, and the numbers of the reflections that it says it rests on: none
// when it did not say. An Add has no bullet id yet.
type Proposal struct {
	Op          playbook.Op
	Reflections []int
}

// Suggestions are what a model makes of a request. Rejected holds what it asked for that cannot be done, or not in full.
type Suggestions struct {
	Proposals []Proposal
	Rejected  []playbook.Rejection
}

// Ask has a model propose changes, once more when the reply cannot be read.
func Ask(ctx context.Context, m chat.Model, in Request) (Suggestions, chat.Reply, error) {
	return chat.Ask(ctx, m, Prompt(in), func(r chat.Reply) (s Suggestions, err error) {
		s.Proposals, s.Rejected, err = parseProposals(r, len(in.Reflections))
		return s, err
	})
}

// parseProposals reads a reply to a request with n reflections. What cannot become an operation, and what was left out
// of one that did, comes back as a rejection with its reason.
func parseProposals(r chat.Reply, n int) ([]Proposal, []playbook.Rejection, error) {
	operations, err := operationList(r)
	if err != nil {
		return nil, nil, err
	}
	var (
		proposals []Proposal
		rejected  []playbook.Rejection
	)
	for _, raw := range operations {
		var m modelOp
		if err := json.Unmarshal(raw, &m.fields); err != nil || m.fields == nil {
			rejected = append(rejected, playbook.Rejection{Reason: fmt.Sprintf("operation %s is no object", clip(string(raw), 80))})
			continue
		}
		p, err := m.proposal(n)
		if err != nil {
			rejected = append(rejected, playbook.Rejection{Op: p.Op, Reason: err.Error()})
			continue
		}
		for _, reason := range m.ignored {
			rejected = append(rejected, playbook.Rejection{Op: p.Op, Reason: reason})
		}
		proposals = append(proposals, p)
	}
	return proposals, rejected, nil
}

// operationList finds the operations of a reply: in an object, under "update" in one, as a bare list, null or missing
// where the model wants no change but says something.
func operationList(r chat.Reply) ([]json.RawMessage, error) {
	object, err := chat.ObjectOrList(r)
	if err != nil {
		return nil, err
	}
	if object[0] == '[' {
		var list []json.RawMessage
		err := json.Unmarshal(object, &list)
		return list, err
	}
	var fields map[string]json.RawMessage
	for range 2 {
		fields = nil
		if err := json.Unmarshal(object, &fields); err != nil {
			return nil, fmt.Errorf("reply: %w", err)
		}
		inner, wrapped := fields["update"]
		if _, direct := fields["operations"]; direct || !wrapped {
			break
		}
		object = inner
	}
	raw, ok := fields["operations"]
	if _, talks := fields["reasoning"]; !ok && !talks {
		if firstField(fields, "type", "op") != nil {
			return []json.RawMessage{object}, nil // a single operation, without the list around it
		}
		return nil, errors.New(`reply has neither "operations" nor "reasoning"`)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("operations: %w", err)
	}
	return list, nil
}

// modelOp is an operation as a model wrote it, and what of it was passed over.
type modelOp struct {
	fields  map[string]json.RawMessage
	ignored []string
}

func (m *modelOp) text(names ...string) string {
	raw := firstField(m.fields, names...)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return strings.TrimSpace(s)
	}
	return strings.TrimSpace(string(raw))
}

func (m *modelOp) id(names ...string) playbook.BulletID {
	return playbook.BulletID(strings.Trim(clip(m.text(names...), 256), "[] \t\r\n"))
}

func (m *modelOp) ignore(format string, args ...any) {
	m.ignored = append(m.ignored, fmt.Sprintf(format, args...))
}

// proposal is the operation in our words. The error says why it can be none; the proposal then holds what was read.
func (m *modelOp) proposal(n int) (Proposal, error) {
	name := strings.ToUpper(m.text("type", "op"))
	p := Proposal{Op: playbook.Op{Kind: playbook.OpKind(name), Reason: clip(m.text("reason", "justification"), 1000)}}
	switch name {
	case "DELETE":
		p.Op.Kind = playbook.Remove
	case wireSame:
		p.Op.Kind = playbook.Second
	}
	if p.Op.Kind != playbook.Add && p.Op.Kind != playbook.Merge {
		p.Op.Bullet = m.id("bullet_id", "id", "bullet", "skill_id")
	}
	var err error
	switch p.Op.Kind {
	case playbook.Add:
		p.Op.Section = playbook.Section(m.text("section"))
		p.Op.Content, err = playbook.CleanContent(m.text("content"))
		m.ignoreCounters()
	case playbook.Update:
		if s := m.text("section"); s != "" {
			p.Op.Section = playbook.Section(s)
		}
		p.Op.Content, err = playbook.CleanContent(m.text("content"))
		m.ignoreCounters()
	case playbook.Merge:
		p.Op.Content, err = playbook.CleanContent(m.text("content"))
		m.ignoreCounters()
		if err == nil {
			err = m.sources(&p.Op)
		}
	case playbook.Tag:
		err = m.vote(&p.Op)
	case playbook.Remove, playbook.Second:
	default:
		p.Op.Kind = playbook.OpKind(clip(name, 40))
		return p, fmt.Errorf("type: %q is none of ADD, UPDATE, SAME, TAG, REMOVE, MERGE", clip(name, 40))
	}
	if err == nil && p.Op.Bullet == "" && p.Op.Kind != playbook.Add {
		err = errors.New("bullet_id: is empty")
	}
	p.Reflections = m.reflections(n)
	return p, err
}

// wireSame is what a model calls playbook.Second: the insights say what a bullet says already.
const wireSame = "SAME"

// wireKind is an operation's kind in a prompt.
func wireKind(k playbook.OpKind) string {
	if k == playbook.Second {
		return wireSame
	}
	return string(k)
}

// ignoreCounters notes counters that a model tried to set. Counters are votes of reflections and nobody's to write.
func (m *modelOp) ignoreCounters() {
	for _, name := range counterNames {
		if _, there := m.metadata()[name]; there {
			m.ignore("metadata.%s: ignored, a model sets no counters", name)
		}
	}
}

var counterNames = []string{"helpful", "harmful", "neutral"}

// metadata is the object of that name, or the counters beside it.
func (m *modelOp) metadata() map[string]json.RawMessage {
	var meta map[string]json.RawMessage
	if json.Unmarshal(m.fields["metadata"], &meta) != nil || meta == nil {
		return m.fields
	}
	return meta
}

// vote reads a TAG: one counter, moved by one whatever the model says.
func (m *modelOp) vote(op *playbook.Op) error {
	meta := m.metadata()
	moved := ""
	for _, name := range counterNames {
		raw, there := meta[name]
		by, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
		switch {
		case !there || (err == nil && by == 0) || string(raw) == "null" || string(raw) == "false":
		case string(raw) != "true" && !(err == nil && by > 0):
			m.ignore("metadata.%s: ignored, %s is no vote", name, clip(string(raw), 40))
		case moved != "":
			m.ignore("metadata.%s: ignored, one tag is one vote and it went to %s", name, moved)
		default:
			moved = name
			if string(raw) != "true" && by != 1 {
				m.ignore("metadata.%s: counted as 1, not %s", name, clip(string(raw), 40))
			}
		}
	}
	switch cmp.Or(moved, strings.ToLower(m.text("tag"))) {
	case "helpful":
		op.Helpful = 1
	case "harmful":
		op.Harmful = 1
	case "neutral":
		op.Neutral = 1
	default:
		return errors.New("metadata: a tag moves helpful, harmful or neutral, and there is none")
	}
	return nil
}

// sources reads what a MERGE takes together; it keeps the bullet that the model names, else the first.
func (m *modelOp) sources(op *playbook.Op) error {
	var list []any
	_ = json.Unmarshal(firstField(m.fields, "source_ids", "bullet_ids", "skill_ids"), &list) // no list is an empty one
	op.Bullet = m.id("keep_id", "bullet_id", "id")
	for _, v := range list {
		s, _ := v.(string)
		id := playbook.BulletID(strings.Trim(clip(s, 256), "[] \t\r\n"))
		if id == "" {
			continue
		}
		op.Bullet = cmp.Or(op.Bullet, id)
		if id != op.Bullet && !slices.Contains(op.Sources, id) {
			op.Sources = append(op.Sources, id)
		}
	}
	if len(op.Sources) == 0 {
		return errors.New("source_ids: a merge takes at least two bullets")
	}
	return nil
}

// reflections reads the numbers an operation rests on; what is no number from 1 to n is noted and dropped.
func (m *modelOp) reflections(n int) []int {
	raw := firstField(m.fields, "reflections", "reflection", "insights")
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil && len(raw) > 0 {
		list = []json.RawMessage{raw}
	}
	var numbers []int
	for _, item := range list {
		i, err := strconv.Atoi(strings.Trim(string(item), `"# `))
		switch {
		case err != nil || i < 1 || i > n:
			m.ignore("reflections: %s is none of 1 to %d", clip(string(item), 40), n)
		case !slices.Contains(numbers, i):
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// firstField is the first of the fields that is there and not null.
func firstField(fields map[string]json.RawMessage, names ...string) json.RawMessage {
	for _, name := range names {
		if raw, ok := fields[name]; ok && string(raw) != "null" {
			return raw
		}
	}
	return nil
}
