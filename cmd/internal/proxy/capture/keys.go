package capture

import (
	"regexp"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// A later call finds its run by references: stored values that name a run. Their keys are hashes of what stays the same while a client
// works on a turn: the texts of the user, the replies of the model, and ids. The system prompt may have a clock, reminders move, and
// old results of tools are cleared, so none of them is part of a key.

// keys makes the keys of the references of one owner in a playbook. An owner finds only its own runs, however many others have the same ids.
type keys struct {
	owner string
	book  playbook.Book
}

func (c *Call) keys() keys { return keys{c.Caller.Owner, c.Book} }

// key returns the key of a kind of reference: a hash of the kind, the playbook and the parts, and a hash of the owner. The hashes are
// short because a run has many references. If the hashes of two owners are equal, a key has maxReferences for both, and each sees only its own runs.
func (k keys) key(kind string, parts ...string) string {
	return k.inBook(kind, parts) + string(events.Hash("owner", k.owner)[:6])
}

// ofAnyOwner returns the filter for such keys of all owners.
func (k keys) ofAnyOwner(kind string, parts ...string) string { return k.inBook(kind, parts) + "*" }

func (k keys) inBook(kind string, parts []string) string {
	return "r." + string(events.Hash(append([]string{kind, string(k.book)}, parts...)...)[:16]) + "."
}

// Kinds of references with an id that clients know.
const (
	kindResponse     = "response"
	kindSession      = "session"
	kindTurn         = "turn"
	kindTrace        = "trace"
	kindConversation = "conversation" // that the provider stores
)

// start returns the key of the runs that began with the texts of a conversation.
func (k keys) start(chain textChain, r *modelapi.Request) string {
	return k.key("start", string(chain), r.PreviousID, r.Conversation)
}

// named returns the key of the runs that began with a question in a session that the client names. Without a session or a question the
// key is empty.
func (k keys) named(session, question string) string {
	if session == "" || question == "" {
		return ""
	}
	return k.key("named", session, question)
}

// reply returns the key of the runs with a reply after a conversation. A reply with calls is identified by its last call: id, name and
// arguments. Only the last one has a known place, because some clients write parallel calls with the results between them. Calls that
// the provider has run do not count. A reply without calls, or whose call has no id, is identified together with the conversation before it.
func (k keys) reply(before textChain, calls []modelapi.ToolCall, text string) string {
	calls = modelapi.ClientCalls(calls)
	if n := len(calls); n > 0 && calls[n-1].ID != "" {
		last := calls[n-1]
		return k.key("calls", last.ID, last.Name, canonicalArguments(last.Arguments))
	}
	return k.key("reply", append([]string{string(before), replyText(text)}, callParts(calls)...)...)
}

// stored returns the key of the runs whose last reply ends a history that the provider stores. Without such a history it is empty.
func (k keys) stored(r *modelapi.Request) string {
	switch {
	case r.PreviousID != "":
		return k.key(kindResponse, r.PreviousID)
	case r.Conversation != "":
		return k.key(kindConversation, r.Conversation)
	}
	return ""
}

// textChain is the hash of the texts of a conversation up to an item.
type textChain string

// add returns the hash of the conversation with one more item. Items of other roles than the user and the assistant do not change it.
func (c textChain) add(i *modelapi.Item) textChain {
	switch {
	case i.IsTurn():
		return textChain(events.Hash("user", string(c), withoutSpaces(modelapi.WithoutReminders(i.Text))))
	case i.Role == modelapi.RoleAssistant:
		return textChain(events.Hash(append([]string{"assistant", string(c), replyText(i.Text)}, callParts(modelapi.ClientCalls(i.Calls))...)...))
	}
	return c
}

// callParts returns the names and arguments of calls.
func callParts(calls []modelapi.ToolCall) (parts []string) {
	for _, c := range calls {
		parts = append(parts, c.Name, canonicalArguments(c.Arguments))
	}
	return parts
}

// canonicalArguments returns arguments in a form that ignores the spaces of JSON and the order of its keys.
func canonicalArguments(arguments string) string {
	canonical, ok := text.CanonicalJSON(arguments)
	switch {
	case !ok:
		return withoutSpaces(arguments)
	case canonical == "{}", canonical == "null":
		return ""
	}
	return canonical
}

// replyText returns the text of a reply as it is compared: clients change its spaces and remove the thoughts of a model.
func replyText(text string) string {
	if _, answer, ok := strings.Cut(text, "</think>"); ok && strings.HasPrefix(strings.TrimSpace(text), "<think>") {
		text = answer
	}
	return withoutSpaces(text)
}

func withoutSpaces(s string) string { return strings.Join(strings.Fields(s), "") }

// isRandom reports whether an id was drawn at random, so that no other call has it. Other ids number the calls of a conversation, such as
// "functions.find:0" and "call_1". Only parts with letters and digits look random; a word with a small number does not. An id in
// base64url has "-" and "_" anywhere, so the lengths of its parts are added.
func isRandom(id string) bool {
	n := 0 // length of the random parts
	for _, part := range strings.FieldsFunc(id, func(r rune) bool { return !isDigit(r) && !isLetter(r) }) {
		if strings.ContainsFunc(part, isDigit) && strings.ContainsFunc(part, isLetter) && !numberedWord.MatchString(part) {
			n += len(part)
		}
	}
	return n >= minRandom
}

const minRandom = 8 // minimum length of the random parts of a random id

// numberedWord matches a word with a small number, such as step2.
var numberedWord = regexp.MustCompile(`^(?:[a-z]+|[A-Z][a-z]{2,})[0-9]{1,3}$`)

func isDigit(r rune) bool  { return r >= '0' && r <= '9' }
func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
