package generator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// promptVersion changes with the text of the prompt. It distinguishes executions with different prompts.
const promptVersion = "g5"

// References to instructions in manifests.
const (
	systemRef = events.RoleGenerator + "/" + promptVersion
	customRef = events.RoleGenerator + "/p" // followed by the fingerprint of custom instructions
)

// Instructions are the default instructions before the playbook.
const Instructions = chat.PromptTask + chat.PromptAnswerFormat

// system returns the configured instructions and their reference in manifests.
func (c Config) system() (text, ref string) {
	custom := strings.TrimSpace(c.Instructions)
	if custom == "" {
		return Instructions, systemRef
	}
	return custom + "\n" + chat.PromptAnswerFormat, customRef + chat.Fingerprint(custom)
}

// wireAnswer is the reply that the schema requires.
type wireAnswer struct {
	Reasoning   string   `json:"reasoning"`
	BulletIDs   []string `json:"bullet_ids"`
	FinalAnswer string   `json:"final_answer"`
}

var answerSchema = chat.SchemaOf[wireAnswer]()

// Prompt returns a prompt for an answer in the required format. The playbook is in the system message and the task in
// the user message, so that task text cannot pose as a bullet. The target is in neither message.
func Prompt(messages []chat.Message) chat.Prompt {
	return chat.Prompt{Name: events.RoleGenerator, Messages: messages, Schema: answerSchema}
}

// Answer is the parsed reply of a model.
type Answer struct {
	Reasoning string
	// BulletIDs are the cited ids, without duplicates. They may include bullets that were not shown.
	BulletIDs []playbook.BulletID
	// Final is empty if the model gave no answer, also when it was asked again. An empty answer is not scored.
	Final string
}

// errNoAnswer reports a reply in the required format whose answer is missing or empty.
var errNoAnswer = &chat.MissingError{Field: "final_answer"}

// Ask sends a prompt to a model. It asks again if the reply has no text, broken JSON or JSON without the expected fields, up to
// chat.MaxCalls times in all, and once if only the field final_answer is missing. Prose is accepted: the answer is the marked part, such as
// \boxed{…} or "Final answer: …", else the whole text.
func Ask(ctx context.Context, m chat.Model, p chat.Prompt) (Answer, chat.Reply, error) {
	return chat.Ask(ctx, m, p, parseAnswer)
}

// parseAnswer parses a reply. A model may ignore the required format. Then the answer is the one that the text marks, or the whole text if
// it is prose. A reply without text, broken JSON, or JSON without the expected fields is an error that is worth a retry. If only the answer
// is missing, parseAnswer returns the other fields with errNoAnswer.
func parseAnswer(r chat.Reply) (Answer, error) {
	a, err := parseFields(r)
	if err == nil {
		a.Final = cmp.Or(a.Final, findAnswer(a.Reasoning))
		if a.Final == "" {
			return a, errNoAnswer
		}
		return a, nil
	}
	text := chat.StripThinking(r.Text)
	if found := findAnswer(text); found != "" {
		return Answer{Reasoning: text, BulletIDs: a.BulletIDs, Final: found}, nil // parseFields returns the bullets also with an error
	}
	if isProse(text) {
		return Answer{Final: text}, nil
	}
	return Answer{}, err
}

// parseFields parses a reply that is a JSON object. If the object has neither an answer nor a reasoning, parseFields returns the cited bullets and
// an error.
func parseFields(r chat.Reply) (Answer, error) {
	reply, err := chat.ParseObject(r, errNoAnswer.Field)
	if err != nil && !errors.As(err, new(*chat.MissingError)) {
		return Answer{}, err
	}
	ids, _ := reply.Field("bullet_ids")
	a := Answer{Reasoning: reply.Text("reasoning"), BulletIDs: bulletIDs(ids), Final: reply.Text(errNoAnswer.Field)}
	if err != nil && a.Reasoning == "" {
		return a, errors.New(`reply has neither "final_answer" nor "reasoning"`)
	}
	return a, nil
}

// The formats of answers outside JSON. findAnswer prefers them in this order:
//   - Finish[…] of agents trained on question answering
//   - the quoted field "final_answer", which is readable even in truncated JSON
//   - \boxed{…} of agents trained on mathematics; see boxed
//   - a statement such as "The final answer is 42", or a heading "Final answer" with the answer in the next line
var (
	finishForm = regexp.MustCompile(`Finish\[([^\]\n]*)\]`)
	quotedForm = regexp.MustCompile(`"final_answer"\s*:\s*("(?:[^"\\]|\\.)*")`)
	statedForm = regexp.MustCompile(`(?im)(?:final[ _]answer\**\s*(?:is\b\s*:?|[:=])|^[#* ]*final answer[* ]*\n)\s*([^\n]+)`)
)

// boldForm matches an answer that begins in bold. The answer is the part in bold and the rest of the line, as in
// "**42** apples", but without a rest that begins with a punctuation mark, as in "**42**, because …".
var boldForm = regexp.MustCompile(`^\*\*([^*]+)\*\*(?:[.,;:!].*|(.*))$`)

// proseMarks are the characters around an answer in prose.
const proseMarks = "*\"'` \t\r"

// findAnswer returns the answer that a text marks in one of these formats, or "".
func findAnswer(text string) string {
	if m := finishForm.FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1])
	}
	if m := quotedForm.FindStringSubmatch(text); m != nil {
		var s string
		if json.Unmarshal([]byte(m[1]), &s) == nil {
			return strings.TrimSpace(s)
		}
	}
	if s := boxed(text); s != "" {
		return s
	}
	if m := statedForm.FindStringSubmatch(text); m != nil {
		said := m[1]
		if b := boldForm.FindStringSubmatch(said); b != nil {
			said = b[1] + b[2]
		}
		return strings.TrimRight(strings.TrimLeft(said, proseMarks), proseMarks+".")
	}
	return ""
}

// boxed returns the content of the last \boxed{…}, inner braces included.
func boxed(text string) string {
	const open = `\boxed{`
	i := strings.LastIndex(text, open)
	if i < 0 {
		return ""
	}
	text = text[i+len(open):]
	depth := 1
	for j, r := range text {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
			if depth == 0 {
				return strings.TrimSpace(text[:j])
			}
		}
	}
	return ""
}

// jsonOpening matches the beginning of a JSON object or list, also in a code fence. A bracket before a word is prose, such
// as "[cf-00011] applies".
var jsonOpening = regexp.MustCompile("^(?:```(?:json)?\\s*)?(?:\\{|\\[[^\\pL])")

// isProse reports whether text is prose, not broken JSON, a list or noise.
func isProse(text string) bool {
	return !jsonOpening.MatchString(text) && strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// bulletIDs parses cited ids: a list, or a text with commas, possibly with nulls, brackets and duplicates.
func bulletIDs(raw json.RawMessage) []playbook.BulletID {
	var list []any
	if json.Unmarshal(raw, &list) != nil {
		for id := range strings.SplitSeq(chat.FieldText(raw), ",") {
			list = append(list, id)
		}
	}
	var ids []playbook.BulletID
	for _, v := range list {
		s, _ := v.(string)
		id := playbook.BulletID(strings.Trim(s, "[] \t\r\n"))
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
