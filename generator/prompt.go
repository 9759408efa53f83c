package generator

import (
	"bytes"
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
const promptVersion = "g4"

const (
	systemRef = events.RoleGenerator + "/" + promptVersion
	customRef = events.RoleGenerator + "/p" // followed by the fingerprint
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
// the user message, so that task text cannot pose as a bullet. The target is in neither.
func Prompt(messages []chat.Message) chat.Prompt {
	return chat.Prompt{Name: events.RoleGenerator, Messages: messages, Schema: answerSchema}
}

// Answer is the parsed reply of a model.
type Answer struct {
	Reasoning string
	// BulletIDs are the cited ids, without duplicates. They may include bullets that were not shown.
	BulletIDs []playbook.BulletID
	// Final is empty if the model gave no answer, also when it was asked again. It is then not scored.
	Final string
}

// maxMissing is the number of replies without an answer that are accepted as a missing answer.
const maxMissing = 2

// errNoAnswer reports a reply in the required format whose answer is missing or empty.
var errNoAnswer = errors.New(`"final_answer" is missing or empty`)

// Ask sends a prompt to a model. It asks again if the reply cannot be parsed, and once if it has no answer.
func Ask(ctx context.Context, m chat.Model, p chat.Prompt) (Answer, chat.Reply, error) {
	missing := 0
	return chat.Ask(ctx, m, p, func(r chat.Reply) (Answer, error) {
		a, err := parseAnswer(r)
		if errors.Is(err, errNoAnswer) {
			missing++
			if missing >= maxMissing {
				return a, nil
			}
		}
		return a, err
	})
}

// parseAnswer parses a reply. A model may ignore the required format. Then the answer is the one that the text marks, or the whole text if
// it is prose. A reply without text, broken JSON, or JSON without the expected fields is an error that is worth a retry. With errNoAnswer
// parseAnswer returns the rest of the reply.
func parseAnswer(r chat.Reply) (Answer, error) {
	a, err := parseFields(r)
	if err == nil {
		if a.Final == "" {
			a.Final = findAnswer(a.Reasoning)
		}
		if a.Final == "" {
			return a, errNoAnswer
		}
		return a, nil
	}
	text := chat.StripThinking(r.Text)
	if found := findAnswer(text); found != "" {
		a.Final = found
		a.Reasoning = cmp.Or(a.Reasoning, text)
		return a, nil
	}
	if isProse(text) {
		return Answer{Final: text}, nil
	}
	return Answer{}, err
}

// parseFields parses a reply that is a JSON object. If it has neither an answer nor a reasoning, parseFields returns the cited bullets and
// an error.
func parseFields(r chat.Reply) (Answer, error) {
	object, err := chat.ParseObject(r)
	if err != nil {
		return Answer{}, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return Answer{}, err
	}
	answer, present := field(fields, answerNames)
	reasoning, _ := field(fields, reasoningNames)
	ids, _ := field(fields, bulletNames)
	a := Answer{Reasoning: jsonText(reasoning), BulletIDs: bulletIDs(ids), Final: jsonText(answer)}
	if !present && a.Reasoning == "" {
		return a, errors.New(`reply has neither "final_answer" nor "reasoning"`)
	}
	return a, nil
}

// The names of the fields of a reply. Models without a strict schema use other names. The first one that has a value is used.
var (
	answerNames    = []string{"finalanswer", "answer", "response", "result", "output", "solution", "prediction"}
	reasoningNames = []string{"reasoning", "thought", "thoughts", "rationale", "explanation", "analysis"}
	bulletNames    = []string{"bulletids", "bulletsused", "usedbullets", "bullets", "citedbullets", "citations"}
)

// field returns the value of the first of the named fields that has one, or nil. present reports whether any of the fields exists. field
// ignores case, "_", "-" and spaces in names.
func field(fields map[string]json.RawMessage, names []string) (value json.RawMessage, present bool) {
	plain := make(map[string]json.RawMessage, len(fields))
	for name, v := range fields {
		plain[strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))] = v
	}
	for _, name := range names {
		v, ok := plain[name]
		present = present || ok
		if jsonText(v) != "" {
			return v, true
		}
	}
	return nil, present
}

// The formats of answers outside JSON, in order of priority. Agents trained on question answering write Finish[…],
// those trained on mathematics \boxed{…}. A quoted field is readable even in truncated JSON.
var (
	finishForm = regexp.MustCompile(`Finish\[([^\]\n]*)\]`)
	quotedForm = regexp.MustCompile(`"final_answer"\s*:\s*("(?:[^"\\]|\\.)*")`)
	statedForm = regexp.MustCompile(`(?i)final answer\**\s*(?:is\b\s*:?|:)\s*([^\n]+)`)
)

// proseMarks are the characters around an answer in prose.
const proseMarks = "*\"'` \t\r"

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
		return strings.TrimRight(strings.TrimLeft(m[1], proseMarks), proseMarks+".")
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

// jsonText returns a JSON value as text: a string unquoted, null as "", a list of strings joined by commas.
func jsonText(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	var s string
	var list []string
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return ""
	case json.Unmarshal(raw, &s) == nil:
		return strings.TrimSpace(s)
	case json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, ", ")
	}
	return string(raw)
}

// bulletIDs parses cited ids: a list or a single id, possibly with nulls, brackets and duplicates.
func bulletIDs(raw json.RawMessage) []playbook.BulletID {
	var list []any
	if json.Unmarshal(raw, &list) != nil {
		list = []any{jsonText(raw)}
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
