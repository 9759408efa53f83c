package wire

import (
	"errors"
	"fmt"
)

// Request is the body of a call of a model. It keeps the body that it was parsed from, which must not change. Its methods
// are safe for concurrent use.
type Request struct {
	API    API
	Model  string
	Stream bool
	// MaxTokens is the limit of output tokens: max_tokens, max_completion_tokens or max_output_tokens; 0 if unset.
	MaxTokens int
	// System is the text of the system prompt: the system and developer messages in front of all others, instructions, system.
	System string
	// Items are the messages and items behind the system prompt. Neighbouring items of the assistant are one Item, and so are
	// neighbouring tool results, so that a turn has the same shape in every API.
	Items []Item
	// PreviousID and Conversation name a history that the provider stores; only Responses has them.
	PreviousID   string
	Conversation string
	// Session is the first set of prompt_cache_key, metadata.session_id, metadata.user_id and user.
	Session string
	// Root is the hash of the API and the system prompt.
	Root Hash

	body        []byte
	places      []place // of each item
	systemPlace place
}

// Parse reads the body of a request. It ignores unknown fields, and fields of an unexpected type. It returns an error if
// the body is not a JSON object, or exceeds the limits of depth and number of values.
func Parse(api API, body []byte) (*Request, error) {
	doc := new(document)
	if err := doc.parse(body); err != nil {
		return nil, fmt.Errorf("parse %s request: %w", api, err)
	}
	if doc.kind(root) != kindObject {
		return nil, fmt.Errorf("parse %s request: %w", api, errNoObject)
	}
	r := &Request{
		API: api, Model: doc.textAt(root, "model"), Stream: doc.isTrue(doc.get(root, "stream")),
		MaxTokens: maxTokens(doc), Session: session(doc), body: body,
	}
	c := &conversation{doc: doc, req: r}
	switch api {
	case Chat:
		c.addChat()
	case Responses:
		c.addResponses()
	case Messages:
		c.addMessages()
	}
	c.close()
	return r, nil
}

var errNoObject = errors.New("the body is not a JSON object")

func maxTokens(d *document) int {
	for _, key := range []string{"max_completion_tokens", "max_output_tokens", "max_tokens"} {
		if n := d.count(d.get(root, key)); n > 0 {
			return n
		}
	}
	return 0
}

func session(d *document) string {
	for _, path := range [][]string{{"prompt_cache_key"}, {"metadata", "session_id"}, {"metadata", "user_id"}, {"user"}} {
		if s := d.textAt(root, path...); s != "" {
			return s
		}
	}
	return ""
}

// Turn returns the index of the last item of the user, or -1.
func (r *Request) Turn() int {
	for i := len(r.Items) - 1; i >= 0; i-- {
		if r.Items[i].Role == RoleUser {
			return i
		}
	}
	return -1
}

// Running reports whether the work on the last turn has begun: an item of the assistant or of a tool follows it.
func (r *Request) Running() bool {
	for _, item := range r.Items[r.Turn()+1:] {
		if item.Role == RoleAssistant || item.Role == RoleTool {
			return true
		}
	}
	return false
}
