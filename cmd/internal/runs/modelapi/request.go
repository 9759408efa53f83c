package modelapi

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Request is the body of a call of a model. It keeps the body that it was parsed from, which must not change. Its methods
// are safe for concurrent use.
type Request struct {
	API   API
	Model string
	// System is the text of the system prompt. It is in the field instructions or system, or in the system and developer messages in front
	// of all others.
	System string
	// Items are the messages and items behind the system prompt. Neighbouring items of the assistant are one Item, and so are
	// neighbouring tool results, so that a turn has the same shape in every API.
	Items []Item
	// PreviousID and Conversation name a history that the provider stores; only Responses has them.
	PreviousID   string
	Conversation string
	// Session is the first value of prompt_cache_key, metadata.session_id, metadata.user_id and user; "" without any.
	Session string

	body        []byte
	tools       []byte  // JSON
	places      []place // of each item: where a text can be inserted
	ends        []int   // of each item: the index in the body of the byte behind it
	begin       int     // index in the body of the first item
	systemPlace place   // where a text can be inserted into the system prompt
}

// Parse reads the body of a request. It ignores unknown fields, and fields of an unexpected type. It returns an error if
// the body is not a JSON object, or exceeds the limits of depth and number of values.
func Parse(api API, body []byte) (*Request, error) {
	root, err := new(Document).Parse(body)
	if err == nil && root.Kind() != '{' {
		err = errNoObject
	}
	if err != nil {
		return nil, fmt.Errorf("parse %s request: %w", api, err)
	}
	r := &Request{
		API: api, Model: root.Text("model"), Session: session(root), body: body, tools: root.First("tools", "functions").Raw(),
	}
	b := &requestBuilder{req: r}
	switch api {
	case Chat:
		b.addChat(root)
	case Responses:
		b.addResponses(root)
	case Messages:
		b.addSystemField(root, "system")
		b.addList(root.Get("messages"), "text")
	}
	b.start()
	b.closeItem()
	return r, nil
}

var errNoObject = errors.New("the body is not a JSON object")

// session returns the value of Request.Session.
func session(root Value) string {
	for _, path := range [][]string{{"prompt_cache_key"}, {"metadata", "session_id"}, {"metadata", "user_id"}, {"user"}} {
		if s := root.Text(path...); s != "" {
			return s
		}
	}
	return ""
}

// Raw returns the JSON of the first n items, as the client wrote it. It is the same when a client repeats a request.
func (r *Request) Raw(n int) []byte {
	if n == 0 {
		return nil
	}
	return r.body[r.begin:r.ends[n-1]]
}

// Tools returns the tools that the model may call. It parses their JSON at each call, because few callers need them.
func (r *Request) Tools() []Tool { return ParseValue(r.tools).Tools() }

// Turn returns the index of the item with the current turn, see LastTurn.
func (r *Request) Turn() int { return LastTurn(r.Items) }

// LastTurn returns the index of the last turn of the user, or -1 without one.
func LastTurn(items []Item) int {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].IsTurn() {
			return i
		}
	}
	return -1
}

// IsTurn reports whether the item is a message of the user that is not only a reminder of a coding agent. A message without text, such as
// an image, is a turn.
func (i *Item) IsTurn() bool {
	return i.Role == RoleUser && (i.Text == "" || WithoutReminders(i.Text) != "")
}

// requestBuilder builds the items of a request, in order. First come the messages of the system prompt. With the first other message,
// start completes the system prompt. Each further message extends the last item or begins an item; closeItem completes an item.
type requestBuilder struct {
	req     *Request
	system  []string // texts of the system prompt
	texts   []string // texts of the last item
	started bool     // the system prompt is complete
}

// addChat adds the body of a chat completions request.
func (b *requestBuilder) addChat(root Value) {
	list := root.Get("messages")
	if list.Kind() == '[' {
		b.req.systemPlace = firstPlace(list, `{"role":"system","content":`, "}")
	}
	b.addList(list, "text")
}

// addResponses adds the body of a responses request.
func (b *requestBuilder) addResponses(root Value) {
	b.req.PreviousID = root.Text("previous_response_id")
	b.req.Conversation = cmp.Or(root.Text("conversation"), root.Text("conversation", "id"))
	b.addSystemField(root, "instructions")
	input := root.Get("input")
	if input.Kind() == '"' {
		m := message{Item: Item{Role: RoleUser}}
		m.addText(input.Text())
		b.add(&m, input, contentPlace(input, "input_text"))
	}
	b.addList(input, "input_text")
}

// addList adds messages and items. partType is the type of a part with text.
func (b *requestBuilder) addList(list Value, partType string) {
	for v := range list.Elements() {
		var m message
		isItem := v.Text("role") == "" && m.addItem(v)
		if !isItem { // it is a message
			m.Role = requestRole(v)
			m.addMessage(v)
		}
		if m.Role == RoleUser && len(m.Results) > 0 {
			m.Role = RoleTool
		}
		var at place
		switch m.Role {
		case RoleUser:
			at = contentPlace(v.Get("content"), partType)
		case RoleSystem:
			at = partPlace(v.Get("content"), partType)
		}
		b.add(&m, v, at)
	}
}

// requestRole returns the role of a message of a request. An unknown role counts as the assistant's, so that no text is inserted.
func requestRole(v Value) Role {
	if role := roles[v.Text("role")]; role != "" {
		return role
	}
	return RoleAssistant
}

// add adds the message m, which was read from v. System messages in front of all others belong to the system prompt. at is the place for a text
// in the message; only messages of the user and the system have one.
func (b *requestBuilder) add(m *message, v Value, at place) {
	if m.Role == RoleSystem && !b.started {
		b.addSystem(m.texts)
		if at.ok() && b.req.API == Chat { // the other APIs have a field
			b.req.systemPlace = at
		}
		return
	}
	b.start()
	r := b.req
	if len(r.Items) == 0 {
		r.begin = int(v.node().start)
	}
	isLastRole := len(r.Items) > 0 && r.Items[len(r.Items)-1].Role == m.Role
	extendsLast := isLastRole && (m.Role == RoleAssistant || m.Role == RoleTool)
	if !extendsLast {
		b.closeItem()
		r.Items = append(r.Items, Item{Role: m.Role})
		r.places, r.ends = append(r.places, place{}), append(r.ends, 0)
	}
	last := len(r.Items) - 1
	item := &r.Items[last]
	item.Calls = append(item.Calls, m.Calls...)
	item.Results = append(item.Results, m.Results...)
	r.ends[last] = int(v.node().end)
	b.texts = append(b.texts, m.texts...)
	if m.Role == RoleUser {
		r.places[last] = at
	}
}

// closeItem sets the text of the last item.
func (b *requestBuilder) closeItem() {
	if n := len(b.req.Items); n > 0 {
		b.req.Items[n-1].Text = joinTexts(b.texts)
	}
	b.texts = nil
}

// start completes the system prompt.
func (b *requestBuilder) start() {
	if b.started {
		return
	}
	b.started = true
	b.req.System = joinTexts(b.system)
}

// billingHeader starts a line of the system prompt of Claude Code. A value in the line changes with each request, although the
// conversation does not change.
const billingHeader = "x-anthropic-billing-header:"

// addSystem adds texts to the system prompt, without the billing header.
func (b *requestBuilder) addSystem(texts []string) {
	for _, text := range texts {
		if strings.HasPrefix(text, billingHeader) {
			_, text, _ = strings.Cut(text, "\n")
		}
		if text != "" {
			b.system = append(b.system, text)
		}
	}
}

// addSystemField adds a field with the system prompt: a string, a list of parts or nothing.
func (b *requestBuilder) addSystemField(root Value, key string) {
	field := root.Get(key)
	var m message
	m.addContent(field)
	b.addSystem(m.texts)
	if field.IsMissing() {
		b.req.systemPlace = firstPlace(root, `"`+key+`":`, "")
	} else {
		b.req.systemPlace = partPlace(field, "text")
	}
}
