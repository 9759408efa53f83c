package propose

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"debrief/curator/screen"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// Suggestion is an operation that a model proposes, with the numbers of the supporting reflections. Reflections is empty if
// the model gave none. An Add has no bullet id yet.
type Suggestion struct {
	Op          playbook.Op
	Reflections []int
}

// Suggestions are the operations in a reply. Rejected contains the invalid operations, and the ignored parts of valid ones.
type Suggestions struct {
	Proposals []Suggestion
	Rejected  []playbook.Rejection
}

// Ask asks a model for proposals. It asks up to chat.MaxCalls times while the reply is not usable.
func Ask(ctx context.Context, m chat.Model, in Request) (Suggestions, chat.Reply, error) {
	return chat.Ask(ctx, m, requestPrompt(in), func(r chat.Reply) (Suggestions, error) { return parseProposals(r, len(in.Reflections)) })
}

// parseProposals reads a reply to a request with n reflections. It returns a rejection for each invalid operation and for
// each ignored part of a valid one.
func parseProposals(r chat.Reply, n int) (s Suggestions, err error) {
	operations, err := chat.ParseList(r, "operations", "type")
	if err != nil {
		return s, err
	}
	for _, raw := range operations {
		var m modelOp
		if err := json.Unmarshal(raw, &m.fields); err != nil || m.fields == nil {
			s.Rejected = append(s.Rejected, playbook.Rejection{Code: playbook.ReasonInvalid, Reason: fmt.Sprintf("operation %s: not a JSON object", text.Excerpt(string(raw), 80))})
			continue
		}
		p, err := m.proposal(n)
		if err != nil {
			s.Rejected = append(s.Rejected, playbook.Rejection{Op: p.Op, Code: playbook.ReasonInvalid, Reason: err.Error()})
			continue
		}
		for _, reason := range m.ignored {
			s.Rejected = append(s.Rejected, playbook.Rejection{Op: p.Op, Code: playbook.ReasonIgnored, Reason: reason})
		}
		s.Proposals = append(s.Proposals, p)
	}
	return s, nil
}

// modelOp is an operation in the form of the model, with a sentence for each ignored part.
type modelOp struct {
	fields  chat.Object
	ignored []string
}

// id returns a field as a bullet id.
func (m *modelOp) id(name string) playbook.BulletID {
	return trimID(text.UnlessNone(m.fields.Text(name)))
}

// trimID removes the brackets that the prompt has around an id.
func trimID(id string) playbook.BulletID {
	return playbook.BulletID(strings.Trim(text.Excerpt(id, playbook.MaxID), "[] \t\r\n"))
}

// ignore records that a part of the operation is ignored.
func (m *modelOp) ignore(format string, args ...any) {
	m.ignored = append(m.ignored, fmt.Sprintf(format, args...))
}

// proposal converts the operation in a reply about n reflections. If it is invalid, proposal returns an error and the parts that could be
// read.
func (m *modelOp) proposal(n int) (Suggestion, error) {
	name := strings.ToUpper(m.fields.Text("type"))
	p := Suggestion{Op: playbook.Op{Kind: playbook.OpKind(name), Reason: text.Excerpt(m.fields.Text("reason"), screen.MaxReason)}}
	switch name {
	case "DELETE":
		p.Op.Kind = playbook.Remove
	case wireSame:
		p.Op.Kind = playbook.Confirm
	}
	if p.Op.Kind != playbook.Add && p.Op.Kind != playbook.Merge {
		p.Op.Bullet = m.id("bullet_id")
	}
	var err error
	switch p.Op.Kind {
	case playbook.Add:
		p.Op.Section = playbook.Section(text.UnlessNone(m.fields.Text("section")))
		err = m.readContent(&p.Op)
	case playbook.Update:
		if s := text.UnlessNone(m.fields.Text("section")); s != "" { // without one, the bullet stays in its section; playbook.Section would return "misc"
			p.Op.Section = playbook.Section(s)
		}
		err = m.readContent(&p.Op)
	case playbook.Merge:
		err = m.readContent(&p.Op)
		if err == nil {
			err = m.readSources(&p.Op)
		}
	case playbook.Tag:
		err = errors.New("type: TAG is not allowed: votes come from reflections, which know the bullets in the prompt")
	case playbook.Confirm:
		m.readBetterText(&p.Op)
	case playbook.Remove:
	default:
		p.Op.Kind = playbook.OpKind(text.Excerpt(name, 40))
		return p, fmt.Errorf("type: unknown type %q: use ADD, UPDATE, SAME, REMOVE or MERGE", text.Excerpt(name, 40))
	}
	if err == nil && p.Op.Bullet == "" && p.Op.Kind != playbook.Add {
		err = errors.New("bullet_id: required")
	}
	p.Reflections = m.reflections(n)
	return p, err
}

// readContent sets the condition and the content of an operation.
func (m *modelOp) readContent(op *playbook.Op) (err error) {
	m.ignoreCounters()
	when, content := text.UnlessNone(m.fields.Text("when")), text.UnlessNone(m.fields.Text("content"))
	op.When, op.Content, err = playbook.CleanText(when, similar.WithoutCondition(when, content))
	return err
}

// readBetterText sets the optional text of a SAME: the text of the bullet with a further number, name or step. An invalid text is ignored, so
// that the request for the bullet counts.
func (m *modelOp) readBetterText(op *playbook.Op) {
	if text.UnlessNone(m.fields.Text("content")) == "" {
		return
	}
	if err := m.readContent(op); err != nil {
		op.When, op.Content = "", ""
		m.ignore("content: ignored: %v", err)
	}
}

// wireSame is the name of playbook.Confirm in prompts and replies: a bullet already contains the insight.
const wireSame = "SAME"

// wireKind returns the name of an operation in a prompt.
func wireKind(k playbook.OpKind) string {
	if k == playbook.Confirm {
		return wireSame
	}
	return string(k)
}

// ignoreCounters ignores counters that a model tried to set. Only the votes of reflections change counters.
func (m *modelOp) ignoreCounters() {
	var metadata map[string]json.RawMessage
	_ = json.Unmarshal(m.fields["metadata"], &metadata) // without an object, only the fields beside the content may be counters
	for _, name := range []string{"helpful", "harmful", "neutral"} {
		if metadata[name] != nil {
			m.ignore("metadata.%s: ignored: a model must not set counters", name)
		}
		if m.fields[name] != nil {
			m.ignore("%s: ignored: a model must not set counters", name)
		}
	}
}

// readSources sets the bullets of a MERGE. The merged bullet keeps the id in keep_id, else the first one in source_ids.
func (m *modelOp) readSources(op *playbook.Op) error {
	op.Bullet = m.id("keep_id")
	for _, item := range m.list("source_ids") {
		id := trimID(chat.FieldText(item))
		if id == "" {
			continue
		}
		op.Bullet = cmp.Or(op.Bullet, id)
		if id != op.Bullet && !slices.Contains(op.Sources, id) {
			op.Sources = append(op.Sources, id)
		}
	}
	if len(op.Sources) == 0 {
		return errors.New("source_ids: at least two bullets are required")
	}
	return nil
}

// list returns the elements of a field: those of a list, or the parts of a text between commas. A missing field has none.
func (m *modelOp) list(name string) (all []json.RawMessage) {
	raw, _ := m.fields.Field(name)
	if json.Unmarshal(raw, &all) == nil || len(raw) == 0 {
		return all
	}
	for part := range strings.SplitSeq(chat.FieldText(raw), ",") {
		item, _ := json.Marshal(strings.TrimSpace(part))
		all = append(all, item)
	}
	return all
}

// reflections returns the numbers of the supporting reflections. It ignores values that are not numbers from 1 to n.
func (m *modelOp) reflections(n int) []int {
	var numbers []int
	for _, item := range m.list("reflections") {
		i, err := strconv.Atoi(strings.Trim(string(item), `"#[] `))
		switch {
		case err != nil || i < 1 || i > n:
			m.ignore("reflections: %s is not a number from 1 to %d", text.Excerpt(string(item), 40), n)
		case !slices.Contains(numbers, i):
			numbers = append(numbers, i)
		}
	}
	return numbers
}
