package modelapi

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// place is a position of the body where a text can be inserted. The zero value means that a text cannot be inserted.
type place struct {
	at       int
	before   string // JSON in front of the text
	after    string
	inString bool // the position is within a string
}

func (p place) ok() bool { return p.at > 0 }

// contentPlace returns the end of a content that is a string or a list of parts. The text joins the last part with a text, so that
// a conversation has the same text after the client has changed the form of a content. Reminders are behind it: clients move
// them. A list without a text gets a part of the type given.
func contentPlace(v Value, partType string) place {
	var text Value
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

// partPlace returns the end of a content that is a string or a list of parts. A list gets a part of the type given: the parts of a
// system prompt stay as the provider has cached them.
func partPlace(v Value, partType string) place {
	if v.Kind() == '"' {
		return textPlace(v)
	}
	if v.Kind() != '[' {
		return place{}
	}
	p := place{at: int(v.node().start) + 1, before: `{"type":"` + partType + `","text":`, after: "}"}
	for part := range v.Elements() {
		p.at = int(part.node().end)
	}
	if v.Len() > 0 {
		p.before = "," + p.before
	}
	return p
}

// textPlace returns the end of a string, or the place in front of the reminders at its end.
func textPlace(v Value) place {
	raw := v.Raw()
	n := len(raw) - 1
	for end := withoutBreaks(raw[:n]); bytes.HasSuffix(end, []byte(reminderEnd)); {
		end = withoutBreaks(end[:max(bytes.LastIndex(end, []byte(reminderStart)), 0)])
		if len(end) <= 1 { // there is nothing but reminders
			n = len(raw) - 1
			break
		}
		n = len(end)
	}
	p := place{at: int(v.node().start) + n, inString: true}
	if n > 1 {
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

// firstPlace returns the place of a new first child of a list or object.
func firstPlace(v Value, before, after string) place {
	if int(v.node().next) > v.i+1 {
		after += ","
	}
	return place{at: int(v.node().start) + 1, before: before, after: after}
}

// insertion is a text in the JSON that the body gets at a position.
type insertion struct {
	at   int
	json []byte
}

// insertion returns the insertion of a text at the place.
func (p place) insertion(text string) insertion {
	return insertion{p.at, slices.Concat([]byte(p.before), quote(text, p.inString), []byte(p.after))}
}

// Insert returns the body with a text added to the end of each given item of the user, by its index, and with system added
// to the end of the system prompt. All other bytes stay. An empty text adds nothing. Equal texts give equal bytes.
// It returns an error if an item is not the user's, or if there is neither a string nor a list to extend.
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

// userPlace returns the place in the item i.
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
	size := len(r.body)
	for _, in := range insertions {
		size += len(in.json)
	}
	out, done := make([]byte, 0, size), 0
	for _, in := range insertions {
		out = append(append(out, r.body[done:in.at]...), in.json...)
		done = in.at
	}
	return append(out, r.body[done:]...)
}

// quote returns the JSON string of a text, without its quotes if bare is set.
func quote(text string, bare bool) []byte {
	quoted, _ := jsontext.AppendQuote(nil, text) // an error reports replaced characters
	if bare {
		return quoted[1 : len(quoted)-1]
	}
	return quoted
}
