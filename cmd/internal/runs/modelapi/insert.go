package modelapi

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// place is a position of the body where a text can be inserted. The zero value means that a text cannot be inserted.
type place struct {
	at       int    // index of the byte in front of which the text is inserted
	before   string // JSON in front of the text
	after    string // JSON behind the text
	inString bool   // the position is within a string, so that the text has no quotes
}

// ok reports whether a text can be inserted. No place has the index 0, because a body begins with a brace.
func (p place) ok() bool { return p.at > 0 }

// contentPlace returns the place at the end of a content of the user, which is a string or a list of parts. In a list, the text extends
// the last part with a text, because a client may send the list as a string in its next request, and the conversation must have the same text
// then. Parts with only reminders do not count, because clients move them. Without such a part, the text is a new part of the type partType.
func contentPlace(v Value, partType string) place {
	var text Value // of the last part with a text; missing if there is none
	for part := range v.Elements() {
		if inner := part.Get("text"); inner.Kind() == '"' && !isReminder(inner) {
			text = inner
		}
	}
	if text.IsMissing() {
		return partPlace(v, partType)
	}
	return textPlace(text)
}

// partPlace returns the place at the end of a string or of a list of parts. The text extends the string. In a list it is a new part of the type
// partType, so that the other parts stay as the provider has cached them.
func partPlace(v Value, partType string) place {
	if v.Kind() == '"' {
		return textPlace(v)
	}
	if v.Kind() != '[' {
		return place{}
	}
	p := place{at: int(v.node().start) + 1, before: `{"type":"` + partType + `","text":`, after: "}"} // of an empty list
	if v.Len() == 0 {
		return p
	}
	for part := range v.Elements() {
		p.at = int(part.node().end) // behind the last part
	}
	p.before = "," + p.before
	return p
}

// textPlace returns the place at the end of a string, in front of the reminders there. If the string has nothing but reminders, the place
// is behind them.
func textPlace(v Value) place {
	raw := v.Raw() // with its quotes
	closingQuote := len(raw) - 1
	end := closingQuote // index in raw of the place
	before := withoutBreaks(raw[:closingQuote])
	for bytes.HasSuffix(before, []byte(reminderEnd)) {
		before = withoutBreaks(before[:max(bytes.LastIndex(before, []byte(reminderStart)), 0)])
		end = len(before)
	}
	if end <= 1 { // nothing but the opening quote is in front of the reminders
		end = closingQuote
	}
	p := place{at: int(v.node().start) + end, inString: true}
	if end > 1 { // the string is not empty
		p.before = `\n\n`
	}
	return p
}

// withoutBreaks returns the beginning of a JSON string without the line breaks at its end.
func withoutBreaks(raw []byte) []byte {
	for bytes.HasSuffix(raw, []byte(`\n`)) {
		rest := raw[:len(raw)-2]
		if slashes := len(rest) - len(bytes.TrimRight(rest, `\`)); slashes%2 == 1 {
			break // an escaped backslash and the letter n
		}
		raw = rest
	}
	return raw
}

// firstPlace returns the place of a new first element or member of a list or object: the text with the JSON before and after it.
func firstPlace(v Value, before, after string) place {
	isEmpty := int(v.node().next) == v.i+1
	if !isEmpty {
		after += ","
	}
	return place{at: int(v.node().start) + 1, before: before, after: after}
}

// insertion is JSON that is inserted into the body in front of the byte at an index.
type insertion struct {
	at   int
	json []byte
}

// insertion returns the insertion of a text at the place.
func (p place) insertion(text string) insertion {
	return insertion{p.at, slices.Concat([]byte(p.before), quote(text, p.inString), []byte(p.after))}
}

// Insert returns the body with texts added to items of the user, and with system added to the end of the system prompt. The keys of texts
// are indices of Items; each text goes to the end of its item. All other bytes stay. An empty text adds nothing. Equal texts give equal
// bytes. Insert returns an error if an item is not of the user, or if a content or the system prompt is neither a string nor a list.
func (r *Request) Insert(texts map[int]string, system string) ([]byte, error) {
	var insertions []insertion
	for i, text := range texts {
		p, err := r.userPlace(i)
		if err != nil {
			return nil, err
		}
		if text != "" {
			insertions = append(insertions, p.insertion(text))
		}
	}
	if system != "" {
		if !r.systemPlace.ok() {
			return nil, fmt.Errorf("insert text into the system prompt of a %s request: neither a string nor a list", r.API)
		}
		insertions = append(insertions, r.systemPlace.insertion(system))
	}
	return r.apply(insertions), nil
}

// userPlace returns the place for a text in item i, which must be of the user.
func (r *Request) userPlace(i int) (place, error) {
	switch {
	case i < 0 || i >= len(r.Items):
		return place{}, fmt.Errorf("insert text into item %d of a %s request: it has %d items", i, r.API, len(r.Items))
	case r.Items[i].Role != RoleUser:
		return place{}, fmt.Errorf("insert text into item %d of a %s request: its role is %s, want user", i, r.API, r.Items[i].Role)
	case !r.places[i].ok():
		return place{}, fmt.Errorf("insert text into item %d of a %s request: content is neither a string nor a list", i, r.API)
	}
	return r.places[i], nil
}

// apply returns the body with all insertions. Their positions differ.
func (r *Request) apply(insertions []insertion) []byte {
	slices.SortFunc(insertions, func(a, b insertion) int { return a.at - b.at })
	parts, copied := [][]byte{}, 0 // copied: the number of bytes of the body in parts
	for _, in := range insertions {
		parts = append(parts, r.body[copied:in.at], in.json)
		copied = in.at
	}
	return slices.Concat(append(parts, r.body[copied:])...)
}

// quote returns the JSON string of a text. Within another string it has no quotes.
func quote(text string, inString bool) []byte {
	quoted, _ := jsontext.AppendQuote(nil, text) // an error reports replaced characters
	if inString {
		return quoted[1 : len(quoted)-1]
	}
	return quoted
}

// Tags around reminders: texts that a coding agent adds to a message of the user. In later requests it moves them or leaves them out.
const (
	reminderStart = "<system-reminder>"
	reminderEnd   = "</system-reminder>"
)

// WithoutReminders returns the text of a message without the reminders of a coding agent, and without white space around the rest.
func WithoutReminders(text string) string {
	for {
		before, rest, ok := strings.Cut(text, reminderStart)
		if !ok {
			return strings.TrimSpace(text)
		}
		_, after, _ := strings.Cut(rest, reminderEnd)
		text = before + after
	}
}

// isReminder reports whether a string has nothing but reminders.
func isReminder(v Value) bool {
	return bytes.Contains(v.Raw(), []byte(reminderStart)) && WithoutReminders(v.Text()) == ""
}
